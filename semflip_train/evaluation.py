"""Evaluation with the robot's own agent: every test question becomes a decision and is judged."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semflip_core.agent import RefusalAgent
from semflip_core.decision import Decision
from semflip_core.encoders import Encoder, Retriever
from semflip_core.frames import KeyframeRecord
from semflip_core.gate import Gate
from semflip_core.poses import Pose
from semflip_core.reading import Embedded
from semflip_core.recall import evidence_recall
from semflip_core.settings import DecisionSettings, RecallSettings
from semflip_train.baselines.prompting import Prompter, Reply
from semflip_train.dataset import Dataset, Query
from semflip_train.goals import GoalCheck, check_goal, is_visible, visible_positions
from semflip_train.memories import SequenceFrames
from semflip_train.stores import BlobStore, json_hash

Matrix = NDArray[np.float32]
NAN = float("nan")
#: Of the cached record of a decision.
RECORD_FORMAT = 2


class RecordingAgent(RefusalAgent):
    """The agent, remembering what it embedded last; baselines read the same embedding."""

    last: Embedded | None = None

    def embed(self, question: str, cancelled: Callable[[], bool] | None = None) -> Embedded:
        """As :meth:`RefusalAgent.embed`."""
        self.last = None
        self.last = super().embed(question, cancelled)
        return self.last


@dataclass(frozen=True, slots=True)
class Judged:
    """A test question, what became of it, and whether that was right.

    Args:
        decision: as ``Decision.to_json`` gives it.
        vector: ``(dim,)`` embedding; NaN where none was reached.
        relevance: best relevance over the frames; NaN where none was reached.
        single_vector: ``(dim,)`` embedding with the best frame alone; NaN where not asked for.
        goal: measured goal; None without a goal or without a label.
        evidence_right: whether the best evidence shows the referent; None without a label.
        task: of the dataset; ``eqa`` has no places, so that only the gate's verdict counts.
        head_reason: what the reason head says, refused or not; None without one.
        replies: of a prompted model, by mode.
        memory: file name of the sequence's memory, for pictures.
        dataset: name, where several are judged together.
        evidence_recalled: 1 where a frame that shows the referent was among those the encoder saw,
            0 where none was, NaN without a label.
    """

    query: Query
    decision: dict[str, Any]
    vector: Matrix
    relevance: float
    single_vector: Matrix
    goal: GoalCheck | None
    evidence_right: bool | None
    task: str = "localization"
    head_reason: str | None = None
    replies: Mapping[str, Reply] = field(default_factory=dict)
    memory: str = ""
    dataset: str = ""
    evidence_recalled: float = NAN

    @property
    def label(self) -> int:
        """1 is unanswerable."""
        return int(not self.query.answerable)

    @property
    def score(self) -> float:
        """P(unanswerable); 1 where the gate was not reached, for that is a refusal."""
        value = self.decision["score"]
        return 1.0 if value is None else float(value)

    @property
    def gate_refused(self) -> bool:
        """By the gate's verdict alone; an unreached gate refuses."""
        return bool(self.decision["gate_verdict"] != "answer")

    @property
    def refused(self) -> bool:
        """By the final verdict."""
        return bool(self.decision["verdict"] != "answer")

    @property
    def goal_success(self) -> float:
        """1, 0, or NaN where the question has no labelled place."""
        if self.task == "eqa" or not self.query.answerable or self.query.answer is None:
            return NAN
        if self.query.answer.position is None and not self.query.answer.visible:
            return NAN
        return float(self.goal is not None and self.goal.success)

    @property
    def end_to_end(self) -> float:
        """Right in the end: a refusal where it is due, else a goal that succeeds."""
        if self.task == "eqa":
            return NAN
        return float(self.refused) if self.label else self.goal_success


@dataclass(slots=True)
class SequenceEvaluation:
    """Judges the questions about one sequence.

    Args:
        cache: decisions by content, so that a run that was killed goes on.
        prompter: asks a model in words about the frames that the encoder saw.
        memory_name: file name of the sequence's memory.
    """

    dataset: Dataset
    frames: SequenceFrames
    content: str
    gate: Gate
    cache: BlobStore
    encoder: Encoder
    retriever: Retriever | None
    recall: RecallSettings
    decision: DecisionSettings
    distance_m: float
    bearing_deg: float
    single_recall: RecallSettings | None = None
    prompter: Prompter | None = None
    memory_name: str = ""
    asked_now: int = 0

    def agent(self) -> RecordingAgent:
        """The agent over the sequence's memory, as on the robot."""
        maps = [record.map_id for record in self.frames.memory.records()]
        return RecordingAgent(
            self.frames.memory,
            self.encoder,
            self.gate,
            retriever=self.retriever,
            recall=self.recall,
            decision=self.decision,
            global_frame=self.dataset.info.map_frame,
            map_id=maps[-1] if maps else "",
        )

    def judge(
        self, queries: Sequence[Query], progress: Callable[[int, int], None] | None = None
    ) -> list[Judged]:
        """Ask every question, or take its decision from the cache."""
        agent = self.agent()
        single = self._single_agent()
        records = self.frames.memory.records()
        settings = json_hash(
            {
                "format": RECORD_FORMAT,
                "gate": self.gate.id,
                "pipeline": dict(agent.fingerprint()),
                "decision": self.decision.model_dump(mode="json"),
                "memory": self.content,
                "single": dict(single.fingerprint()) if single is not None else None,
            }
        )
        judged = []
        for number, query in enumerate(queries, start=1):
            key = json_hash([settings, query.id, query.question])
            stored = self.cache.get(key)
            if stored is None:
                stored = self._ask(agent, single, query)
                self.cache.put(key, stored)
                self.asked_now += 1
            judged.append(self._judged(query, json.loads(stored), records))
            if progress is not None:
                progress(number, len(queries))
        return judged

    def _single_agent(self) -> RefusalAgent | None:
        if self.single_recall is None:
            return None
        return RefusalAgent(
            self.frames.memory,
            self.encoder,
            None,
            retriever=self.retriever,
            recall=self.single_recall,
        )

    def _ask(self, agent: RecordingAgent, single: RefusalAgent | None, query: Query) -> bytes:
        agent.last = None
        decision: Decision = agent.ask(query.question, query_id=query.id)
        joint = agent.last.joint if agent.last is not None else None
        alone = None
        if single is not None and joint is not None:
            alone = single.embed(decision.question).joint.vector
        record = {
            "decision": decision.to_json(),
            "vector": joint.vector.astype(float).tolist() if joint is not None else None,
            "relevance": float(joint.relevance.max()) if joint is not None else None,
            "seen": _seen(agent.last),
            "single": alone.astype(float).tolist() if alone is not None else None,
        }
        return json.dumps(record).encode()

    def _judged(
        self, query: Query, record: dict[str, Any], records: Sequence[KeyframeRecord]
    ) -> Judged:
        decision = record["decision"]
        vector = self._vector(record["vector"])
        reason = self.gate.reason(vector) if np.isfinite(vector).all() else None
        return Judged(
            query,
            decision,
            vector,
            NAN if record["relevance"] is None else float(record["relevance"]),
            self._vector(record["single"]),
            self._goal(query, decision, records),
            _evidence_right(query, decision),
            self.dataset.info.task,
            None if reason is None else reason.value,
            self._replies(query, record["seen"]),
            self.memory_name,
            evidence_recalled=_evidence_recalled(query, record["seen"], records),
        )

    def _replies(self, query: Query, seen: list[tuple[int, float]]) -> dict[str, Reply]:
        """What the prompted model says of the frames that the encoder saw, best ones in order."""
        if self.prompter is None:
            return {}
        best = sorted(seen, key=lambda frame: -frame[1])[: self.prompter.settings.frames]
        ids = sorted(keyframe for keyframe, _ in best)
        memory = self.frames.memory
        in_time = sorted(ids, key=lambda keyframe: memory.record(keyframe).stamp_ns)
        return self.prompter.ask(
            query.question,
            json_hash([self.content, in_time]),
            lambda: [memory.picture(keyframe) for keyframe in in_time],
        )

    def _vector(self, values: list[float] | None) -> Matrix:
        if values is None:
            return np.full(self.encoder.dimension, NAN, np.float32)
        return np.array(values, np.float32)

    def _goal(
        self, query: Query, decision: dict[str, Any], records: Sequence[KeyframeRecord]
    ) -> GoalCheck | None:
        if decision["goal"] is None or not query.answerable or query.answer is None:
            return None
        places = visible_positions(query.answer, records)
        if not places:
            return None
        goal = decision["goal"]
        pose = Pose(goal["frame_id"], tuple(goal["position"]), tuple(goal["orientation"]))
        return check_goal(
            pose,
            query.answer,
            places,
            distance_m=self.distance_m,
            bearing_deg=self.bearing_deg,
        )


def _seen(embedded: Embedded | None) -> list[tuple[int, float]]:
    """Keyframe and relevance of each frame that the encoder saw."""
    if embedded is None:
        return []
    relevance = embedded.joint.relevance.astype(float).tolist()
    return [(f.record.id, r) for f, r in zip(embedded.frames, relevance, strict=True)]


def _evidence_recalled(
    query: Query, seen: Sequence[tuple[int, float]], records: Sequence[KeyframeRecord]
) -> float:
    if not query.answerable or query.answer is None:
        return NAN
    stamps = {record.id: record.stamp_ns for record in records}
    recalled = [stamps[keyframe] for keyframe, _ in seen]
    return evidence_recall({query.id: recalled}, {query.id: query.answer.visible or ()})


def _evidence_right(query: Query, decision: dict[str, Any]) -> bool | None:
    if not query.answerable or query.answer is None or not query.answer.visible:
        return None
    if not decision["evidence"]:
        return False
    return is_visible(query.answer, int(decision["evidence"][0]["stamp_ns"]))
