"""The one place where a question about a memory becomes a decision; robot and offline share it."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from semflip_core.decision import SENTENCES, Decision, Reason, Verdict, refuse
from semflip_core.encoders.contract import (
    AnsweringEncoder,
    Encoder,
    Fingerprint,
    Retriever,
)
from semflip_core.errors import CancelledError, ConfigError, QuestionError
from semflip_core.gate import Gate, valid_threshold
from semflip_core.locate import choose_goal, has_peak, rank_evidence
from semflip_core.memory import VideoMemory
from semflip_core.questions import clean_question, printable
from semflip_core.reading import Embedded, Reader, timed
from semflip_core.recall import Recall
from semflip_core.settings import DecisionSettings, RecallSettings

logger = logging.getLogger("semflip")


@dataclass(slots=True)
class _Query:
    """What is known of a query so far; refusals carry it too."""

    id: str
    question: str
    cancelled: Callable[[], bool]
    progress: Callable[[str], None]
    timings_ms: dict[str, float] = field(default_factory=dict)
    started: float = field(default_factory=time.perf_counter)


class RefusalAgent:
    """Answers questions about a video memory with a goal, or refuses.

    One thread at a time uses an agent, because it owns the encoder; the memory may be written by
    others meanwhile.

    Args:
        memory: keyframes with poses.
        encoder: frozen encoder.
        gate: the rejection gate; None for embedding only (offline feature making).
        retriever: chooses frames; None where the encoder is its own retriever.
        recall: which frames the encoder sees.
        decision: what a goal needs beside an accepting gate.
        global_frame: frame of goals, for example ``map``.
        map_id: the map that the robot is on; may be set again after a relocalisation.
        threshold: overrides the gate's tau, which voids its calibration; None keeps it.

    Raises:
        GateMismatchError: the gate was made for another pipeline; names the fields.
        ConfigError: the threshold is not in [0, 1), or there is no retriever.
    """

    def __init__(
        self,
        memory: VideoMemory,
        encoder: Encoder,
        gate: Gate | None,
        *,
        retriever: Retriever | None = None,
        recall: RecallSettings | None = None,
        decision: DecisionSettings | None = None,
        global_frame: str = "map",
        map_id: str = "",
        threshold: float | None = None,
    ) -> None:
        self._shared = retriever is None or id(retriever) == id(encoder)
        if retriever is None:
            if not isinstance(encoder, Retriever):
                raise ConfigError(
                    f"encoder '{encoder.name}' is no retriever: name one (retriever: mini)"
                )
            retriever = encoder
        if not global_frame:
            raise ConfigError("global_frame is empty; goals need a frame, for example 'map'")
        if threshold is not None and not valid_threshold(threshold):
            raise ConfigError(f"threshold {threshold} is not a finite number in [0, 1)")
        self.memory = memory
        self.encoder = encoder
        self.retriever = retriever
        self.gate = gate
        self.settings = decision or DecisionSettings()
        self.recall = Recall(memory, retriever, recall or RecallSettings())
        self.global_frame = global_frame
        self.map_id = map_id
        self._threshold = threshold
        self._reader = Reader(memory, encoder, retriever, self.recall)
        if gate is not None:
            gate.check_fingerprint(self.fingerprint())
        if threshold is not None:
            logger.warning(
                "threshold set by hand to %.4f: the gate's calibration statement does not hold",
                threshold,
            )

    def fingerprint(self) -> Fingerprint:
        """Every field of encoder, retriever and recall that changes an embedding."""
        fields = {f"encoder.{k}": v for k, v in self.encoder.fingerprint().items()}
        if self._shared:
            fields["retriever.name"] = "the encoder"
        else:
            fields |= {f"retriever.{k}": v for k, v in self.retriever.fingerprint().items()}
        return fields | {f"recall.{k}": v for k, v in self.recall.fingerprint().items()}

    @property
    def threshold(self) -> float:
        """tau in force; NaN without a gate."""
        if self._threshold is not None:
            return self._threshold
        return self.gate.header.tau if self.gate else math.nan

    @property
    def set_aside(self) -> dict[int, str]:
        """Keyframes whose pictures cannot be read, and why; see :attr:`Reader.set_aside`."""
        return self._reader.set_aside

    def catch_up(self, limit: int | None = None) -> int:
        """Compute features of stored keyframes that lack them; see :meth:`Reader.catch_up`."""
        return self._reader.catch_up(limit)

    def read_ahead(self, cancelled: Callable[[], bool] | None = None) -> None:
        """Read the frames that every question sees; see :meth:`Reader.read_ahead`."""
        self._reader.read_ahead(cancelled)

    def embed(self, question: str, cancelled: Callable[[], bool] | None = None) -> Embedded:
        """Embed a cleaned question, as :meth:`ask` does; see :meth:`Reader.embed`."""
        return self._reader.embed(question, cancelled)

    def ask(
        self,
        question: str,
        *,
        query_id: str = "",
        cancelled: Callable[[], bool] | None = None,
        on_progress: Callable[[str], None] | None = None,
    ) -> Decision:
        """Decide one question; whatever breaks becomes a refusal, never an exception.

        Args:
            question: as received.
            query_id: copied into the decision.
            cancelled: asked between steps; True ends the query with CANCELLED.
            on_progress: told each step (``features``, ``recall``...) and then the answer's text.
        """
        query = _Query(
            query_id,
            printable(question, self.settings.max_question_chars),
            cancelled or (lambda: False),
            on_progress or (lambda _: None),
        )
        try:
            decision = self._decide(query, question)
        except QuestionError as error:
            decision = self._refusal(query, Reason.INVALID_QUESTION, f"{_sentence(error)}")
        except CancelledError:
            decision = self._refusal(query, Reason.CANCELLED)
        except Exception as error:
            # Broad: whatever a question meets, also in an encoder of somebody else, must become its
            # one decision, or the robot's user waits in vain.
            fault = type(error).__name__
            logger.exception(
                "query '%s' ended in %s: %s", printable(query_id), fault, query.question
            )
            sentence = f"Something failed inside ({fault}); the log has the details."
            decision = self._refusal(query, Reason.INTERNAL_ERROR, sentence)
        total = (time.perf_counter() - query.started) * 1e3
        return replace(decision, timings_ms={**query.timings_ms, "total": total})

    def _refusal(
        self, query: _Query, reason: Reason, sentence: str = "", decision: Decision | None = None
    ) -> Decision:
        if decision is not None:
            return replace(
                decision,
                verdict=Verdict.REFUSE,
                reason=reason,
                sentence=sentence or SENTENCES[reason],
                goal=None,
            )
        return refuse(
            query.id,
            query.question,
            reason,
            sentence,
            threshold=self.threshold,
            encoder_id=self._encoder_id(),
            gate_id=self.gate.id if self.gate else "",
            threshold_overridden=self._threshold is not None,
        )

    def _encoder_id(self) -> str:
        return f"{self.encoder.name}:{self._reader.encoder_digest[:8]}"

    def _decide(self, query: _Query, raw: str) -> Decision:
        query.question = clean_question(raw, self.settings.max_question_chars)
        gate = self.gate
        if gate is None:
            return self._refusal(query, Reason.NOT_ACTIVE, "No gate is loaded.")
        if len(self.memory) == 0:
            return self._refusal(query, Reason.EMPTY_MEMORY)
        if query.cancelled():
            return self._refusal(query, Reason.CANCELLED)
        query.progress("encode")
        embedded = self.embed(query.question, query.cancelled)
        query.timings_ms.update(embedded.timings_ms)
        if query.cancelled():
            return self._refusal(query, Reason.CANCELLED)
        query.progress("decide")
        with timed(query.timings_ms, "gate"):
            decision = self._gated(query, gate, embedded)
        if decision.verdict is Verdict.ANSWER and self.settings.answer_tokens > 0:
            decision = self._with_answer(query, decision, embedded)
        return decision

    def _gated(self, query: _Query, gate: Gate, embedded: Embedded) -> Decision:
        """Everything a goal needs, in the order of DESIGN section 5.2; each miss is a refusal."""
        gate.check_fingerprint(self.fingerprint())
        joint = embedded.joint
        records = [frame.record for frame in embedded.frames]
        members = gate.member_scores(joint.vector)
        sound = bool(np.isfinite(members).all() and (members >= 0).all() and (members <= 1).all())
        score = float(gate.score(joint.vector)) if sound else math.nan
        tau = self.threshold
        accepted = sound and valid_threshold(tau) and score <= tau and not self._refuses_all(gate)
        ranked = rank_evidence(records, joint, len(records))
        draft = self._refusal(query, Reason.INTERNAL_ERROR)
        draft = replace(
            draft,
            gate_verdict=(Verdict.ANSWER if accepted else Verdict.REFUSE) if sound else None,
            score=score,
            member_scores=tuple(float(value) for value in members),
            evidence=ranked[: self.settings.evidence_frames],
        )
        if not sound or not valid_threshold(tau):
            logger.error("gate gave scores %s against threshold %s", members.tolist(), tau)
            return draft
        distance = float(gate.distance(joint.vector))
        if not math.isfinite(distance) or distance > gate.header.distance_limit:
            return self._refusal(query, Reason.OUT_OF_DISTRIBUTION, decision=draft)
        if not accepted:
            reason = gate.reason(joint.vector) or Reason.ABSENT
            return self._refusal(query, reason, decision=draft)
        if not has_peak(joint.relevance, self.settings.min_peak):
            return self._refusal(query, Reason.ABSENT, "Nothing that I saw stands out.", draft)
        place = choose_goal(
            ranked,
            records,
            global_frame=self.global_frame,
            map_id=self.map_id,
            stand_in=self.settings.stand_in,
        )
        if place.goal is None or place.evidence is None:
            sentence = f"I saw something, but {place.problem}."
            return self._refusal(query, Reason.NO_POSE, sentence, draft)
        others = tuple(item for item in ranked if item is not place.evidence)
        return replace(
            draft,
            verdict=Verdict.ANSWER,
            reason=None,
            sentence="",
            goal=place.goal,
            evidence=(place.evidence, *others)[: self.settings.evidence_frames],
        )

    def _refuses_all(self, gate: Gate) -> bool:
        return gate.header.refuse_all and self._threshold is None

    def _with_answer(self, query: _Query, decision: Decision, embedded: Embedded) -> Decision:
        if not isinstance(self.encoder, AnsweringEncoder):
            return decision
        with timed(query.timings_ms, "answer"):
            text = self.encoder.answer(
                query.question,
                embedded.frames,
                max_tokens=self.settings.answer_tokens,
                on_text=query.progress,
                cancelled=query.cancelled,
            )
        if query.cancelled():
            return self._refusal(query, Reason.CANCELLED, decision=decision)
        return replace(decision, answer=text)

    def close(self) -> None:
        """Release encoder and retriever; the memory stays open."""
        self.encoder.close()
        if not self._shared:
            self.retriever.close()


def _sentence(error: Exception) -> str:
    text = str(error)
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")
