"""Between ROS messages and the core's types; nothing here decides anything."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from builtin_interfaces.msg import Time as TimeMsg
from geometry_msgs.msg import PoseStamped
from std_msgs.msg import Header

from semflip.msg import Decision as DecisionMsg
from semflip.msg import Evidence as EvidenceMsg
from semflip.msg import Refusal as RefusalMsg
from semflip_core.decision import Decision, Evidence, Reason, Verdict
from semflip_core.errors import PoseError
from semflip_core.poses import Pose
from semflip_core.questions import printable

NANOSECONDS = 1_000_000_000
#: CDR representations whose body starts right after the 4 bytes of encapsulation (plain CDR).
PLAIN_CDR = {0x00, 0x01, 0x06, 0x07}


@dataclass(frozen=True, slots=True)
class HeaderBytes:
    """What the first bytes of a stamped message say, read without deserializing it."""

    stamp_ns: int
    frame_id: str


def to_nanoseconds(stamp: TimeMsg) -> int:
    """Stamp in nanoseconds since the epoch of its clock."""
    return int(stamp.sec) * NANOSECONDS + int(stamp.nanosec)


def to_time(stamp_ns: int) -> TimeMsg:
    """Nanoseconds as a stamp."""
    seconds, rest = divmod(stamp_ns, NANOSECONDS)
    return TimeMsg(sec=seconds, nanosec=rest)


def read_header(cdr: bytes | memoryview) -> HeaderBytes | None:
    """Stamp and frame of a serialized message that starts with a std_msgs/Header.

    Returns:
        None where the bytes are not plain CDR or too short; deserialize such a message instead.
    """
    if len(cdr) < 16 or cdr[0] != 0 or cdr[1] not in PLAIN_CDR:
        return None
    order = "<" if cdr[1] & 1 else ">"
    seconds, nanoseconds, length = struct.unpack_from(f"{order}iII", cdr, 4)
    if nanoseconds >= NANOSECONDS or length == 0 or 16 + length > len(cdr):
        return None
    name = bytes(cdr[16 : 16 + length - 1]).decode("utf-8", "replace")
    return HeaderBytes(seconds * NANOSECONDS + nanoseconds, name)


def pose_from(frame_id: str, pose: Any) -> Pose:
    """A geometry_msgs/Pose in a frame, in metres.

    Raises:
        PoseError: not finite, no rotation, or no frame.
    """
    p, q = pose.position, pose.orientation
    return Pose(frame_id, (p.x, p.y, p.z), (q.x, q.y, q.z, q.w))


def pose_message(pose: Pose, stamp: TimeMsg) -> PoseStamped:
    """A pose as PoseStamped, stamped ``stamp``."""
    message = PoseStamped()
    message.header.stamp = stamp
    message.header.frame_id = pose.frame_id
    place, turn = message.pose.position, message.pose.orientation
    place.x, place.y, place.z = pose.position
    turn.x, turn.y, turn.z, turn.w = pose.orientation
    return message


def wire_text(text: str) -> str:
    """Text that every middleware carries whole: valid UTF-8 and without NUL."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()


def _evidence_message(evidence: Evidence) -> EvidenceMsg:
    message = EvidenceMsg()
    message.keyframe_id = evidence.keyframe_id
    message.stamp = to_time(evidence.stamp_ns)
    message.relevance = float(evidence.relevance)
    if evidence.pose is not None:
        message.has_pose = True
        message.pose = pose_message(evidence.pose, message.stamp)
    if evidence.region is not None:
        message.has_region = True
        message.region = [float(value) for value in evidence.region]
    return message


def decision_message(decision: Decision, stamp: TimeMsg, global_frame: str) -> DecisionMsg:
    """A decision as it goes on the topic ``decision``; ``stamp`` is the node's clock now."""
    message = DecisionMsg()
    message.header = Header(stamp=stamp, frame_id=global_frame)
    message.query_id = wire_text(decision.query_id)
    message.question = wire_text(decision.question)
    message.verdict = decision.verdict.value
    message.gate_verdict = decision.gate_verdict.value if decision.gate_verdict else ""
    message.score = float(decision.score)
    message.threshold = float(decision.threshold)
    message.member_scores = [float(value) for value in decision.member_scores]
    message.threshold_overridden = decision.threshold_overridden
    message.reason = decision.reason.value if decision.reason else ""
    message.sentence = wire_text(decision.sentence)
    message.statement = decision.statement
    if decision.goal is not None:
        message.has_goal = True
        message.goal = pose_message(decision.goal, stamp)
    message.answer = wire_text(decision.answer)
    message.evidence = [_evidence_message(item) for item in decision.evidence]
    message.timing_names = list(decision.timings_ms)
    message.timing_ms = [float(value) for value in decision.timings_ms.values()]
    message.encoder_id = decision.encoder_id
    message.gate_id = decision.gate_id
    return message


def refusal_message(decision: Decision, stamp: TimeMsg, global_frame: str) -> RefusalMsg:
    """A refusing decision as it goes on the topic ``refusal``."""
    if decision.reason is None:
        raise ValueError("an answer is no refusal")
    message = RefusalMsg()
    message.header = Header(stamp=stamp, frame_id=global_frame)
    message.query_id = wire_text(decision.query_id)
    message.question = wire_text(decision.question)
    message.statement = decision.statement
    message.reason = decision.reason.value
    message.sentence = wire_text(decision.sentence)
    message.score = float(decision.score)
    message.threshold = float(decision.threshold)
    return message


def _pose_back(message: PoseStamped) -> Pose:
    return pose_from(message.header.frame_id, message.pose)


def _evidence_back(message: EvidenceMsg) -> Evidence:
    x0, y0, x1, y1 = (float(value) for value in message.region)
    return Evidence(
        keyframe_id=message.keyframe_id,
        stamp_ns=to_nanoseconds(message.stamp),
        relevance=message.relevance,
        pose=_pose_back(message.pose) if message.has_pose else None,
        region=(x0, y0, x1, y1) if message.has_region else None,
    )


def decision_from(message: DecisionMsg) -> Decision:
    """A received decision as the core's type, for clients and tests.

    Raises:
        ValueError: the message contradicts itself, or holds an unknown verdict or reason.
    """
    timings: Mapping[str, float] = dict(zip(message.timing_names, message.timing_ms, strict=True))
    try:
        goal = _pose_back(message.goal) if message.has_goal else None
    except PoseError as error:
        raise ValueError(f"decision '{printable(message.query_id)}': {error}") from error
    return Decision(
        query_id=message.query_id,
        question=message.question,
        verdict=Verdict(message.verdict),
        gate_verdict=Verdict(message.gate_verdict) if message.gate_verdict else None,
        score=message.score,
        threshold=message.threshold,
        member_scores=tuple(message.member_scores),
        reason=Reason(message.reason) if message.reason else None,
        sentence=message.sentence,
        goal=goal,
        evidence=tuple(_evidence_back(item) for item in message.evidence),
        answer=message.answer,
        timings_ms=timings,
        encoder_id=message.encoder_id,
        gate_id=message.gate_id,
        threshold_overridden=message.threshold_overridden,
    )
