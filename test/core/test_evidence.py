"""Evidence pictures: the box is where the region says, the caption says what became of it."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from semflip_core.decision import Decision, Evidence, Reason, Verdict, refuse
from semflip_core.evidence import COLOURS, caption, draw_evidence, evidence_jpeg
from semflip_core.images import store_raw
from semflip_core.memory import VideoMemory
from semflip_core.poses import Pose, quaternion_from_yaw
from semflip_core.settings import KeyframeSettings

GOAL = Pose("map", (1.0, 2.0, 0.0), quaternion_from_yaw(0.0))
WALL = np.full((240, 320, 3), 90, np.uint8)


def answer(evidence: Evidence, question: str = "Where is the kettle?") -> Decision:
    return Decision(
        "q",
        question,
        Verdict.ANSWER,
        score=0.1,
        threshold=0.5,
        goal=GOAL,
        evidence=(evidence,),
    )


def test_the_box_is_drawn_around_the_region_and_the_original_stays() -> None:
    item = Evidence(1, 5, 1.0, GOAL, (0.25, 0.5, 0.75, 1.0))
    before = WALL.copy()
    drawn = draw_evidence(WALL, item, answer(item))
    assert (before == WALL).all()
    assert drawn.shape[0] > 240
    assert drawn.shape[1:] == (320, 3)
    coloured = (drawn[:240] == COLOURS[Verdict.ANSWER]).all(axis=2)
    rows, columns = np.where(coloured)
    assert abs(columns.min() - 80) <= 1
    assert abs(columns.max() - 239) <= 1
    assert abs(rows.min() - 120) <= 1
    assert (drawn[100, 160] == 90).all()
    assert (drawn[180, 160] == 90).all()


def test_without_a_region_the_picture_is_left_alone() -> None:
    item = Evidence(1, 5, 1.0, None, None)
    drawn = draw_evidence(WALL, item, refuse("q", "Where?", Reason.ABSENT, evidence=(item,)))
    assert (drawn[:240] == WALL).all()
    assert (drawn[240:] == COLOURS[Verdict.REFUSE]).all(axis=2).any()


def test_the_caption_says_goal_or_reason_and_the_score_against_the_threshold() -> None:
    item = Evidence(1, 5, 1.0, GOAL, None)
    assert caption(answer(item))[1].startswith("goal 1.00, 2.00 m")
    assert "0.100 (refuse above 0.500)" in caption(answer(item))[1]
    assert caption(refuse("q", "Where?", Reason.NO_POSE))[1].startswith("I do not know: NO_POSE")


@pytest.mark.parametrize("question", ["Where is " + "very " * 200 + "far?", "消火器はどこ?", ""])
@pytest.mark.parametrize("size", [(64, 64), (8, 200), (1080, 1920)])
def test_any_question_fits_any_picture(question, size) -> None:
    rgb = np.zeros((*size, 3), np.uint8)
    item = Evidence(1, 5, 1.0, GOAL, (0.0, 0.0, 1.0, 1.0))
    assert draw_evidence(rgb, item, answer(item, question)).shape[1] == size[1]


def test_the_jpeg_comes_from_the_stored_frame_and_a_frame_gone_gives_none() -> None:
    with VideoMemory() as memory:
        keyframe = memory.add(
            store_raw(WALL, KeyframeSettings()), stamp_ns=5, pose=GOAL, map_id="m"
        )
        data = evidence_jpeg(memory, answer(Evidence(keyframe, 5, 1.0, GOAL, None)))
        assert data is not None
        picture = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
        assert picture.shape[1] == 320
        assert evidence_jpeg(memory, answer(Evidence(keyframe + 1, 5, 1.0, GOAL, None))) is None
        assert evidence_jpeg(memory, refuse("q", "Where?", Reason.ABSENT)) is None
