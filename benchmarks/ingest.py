"""What a camera message costs: skipped, kept, and decoded the naive way, from its bytes in hand.

    python benchmarks/ingest.py [--frames 200] [--json -]

A skipped message is one that the rate or the robot's standing still rules out: only the stamp is
read, out of the serialized header. A kept one is converted, compressed and stored in a memory file.
The naive way deserializes and decodes every message, as a node with an ordinary callback does.
``skip_to_decode_ratio`` is the worse of raw and compressed at 1920x1080. Where rclpy is installed,
what the middleware takes to hand over the same raw message is reported beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from semflip_core.images import decode_compressed, decode_raw, store_compressed, store_raw
from semflip_core.ingest import Ingest
from semflip_core.memory import VideoMemory
from semflip_core.poses import Pose
from semflip_core.settings import KeyframeSettings

SIZES = ((640, 480), (1920, 1080))
SETTINGS = KeyframeSettings()
#: Where the stamp lies in a serialized message: after the four bytes of the encapsulation.
STAMP = struct.Struct("<iI")
#: Messages to a robot that stands still, all within the poses that are remembered.
STILL = 40
ROOT = Path(__file__).resolve().parent.parent


def scene(width: int, height: int) -> np.ndarray:
    """A picture with edges, flat parts and grain, so that JPEG has ordinary work."""
    rng = np.random.default_rng(7)
    rgb = np.full((height, width, 3), rng.integers(90, 200, 3), np.int16)
    for _ in range(60):
        y, x = rng.integers(0, height), rng.integers(0, width)
        box = (slice(y, y + height // 5), slice(x, x + width // 6))
        rgb[box] = rng.integers(0, 256, 3)
    grain = rng.integers(-5, 6, rgb.shape, dtype=np.int16)
    return np.clip(rgb + grain, 0, 255).astype(np.uint8)


class Messages:
    """Serialized camera messages of one size, and the naive way to read them."""

    def __init__(self, width: int, height: int) -> None:
        from rosbags.typesys import Stores, get_typestore

        self.store = get_typestore(Stores.ROS2_JAZZY)
        rgb = scene(width, height)
        bgr = np.ascontiguousarray(rgb[..., ::-1])
        types = self.store.types
        header = types["std_msgs/msg/Header"](types["builtin_interfaces/msg/Time"](1, 0), "camera")
        self.raw = self._cdr("Image", header, height, width, "bgr8", 0, 3 * width, bgr.reshape(-1))
        jpeg = np.frombuffer(store_raw(rgb, SETTINGS).data, np.uint8)
        self.compressed = self._cdr("CompressedImage", header, "bgr8; jpeg compressed bgr8", jpeg)

    def _cdr(self, name: str, *fields: Any) -> bytes:
        kind = f"sensor_msgs/msg/{name}"
        return bytes(self.store.serialize_cdr(self.store.types[kind](*fields), kind))

    def read_raw(self) -> Any:
        return self.store.deserialize_cdr(self.raw, "sensor_msgs/msg/Image")

    def decode_raw(self) -> np.ndarray:
        m = self.read_raw()
        return decode_raw(m.encoding, m.width, m.height, m.step, bool(m.is_bigendian), m.data)

    def read_compressed(self) -> Any:
        return self.store.deserialize_cdr(self.compressed, "sensor_msgs/msg/CompressedImage")

    def decode_compressed(self) -> np.ndarray:
        return decode_compressed(self.read_compressed().data.tobytes())


def read_stamp(cdr: bytes) -> int:
    seconds, nanoseconds = STAMP.unpack_from(cdr, 4)
    return seconds * 1_000_000_000 + nanoseconds


def median_us(step: Callable[[int], object], count: int) -> float:
    times = []
    for number in range(count):
        start = time.perf_counter_ns()
        step(number)
        times.append(time.perf_counter_ns() - start)
    return statistics.median(times) / 1e3


def pose(x: float) -> Pose:
    return Pose("map", (x, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0))


def skipped_us(cdr: bytes, count: int) -> tuple[float, float]:
    """Microseconds from bytes to a no: because of the rate, and because the robot stands still."""
    memory = VideoMemory()
    by_rate = Ingest(memory, SETTINGS, map_id="bench")
    by_rate.wants(1)
    rate = median_us(lambda n: by_rate.wants(read_stamp(cdr) - 10**9 + 2 + n), count)
    still = Ingest(memory, SETTINGS, map_id="bench", needs_pose=True)
    picture = store_raw(scene(64, 48), SETTINGS)
    still.add_pose(10**9 - 1, pose(0.0))
    still.add_pose(10**9 + 1, pose(0.0))
    still.offer(10**9, lambda: picture)
    interval = round(SETTINGS.min_interval_s * 1e9) + 1
    stamps = [10**9 + interval * (n + 1) for n in range(STILL)]
    for stamp in stamps:
        still.add_pose(stamp - 1, pose(0.0))
        still.add_pose(stamp + 1, pose(0.0))
    read_stamp(cdr)
    motion = median_us(lambda n: (read_stamp(cdr), still.wants(stamps[n])), STILL)
    if by_rate.counters["rate"] != count or still.counters["still"] != STILL:
        raise RuntimeError(f"not what was to be timed: {by_rate.counters} {still.counters}")
    return rate, motion


def kept_us(load: Callable[[], Any], cdr: bytes, count: int, folder: Path) -> float:
    """Microseconds from bytes to a stored keyframe, in a memory file."""
    with VideoMemory(folder / f"{time.monotonic_ns()}.sqlite") as memory:
        ingest = Ingest(memory, SETTINGS, map_id="bench", needs_pose=False)
        spent = median_us(lambda n: ingest.offer(read_stamp(cdr) + n * 10**9, load), count)
        if len(memory) != count:
            raise RuntimeError(f"kept {len(memory)} of {count}: {ingest.counters}")
    return spent


def measure(width: int, height: int, frames: int, folder: Path) -> dict[str, float]:
    messages = Messages(width, height)
    rate, motion = skipped_us(messages.raw, 20 * frames)
    few = max(10, frames // 5)
    decode_raw_us = median_us(lambda _: messages.decode_raw(), few)
    decode_jpeg_us = median_us(lambda _: messages.decode_compressed(), few)

    def load_raw() -> Any:
        return store_raw(messages.decode_raw(), SETTINGS)

    def load_compressed() -> Any:
        return store_compressed(messages.read_compressed().data.tobytes(), SETTINGS)

    return {
        "raw_message_bytes": len(messages.raw),
        "compressed_message_bytes": len(messages.compressed),
        "skipped_by_rate_us": rate,
        "skipped_by_motion_us": motion,
        "kept_raw_us": kept_us(load_raw, messages.raw, few, folder),
        "kept_compressed_us": kept_us(load_compressed, messages.compressed, few, folder),
        "decode_raw_us": decode_raw_us,
        "decode_compressed_us": decode_jpeg_us,
        "skip_to_decode_raw": max(rate, motion) / decode_raw_us,
        "skip_to_decode_compressed": max(rate, motion) / decode_jpeg_us,
    }


def middleware_take_us(count: int) -> float | None:
    """Microseconds that rclpy needs to hand over a raw 1920x1080 message; None without rclpy."""
    profile = str(ROOT / "config" / "dds_loopback.xml")
    for name in ("FASTDDS_DEFAULT_PROFILES_FILE", "FASTRTPS_DEFAULT_PROFILES_FILE"):
        os.environ.setdefault(name, profile)
    os.environ.setdefault("ROS_DOMAIN_ID", str(60 + os.getpid() % 40))
    try:
        import rclpy
        from rclpy.serialization import deserialize_message
        from sensor_msgs.msg import Image
    except ImportError:
        return None
    message = deserialize_message(Messages(1920, 1080).raw, Image)
    rclpy.init()
    try:
        node = rclpy.create_node("semflip_ingest_benchmark")
        sender = node.create_publisher(Image, "bench_image", 1)
        taken: list[int] = []
        receiver = node.create_subscription(Image, "bench_image", taken.append, 1, raw=True)
        deadline = time.monotonic() + 30.0
        times = []
        while len(times) < count and time.monotonic() < deadline:
            sender.publish(message)
            time.sleep(0.02)
            with receiver.handle:
                start = time.perf_counter_ns()
                found = receiver.handle.take_message(Image, True)
                spent = time.perf_counter_ns() - start
            if found is not None:
                times.append(spent)
    finally:
        rclpy.try_shutdown()
    return statistics.median(times) / 1e3 if times else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--frames", type=int, default=200, help="frames for each figure")
    parser.add_argument("--json", default="", help="write JSON to this file; - is stdout")
    parser.add_argument("--no-middleware", action="store_true", help="leave rclpy out")
    arguments = parser.parse_args()
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for width, height in SIZES:
            result[f"{width}x{height}"] = measure(width, height, arguments.frames, Path(folder))
    full = result["1920x1080"]
    result["skip_to_decode_ratio"] = max(
        full["skip_to_decode_raw"], full["skip_to_decode_compressed"]
    )
    take = None if arguments.no_middleware else middleware_take_us(max(5, arguments.frames // 10))
    result["middleware_take_1080p_us"] = take
    text = json.dumps(result, indent=2)
    if arguments.json == "-":
        print(text)
        return
    if arguments.json:
        Path(arguments.json).write_text(text + "\n", encoding="utf-8")
    for size, values in result.items():
        if isinstance(values, dict):
            print(size)
            for name, value in values.items():
                print(f"  {name:28} {value:14.4f}" if value < 1 else f"  {name:28} {value:14.1f}")
    print(f"skip_to_decode_ratio           {result['skip_to_decode_ratio']:.5f}")
    print(f"middleware_take_1080p_us       {take}")


if __name__ == "__main__":
    sys.exit(main())
