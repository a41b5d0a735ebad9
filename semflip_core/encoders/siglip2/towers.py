"""The two towers of a SigLIP or CLIP checkpoint: patches and texts as vectors of one space.

A contrastive model's trained picture vector is one for the whole picture. Its last attention only
mixes what the patches hold, so the same weights applied to each patch by itself give dense vectors
of the same space (MaskCLIP: Zhou, Loy, Dai, "Extract Free Dense Labels from CLIP", 2022,
arXiv:2112.01071). For CLIP that is the value path of the last attention, then the class token's
norm and projection; for SigLIP, whose pooling head is an attention over all patches (Zhai et al.
2023, arXiv:2303.15343), it is the head over a single patch.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from semflip_core.checkpoints import (
    digest_of,
    find_folder,
    load_model,
    load_tokenizer,
    require,
    torch_device,
    weight_digest,
    weight_files,
)
from semflip_core.encoders.siglip2.settings import SiglipSettings
from semflip_core.errors import EncoderError

if TYPE_CHECKING:
    import torch

Array = NDArray[np.float32]

#: model_type of config.json -> class of transformers. SigLIP 2 of fixed resolution is a "siglip",
#: "siglip2" is NaFlex: it takes any grid of patches, here the square one it has positions for.
CLASSES = {"siglip": "SiglipModel", "siglip2": "Siglip2Model", "clip": "CLIPModel"}
#: SigLIP was trained on captions without capitals and punctuation.
PUNCTUATION = re.compile(r"[^\w\s]")


class Towers:
    """A loaded checkpoint.

    Args:
        settings: which, and how.

    Attributes:
        dimension: of the common space.
        side: of the square picture that the vision tower reads, in pixels.
        patches: along one side of it.

    Raises:
        MissingExtraError: a library is not installed.
        AssetError: no such model, or a file is missing or damaged.
        EncoderError: another kind of model.
    """

    def __init__(self, settings: SiglipSettings) -> None:
        require(("torch", "transformers"), "cpu", "the encoder siglip2")
        import torch
        import transformers

        folder = find_folder(
            settings.model, settings.revision, local_files_only=settings.local_files_only
        )
        config = _read_json(folder / "config.json")
        self.kind = str(config.get("model_type"))
        if self.kind not in CLASSES:
            raise EncoderError(
                f"{folder / 'config.json'}: model_type is '{self.kind}', this encoder reads "
                f"{', '.join(sorted(CLASSES))}"
            )
        self.device = torch_device(settings.device)
        self._torch = torch
        self._model: Any = load_model(
            getattr(transformers, CLASSES[self.kind]),
            folder,
            dtype=getattr(torch, settings.dtype),
            attn_implementation="sdpa",
        ).to(self.device)
        self._tokenizer = load_tokenizer(folder)
        self._dtype = settings.dtype
        vision = self._model.config.vision_config
        if self.kind != "clip" and not getattr(self._model.vision_model, "use_head", True):
            raise EncoderError(f"{folder}: this SigLIP has no pooling head, so no common space")
        self._patch = int(vision.patch_size)
        if self.kind == "siglip2":
            self.patches = math.isqrt(int(vision.num_patches))
            self.side = self.patches * self._patch
        else:
            self.side = int(vision.image_size)
            self.patches = self.side // self._patch
        pixels = _read_json(folder / "preprocessor_config.json")
        self._mean = np.asarray(pixels.get("image_mean", [0.5] * 3), np.float32)
        self._std = np.asarray(pixels.get("image_std", [0.5] * 3), np.float32)
        self._longest = int(self._model.config.text_config.max_position_embeddings)
        self._digests = {
            "weights": weight_digest(weight_files(folder)),
            "config": digest_of((folder / "config.json").read_bytes()),
            "tokenizer": digest_of(self._tokenizer.backend_tokenizer.to_str().encode()),
            "pixels": digest_of(self._mean.tobytes() + self._std.tobytes()),
        }
        self._transformers = str(transformers.__version__)
        self.dimension = int(self.texts(["thing"]).shape[1])

    def fingerprint(self) -> dict[str, str | int]:
        """What changes a vector."""
        return {
            "kind": self.kind,
            **self._digests,
            "dtype": self._dtype,
            "device": self.device.type,
            "side": self.side,
            "transformers": self._transformers,
        }

    def pictures(self, squares: Sequence[NDArray[np.uint8]]) -> tuple[Array, Array]:
        """Vectors of square pictures.

        Args:
            squares: ``(side, side, 3)`` RGB each; one pass each, so none depends on the others.

        Returns:
            ``(n, patches, patches, dim)`` of each patch and ``(n, dim)`` of each whole picture,
            unit vectors.
        """
        dense, whole = zip(*(self._picture(square) for square in squares), strict=True)
        return np.stack(dense), np.stack(whole)

    def _picture(self, square: NDArray[np.uint8]) -> tuple[Array, Array]:
        torch = self._torch
        scaled = (square.astype(np.float32) / 255.0 - self._mean) / self._std
        planes = torch.from_numpy(scaled.transpose(2, 0, 1).copy())[None]
        planes = planes.to(self.device, getattr(torch, self._dtype))
        with torch.inference_mode():
            dense, whole = self._clip(planes) if self.kind == "clip" else self._siglip(planes)
        grid = _unit(dense.float().cpu().numpy()).reshape(self.patches, self.patches, -1)
        return grid, _unit(whole.float().cpu().numpy())[0]

    def _clip(self, planes: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        tower = self._model.vision_model
        seen = tower(pixel_values=planes, output_hidden_states=True)
        last = tower.encoder.layers[-1]
        before = seen.hidden_states[-2][:, 1:]
        mixed = last.self_attn.out_proj(last.self_attn.v_proj(last.layer_norm1(before)))
        after = before + mixed
        after = after + last.mlp(last.layer_norm2(after))
        project = self._model.visual_projection
        return project(tower.post_layernorm(after))[0], project(seen.pooler_output)

    def _siglip(self, planes: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        tower = self._model.vision_model
        if self.kind == "siglip2":
            seen = tower(**self._patches(planes))
        else:
            seen = tower(pixel_values=planes)
        alone = seen.last_hidden_state[0][:, None]
        return tower.head(alone), seen.pooler_output

    def _patches(self, planes: torch.Tensor) -> dict[str, torch.Tensor]:
        """What a NaFlex tower reads: the square cut into patches, none of them padding."""
        torch = self._torch
        n, size = self.patches, self._patch
        cut = planes.reshape(1, 3, n, size, n, size).permute(0, 2, 4, 3, 5, 1)
        return {
            "pixel_values": cut.reshape(1, n * n, size * size * 3),
            "pixel_attention_mask": torch.ones(1, n * n, dtype=torch.long, device=self.device),
            "spatial_shapes": torch.tensor([[n, n]], device=self.device),
        }

    def texts(self, texts: Sequence[str]) -> Array:
        """``(n, dim)`` unit vectors of texts, each by itself, cut at the tower's length."""
        rows = [self._text(text) for text in texts]
        return np.stack(rows)

    def _text(self, text: str) -> Array:
        torch = self._torch
        options: dict[str, Any] = {"truncation": True, "max_length": self._longest}
        if self.kind != "clip":  # trained with this padding, and without a mask
            text = PUNCTUATION.sub("", text.lower())
            options["padding"] = "max_length"
        ids = self._tokenizer([text], return_tensors="pt", **options)["input_ids"]
        with torch.inference_mode():
            seen = self._model.get_text_features(input_ids=ids.to(self.device))
        row: Array = _unit(seen.pooler_output.float().cpu().numpy())[0]
        return row

    def close(self) -> None:
        """Release the model."""
        del self._model
        if self.device.type == "cuda":
            self._torch.cuda.empty_cache()


def _unit(rows: Array) -> Array:
    result: Array = rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-9)
    return result.astype(np.float32)


def _read_json(file: Path) -> dict[str, Any]:
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise EncoderError(f"{file} cannot be read: {error}") from error
    if not isinstance(values, dict):
        raise EncoderError(f"{file}: expected an object, got {type(values).__name__}")
    return values
