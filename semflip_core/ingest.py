"""From stamped pictures and poses to keyframes; the live node and offline tools share it.

What is kept depends on the messages and their stamps alone, never on the wall clock or on how late
a pose arrives: a picture waits until the pose after it is known. Time that jumps back (a looping
bag, a simulation that was reset) starts a new segment; what was stored before stays. Pictures and
poses come on different ways, so one of the two jumps first: each is in a segment of its own until
the other follows, and a picture only ever gets a pose of its own segment.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from threading import RLock

from semflip_core.errors import ImageError
from semflip_core.frames import CameraMount
from semflip_core.images import StoredPicture
from semflip_core.keyframes import KeyframeChoice
from semflip_core.memory import VideoMemory
from semflip_core.pose_buffer import PoseAnswer, PoseAt, PoseBuffer
from semflip_core.poses import Pose
from semflip_core.settings import KeyframeSettings

#: How much of the pose stream is kept for pictures that come late, seconds.
POSE_SPAN_S = 10.0
#: And where pictures are further behind than that: after a stall poses may overtake them, and in a
#: replay ten times as fast as life a second of the clock is ten of theirs.
POSE_MOST_S = 120.0

#: What ``Ingest.counters`` counts, beside ``image_<reason>`` for each ImageError.
COUNTED: dict[str, str] = {
    "kept": "became keyframes",
    "rate": "too soon after the last candidate",
    "still": "the robot had not moved or turned enough",
    "same_view": "looked like the last keyframe",
    "bad_stamp": "stamp zero or negative",
    "out_of_order": "stamp not after the last picture's",
    "no_earlier_pose": "came before the first pose",
    "no_later_pose": "no pose after it came in time",
    "pose_gap": "the poses around it are too far apart",
    "pose_frame_changed": "the poses around it are in different frames",
    "pose_jump": "the poses around it are too far apart in place or heading",
    "waiting_full": "too many pictures waited for a pose",
    "time_jumps": "times that stamps jumped back and a new segment began",
    "pose_bad_stamp": "pose with a stamp of zero or less",
    "pose_out_of_order": "pose stamp not after the last pose's",
}


@dataclass(slots=True)
class _Segment:
    """A stretch of time without a jump back.

    Args:
        number: rises by one from segment to segment.
        poses: of this stretch; another segment's where only the pictures had jumped.
        choice: the last keyframe of this stretch.
    """

    number: int
    map_id: str
    poses: PoseBuffer
    choice: KeyframeChoice


@dataclass(slots=True)
class _Waiting:
    """A picture that may become a keyframe once its pose is known."""

    stamp_ns: int
    load: Callable[[], StoredPicture]
    segment: _Segment


class Ingest:
    """Turns messages into keyframes.

    Safe to call from several threads. A picture's bytes are loaded only when everything that
    costs less has been decided.

    Args:
        memory: where keyframes go.
        settings: what is kept.
        map_id: which map the poses belong to; may be set again at any time.
        mount: the camera on the robot, stored with each keyframe.
        needs_pose: drop pictures without a pose; False for footage that has none.
        on_time_jump: told the new segment when time jumps back; may return a new map_id.
    """

    def __init__(
        self,
        memory: VideoMemory,
        settings: KeyframeSettings | None = None,
        *,
        map_id: str,
        mount: CameraMount | None = None,
        needs_pose: bool = True,
        on_time_jump: Callable[[int], str | None] | None = None,
    ) -> None:
        self.memory = memory
        self.settings = settings or KeyframeSettings()
        self.mount = mount
        self.counters: Counter[str] = Counter()
        self._needs_pose = needs_pose
        self._on_time_jump = on_time_jump
        self._jump_ns = round(self.settings.time_jump_s * 1e9)
        self._wait_ns = round(self.settings.max_pose_wait_s * 1e9)
        first = self._segment(memory.next_segment(), map_id)
        self._pictures_in = self._poses_in = first  # two segments while one is ahead of the other
        self._waiting: deque[_Waiting] = deque()
        self._last_picture: int | None = None
        self._last_pose: int | None = None
        self._jumped_from = 0  # last stamp before a jump back of the stream that is ahead
        self._granted: int | None = None
        self._lock = RLock()

    @property
    def segment(self) -> int:
        """Number of the newest segment."""
        return self._newest.number

    @property
    def map_id(self) -> str:
        """Map of the newest segment; may be set."""
        return self._newest.map_id

    @map_id.setter
    def map_id(self, map_id: str) -> None:
        self._newest.map_id = map_id

    @property
    def waiting(self) -> int:
        """Pictures that wait for a pose."""
        return len(self._waiting)

    def add_pose(self, stamp_ns: int, pose: Pose) -> list[int]:
        """Take a pose of the robot's base.

        Args:
            stamp_ns: header stamp, nanoseconds.

        Returns:
            Ids of the keyframes stored because this pose was the one they waited for.
        """
        with self._lock:
            if stamp_ns <= 0:
                self.counters["pose_bad_stamp"] += 1
                return []
            last = self._last_pose
            if last is not None and stamp_ns <= last:
                if last - stamp_ns <= self._jump_ns:
                    self.counters["pose_out_of_order"] += stamp_ns < last
                    return []
                self._pose_time_jumped(last, stamp_ns)
            elif self._poses_ahead and stamp_ns >= self._jumped_from:
                # Pictures did not follow: the jump was the poses' alone, or nobody saw theirs.
                self._pictures_in = self._poses_in
            self._last_pose = stamp_ns
            # Where poses jumped back first, pictures have yet to come to all of theirs.
            followed = self._pictures_in is self._poses_in
            needed = (self._last_picture or 0) if followed else 0
            self._poses_in.poses.add(stamp_ns, pose, needed_ns=needed)
            return self._settle()

    def wants(self, stamp_ns: int, load: Callable[[], StoredPicture] | None = None) -> bool:
        """Whether a picture of this stamp could become a keyframe; costs microseconds.

        Ask once for each picture, before anything is deserialised: False means that it was counted
        as dropped. After True, hand the picture to :meth:`offer`.

        Args:
            load: makes the picture. Called only where its stamp is far from the last one's: time
                does not jump for a message that is broken.
        """
        with self._lock:
            if self._granted is not None and self._granted == stamp_ns:
                return True
            if load is not None and self._far(stamp_ns):
                try:
                    load()
                except ImageError as error:
                    self.counters[f"image_{error.reason}"] += 1
                    return False
            reason = self._refused(stamp_ns)
            if reason is None:
                self._granted = stamp_ns
                return True
            self.counters[reason] += 1
            return False

    def offer(self, stamp_ns: int, load: Callable[[], StoredPicture]) -> list[int]:
        """Offer a picture; :meth:`wants` need not have been asked before.

        Args:
            stamp_ns: header stamp, nanoseconds.
            load: makes the picture ready to store; called at most once, perhaps later, and not at
                all if the picture is not kept. May raise ImageError.

        Returns:
            Ids of keyframes stored now; a picture that waits for its pose is stored later.
        """
        with self._lock:
            if not self.wants(stamp_ns):
                return []
            self._granted = None
            self._waiting.append(_Waiting(stamp_ns, load, self._pictures_in))
            stored = self._settle()
            if len(self._waiting) > self.settings.max_waiting_frames:
                stored += self._decide_without(self._waiting.popleft(), "waiting_full")
            return stored

    def expire(self, now_ns: int) -> list[int]:
        """Give up on pictures whose pose did not come within ``max_pose_wait_s``.

        Only a live node needs this, with its clock in the time of the header stamps.
        """
        with self._lock:
            latest = now_ns - self._wait_ns
            return self._give_up(lambda frame: frame.stamp_ns < latest) + self._settle()

    def finish(self) -> list[int]:
        """End of a recording: settle what still waits for a pose."""
        with self._lock:
            return self._settle() + self._give_up(lambda _: True)

    @property
    def _newest(self) -> _Segment:
        return max(self._pictures_in, self._poses_in, key=lambda segment: segment.number)

    @property
    def _pictures_ahead(self) -> bool:
        return self._pictures_in.number > self._poses_in.number

    @property
    def _poses_ahead(self) -> bool:
        return self._poses_in.number > self._pictures_in.number

    def _segment(self, number: int, map_id: str) -> _Segment:
        poses = PoseBuffer(
            round(self.settings.max_pose_gap_s * 1e9),
            round(POSE_SPAN_S * 1e9),
            most_ns=round(POSE_MOST_S * 1e9),
            max_jump_m=self.settings.max_pose_jump_m,
            max_turn_rad=math.radians(self.settings.max_pose_turn_deg),
        )
        return _Segment(number, map_id, poses, KeyframeChoice(self.settings))

    def _far(self, stamp_ns: int) -> bool:
        last = self._last_picture
        return last is not None and stamp_ns > 0 and abs(stamp_ns - last) > self._jump_ns

    def _refused(self, stamp_ns: int) -> str | None:
        """Why a picture cannot become a keyframe, by its stamp and the poses in hand."""
        if stamp_ns <= 0:
            return "bad_stamp"
        last = self._last_picture
        if last is not None and stamp_ns <= last:
            if last - stamp_ns <= self._jump_ns:
                return "out_of_order"
            self._picture_time_jumped(last, stamp_ns)
        elif self._pictures_ahead and stamp_ns >= self._jumped_from:
            # Poses did not follow: the jump was the pictures' alone, so theirs were wrong stamps.
            self._give_up(lambda frame: frame.segment is self._pictures_in, PoseAnswer.BEFORE)
            self._join_poses()
        self._last_picture = stamp_ns
        choice = self._pictures_in.choice
        if not choice.due(stamp_ns):
            return "rate"
        choice.consider(stamp_ns)
        around = None if self._waiting else self._pictures_in.poses.around(stamp_ns)
        if around is not None and choice.still(stamp_ns, *around):
            return "still"
        return None

    def _settle(self) -> list[int]:
        """Decide about waiting pictures, oldest first, as far as their poses are known."""
        stored: list[int] = []
        footage = not self._needs_pose and len(self._poses_in.poses) == 0
        while self._waiting:
            frame = self._waiting[0]
            if frame.segment.number > self._poses_in.number and not footage:
                break
            known = frame.segment.poses.at(frame.stamp_ns)
            more_to_come = frame.segment is self._poses_in and not footage
            if more_to_come and known.answer is PoseAnswer.LATER:
                break
            stored += self._decide(self._waiting.popleft(), known)
        return stored

    def _decide(self, frame: _Waiting, known: PoseAt) -> list[int]:
        if known.pose is None:
            return self._decide_without(frame, known.answer.value)
        return self._keep(frame, known.pose)

    def _decide_without(self, frame: _Waiting, reason: str) -> list[int]:
        """Decide about a picture that has no pose, for a reason to count."""
        if self._needs_pose:
            self.counters[reason] += 1
            return []
        return self._keep(frame, None)

    def _give_up(
        self, hopeless: Callable[[_Waiting], bool], why: PoseAnswer = PoseAnswer.LATER
    ) -> list[int]:
        """Decide now about pictures whose pose will not come any more."""
        frames, self._waiting = self._waiting, deque()
        stored: list[int] = []
        for frame in frames:
            if hopeless(frame):
                stored += self._decide_without(frame, why.value)
            else:
                self._waiting.append(frame)
        return stored

    def _keep(self, frame: _Waiting, pose: Pose | None) -> list[int]:
        segment = frame.segment
        if not segment.choice.moved(frame.stamp_ns, pose):
            self.counters["still"] += 1
            return []
        try:
            picture = frame.load()
            if not segment.choice.looks_new(frame.stamp_ns, picture.data):
                self.counters["same_view"] += 1
                return []
            keyframe_id = self.memory.add(
                picture,
                stamp_ns=frame.stamp_ns,
                pose=pose,
                map_id=segment.map_id,
                segment=segment.number,
                mount=self.mount,
            )
        except ImageError as error:
            self.counters[f"image_{error.reason}"] += 1
            return []
        segment.choice.keep(frame.stamp_ns, pose)
        self.counters["kept"] += 1
        return [keyframe_id]

    def _pose_time_jumped(self, last_ns: int, stamp_ns: int) -> None:
        if self._pictures_ahead:
            self._poses_in = self._pictures_in  # this is the jump that pictures made already
            return
        picture = self._last_picture
        if picture is None or picture <= stamp_ns + self._jump_ns:
            self._poses_in.poses.clear()  # poses were wrong until now and came to the pictures
            return
        self._jumped_from = last_ns
        self._poses_in = self._new_segment()

    def _picture_time_jumped(self, last_ns: int, stamp_ns: int) -> None:
        if self._poses_ahead:
            self._pictures_in = self._poses_in  # this is the jump that poses made already
            return
        latest = self._poses_in.poses.latest_ns
        ahead = latest is not None and latest > stamp_ns + self._jump_ns
        if not ahead or self._pictures_ahead:
            self._give_up(lambda _: True)  # no pose will come for where pictures were
        self._jumped_from = last_ns
        self._pictures_in = self._new_segment()
        if not ahead:
            self._join_poses()  # pictures were wrong until now and came to the poses

    def _join_poses(self) -> None:
        """Poses are in the pictures' segment, and have been without a jump of their own."""
        self._pictures_in.poses = self._poses_in.poses
        self._poses_in = self._pictures_in

    def _new_segment(self) -> _Segment:
        newest = self._newest
        number = newest.number + 1
        self.counters["time_jumps"] += 1
        told = self._on_time_jump(number) if self._on_time_jump is not None else None
        return self._segment(number, told or newest.map_id)
