"""``semflip ask``: the robot's agent on a recording, a video or a stored memory, no ROS."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from semflip_core.errors import ConfigError, MemoryFileError
from semflip_core.settings import DecisionSettings, KeyframeSettings, RecallSettings

if TYPE_CHECKING:
    from semflip_core.agent import RefusalAgent
    from semflip_core.decision import Decision
    from semflip_core.memory import VideoMemory

logger = logging.getLogger("semflip")
Progress = Callable[[str, int, int], None]
"""Told (step, done, in all)."""


@dataclass(frozen=True, slots=True)
class Source:
    """What is asked about: exactly one of a recording, a video or a stored memory."""

    bag: Path | None = None
    video: Path | None = None
    memory: Path | None = None
    image_topic: str | None = None
    pose_topic: str | None = None

    def __post_init__(self) -> None:
        given = [p for p in (self.bag, self.video, self.memory) if p is not None]
        if len(given) != 1:
            raise ConfigError("give exactly one of --bag, --video and --memory")


@contextmanager
def open_memory(
    source: Source, keyframes: KeyframeSettings, progress: Progress | None = None
) -> Iterator[tuple[VideoMemory, str]]:
    """The memory of a source and the map that its poses belong to.

    Raises:
        BagError: the recording or video cannot be used.
        MemoryFileError: the memory file cannot be used.
    """
    from semflip_core.memory import VideoMemory

    def told(step: str) -> Callable[[int, int], None] | None:
        return None if progress is None else lambda done, total: progress(step, done, total)

    if source.memory is not None:
        with _stored(source.memory) as stored:
            maps = [record.map_id for record in stored.records()]
            yield stored, maps[-1] if maps else ""
        return
    with VideoMemory() as memory:
        if source.bag is not None:
            from semflip_core.bags import memory_from_bag

            ingest = memory_from_bag(
                source.bag,
                memory,
                keyframes=keyframes,
                image_topic=source.image_topic,
                pose_topic=source.pose_topic,
                map_id="bag",
                progress=told("reading"),
            )
        else:
            from semflip_core.footage import memory_from_video

            assert source.video is not None
            ingest = memory_from_video(
                source.video, memory, keyframes=keyframes, progress=told("reading")
            )
        logger.info("keyframes: %s", dict(ingest.counters))
        yield memory, "bag" if source.bag is not None else "video"


def _stored(file: Path) -> VideoMemory:
    """A stored memory, writable where nobody else holds it, so that new features are kept."""
    from semflip_core.memory import VideoMemory

    if not file.is_file():
        raise MemoryFileError(f"{file}: no such memory; a node stores one where memory_path says")
    try:
        return VideoMemory(file)
    except MemoryFileError:
        return VideoMemory(file, read_only=True)


@contextmanager
def open_agent(
    source: Source,
    *,
    encoder: str = "mini",
    encoder_options: Mapping[str, Any] | None = None,
    retriever: str | None = None,
    gate: Path | None = None,
    threshold: float | None = None,
    global_frame: str = "map",
    keyframes: KeyframeSettings | None = None,
    recall: RecallSettings | None = None,
    decision: DecisionSettings | None = None,
    progress: Progress | None = None,
) -> Iterator[RefusalAgent]:
    """An agent over the source's memory, its features made.

    Raises:
        GateError: the gate file is no gate, or was made for another pipeline.
    """
    from semflip_core.gate import Gate
    from semflip_core.loading import load_agent, shipped_gate

    file = gate or shipped_gate(encoder)
    Gate.load(file)  # a wrong file is told before a long recording is read
    with open_memory(source, keyframes or KeyframeSettings(), progress) as (memory, map_id):
        agent = load_agent(
            memory,
            encoder=encoder,
            encoder_options=encoder_options,
            retriever=retriever,
            gate=file,
            threshold=threshold,
            recall=recall,
            decision=decision,
            global_frame=global_frame,
            map_id=map_id,
        )
        try:
            total = len(memory)
            done = 0
            while step := agent.catch_up(limit=1):
                done += step
                if progress is not None:
                    progress("encoding", done, total)
            yield agent
        finally:
            agent.close()


def recall_settings(prefix_frames: int | None, recalled_frames: int | None) -> RecallSettings:
    """Numbers of frames that were given, the usual ones otherwise.

    The gate's fingerprint holds them: with others than it was trained for, it is refused by name.
    """
    given = {"prefix_frames": prefix_frames, "recalled_frames": recalled_frames}
    return RecallSettings(**{name: n for name, n in given.items() if n is not None})


def ask_all(agent: RefusalAgent, questions: Sequence[str]) -> list[Decision]:
    """One decision for each question, ids ``q1``, ``q2``..."""
    return [agent.ask(text, query_id=f"q{i}") for i, text in enumerate(questions, start=1)]


def write_evidence(agent: RefusalAgent, decisions: Sequence[Decision], folder: Path) -> list[Path]:
    """A JPEG for each decision that has evidence: the best frame, the referent's region boxed."""
    from semflip_core.evidence import evidence_jpeg

    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for decision in decisions:
        data = evidence_jpeg(agent.memory, decision)
        if data is not None:
            file = folder / f"{decision.query_id}_{decision.verdict.value}.jpg"
            file.write_bytes(data)
            written.append(file)
    return written
