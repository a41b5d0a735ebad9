"""V-Flip's score against exact truth: what is left of the referent is seen, and named dishonest."""

from __future__ import annotations

import numpy as np
import pytest

from semflip_core.errors import DatasetError
from semflip_core.images import store_raw
from semflip_core.settings import KeyframeSettings
from semflip_train.synthesis.score import Score, score_fill, score_masks, summary
from semflip_train.synthesis.vflip import Erased, box_mask

SHAPE = (60, 80)
SHOWN = np.zeros((3, *SHAPE), bool)
SHOWN[0, 20:40, 20:40] = True
SHOWN[1, 20:30, 20:30] = True


def erased(index: int, box: tuple[float, float, float, float], picture=None) -> Erased:
    rgb = np.zeros((*SHAPE, 3), np.uint8) if picture is None else picture
    jpeg = store_raw(rgb, KeyframeSettings()).data
    return Erased(index, jpeg, box_mask(box, SHAPE, 0.0), 9.0, 1.0)


WHOLE = (0.25, 1 / 3, 0.5, 2 / 3)


def test_everything_erased_is_honest():
    values = score_masks(SHOWN, [erased(0, WHOLE), erased(1, WHOLE)])
    assert values == {
        "changed": 2, "showing": 2, "frame_recall": 1.0, "frame_precision": 1.0,
        "pixel_recall": pytest.approx(1.0), "largest_left": pytest.approx(0.0), "hit": True,
    }  # fmt: skip
    assert Score("q", "p", "s", **values).honest


def test_a_frame_left_out_is_seen():
    values = score_masks(SHOWN, [erased(0, WHOLE), erased(2, WHOLE)])
    assert values["frame_recall"] == 0.5
    assert values["frame_precision"] == 0.5
    assert values["largest_left"] == pytest.approx(100 / 4800)
    assert not Score("q", "p", "s", **values).honest


def test_another_thing_erased_is_no_hit():
    values = score_masks(SHOWN, [erased(0, (0.6, 0.0, 1.0, 0.3))])
    assert not values["hit"]
    assert values["pixel_recall"] == 0.0


def test_nothing_shown_is_an_error():
    with pytest.raises(DatasetError, match="no frame shows the referent"):
        score_masks(SHOWN[2:], [])


def test_the_fill_is_compared_with_the_render_under_the_mask():
    wall = np.full((*SHAPE, 3), 200, np.uint8)
    before = wall.copy()
    before[SHOWN[0]] = (200, 0, 0)
    good = score_fill(SHOWN, [erased(0, WHOLE, wall)], {0: before}, {0: wall})
    assert good["nearer"] == 1.0
    assert good["error_before"] == pytest.approx(400 / 3, abs=1.0)
    assert good["error_after"] < 3.0
    bad = score_fill(SHOWN, [erased(0, WHOLE, before)], {0: before}, {0: wall})
    assert bad["nearer"] < 0.9
    assert bad["error_after"] > 100.0


def test_the_summary_counts_kept_and_dropped():
    values = score_masks(SHOWN, [erased(0, WHOLE), erased(1, WHOLE)])
    found = summary([Score("q", "p", "s", **values)], {"mask too large": 3})
    assert found["questions"] == 4
    assert found["kept"] == 1
    assert found["honest"] == 1.0
    assert summary([], {"mask too large": 3}) == {"kept": 0, "dropped": {"mask too large": 3}}
