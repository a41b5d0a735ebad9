"""Message conversions: nothing lost, no text that chokes a middleware, stamps without decoding."""

from __future__ import annotations

import math

import pytest

pytest.importorskip("rclpy")
pytest.importorskip("semflip.msg", reason="messages are not built")

from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import CompressedImage, Image

from semflip.msg import Decision as DecisionMsg
from semflip_core.decision import Decision, Evidence, Reason, Verdict, refuse
from semflip_core.poses import Pose, quaternion_from_yaw
from semflip_ros import messages

GOAL = Pose("map", (1.0, -2.0, 0.0), quaternion_from_yaw(0.7))
ANSWER = Decision(
    query_id="q1",
    question="Where is the kettle?",
    verdict=Verdict.ANSWER,
    gate_verdict=Verdict.ANSWER,
    score=0.125,
    threshold=0.5,
    member_scores=(0.1, 0.15),
    goal=GOAL,
    evidence=(
        Evidence(7, 1_700_000_000_123_456_789, 2.5, GOAL, (0.0, 0.25, 0.5, 1.0)),
        Evidence(9, 5, 0.5, None, None),
    ),
    answer="on the counter",
    timings_ms={"recall": 1.5, "encode": 20.0},
    encoder_id="mini:abc",
    gate_id="gate:def",
    threshold_overridden=True,
)
STAMP = messages.to_time(1_800_000_000_000_000_001)


def over_the_wire(message: object) -> object:
    return deserialize_message(serialize_message(message), type(message))


def test_an_answer_survives_the_wire() -> None:
    sent = messages.decision_message(ANSWER, STAMP, "map")
    got = over_the_wire(sent)
    assert messages.decision_from(got) == ANSWER
    assert got.header.frame_id == "map"
    assert messages.to_nanoseconds(got.goal.header.stamp) == 1_800_000_000_000_000_001


def test_a_refusal_survives_the_wire_with_nan_scores() -> None:
    refused = refuse("q2", "Where?", Reason.EMPTY_MEMORY)
    back = messages.decision_from(over_the_wire(messages.decision_message(refused, STAMP, "map")))
    assert back.reason is Reason.EMPTY_MEMORY
    assert back.goal is None
    assert math.isnan(back.score)
    shown = messages.refusal_message(refused, STAMP, "map")
    assert (shown.statement, shown.reason) == ("I do not know", "EMPTY_MEMORY")


def test_an_answer_is_no_refusal() -> None:
    with pytest.raises(ValueError, match="no refusal"):
        messages.refusal_message(ANSWER, STAMP, "map")


@pytest.mark.parametrize("text", ["a\0b", "lone \ud800 surrogate", "\u202eright to left", "🧯"])
def test_hostile_text_survives_the_wire_as_valid_text(text) -> None:
    refused = refuse(text, text, Reason.INVALID_QUESTION, text)
    got = over_the_wire(messages.decision_message(refused, STAMP, "map"))
    assert got.sentence == messages.wire_text(text)
    assert "\0" not in got.sentence


def test_every_reason_of_the_core_is_a_constant_of_the_message() -> None:
    for reason in Reason:
        assert getattr(DecisionMsg, f"REASON_{reason.name}") == reason.value
    for verdict in Verdict:
        assert getattr(DecisionMsg, f"VERDICT_{verdict.name}") == verdict.value


@pytest.mark.parametrize("kind", [Image, CompressedImage])
@pytest.mark.parametrize("frame", ["", "camera", "ein_ziemlich_langer_rahmen"])
@pytest.mark.parametrize("stamp_ns", [0, 1, 1_700_000_000_999_999_999, -1_500_000_000])
def test_stamp_and_frame_are_read_from_serialized_bytes(kind, frame, stamp_ns) -> None:
    message = kind()
    message.header.stamp = messages.to_time(stamp_ns)
    message.header.frame_id = frame
    message.data.frombytes(b"\x01" * 50)
    header = messages.read_header(serialize_message(message))
    assert header == messages.HeaderBytes(stamp_ns, frame)


def test_big_endian_headers_are_read_too() -> None:
    cdr = bytes([0, 0, 0, 0]) + (5).to_bytes(4, "big") + (7).to_bytes(4, "big")
    cdr += (4).to_bytes(4, "big") + b"cam\0"
    assert messages.read_header(cdr) == messages.HeaderBytes(5_000_000_007, "cam")


@pytest.mark.parametrize(
    "cdr",
    [
        b"",
        b"\0\1\0\0" + b"\0" * 11,
        b"\0\x0b\0\0" + b"\0" * 40,
        b"\0\1\0\0" + b"\0" * 8 + (10**6).to_bytes(4, "little") + b"x" * 20,
        b"\0\1\0\0" + b"\0" * 4 + b"\xff" * 4 + (2).to_bytes(4, "little") + b"a\0",
    ],
)
def test_bytes_that_are_no_plain_header_are_left_to_the_deserializer(cdr) -> None:
    assert messages.read_header(cdr) is None
