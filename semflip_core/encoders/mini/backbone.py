"""EfficientNet-Lite2 over a whole picture: a grid of feature vectors, by ONNX Runtime.

Tan and Le 2019, the "lite" variant. The picture is not cropped: it is scaled to about 896x672
pixels with its own shape (a 4:3 picture gives a 21x28 grid; cells are 32 pixels wide). The network
was trained on things that fill its 260 pixels, so that even a picture of 640x480 is worth enlarging
(``docs/benchmark.md`` has what it buys).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semflip_core.encoders.mini.assets import LITE2, ONNX_FORMAT, lite2_onnx
from semflip_core.encoders.readable import check_picture
from semflip_core.errors import EncoderError, MissingExtraError
from semflip_core.frames import Picture

Array = NDArray[np.float32]

STRIDE = 32
WIDTH = 1280
PICTURE_AREA = 896 * 672
MAX_ASPECT = 3.0
RESIZE_RULE = f"area{PICTURE_AREA}-multiple{STRIDE}-aspect{MAX_ASPECT:g}"


def input_size(height: int, width: int, area: int = PICTURE_AREA) -> tuple[int, int]:
    """Height and width that a picture is scaled to: same area for all, shape kept within 5 %.

    Both are multiples of 32 pixels.
    """
    aspect = min(max(width / height, 1.0 / MAX_ASPECT), MAX_ASPECT)
    rows = max(1, round(math.sqrt(area / aspect) / STRIDE))
    columns = max(1, round(area / STRIDE**2 / rows))
    return rows * STRIDE, columns * STRIDE


def resize(rgb: Picture, area: int = PICTURE_AREA) -> Picture:
    """The picture at :func:`input_size`, ``(height, width, 3)`` RGB.

    Raises:
        EncoderError: not a colour picture of 8 bits, or too small.
    """
    check_picture(rgb)
    height, width = input_size(rgb.shape[0], rgb.shape[1], area)
    if rgb.shape[:2] == (height, width):
        return np.ascontiguousarray(rgb)
    try:
        import cv2
    except ImportError as error:
        raise MissingExtraError("cv2", "cpu", "scaling pictures for mini") from error
    shrinking = height * width < rgb.shape[0] * rgb.shape[1]
    mode = cv2.INTER_AREA if shrinking else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(rgb, (width, height), interpolation=mode), dtype=np.uint8)


def runtime_errors() -> tuple[type[Exception], ...]:
    """What ONNX Runtime raises; the classes share no parent of their own."""
    from onnxruntime.capi import (  # type: ignore[import-untyped]
        onnxruntime_pybind11_state as state,
    )

    found = (getattr(state, name) for name in dir(state))
    return tuple(c for c in found if isinstance(c, type) and issubclass(c, Exception))


def open_session(network: str | bytes, threads: int) -> Any:
    """An ONNX Runtime session on the CPU; a path or a file's content.

    Raises:
        MissingExtraError: onnxruntime is not installed.
        runtime_errors(): the network cannot be read.
    """
    try:
        import onnxruntime as ort
    except ImportError as error:
        raise MissingExtraError("onnxruntime", "cpu", "the mini encoder") from error
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = 3
    # Workers that spin between pictures would take a core from the robot.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return ort.InferenceSession(network, options, providers=["CPUExecutionProvider"])


class Backbone:
    """The frozen network.

    Args:
        threads: threads of one inference; results do not depend on it beyond rounding.

    Attributes:
        class_weight: ``(1000, 1280)`` and class_bias: ``(1000,)``, the ImageNet classifier, which
            is linear and so applies to any average of cells.

    Raises:
        MissingExtraError: onnxruntime or the weights are not installed.
        AssetError: the weights are not the expected file, or the cache cannot be written.
        EncoderError: the cached network cannot be read.
    """

    def __init__(self, threads: int = 2) -> None:
        path = lite2_onnx()
        try:
            self._session = open_session(str(path), threads)
            # The exporter folds the constant outputs and may rename them; their order stays.
            _, weight, bias = self._session.run(
                None, {"picture": np.zeros((1, 3, STRIDE, STRIDE), np.float32)}
            )
        except runtime_errors() as error:
            raise EncoderError(
                f"{path}: cannot be read ({error}); delete it, it is made again"
            ) from error
        self._grid_name = self._session.get_outputs()[0].name
        self.class_weight: Array = np.asarray(weight, np.float32)
        self.class_bias: Array = np.asarray(bias, np.float32)

    def grid(self, picture: Picture) -> Array:
        """``(rows, columns, 1280)`` features of a picture that :func:`resize` returned."""
        planes = picture.transpose(2, 0, 1)[None].astype(np.float32)
        (grid,) = self._session.run([self._grid_name], {"picture": planes})
        return np.ascontiguousarray(np.asarray(grid, np.float32)[0].transpose(1, 2, 0))

    @staticmethod
    def fingerprint() -> dict[str, str | int]:
        """What changes a grid beyond rounding."""
        return {"backbone": LITE2[2][:16], "backbone_format": ONNX_FORMAT, "resize": RESIZE_RULE}
