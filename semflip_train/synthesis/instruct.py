"""Q-Flip by a chat model: one prompt file a strategy, strict parsing, bounded retries."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from semflip_core.checkpoints import load_text_model, require
from semflip_core.encoders.contract import Fingerprint
from semflip_core.errors import AssetError, SynthesisError
from semflip_train.stores import content_hash
from semflip_train.synthesis.phrases import noun_of
from semflip_train.synthesis.qflip import Proposal, Request
from semflip_train.synthesis.samples import STRATEGIES, stable_seed

DEFAULT_MODEL = "Qwen/Qwen2.5-7B-Instruct"
PROMPTS = Path(__file__).with_name("prompts")
#: Strategies whose new referent must not be in the memory.
MUST_BE_ABSENT = frozenset({"false_premise", "object"})
NAMED_HERE = 20


@lru_cache(maxsize=16)
def prompt_template(strategy: str) -> str:
    """The prompt file of a strategy.

    Raises:
        SynthesisError: there is none.
    """
    file = PROMPTS / f"{strategy}.txt"
    if not file.is_file():
        raise SynthesisError(
            f"no prompt for strategy '{strategy}' ({file}); known: {', '.join(STRATEGIES)}"
        )
    return file.read_text(encoding="utf-8")


def parse_reply(text: str) -> tuple[str, str] | None:
    """``(question, asks_about)`` of a reply, or None where it is not exactly what was asked for.

    One JSON object; a code fence around it is forgiven, other words are not.
    """
    body = text.strip()
    if body.startswith("```"):
        body = body.strip("`").removeprefix("json").strip()
    try:
        values = json.loads(body)
    except (json.JSONDecodeError, RecursionError):
        return None
    if not isinstance(values, dict) or set(values) != {"question", "asks_about"}:
        return None
    question, about = values["question"], values["asks_about"]
    if not isinstance(question, str) or not isinstance(about, str):
        return None
    question, about = " ".join(question.split()), " ".join(about.split())
    return (question, about) if question and about else None


class Instruct:
    """Any chat model of transformers; batched, the first try greedy, retries sampled.

    Args:
        model: directory or hub id; hub ids are read from the local cache only.
        tries: generations for a request until one parses.
        candidates: parsed candidates wanted for each request.
    """

    name = "instruct"

    def __init__(
        self,
        model: str | None = None,
        *,
        device: str = "cpu",
        batch: int = 8,
        tries: int = 3,
        candidates: int = 2,
        max_tokens: int = 96,
        seed: int = 0,
    ) -> None:
        require(("torch", "transformers"), "train", "the instruct rewriter")
        import torch
        from transformers import AutoModelForCausalLM

        self._torch = torch
        self._device = device
        self._batch, self._tries, self._candidates = batch, tries, candidates
        self._max_tokens, self._seed = max_tokens, seed
        self._source = model or DEFAULT_MODEL
        self.counts: dict[str, int] = {"generated": 0, "unparsed": 0}
        self._model, self._tokenizer, self._weights = load_text_model(
            AutoModelForCausalLM,
            self._source,
            "give a chat model as synthesis.rewriter_model, or use rewriter slot_fill",
            padding_side="left",
        )
        if self._tokenizer.chat_template is None:
            raise AssetError(f"'{self._source}' has no chat template: give an instruct model")
        if self._tokenizer.pad_token_id is None:
            self._tokenizer.pad_token = self._tokenizer.eos_token
        self._model.to(device)

    def fingerprint(self) -> Fingerprint:
        """Everything that changes its rewrites."""
        prompts = content_hash(*(prompt_template(name) for name in STRATEGIES))
        return {
            "name": self.name,
            "weights": self._weights,
            "prompts": prompts,
            "tries": self._tries,
            "seed": self._seed,
        }

    def prompt(self, request: Request) -> str:
        """The whole prompt as the model reads it."""
        referent = noun_of(request.query.referent or "")
        text = prompt_template(request.strategy).format(
            question=request.query.question,
            referent=referent or "(find it in the question)",
            here=", ".join(request.here[:NAMED_HERE]) or "(unknown)",
        )
        rendered: str = self._tokenizer.apply_chat_template(
            [{"role": "user", "content": text}], tokenize=False, add_generation_prompt=True
        )
        return rendered

    def propose(self, requests: Sequence[Request]) -> list[list[Proposal]]:
        """Candidates in the order in which they were generated."""
        found: list[list[Proposal]] = [[] for _ in requests]
        for attempt in range(self._tries):
            open_ones = [i for i in range(len(requests)) if len(found[i]) < self._candidates]
            if attempt > 0:
                open_ones = [i for i in open_ones if not found[i] or attempt < self._candidates]
            for start in range(0, len(open_ones), self._batch):
                chosen = open_ones[start : start + self._batch]
                replies = self._generate([self.prompt(requests[i]) for i in chosen], attempt)
                for i, reply in zip(chosen, replies, strict=True):
                    proposal = self._proposal(requests[i], reply)
                    if proposal is not None and proposal not in found[i]:
                        found[i].append(proposal)
        return found

    def _generate(self, prompts: list[str], attempt: int) -> list[str]:
        torch = self._torch
        inputs = self._tokenizer(
            prompts, return_tensors="pt", padding=True, add_special_tokens=False
        ).to(self._device)
        torch.manual_seed(stable_seed(self._seed, attempt, *prompts) % 2**63)
        sampling: dict[str, Any] = {"do_sample": False}
        if attempt > 0:
            sampling = {"do_sample": True, "temperature": 0.8, "top_p": 0.95}
        with torch.inference_mode():
            output = self._model.generate(
                **inputs,
                max_new_tokens=self._max_tokens,
                pad_token_id=self._tokenizer.pad_token_id,
                **sampling,
            )
        self.counts["generated"] += len(prompts)
        new = output[:, inputs["input_ids"].shape[1] :]
        replies: list[str] = self._tokenizer.batch_decode(new, skip_special_tokens=True)
        return replies

    def _proposal(self, request: Request, reply: str) -> Proposal | None:
        parsed = parse_reply(reply)
        if parsed is None:
            self.counts["unparsed"] += 1
            return None
        question, about = parsed
        absent = about if request.strategy in MUST_BE_ABSENT else ""
        old = noun_of(request.query.referent or "") if absent else ""
        return Proposal(question, about, absent, replaced_words=old, new_words=about)
