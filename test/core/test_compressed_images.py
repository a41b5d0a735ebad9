"""Compressed pictures: by what their bytes are; and what the memory keeps of them."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semflip_core.errors import ImageError
from semflip_core.images import decode_compressed, store_compressed, store_raw
from semflip_core.settings import KeyframeSettings
from support.pictures import KEEP, SEEDS, SIZES, reason_of, room_picture, smooth_picture


def encoded(ending: str, rgb: np.ndarray, *options: int) -> bytes:
    return cv2.imencode(ending, cv2.cvtColor(rgb, cv2.COLOR_RGB2BGR), list(options))[1].tobytes()


@pytest.mark.parametrize("ending", [".png", ".bmp", ".tiff"])
@settings(max_examples=10, deadline=None)
@given(size=SIZES, seed=SEEDS)
def test_lossless_files_come_back_exactly(ending, size, seed):
    rgb = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    np.testing.assert_array_equal(decode_compressed(encoded(ending, rgb)), rgb)


@pytest.mark.parametrize(
    ("ending", "options"),
    [
        (".jpg", (cv2.IMWRITE_JPEG_QUALITY, 95)),
        (".jpg", (cv2.IMWRITE_JPEG_PROGRESSIVE, 1)),
        (".jpg", (cv2.IMWRITE_JPEG_RST_INTERVAL, 2)),
        (".webp", (cv2.IMWRITE_WEBP_QUALITY, 95)),
        (".webp", (cv2.IMWRITE_WEBP_QUALITY, 101)),
    ],
)
def test_lossy_files_come_back_nearly(ending, options):
    rgb = smooth_picture(96, 64, 5)
    got = decode_compressed(encoded(ending, rgb, *options))
    assert got.shape == rgb.shape
    assert np.abs(got.astype(int) - rgb.astype(int)).mean() < 3


def test_sixteen_bit_colour_png_is_scaled_and_grey_one_is_depth():
    rgb = np.random.default_rng(0).integers(0, 65536, (20, 20, 3), dtype=np.uint16)
    data = cv2.imencode(".png", rgb[..., ::-1])[1].tobytes()
    np.testing.assert_array_equal(
        decode_compressed(data), np.rint(rgb * (255.0 / 65535.0)).astype(np.uint8)
    )
    depth = cv2.imencode(".png", rgb[..., 0])[1].tobytes()
    assert reason_of(decode_compressed, depth) == "depth_image"


def test_grey_and_alpha_files_become_rgb():
    grey = np.arange(400, dtype=np.uint8).reshape(20, 20)
    got = decode_compressed(cv2.imencode(".png", grey)[1].tobytes())
    np.testing.assert_array_equal(got, np.repeat(grey[..., None], 3, axis=2))
    bgra = np.dstack([grey, grey // 2, grey // 3, np.zeros_like(grey)])
    got = decode_compressed(cv2.imencode(".png", bgra)[1].tobytes())
    np.testing.assert_array_equal(got, bgra[..., 2::-1])


@pytest.mark.parametrize("progressive", [0, 1])
@pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.95, 0.999])
def test_a_cut_jpeg_is_refused_though_opencv_decodes_it(share, progressive):
    data = encoded(".jpg", room_picture(320, 240, 1), cv2.IMWRITE_JPEG_PROGRESSIVE, progressive)
    assert reason_of(decode_compressed, data[: int(len(data) * share)]) == "truncated"


def test_a_jpeg_that_lost_its_middle_is_refused():
    data = encoded(".jpg", room_picture(320, 240, 1))
    cut = data[: len(data) // 2] + b"\xff\xd9"
    assert cv2.imdecode(np.frombuffer(cut, np.uint8), cv2.IMREAD_COLOR) is not None
    assert reason_of(decode_compressed, cut) == "truncated"


def test_a_whole_grey_jpeg_is_not_mistaken_for_a_cut_one():
    grey = np.full((64, 64, 3), 128, np.uint8)
    assert decode_compressed(encoded(".jpg", grey)).shape == (64, 64, 3)


@pytest.mark.parametrize("ending", [".png", ".webp", ".bmp", ".tiff"])
def test_other_cut_files_are_refused(ending):
    data = encoded(ending, room_picture(64, 48, 1))
    for length in (len(data) - 1, len(data) // 2, 40, 10):
        assert reason_of(decode_compressed, data[:length]) in {
            "truncated",
            "damaged",
            "unknown_container",
        }


def test_a_png_with_a_flipped_bit_is_refused():
    data = bytearray(encoded(".png", room_picture(64, 48, 1)))
    data[len(data) // 2] ^= 1
    assert reason_of(decode_compressed, bytes(data)) == "damaged"


@pytest.mark.parametrize(
    ("reason", "data"),
    [
        ("empty", b""),
        ("unknown_container", b"hello, I am a picture"),
        ("video_stream", b"\x00\x00\x00\x01\x67\x42\x00\x1f" + bytes(100)),
        ("video_stream", b"\x00\x00\x01\x09\x10" + bytes(100)),
        ("depth_image", bytes(12) + encoded(".png", np.zeros((20, 20, 3), np.uint8))),
        ("truncated", b"\xff\xd8\xff"),
        ("truncated", b"\x89PNG\r\n\x1a\n"),
        ("too_small", encoded(".png", np.zeros((1, 1, 3), np.uint8))),
        ("too_small", encoded(".jpg", np.zeros((1, 4000, 3), np.uint8))),
        ("too_elongated", encoded(".png", np.zeros((16, 4000, 3), np.uint8))),
    ],
)
def test_what_is_no_colour_picture_is_refused_by_name(reason, data):
    assert reason_of(decode_compressed, data) == reason
    assert reason_of(store_compressed, data, KEEP) == reason


@settings(max_examples=150, deadline=None)
@given(
    ending=st.sampled_from([".jpg", ".png", ".webp", ".bmp", ".tiff"]),
    changes=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=6),
    length=st.integers(0, 4000),
)
def test_damage_never_raises_anything_but_an_image_error(ending, changes, length):
    data = bytearray(encoded(ending, room_picture(40, 30, 3)))
    for position, value in changes:
        data[position % len(data)] = value
    try:
        picture = decode_compressed(bytes(data[:length] if length < 3000 else data))
    except ImageError:
        return
    assert picture.ndim == 3 and picture.shape[2] == 3 and picture.dtype == np.uint8


# What the memory keeps.


def test_a_sound_jpeg_is_kept_byte_for_byte():
    data = encoded(".jpg", room_picture(320, 240, 1))
    stored = store_compressed(data, KEEP)
    assert (stored.data, stored.width, stored.height) == (data, 320, 240)


def test_padding_after_a_jpeg_is_not_kept():
    data = encoded(".jpg", room_picture(320, 240, 1))
    assert store_compressed(data + bytes(5000), KEEP).data == data


def test_a_jpeg_with_another_inside_its_header_is_walked_not_searched():
    """Cameras embed a thumbnail, whose end marker is not the picture's."""
    data = encoded(".jpg", room_picture(320, 240, 1))
    thumbnail = encoded(".jpg", room_picture(40, 30, 2))
    segment = b"Exif\0\0" + thumbnail
    framed = b"\xff\xe1" + (len(segment) + 2).to_bytes(2, "big") + segment
    whole = data[:2] + framed + data[2:]
    assert store_compressed(whole, KEEP).data == whole
    assert reason_of(decode_compressed, whole[: len(framed) + 200]) == "truncated"


def test_orientation_marks_do_not_turn_the_picture():
    data = encoded(".jpg", room_picture(64, 48, 1))
    exif = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"
    turned = data[:2] + b"\xff\xe1" + (len(exif) + 2).to_bytes(2, "big") + exif + data[2:]
    plain = cv2.imdecode(np.frombuffer(turned, np.uint8), cv2.IMREAD_COLOR)
    assert plain.shape == (64, 48, 3), "this OpenCV would turn it"
    np.testing.assert_array_equal(decode_compressed(turned), decode_compressed(data))


@pytest.mark.parametrize("ending", [".jpg", ".png", ".webp"])
def test_larger_pictures_are_scaled_down(ending):
    small = KeyframeSettings(max_side_px=100)
    rgb = smooth_picture(300, 150, 1)
    stored = store_compressed(encoded(ending, rgb), small)
    assert (stored.width, stored.height) == (100, 50)
    assert decode_compressed(stored.data).shape == (50, 100, 3)
    assert (store_raw(rgb, small).width, store_raw(rgb, small).height) == (100, 50)


def test_scaling_never_makes_a_picture_too_thin_to_read_back():
    stored = store_raw(np.zeros((20, 1900, 3), np.uint8), KeyframeSettings(max_side_px=64))
    assert decode_compressed(stored.data).shape == (16, 64, 3)


def test_quality_is_a_setting():
    rgb = room_picture(320, 240, 1)
    low = store_raw(rgb, KeyframeSettings(jpeg_quality=50))
    high = store_raw(rgb, KeyframeSettings(jpeg_quality=95))
    assert len(high.data) > 1.5 * len(low.data)


@pytest.mark.parametrize("wrong", [np.zeros((20, 20), np.uint8), np.zeros((20, 20, 3), np.float32)])
def test_storing_what_is_not_rgb_is_an_error(wrong):
    assert reason_of(store_raw, wrong, KEEP) == "bad_data"
