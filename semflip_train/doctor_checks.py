"""What can be wrong with an installation, each as one check that says what to do."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal
from xml.etree import ElementTree

from semflip_core.errors import SemflipError

State = Literal["ok", "note", "fail"]
#: Distribution -> (lowest, first that is too new, extra that brings it).
LIBRARIES = {
    "numpy": ("1.26", "3", ""),
    "pydantic": ("2.5", "3", ""),
    "safetensors": ("0.4", "", ""),
    "torch": ("2.6", "", "cpu"),
    "transformers": ("5.18", "5.21", "cpu"),
    "onnxruntime": ("1.19", "", "cpu"),
    "opencv-python-headless": ("4.9", "5", "cpu"),
    "rosbags": ("0.11", "0.12", "cpu"),
    "accelerate": ("1.0", "", "qwen"),
}
PYTHON = ((3, 10), (3, 15))
#: Camera pictures cross the middleware in one piece; Linux' default buffer holds a fifth of one.
SOCKET_BUFFER, PICTURE_BYTES = Path("/proc/sys/net/core/rmem_max"), 640 * 480 * 3
PROFILES = ("FASTDDS_DEFAULT_PROFILES_FILE", "FASTRTPS_DEFAULT_PROFILES_FILE")
ROS_PROBE = (
    "import rclpy, semflip.msg; rclpy.init(); "
    "print(rclpy.get_rmw_implementation_identifier()); rclpy.shutdown()"
)
ROS_PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True)
class Check:
    """One finding: ``ok``, a ``note`` that need not be acted on, or ``fail``."""

    name: str
    state: State
    detail: str

    def to_json(self) -> dict[str, str]:
        """Plain values."""
        return asdict(self)


def _number(text: str) -> tuple[int, ...]:
    parts = []
    for part in text.split("+")[0].split("."):
        digits = "".join(c for c in part if c.isdigit())
        if not digits:
            break
        parts.append(int(digits))
    return tuple(parts)


def check_python() -> Check:
    """The interpreter."""
    low, high = PYTHON
    fits = low <= sys.version_info[:2] < high
    wanted = f"{low[0]}.{low[1]} to {high[0]}.{high[1] - 1}"
    detail = platform.python_version() + ("" if fits else f"; semflip is made for {wanted}")
    return Check("python", "ok" if fits else "fail", detail)


def check_libraries() -> Iterator[Check]:
    """Each library: there, and of a version that is known to work."""
    for name, (low, high, extra) in LIBRARIES.items():
        cure = f'pip install "semflip[{extra}]"' if extra else "pip install semflip"
        try:
            found = version(name)
        except PackageNotFoundError:
            yield Check(name, "note" if extra else "fail", f"not installed: {cure}")
            continue
        if _number(found) < _number(low) or (high and _number(found) >= _number(high)):
            wanted = f">= {low}" + (f", < {high}" if high else "")
            yield Check(name, "fail", f"{found} is not {wanted}: {cure}")
        else:
            yield Check(name, "ok", found)


def gpu_bytes() -> int | None:
    """Memory of the first CUDA GPU; None without one."""
    if find_spec("torch") is None:
        return None
    import torch

    if not torch.cuda.is_available():
        return None
    return int(torch.cuda.get_device_properties(0).total_memory)


def check_gpu() -> Check:
    """A CUDA GPU that torch can use."""
    if find_spec("torch") is None:
        return Check("gpu", "note", "torch is not installed")
    import torch

    if not torch.cuda.is_available():
        return Check("gpu", "note", f"torch {torch.__version__} sees none; mini runs without")
    shown = torch.cuda.get_device_properties(0)
    detail = f"{shown.name}, {shown.total_memory / 2**30:.1f} GiB, CUDA {torch.version.cuda}"
    return Check("gpu", "ok", detail)


def check_model(folder: Path) -> Iterator[Check]:
    """Files of a Qwen2.5-VL checkpoint, without loading its weights."""
    from semflip_core.checkpoints import load_tokenizer, weight_files
    from semflip_core.encoders.qwen2_5_vl import loading
    from semflip_core.encoders.qwen2_5_vl.prompt import Prompt
    from semflip_core.encoders.qwen2_5_vl.settings import QwenSettings

    def config() -> str:
        read = loading.read_config(folder)
        method = (read.get("quantization_config") or {}).get("quant_method", "none")
        if method != "none" and find_spec("gptqmodel") is None:
            raise SemflipError(f'quantised with {method}: pip install "semflip[qwen-awq]"')
        return f"{read['model_type']}, quantisation {method}"

    def weights() -> str:
        files = weight_files(folder)
        size = sum(file.stat().st_size for file in files)
        return f"{len(files)} shard(s), {size / 2**30:.2f} GiB"

    def tokenizer() -> str:
        loaded = load_tokenizer(folder)
        Prompt(loaded, int(loading.read_config(folder)["image_token_id"]), 1024)
        return f"{len(loaded)} tokens"

    def processor() -> str:
        made = loading.load_processor(folder, QwenSettings(model=str(folder)))
        return f"patches of {made.patch_size}, merged {made.merge_size} x {made.merge_size}"

    for name, work in (
        ("model config", config),
        ("model weights", weights),
        ("model tokenizer", tokenizer),
        ("model processor", processor),
    ):
        yield _tried(name, work)


def _tried(name: str, work: Callable[[], str]) -> Check:
    try:
        return Check(name, "ok", work())
    except (SemflipError, KeyError, OSError) as error:
        return Check(name, "fail", str(error))


def check_pipeline(
    encoder: str,
    options: Mapping[str, Any],
    retriever: str | None,
    gate: Path | None,
) -> Check:
    """Encoder, retriever and gate together, loaded as the node loads them on activation."""
    from semflip_core.loading import load_agent
    from semflip_core.memory import VideoMemory

    def work() -> str:
        with VideoMemory() as memory:
            agent = load_agent(
                memory, encoder=encoder, encoder_options=options, retriever=retriever, gate=gate
            )
            shown = f"gate {agent.gate.id if agent.gate else '-'}, tau {agent.threshold:.3f}"
            agent.close()
        return f"{encoder}: {shown}; every fingerprint field matches"

    return _tried("encoder and gate", work)


def check_ros() -> Check:
    """rclpy, the built messages and a middleware, in a process of their own."""
    if find_spec("rclpy") is None:
        return Check(
            "ros", "note", "rclpy is not on this interpreter's path; offline work needs none"
        )
    try:
        run = subprocess.run(
            [sys.executable, "-c", ROS_PROBE],
            capture_output=True,
            text=True,
            timeout=ROS_PATIENCE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Check("ros", "fail", f"the middleware did not start within {ROS_PATIENCE_S:.0f} s")
    if run.returncode:
        last = (run.stderr.strip().splitlines() or ["no message"])[-1]
        return Check("ros", "fail", f"{last}; source the workspace (`. install/setup.bash`)")
    domain = os.environ.get("ROS_DOMAIN_ID", "0")
    return Check("ros", "ok", f"{run.stdout.strip()}, messages built, domain {domain}")


def check_dds(environ: Mapping[str, str] = os.environ) -> Iterator[Check]:
    """The DDS profile in force, and whether pictures fit the kernel's socket buffer."""
    given = [(name, environ[name]) for name in PROFILES if environ.get(name)]
    if not given:
        yield Check(
            "dds profile", "note", f"none set; config/dds_shared_memory.xml by {PROFILES[0]}"
        )
    for name, value in given:
        try:
            ElementTree.parse(value)
        except (OSError, ElementTree.ParseError) as error:
            yield Check("dds profile", "fail", f"{name}: {value}: {error}")
        else:
            yield Check("dds profile", "ok", value)
    if SOCKET_BUFFER.is_file():
        size = int(SOCKET_BUFFER.read_text())
        if size < PICTURE_BYTES:
            detail = (
                f"{size} bytes hold no 640 x 480 picture: sysctl -w net.core.rmem_max=2147483647"
            )
            yield Check("socket buffer", "note", f"{detail} for cameras on other machines")
        else:
            yield Check("socket buffer", "ok", f"{size} bytes")
