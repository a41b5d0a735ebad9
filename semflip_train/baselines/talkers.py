"""Chat models of transformers behind the prompting baselines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from semflip_core.checkpoints import (
    find_folder,
    load_model,
    load_text_model,
    load_tokenizer,
    require,
    weight_digest,
    weight_files,
)
from semflip_core.frames import Picture
from semflip_train.baselines.prompting import PromptingSettings, Talker

NEEDED = ("torch", "transformers")
PAD = "<|image_pad|>"
SYSTEM = "You are a helpful assistant."
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
    """Qwen2.5-VL, asked in its own chat format with numbered pictures.

    Rendered here, as the checkpoint's template does with ``add_vision_id``: transformers' joint
    processor would need torchvision for videos that nobody shows.

    Args:
        model: directory or hub id; hub ids are read from the local cache only.
    """

    def __init__(self, model: str | Path, device: str = "cpu", max_tokens: int = 256) -> None:
        require((*NEEDED, "PIL"), "train", PURPOSE)
        from transformers import Qwen2_5_VLForConditionalGeneration

        from semflip_core.encoders.qwen2_5_vl.loading import load_processor
        from semflip_core.encoders.qwen2_5_vl.settings import QwenSettings

        folder = find_folder(str(model))
        self._device, self._max_tokens = device, max_tokens
        self._processor = load_processor(folder, QwenSettings())
        self._tokenizer = load_tokenizer(folder)
        self._model = load_model(Qwen2_5_VLForConditionalGeneration, folder).to(device)
        self.identity = weight_digest(weight_files(folder))

    def inputs(self, text: str, pictures: Sequence[Picture]) -> dict[str, Any]:
        """Tokens and pixels: each picture after its number, then the words."""
        seen: dict[str, Any] = {}
        parts = []
        if pictures:
            seen = dict(self._processor(images=list(pictures), return_tensors="pt"))
            merged = self._processor.merge_size**2
            for number, grid in enumerate(seen["image_grid_thw"].tolist(), start=1):
                pads = PAD * (grid[0] * grid[1] * grid[2] // merged)
                parts.append(f"Picture {number}: <|vision_start|>{pads}<|vision_end|>")
        rendered = (
            f"<|im_start|>system\n{SYSTEM}<|im_end|>\n<|im_start|>user\n"
            f"{''.join(parts)}{text}<|im_end|>\n<|im_start|>assistant\n"
        )
        words = self._tokenizer(rendered, return_tensors="pt", add_special_tokens=False)
        ids = words["input_ids"]
        pictured = (ids == self._tokenizer.convert_tokens_to_ids(PAD)).int()
        # Without the token types the pictures' positions would silently be those of plain words.
        made = dict(words) | {"mm_token_type_ids": pictured} | seen
        return {name: value.to(self._device) for name, value in made.items()}

    def reply(self, text: str, pictures: Sequence[Picture]) -> str:
        """See :class:`~.prompting.Talker`."""
        inputs = self.inputs(text, pictures)
        output = self._model.generate(**inputs, max_new_tokens=self._max_tokens, do_sample=False)
        new = output[0, inputs["input_ids"].shape[1] :]
        return str(self._tokenizer.decode(new, skip_special_tokens=True))


def load_talker(settings: PromptingSettings) -> Talker:
    """The model that the settings name.

    Raises:
        AssetError: it is not on this machine, or damaged.
        MissingExtraError: transformers is not installed.
    """
    kind = VisionChatModel if settings.sees == "pictures" else ChatModel
    return kind(settings.model, settings.device, settings.max_tokens)
