"""Recordings: rosbag2 (mcap, sqlite3, every compression) and ROS 1 bags, read without any ROS.

Every way in which one can be broken is a :class:`BagError` that names the file and the cure.
"""

from __future__ import annotations

import heapq
import logging
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from semflip_core.bag_damage import broken_types, check_closed, open_problem, recovery
from semflip_core.bag_types import TypeStores, full_type_name
from semflip_core.closing import Closing
from semflip_core.errors import BagError, MissingExtraError

if TYPE_CHECKING:
    from semflip_core.frames import CameraMount
    from semflip_core.ingest import Ingest
    from semflip_core.memory import VideoMemory
    from semflip_core.settings import KeyframeSettings

logger = logging.getLogger("semflip")

Progress = Callable[[int, int], None]
"""Told (messages read, messages in all)."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of a recording.

    Args:
        name: for example ``/camera/image_raw``.
        msgtype: in its full spelling, ``sensor_msgs/msg/Image``.
        count: messages that the recording declares.
    """

    name: str
    msgtype: str
    count: int


@dataclass(frozen=True, slots=True)
class BagMessage:
    """One recorded message.

    Args:
        topic, msgtype: as in :class:`Topic`.
        log_ns: when it was recorded, nanoseconds.
        cdr: serialised as ROS 2 does (CDR), also where the recording is ROS 1.
    """

    topic: str
    msgtype: str
    log_ns: int
    cdr: bytes
    _decode: Callable[[bytes, str], Any] = field(repr=False, compare=False)

    @property
    def header_ns(self) -> int:
        """``header.stamp`` in nanoseconds, read without decoding; only for stamped types.

        0 where the message is too short to have one.
        """
        if len(self.cdr) < 12:
            return 0
        order = "<" if self.cdr[1] & 1 else ">"
        seconds, nanoseconds = struct.unpack_from(f"{order}iI", self.cdr, 4)
        return int(seconds) * 1_000_000_000 + int(nanoseconds)

    def decode(self) -> Any:
        """The message as an object with the fields of its type.

        Raises:
            BagError: the bytes are not such a message, or the type is unknown.
        """
        return self._decode(self.cdr, self.msgtype)


class Bag(Closing):
    """An open recording; a context manager. Made by :func:`open_bag`."""

    def __init__(self, path: Path, readers: list[Any], stack: ExitStack, ros1: bool) -> None:
        self.path = path
        self.ros1 = ros1
        self._readers = readers
        self._stack = stack
        self._types = TypeStores()
        self._connections = [(r, c) for r in readers for c in r.connections]
        counts: Counter[tuple[str, str]] = Counter()
        for _, connection in self._connections:
            if not (isinstance(connection.topic, str) and isinstance(connection.msgtype, str)):
                raise ValueError("its table of topics is damaged")
            counts[connection.topic, full_type_name(connection.msgtype)] += connection.msgcount
        self.topics = tuple(Topic(n, t, c) for (n, t), c in sorted(counts.items()))
        #: topic -> messages that were declared and did not come; known after reading to the end.
        self.shortfall: dict[str, int] = {}

    @property
    def message_count(self) -> int:
        """Messages that the recording declares."""
        return sum(topic.count for topic in self.topics)

    @property
    def start_ns(self) -> int:
        """Time of the first message, nanoseconds; 0 where there is none."""
        return min((r.start_time for r in self._readers if r.message_count), default=0)

    @property
    def end_ns(self) -> int:
        """Time of the last message, nanoseconds; 0 where there is none."""
        return max((r.end_time - 1 for r in self._readers if r.message_count), default=0)

    def messages(self, names: Iterable[str] | None = None) -> Iterator[BagMessage]:
        """Messages in the order of recording.

        Args:
            names: topics to read; None for all.

        Raises:
            BagError: a topic is not there, or the file is damaged further in.
        """
        wanted = None if names is None else set(names)
        known = {topic.name for topic in self.topics}
        if wanted is not None and not wanted <= known:
            missing = ", ".join(sorted(wanted - known))
            raise BagError(f"{self.path}: no topic {missing}; {self.describe_topics()}")
        read: Counter[str] = Counter()
        streams = [self._stream(reader, wanted) for reader in self._readers]
        try:
            for connection, log_ns, raw in heapq.merge(*streams, key=lambda item: item[1]):
                read[connection.topic] += 1
                yield self._message(connection, log_ns, raw)
        except broken_types() as error:
            raise BagError(
                f"{self.path}: damaged after {sum(read.values())} messages ({error}); "
                f"{recovery(self.path)}"
            ) from error
        self._note_shortfall(read, wanted)

    def _stream(self, reader: Any, wanted: set[str] | None) -> Iterator[tuple[Any, int, bytes]]:
        chosen = [c for r, c in self._connections if r is reader]
        if wanted is not None:
            chosen = [c for c in chosen if c.topic in wanted]
        return iter(reader.messages(connections=chosen)) if chosen else iter(())

    def _message(self, connection: Any, log_ns: int, raw: bytes) -> BagMessage:
        msgtype = full_type_name(connection.msgtype)
        types = self._types.of(connection, ros1=self.ros1)

        def decode(cdr: bytes, name: str) -> Any:
            try:
                return types.read.deserialize_cdr(cdr, name)
            except broken_types() as error:
                raise BagError(
                    f"{self.path}: a message of {connection.topic} is no {name}: {error!r}"
                ) from error

        cdr = types.cdr_of_ros1(raw, msgtype) if self.ros1 else bytes(raw)
        return BagMessage(connection.topic, msgtype, log_ns, cdr, decode)

    def _note_shortfall(self, read: Counter[str], wanted: set[str] | None) -> None:
        declared: Counter[str] = Counter()
        for topic in self.topics:
            if wanted is None or topic.name in wanted:
                declared[topic.name] += topic.count
        self.shortfall = {n: c - read[n] for n, c in declared.items() if read[n] < c}
        for name, missing in self.shortfall.items():
            logger.warning(
                "%s: %s declares %d messages and gave %d: %d are missing from the file",
                self.path,
                name,
                declared[name],
                read[name],
                missing,
            )

    def describe_topics(self) -> str:
        """What is in the recording, for messages to people."""
        if not self.topics:
            return "the recording has no topics"
        lines = "".join(f"\n  {t.name}  {t.msgtype}  {t.count} messages" for t in self.topics)
        return f"the recording has:{lines}"

    def close(self) -> None:
        """Close the files."""
        self._stack.close()


def open_bag(path: str | Path) -> Bag:
    """Open a recording.

    Args:
        path: a rosbag2 directory, a single ``.mcap`` or ``.db3``, a ROS 1 ``.bag``, or a directory
            of ROS 1 bags.

    Raises:
        BagError: it is missing, incomplete or damaged; names the file and the cure.
        MissingExtraError: rosbags is not installed.
    """
    try:
        import rosbags.rosbag1
        import rosbags.rosbag2
    except ImportError as error:
        raise MissingExtraError("rosbags", "cpu", "reading recordings") from error
    where = Path(path)
    if not where.exists():
        raise BagError(f"{where}: no such recording; give a rosbag2 directory or a .bag file")
    files, ros1 = _parts(where)
    for file in files:
        check_closed(file)
    stack = ExitStack()
    readers = []
    try:
        for file in files:
            reader = (rosbags.rosbag1.Reader if ros1 else rosbags.rosbag2.Reader)(file)
            readers.append(stack.enter_context(reader))
        return Bag(where, readers, stack, ros1)
    except broken_types() as error:
        stack.close()
        raise BagError(open_problem(where, error)) from error


def _parts(where: Path) -> tuple[list[Path], bool]:
    """The files to hand to the reader, and whether they are ROS 1."""
    if where.is_file():
        if where.suffix not in {".bag", ".mcap", ".db3"}:
            raise BagError(
                f"{where}: not a recording by its name; known are rosbag2 directories, "
                ".mcap, .db3 and .bag"
            )
        return [where], where.suffix == ".bag"
    if (where / "metadata.yaml").is_file():
        return [where], False
    for pattern in ("*.mcap", "*.db3"):
        if found := sorted(where.glob(pattern)):
            logger.warning(
                "%s: metadata.yaml is missing; reading %d storage file(s) as they are "
                "(ros2 bag reindex %s writes it again)",
                where,
                len(found),
                where,
            )
            return found, False
    if found := sorted(where.glob("*.bag")):
        return found, True
    if list(where.glob("*.zstd")):
        raise BagError(
            f"{where}: metadata.yaml is missing and the storage is compressed: "
            "zstd -d its files, then ros2 bag reindex DIR"
        )
    inside = ", ".join(sorted(p.name for p in where.iterdir())[:8]) or "nothing"
    raise BagError(
        f"{where}: no recording in it (no metadata.yaml, .mcap, .db3, .bag); has {inside}"
    )


def memory_from_bag(
    path: str | Path,
    memory: VideoMemory,
    *,
    keyframes: KeyframeSettings,
    image_topic: str | None = None,
    pose_topic: str | None = None,
    map_id: str = "bag",
    needs_pose: bool = True,
    mount: CameraMount | None = None,
    progress: Progress | None = None,
) -> Ingest:
    """Turn a recording into keyframes with poses, as the live node would.

    Args:
        path: as for :func:`open_bag`.
        memory: receives the keyframes.
        keyframes: which frames are kept.
        image_topic: None takes the only (or fullest) camera topic.
        pose_topic: None takes the only (or fullest) topic of a pose type, else ``/tf``.
        map_id: the map that the poses belong to.
        needs_pose: False keeps frames whose pose is unknown.
        mount: the camera on the robot, where known.
        progress: told how far it is.

    Returns:
        The finished ingest; its counters say what was kept and what was dropped, and why.

    Raises:
        BagError: no camera topic (lists what is there), no pose topic, or a damaged file.
    """
    from semflip_core.bag_topics import choose_image_topic, choose_pose_source, image_loader
    from semflip_core.ingest import Ingest

    ingest = Ingest(memory, keyframes, map_id=map_id, mount=mount, needs_pose=needs_pose)
    with open_bag(path) as bag:
        camera = choose_image_topic(bag, image_topic)
        poses = choose_pose_source(bag, pose_topic, required=needs_pose)
        names = {camera.name, *(poses.topics if poses else ())}
        total = sum(topic.count for topic in bag.topics if topic.name in names)
        for done, message in enumerate(bag.messages(names), start=1):
            if message.topic == camera.name:
                stamp_ns = message.header_ns or message.log_ns
                load = image_loader(message, keyframes)
                if ingest.wants(stamp_ns, load):
                    ingest.offer(stamp_ns, load)
            elif poses is not None:
                for stamp_ns, pose in poses.read(message):
                    ingest.add_pose(stamp_ns, pose)
            if progress is not None:
                progress(done, total)
        if bag.shortfall:
            ingest.counters["missing_from_file"] += sum(bag.shortfall.values())
    ingest.finish()
    return ingest
