"""Chat models of transformers behind the prompting baselines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from semflip_core.checkpoints import (
    find_folder,
    load_model,
    load_text_model,
    require,
    weight_digest,
    weight_files,
)
from semflip_core.errors import AssetError
from semflip_core.frames import Picture
from semflip_train.baselines.prompting import PromptingSettings, Talker

NEEDED = ("torch", "transformers")
PURPOSE = "prompting baselines"


class ChatModel:
    """A language model; it reads no pictures: the blind control of prompting.

    Args:
        model: directory or hub id; hub ids are read from the local cache only.
    """

    def __init__(self, model: str | Path, device: str = "cpu", max_tokens: int = 256) -> None:
        require(NEEDED, "train", PURPOSE)
        from transformers import AutoModelForCausalLM

        self._device, self._max_tokens = device, max_tokens
        loaded = load_text_model(AutoModelForCausalLM, str(model), "set evaluation.prompting.model")
        self.identity = loaded.weights
        self._tokenizer = loaded.tokenizer
        self._model = loaded.model.to(device)

    def rendered(self, text: str) -> str:
        """The prompt in the model's own chat format."""
        return str(
            self._tokenizer.apply_chat_template(
                [{"role": "user", "content": text}], tokenize=False, add_generation_prompt=True
            )
        )

    def reply(self, text: str, pictures: Sequence[Picture]) -> str:
        """See :class:`~.prompting.Talker`; pictures are left out."""
        inputs = self._tokenizer(self.rendered(text), return_tensors="pt", add_special_tokens=False)
        output = self._model.generate(
            **inputs.to(self._device),
            max_new_tokens=self._max_tokens,
            do_sample=False,
            pad_token_id=self._tokenizer.eos_token_id,
        )
        new = output[0, inputs["input_ids"].shape[1] :]
        return str(self._tokenizer.decode(new, skip_special_tokens=True))


class VisionChatModel:
    """A vision-language model (Qwen2.5-VL and others with a processor and a chat template).

    Args:
        model: directory or hub id; hub ids are read from the local cache only.
    """

    def __init__(self, model: str | Path, device: str = "cpu", max_tokens: int = 256) -> None:
        require(NEEDED, "train", PURPOSE)
        from transformers import AutoModelForImageTextToText, AutoProcessor

        folder = find_folder(str(model))
        processor_class: Any = AutoProcessor
        self._device, self._max_tokens = device, max_tokens
        try:
            self._processor: Any = processor_class.from_pretrained(folder, local_files_only=True)
        except (OSError, ValueError) as error:
            raise AssetError(f"{folder}: the processor cannot be loaded: {error}") from error
        self._model = load_model(AutoModelForImageTextToText, folder).to(device)
        self.identity = weight_digest(weight_files(folder))

    def inputs(self, text: str, pictures: Sequence[Picture]) -> Any:
        """Tokens and pixels: each picture after its number, then the words."""
        content: list[dict[str, Any]] = []
        for number, _ in enumerate(pictures, start=1):
            content += [{"type": "text", "text": f"Picture {number}: "}, {"type": "image"}]
        content.append({"type": "text", "text": text})
        rendered = self._processor.apply_chat_template(
            [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
        )
        return self._processor(
            text=[rendered], images=list(pictures) or None, return_tensors="pt"
        ).to(self._device)

    def reply(self, text: str, pictures: Sequence[Picture]) -> str:
        """See :class:`~.prompting.Talker`."""
        inputs = self.inputs(text, pictures)
        output = self._model.generate(**inputs, max_new_tokens=self._max_tokens, do_sample=False)
        new = output[:, inputs["input_ids"].shape[1] :]
        return str(self._processor.batch_decode(new, skip_special_tokens=True)[0])


def load_talker(settings: PromptingSettings) -> Talker:
    """The model that the settings name.

    Raises:
        AssetError: it is not on this machine, or damaged.
        MissingExtraError: transformers is not installed.
    """
    kind = VisionChatModel if settings.sees == "pictures" else ChatModel
    return kind(settings.model, settings.device, settings.max_tokens)
