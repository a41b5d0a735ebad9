"""Broken cameras: every malformed picture that a driver or a stranger may send."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from sensor_msgs.msg import CompressedImage, Image

from faults.fault import Fault, see_again
from faults.stage import NEVER, Stage
from semflip_ros.messages import to_time
from support.colours import room_picture

#: Where a broken picture would put yellow if it were believed.
BROKEN_X = 60.0


def png(width: int, height: int, bits: int = 8, colour: int = 2, body: bytes = b"") -> bytes:
    """A PNG that claims a size; without a body it holds no pixels."""
    import zlib

    def chunk(name: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        )

    header = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")
    )


def payloads() -> dict[str, bytes]:
    """Compressed pictures that are none, or not whole, or traps."""
    whole = room_picture(NEVER).data
    big = room_picture(NEVER, width=640, height=480).data
    return {
        "empty": b"",
        "one_byte": b"\xff",
        "garbage": bytes(range(256)) * 8,
        "start_marker_only": b"\xff\xd8",
        "markers_only": b"\xff\xd8\xff\xd9",
        "truncated_jpeg": whole[: len(whole) // 2],
        "half_grey_jpeg": big[: len(big) // 2] + b"\xff\xd9",
        "jpeg_without_frame": whole.replace(b"\xff\xc0", b"\xff\xfe"),
        "jpeg_of_zero_size": whole.replace(struct.pack(">HH", 72, 96), b"\0\0\0\0"),
        "jpeg_of_giant_size": whole.replace(struct.pack(">HH", 72, 96), b"\xff\xff\xff\xff"),
        "jpeg_with_endless_segment": whole[:4] + b"\xff\xff" + whole[6:],
        "png_bomb": png(60_000, 60_000),
        "png_without_pixels": png(96, 72),
        "png_of_one_pixel": png(1, 1),
        "png_of_one_row": png(4000, 1),
        "png_depth": png(96, 72, bits=16, colour=0),
        "compressed_depth": b"\0" * 12 + png(96, 72, bits=16, colour=0),
        "h264": b"\0\0\0\x01\x67\x42\x00\x1f" + bytes(500),
        "webp_cut": b"RIFF\xff\xff\0\0WEBPVP8 " + bytes(20),
        "tiff_loop": b"II*\0\x08\0\0\0\xff\xff" + bytes(40),
        "bmp_negative": b"BM" + struct.pack("<IHHIIiiHHI", 99, 0, 0, 54, 40, -5, -5, 1, 24, 0),
        "gif": b"GIF89a\x01\0\x01\0\0\0\0;",
        "svg": b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        "pickle": b"\x80\x04cos\nsystem\n(S'true'\ntR.",
    }


def raw_images() -> dict[str, dict[str, Any]]:
    """Fields of uncompressed pictures that contradict each other or are no colour picture."""
    rgb = np.full((72, 96, 3), (200, 200, 30), np.uint8).tobytes()
    sound = {"encoding": "rgb8", "width": 96, "height": 72, "step": 288, "data": rgb}
    changes: dict[str, dict[str, Any]] = {
        "no_data": {"data": b""},
        "data_cut": {"data": rgb[:5000]},
        "one_byte_short": {"data": rgb[:-1]},
        "zero_step": {"step": 0},
        "step_too_small": {"step": 100},
        "step_giant": {"step": 2**32 - 1},
        "zero_width": {"width": 0},
        "zero_height": {"height": 0},
        "giant_size": {"width": 2**31, "height": 2**31, "step": 2**32 - 1},
        "size_overflows": {"width": 65_536, "height": 65_536, "step": 0},
        "no_encoding": {"encoding": ""},
        "unknown_encoding": {"encoding": "rgb9"},
        "endless_encoding": {"encoding": "rgb8" * 1000},
        "encoding_of_escapes": {"encoding": "\x1b[2Jrgb8"},
        "depth_16": {"encoding": "16UC1", "step": 192},
        "depth_float": {"encoding": "32FC1", "step": 384, "data": rgb + rgb},
        "labels": {"encoding": "8SC1", "step": 96},
        "one_pixel": {"width": 1, "height": 1, "step": 3, "data": rgb[:3]},
        "one_row": {"width": 4000, "height": 1, "step": 12_000, "data": rgb[:12_000]},
        "yuv_of_odd_size": {"encoding": "yuv422", "width": 95, "step": 190},
        "nv12_cut": {"encoding": "nv12", "step": 96, "data": rgb[:96]},
    }
    return {name: {**sound, **change} for name, change in changes.items()}


def stamps() -> dict[str, int | None]:
    """Seconds by which a picture's stamp is wrong; None is zero."""
    return {"stamp_zero": None, "stamp_again": 0}


def broken_bytes() -> dict[str, bytes]:
    """Serialized messages that are none."""
    header = b"\0\1\0\0" + struct.pack("<iII", 1_700_000_000, 0, 4) + b"cam\0"
    return {
        "cdr_header_only": b"\0\1\0\0",
        "cdr_garbage": b"\0\1\0\0" + b"garbage!" * 10,
        "cdr_cut_after_header": header,
        "cdr_endless_string": header + b"\xff\xff\xff\x7fzzzz",
        "cdr_unknown_encapsulation": b"\xff\xff" + header[2:] + bytes(64),
    }


def send(stage: Stage, make: Callable[[], Any]) -> None:
    """The broken picture between two sound poses, until the node has taken notice of it."""
    robot = stage.robot
    active = robot.raw_image if robot.transport == "raw" else robot.compressed_image
    if active.get_subscription_count():
        robot.until_noticed(lambda: robot.drive(BROKEN_X, make), robot.camera_messages)
    else:
        robot.drive(BROKEN_X, make)  # nobody listens while it is being activated


def compressed(stage: Stage, data: bytes) -> None:
    """Send a payload."""

    def make() -> Any:
        message = CompressedImage(format="jpeg")
        message.header.stamp = to_time(stage.robot.time_ns)
        message.data.frombytes(data)
        return message

    send(stage, make)


def raw(stage: Stage, fields: dict[str, Any]) -> None:
    """Send the fields of an Image."""

    def make() -> Any:
        message = Image(**{k: v for k, v in fields.items() if k != "data"})
        message.header.stamp = to_time(stage.robot.time_ns)
        message.data.frombytes(fields["data"])
        return message

    send(stage, make)


def stamped(stage: Stage, offset_s: int | None) -> None:
    """A whole yellow picture with a wrong stamp."""
    robot = stage.robot

    def make() -> Any:
        message = robot.picture(NEVER)
        wrong = 0 if offset_s is None else robot.time_ns + (offset_s - 1) * 1_000_000_000
        message.header.stamp = to_time(wrong)
        return message

    send(stage, make)


def flood(stage: Stage) -> None:
    """Three hundred pictures at once, of a robot that does not know where it is."""
    robot = stage.robot
    with robot.wheel:
        for _ in range(300):
            robot.time_ns += 1_000_000
            robot.publish_picture(robot.picture(NEVER))


def faults() -> Iterator[Fault]:
    """Every broken camera, on both transports."""
    for name, data in payloads().items():
        yield Fault("camera", f"compressed {name}", partial(compressed, data=data))
    for name, fields in raw_images().items():
        yield Fault("camera", f"raw {name}", partial(raw, fields=fields), setting="raw")
    for name, data in broken_bytes().items():
        yield Fault("camera", f"compressed {name}", partial(send, make=lambda d=data: d))
        yield Fault("camera", f"raw {name}", partial(send, make=lambda d=data: d), setting="raw")
    for name, offset in stamps().items():
        yield Fault("camera", name, partial(stamped, offset_s=offset))
    for name, offset in {
        "stamp_old": -1,
        "stamp_far_ahead": 10**8,
        "stamp_hour_back": -3600,
    }.items():
        yield Fault("camera", name, partial(stamped, offset_s=offset), see_again)
    yield Fault("camera", "flood", flood, see_again)
