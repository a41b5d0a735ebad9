"""Grounding DINO (Liu et al. 2023), tiny or base, through transformers.

Its text is lower-case with a closing dot. One phrase is asked at a time and its own tokens are
read directly, so that the labels of several phrases cannot merge.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from semflip_core.checkpoints import load_text_model, require
from semflip_core.encoders.contract import Fingerprint
from semflip_train.synthesis.detect import Array, Detection, View, strongest

DEFAULT_MODEL = "IDEA-Research/grounding-dino-tiny"
#: Pictures are scaled so that the short side is at most this, the long one at most the other.
SHORT_SIDE, LONG_SIDE = 800, 1333
MEAN = np.array([0.485, 0.456, 0.406], np.float32)
DEVIATION = np.array([0.229, 0.224, 0.225], np.float32)


class GroundingDino:
    """Open-vocabulary detector; strengths are probabilities.

    Args:
        model: directory or hub id; hub ids are read from the local cache only.
        present: probability from which on something is taken to be there.
        device: torch device.
        batch: pictures of one size at a time; none is padded, so that boxes need no scaling.
    """

    name = "grounding_dino"

    def __init__(
        self,
        model: str | None = None,
        present: float = 0.3,
        device: str = "cpu",
        batch: int = 4,
        short_side: int = SHORT_SIDE,
    ) -> None:
        require(("torch", "transformers"), "train", "Grounding DINO")
        import torch
        from transformers import GroundingDinoForObjectDetection

        self._torch = torch
        self._device = device
        self._present = present
        self._batch = batch
        self._short = short_side
        self._source = model or DEFAULT_MODEL
        self._model, self._tokenizer, self._weights = load_text_model(
            GroundingDinoForObjectDetection,
            self._source,
            "give a Grounding DINO as synthesis.detector_model, or use detector mini",
        )
        self._model.to(device)

    @property
    def present(self) -> float:
        """Probability from which on something is taken to be there."""
        return self._present

    def fingerprint(self) -> Fingerprint:
        """Everything that changes detections."""
        return {"name": self.name, "weights": self._weights, "present": self._present}

    def prompt(self, phrase: str) -> str:
        """The phrase as the model was trained to read it."""
        return " ".join(phrase.lower().replace(".", " ").split()) + "."

    def detect(self, phrase: str, views: Sequence[View]) -> list[list[Detection]]:
        """For each view all boxes, strongest first."""
        found: list[list[Detection]] = []
        batch: list[View] = []
        for view in views:
            same = not batch or batch[0].picture.shape == view.picture.shape
            if batch and (len(batch) == self._batch or not same):
                found += self._detect(phrase, batch)
                batch = []
            batch.append(view)
        return found + (self._detect(phrase, batch) if batch else [])

    def strengths(self, phrase: str, views: Sequence[View]) -> Array:
        """Best probability of each view."""
        return strongest(self.detect(phrase, views))

    def _detect(self, phrase: str, views: Sequence[View]) -> list[list[Detection]]:
        torch = self._torch
        text = self._tokenizer([self.prompt(phrase)] * len(views), return_tensors="pt")
        pixels = self._pixels(views)
        with torch.inference_mode():
            output = self._model(
                pixel_values=torch.from_numpy(pixels).to(self._device),
                pixel_mask=torch.ones(
                    (len(views), *pixels.shape[-2:]), dtype=torch.int64, device=self._device
                ),
                **{name: value.to(self._device) for name, value in text.items()},
            )
        logits = output.logits.float().sigmoid().cpu().numpy()
        boxes = output.pred_boxes.float().cpu().numpy()
        words = self._word_positions(text["input_ids"][0].tolist())
        return [_detections(logits[i][:, words].max(axis=1), boxes[i]) for i in range(len(views))]

    def _word_positions(self, ids: Sequence[int]) -> list[int]:
        """Positions of the phrase's own tokens: no special ones, no dot."""
        special = set(self._tokenizer.all_special_ids)
        dot = self._tokenizer.convert_tokens_to_ids(".")
        return [i for i, token in enumerate(ids) if token not in special and token != dot] or [0]

    def _pixels(self, views: Sequence[View]) -> np.ndarray[Any, Any]:
        """``(views, 3, height, width)`` scaled and normalised; pictures of one size."""
        import cv2

        height, width = views[0].picture.shape[:2]
        scale = min(self._short / min(height, width), LONG_SIDE / max(height, width))
        size = (max(1, round(width * scale)), max(1, round(height * scale)))
        scaled = [cv2.resize(v.picture, size, interpolation=cv2.INTER_LINEAR) for v in views]
        stacked = (np.stack(scaled).astype(np.float32) / 255.0 - MEAN) / DEVIATION
        return np.ascontiguousarray(stacked.transpose(0, 3, 1, 2), dtype=np.float32)


def _detections(scores: np.ndarray[Any, Any], boxes: np.ndarray[Any, Any]) -> list[Detection]:
    """Boxes as centre and size, relative to the unpadded picture -> corner boxes."""
    found = []
    for i in np.argsort(-scores, kind="stable"):
        cx, cy, w, h = (float(v) for v in boxes[i])
        corners = np.clip([cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2], 0.0, 1.0)
        x0, y0, x1, y1 = (float(v) for v in corners)
        if x1 > x0 and y1 > y0:
            found.append(Detection((x0, y0, x1, y1), float(scores[i])))
    return found
