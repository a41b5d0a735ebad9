"""GPU memory by arithmetic on the real architecture, held against published figures."""

from __future__ import annotations

import pytest

from semflip_core.errors import ConfigError
from semflip_core.memory_plan import (
    GIB,
    MODELS,
    Shape,
    frames_that_fit,
    model_shape,
    nominal_gpu_bytes,
    picture_tokens,
    plan,
)
from support.tiny_qwen import tiny_checkpoint, tiny_qwen

#: Parameters as the hub's model pages give them (safetensors metadata).
PUBLISHED = {
    "3B": 3_754_622_976,
    "7B": 8_292_166_656,
    "32B": 33_452_718_336,
    "72B": 73_410_777_344,
}
FRAME = 391


@pytest.fixture(scope="module")
def seven() -> Shape:
    return model_shape("7B")


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_counted_parameters_are_the_published_ones(name: str) -> None:
    assert set(PUBLISHED) == set(MODELS)
    assert model_shape(name).parameters.total == PUBLISHED[name]


def test_weights_of_7b_are_the_size_of_its_published_shards(seven: Shape) -> None:
    assert seven.weight_bytes == 16_584_333_312
    assert seven.parameters.vision == 676_550_144


def test_awq_packs_only_the_decoders_linear_layers() -> None:
    plain, packed = model_shape("7B"), model_shape("Qwen/Qwen2.5-VL-7B-Instruct-AWQ")
    assert plain.parameters == packed.parameters
    kept = plain.parameters.total - plain.parameters.linear
    bits = (packed.weight_bytes - 2 * kept) * 8 / plain.parameters.linear
    assert bits == pytest.approx(4 + 20 / 128)  # a group of 128 shares 16 bits of scale, 4 of zero
    assert 6.4 < packed.weight_bytes / GIB < 6.5


def test_a_tokens_keys_and_values(seven: Shape) -> None:
    """28 layers x 4 heads x 128 x (keys, values) x 2 bytes."""
    assert seven.token_bytes == 57_344
    assert model_shape("32B").token_bytes == 262_144


def test_a_640x480_keyframe_is_what_the_design_says(seven: Shape) -> None:
    assert picture_tokens(640, 480, 307_200) == FRAME
    assert picture_tokens(336, 224, 307_200) == 96
    assert plan(seven, 1, FRAME).stored_per_frame == FRAME * 3584 * 2


def test_the_plan_is_what_the_encoder_really_takes() -> None:
    """The kept states of a tiny checkpoint, against the plan made from its config.json."""
    from support.plain_qwen import seen

    encoder = tiny_qwen()
    shape = model_shape(tiny_checkpoint(), "float32")
    weights = sum(p.nbytes for p in encoder._model.parameters())
    assert shape.weight_bytes == weights
    for count in (2, 9):
        encoder.encode("Where?", [seen(encoder, n, (480, 640)) for n in range(count)])
        planned = plan(shape, count, FRAME)
        assert planned.states == encoder.cached_bytes


@pytest.mark.parametrize(
    ("model", "gpu", "fits"),
    [
        ("7B", 48, True),
        ("7B", 24, True),
        ("7B", 16, False),
        ("3B", 16, True),
        ("32B", 48, False),
        ("32B-AWQ", 48, True),
        ("32B-AWQ", 16, False),
    ],
)
def test_which_model_fits_which_gpu(model: str, gpu: int, fits: bool) -> None:
    shape, memory = model_shape(model), nominal_gpu_bytes(gpu)
    assert (plan(shape, 16, FRAME).total <= memory) is fits
    most = frames_that_fit(shape, memory, FRAME)
    assert (most >= 16) is fits
    if fits:
        assert plan(shape, most, FRAME).total <= memory
        one_more = plan(shape, most + 1, FRAME)
        words = (most + 1) * (FRAME + 30)
        assert one_more.total > memory or words > shape.context - 2000


def test_more_frames_or_pixels_take_more(seven: Shape) -> None:
    assert plan(seven, 64, FRAME).total > plan(seven, 32, FRAME).total
    assert plan(seven, 32, 2 * FRAME).total > plan(seven, 32, FRAME).total
    assert frames_that_fit(seven, 20 * GIB, 96) > frames_that_fit(seven, 20 * GIB, FRAME)


def test_unknown_models_are_named() -> None:
    with pytest.raises(ConfigError, match="'13B' is no directory and not known; known: 3B"):
        model_shape("13B")
    with pytest.raises(ConfigError, match="int4"):
        model_shape("7B", "int4")
    with pytest.raises(ConfigError, match="1 x 4000"):
        picture_tokens(1, 4000, 307_200)
