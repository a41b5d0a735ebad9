"""Camera pictures: converted exactly, or refused by name before anything is allocated."""

from __future__ import annotations

import array
import tracemalloc

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semflip_core.image_encodings import LAYOUTS
from semflip_core.images import decode_compressed, decode_raw, store_raw
from support.pictures import (
    KEEP,
    PACKED,
    PADDING,
    SEEDS,
    SIZES,
    YUV422,
    raw_bytes,
    reason_of,
    room_picture,
    smooth_picture,
)

# Round trips: an independent writer makes the message, our reader gives the picture back.


@pytest.mark.parametrize("encoding", sorted(PACKED))
@settings(max_examples=15, deadline=None)
@given(size=SIZES, padding=PADDING, seed=SEEDS, big=st.booleans())
def test_packed_pictures_come_back_exactly(encoding, size, padding, seed, big):
    width, height = size
    rgb = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    step, data = raw_bytes(encoding, rgb, padding, big)
    expected = rgb
    if PACKED[encoding][0] == "grey":
        expected = np.repeat(rgb[..., :1], 3, axis=2)
    got = decode_raw(encoding, width, height, step, big, data)
    np.testing.assert_array_equal(got, expected)


@settings(max_examples=20, deadline=None)
@given(values=st.lists(st.integers(0, 65535), min_size=256, max_size=256), big=st.booleans())
def test_sixteen_bits_are_scaled_to_the_nearest_of_eight(values, big):
    samples = np.array(values, np.uint16).reshape(16, 16)
    data = samples.astype(">u2" if big else "<u2").tobytes()
    got = decode_raw("mono16", 16, 16, 32, big, data)[..., 0]
    np.testing.assert_array_equal(got, np.rint(samples * (255.0 / 65535.0)).astype(np.uint8))


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("pattern", ["rggb", "bggr", "gbrg", "grbg"])
@settings(max_examples=10, deadline=None)
@given(size=SIZES, padding=PADDING, seed=SEEDS, big=st.booleans())
def test_bayer_keeps_each_sensor_sample_in_its_own_colour(pattern, bits, size, padding, seed, big):
    width, height = size
    rgb = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    encoding = f"bayer_{pattern}{bits}"
    step, data = raw_bytes(encoding, rgb, padding, big)
    got = decode_raw(encoding, width, height, step, big, data)
    for position, colour in enumerate(pattern):
        row, column = divmod(position, 2)
        channel = "rgb".index(colour)
        # OpenCV copies its neighbours into the outermost pixels.
        inner = (slice(2 + row, height - 2, 2), slice(2 + column, width - 2, 2))
        np.testing.assert_array_equal(got[..., channel][inner], rgb[..., channel][inner])


def test_bayer_of_one_colour_is_that_colour():
    red = np.zeros((20, 30, 3), np.uint8)
    red[..., 0] = 200
    for pattern in ("rggb", "bggr", "gbrg", "grbg"):
        step, data = raw_bytes(f"bayer_{pattern}8", red, 0, False)
        got = decode_raw(f"bayer_{pattern}8", 30, 20, step, False, data)
        assert got[2:-2, 2:-2].reshape(-1, 3).tolist() == [[200, 0, 0]] * (26 * 16)


@pytest.mark.parametrize("encoding", [*YUV422, "nv12", "nv21"])
@settings(max_examples=15, deadline=None)
@given(size=SIZES, padding=PADDING, seed=SEEDS)
def test_yuv_pictures_come_back_within_its_rounding(encoding, size, padding, seed):
    width, height = (2 * (side // 2) for side in size)
    rgb = smooth_picture(width, height, seed)
    step, data = raw_bytes(encoding, rgb, padding, False)
    got = decode_raw(encoding, width, height, step, False, data)
    assert np.abs(got.astype(int) - rgb.astype(int)).max() <= 4


def test_every_encoding_is_covered_by_a_round_trip():
    bayer = {f"bayer_{p}{b}" for p in ("rggb", "bggr", "gbrg", "grbg") for b in (8, 16)}
    assert set(LAYOUTS) == set(PACKED) | bayer | set(YUV422) | {"nv12", "nv21"}


def test_red_stays_red_in_every_encoding_that_has_colour():
    red = np.zeros((32, 48, 3), np.uint8)
    red[..., 0] = 220
    for encoding, layout in LAYOUTS.items():
        if layout.order == "grey":
            continue
        step, data = raw_bytes(encoding, red, 4, False)
        middle = decode_raw(encoding, 48, 32, step, False, data)[16, 24]
        assert middle[0] > 200 and middle[1] < 20 and middle[2] < 20, (encoding, middle)
        jpeg = store_raw(decode_raw(encoding, 48, 32, step, False, data), KEEP)
        assert decode_compressed(jpeg.data)[16, 24, 0] > 200


def test_row_padding_does_not_skew_the_picture():
    rgb = room_picture(50, 40, seed=1)
    step, data = raw_bytes("bgr8", rgb, 14, False)
    assert step == 164
    np.testing.assert_array_equal(decode_raw("bgr8", 50, 40, step, False, data), rgb)


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview, lambda b: array.array("B", b)])
def test_any_buffer_of_bytes_will_do(wrap):
    rgb = room_picture(20, 16, seed=2)
    np.testing.assert_array_equal(decode_raw("rgb8", 20, 16, 60, False, wrap(rgb.tobytes())), rgb)
    np.testing.assert_array_equal(decode_raw("rgb8", 20, 16, 60, False, rgb), rgb)


def test_the_picture_does_not_alias_the_message():
    data = bytearray(room_picture(20, 16, seed=3).tobytes())
    picture = decode_raw("rgb8", 20, 16, 60, False, data)
    before = picture.copy()
    data[:] = bytes(len(data))
    np.testing.assert_array_equal(picture, before)


# Refusals: each has a name to count by.

RGB = bytes(20 * 16 * 3)


@pytest.mark.parametrize(
    ("reason", "fields"),
    [
        ("empty_encoding", ("", 20, 16, 60, False, RGB)),
        ("unknown_encoding", ("rgb9", 20, 16, 60, False, RGB)),
        ("unknown_encoding", ("x" * 100_000, 20, 16, 60, False, RGB)),
        ("depth_image", ("16UC1", 20, 16, 40, False, bytes(640))),
        ("depth_image", ("32FC1", 20, 16, 80, False, bytes(1280))),
        ("depth_image", ("64FC1", 20, 16, 160, False, bytes(2560))),
        ("depth_image", ("16SC1", 20, 16, 40, False, bytes(640))),
        ("bad_size", ("rgb8", 0, 16, 60, False, RGB)),
        ("bad_size", ("rgb8", 20, 0, 60, False, b"")),
        ("bad_size", ("rgb8", -20, 16, 60, False, RGB)),
        ("too_large", ("rgb8", 2**31, 2**31, 2**33, False, RGB)),
        ("too_small", ("rgb8", 1, 1, 3, False, bytes(3))),
        ("too_small", ("rgb8", 4000, 1, 12000, False, bytes(12000))),
        ("too_small", ("rgb8", 1, 4000, 3, False, bytes(12000))),
        ("too_elongated", ("mono8", 4000, 16, 4000, False, bytes(64000))),
        ("step_too_small", ("rgb8", 20, 16, 0, False, RGB)),
        ("step_too_small", ("rgb8", 20, 16, 59, False, bytes(59 * 16))),
        ("step_too_small", ("rgba8", 20, 16, 60, False, RGB)),
        ("step_too_small", ("mono16", 20, 16, 20, False, bytes(320))),
        ("data_too_short", ("rgb8", 20, 16, 60, False, RGB[:-1])),
        ("data_too_short", ("rgb8", 20, 16, 60, False, b"")),
        ("data_too_long", ("rgb8", 20, 16, 60, False, RGB + b"\0")),
        ("data_too_short", ("nv12", 20, 16, 20, False, bytes(320))),
        ("odd_size", ("nv12", 20, 17, 20, False, bytes(520))),
        ("odd_size", ("uyvy", 21, 16, 42, False, bytes(672))),
        ("bad_data", ("rgb8", 20, 16, 60, False, None)),
        ("bad_data", ("rgb8", 20, 16, 60, False, [0] * 960)),
    ],
)
def test_what_cannot_be_a_picture_is_refused_by_name(reason, fields):
    assert reason_of(decode_raw, *fields) == reason


def test_nv12_is_half_as_high_again_as_its_picture():
    step, data = raw_bytes("nv12", smooth_picture(32, 20, 0), 0, False)
    assert len(data) == 32 * 30
    assert decode_raw("nv12", 32, 20, step, False, data).shape == (20, 32, 3)


def test_nothing_is_allocated_from_an_unchecked_size():
    tracemalloc.start()
    for width, height in ((2**31 - 1, 2**31 - 1), (60_000, 60_000), (2**40, 16)):
        reason_of(decode_raw, "rgb8", width, height, 3 * width, False, RGB)
    header = cv2.imencode(".png", np.zeros((16, 16, 3), np.uint8))[1].tobytes()
    reason_of(decode_compressed, huge_png(header))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000


def huge_png(png: bytes) -> bytes:
    """A valid small png whose header claims 60000 x 60000 pixels, checksum and all."""
    import struct
    import zlib

    header = b"IHDR" + struct.pack(">II", 60_000, 60_000) + png[24:29]
    return png[:12] + header + struct.pack(">I", zlib.crc32(header)) + png[33:]


def test_a_compressed_bomb_is_refused_by_its_header():
    png = cv2.imencode(".png", np.zeros((16, 16, 3), np.uint8))[1].tobytes()
    assert reason_of(decode_compressed, huge_png(png)) == "too_large"


def test_conversion_agrees_with_cv_bridge():
    bridge = pytest.importorskip("cv_bridge", reason="cv_bridge comes with a ROS install only")
    from sensor_msgs.msg import Image

    rgb = smooth_picture(48, 32, 7)
    for encoding in sorted(set(LAYOUTS) - {"nv12", "nv21"}):  # cv_bridge reads no planar YUV
        step, data = raw_bytes(encoding, rgb, 6, False)
        message = Image(encoding=encoding, width=48, height=32, step=step, data=data)
        theirs = bridge.CvBridge().imgmsg_to_cv2(message, "rgb8")
        np.testing.assert_array_equal(decode_raw(encoding, 48, 32, step, False, data), theirs)
