"""Three levels of reuse give what transformers gives in one plain forward pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from semflip_core.encoders.qwen2_5_vl.encoder import QwenEncoder
from semflip_core.errors import EncoderError
from semflip_core.frames import FrameFeatures, MemoryFrame
from support.plain_qwen import PlainQwen, seen
from support.tiny_qwen import tiny_checkpoint
from support.tiny_qwen import tiny_qwen as load

QUESTION = "Where is the red fire extinguisher?"
OTHER = "Is there a sofa next to the table?"
SIZES = ((120, 160), (200, 90), (224, 336), (64, 64), (90, 200), (480, 640))
TOLERANCE = 1e-4  # absolute, fp32; what is seen is about 1e-6


@pytest.fixture(scope="module")
def folder() -> Path:
    return tiny_checkpoint()


@pytest.fixture(scope="module")
def plain(folder: Path) -> PlainQwen:
    return PlainQwen(folder)


@pytest.fixture
def encoder(folder: Path) -> Iterator[QwenEncoder]:
    with closing(load(folder)) as made:
        yield made


def frames_of(encoder: QwenEncoder, prefix: int = 4, recalled: int = 2) -> list[MemoryFrame]:
    """Frames of different sizes: a prefix by time, then older ones recalled."""
    first = [
        seen(encoder, 10 + n, SIZES[n % 6], place=(n * 0.5, 1.0, n * 0.3)) for n in range(prefix)
    ]
    return first + [seen(encoder, n, SIZES[(n + 3) % 6], prefix=False) for n in range(recalled)]


def difference(encoder: QwenEncoder, plain: PlainQwen, question: str, frames: object) -> float:
    ours = encoder.encode(question, frames).vector  # type: ignore[arg-type]
    return float(np.abs(ours - plain.embedding(question, frames)).max())  # type: ignore[arg-type]


def test_first_question(encoder: QwenEncoder, plain: PlainQwen) -> None:
    assert difference(encoder, plain, QUESTION, frames_of(encoder)) < TOLERANCE


def test_next_question_on_the_kept_prefix(encoder: QwenEncoder, plain: PlainQwen) -> None:
    frames = frames_of(encoder)
    encoder.encode(QUESTION, frames)
    assert difference(encoder, plain, OTHER, frames) < TOLERANCE


def test_stored_features_in_place_of_the_picture(encoder: QwenEncoder, plain: PlainQwen) -> None:
    frames = frames_of(encoder)
    stored = [
        MemoryFrame(f.record, FrameFeatures.from_bytes(f.features.to_bytes()), f.picture, f.prefix)
        for f in frames
    ]
    ours = encoder.encode(QUESTION, stored).vector
    assert np.abs(ours - plain.embedding(QUESTION, frames)).max() < TOLERANCE


def test_a_frame_appended(encoder: QwenEncoder, plain: PlainQwen) -> None:
    frames = frames_of(encoder, recalled=0)
    encoder.encode(QUESTION, frames[:-1])
    assert difference(encoder, plain, QUESTION, frames) < TOLERANCE


def test_a_frame_evicted(encoder: QwenEncoder, plain: PlainQwen) -> None:
    frames = frames_of(encoder, recalled=0)
    encoder.encode(QUESTION, frames)
    assert difference(encoder, plain, QUESTION, frames[:1] + frames[2:]) < TOLERANCE


def test_other_frames_recalled(encoder: QwenEncoder, plain: PlainQwen) -> None:
    frames = frames_of(encoder, recalled=3)
    encoder.encode(QUESTION, frames[:5])
    assert difference(encoder, plain, QUESTION, frames[:4] + frames[5:]) < TOLERANCE


def test_eager_attention(folder: Path) -> None:
    encoder = load(folder, attention="eager")
    plain = PlainQwen(folder, attention="eager")
    assert difference(encoder, plain, QUESTION, frames_of(encoder)) < TOLERANCE


def test_bfloat16_has_the_same_direction(folder: Path) -> None:
    encoder, plain = load(folder, dtype="auto"), PlainQwen(folder, "bfloat16")
    assert encoder.fingerprint()["dtype"] == "bfloat16"
    frames = frames_of(encoder)
    for question in (QUESTION, OTHER):
        ours, theirs = encoder.encode(question, frames).vector, plain.embedding(question, frames)
        cosine = ours @ theirs / np.linalg.norm(ours) / np.linalg.norm(theirs)
        assert cosine >= 0.999


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_kept_states_are_those_of_reading_anew_to_the_last_bit(folder: Path, dtype: str) -> None:
    """Whatever was read before, in whatever order it grew."""
    encoder, fresh = load(folder, dtype=dtype), load(folder, dtype=dtype)
    frames = frames_of(encoder, prefix=5, recalled=2)
    for end in (1, 2, 4):
        encoder.encode(OTHER, frames[:end])
    encoder.encode(OTHER, frames[:3] + frames[5:])
    encoder.answer(OTHER, frames, max_tokens=4)
    grown, anew = encoder.encode(QUESTION, frames), fresh.encode(QUESTION, frames)
    np.testing.assert_array_equal(grown.vector, anew.vector)
    np.testing.assert_array_equal(grown.relevance, anew.relevance)


def test_room_that_grows_keeps_what_it_held(
    folder: Path, plain: PlainQwen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("semflip_core.encoders.qwen2_5_vl.prefix_cache.BLOCK_TOKENS", 16)
    encoder = load(folder, max_question_tokens=64)
    frames = frames_of(encoder, prefix=5, recalled=0)
    rooms = set()
    for end in range(1, 6):
        assert difference(encoder, plain, QUESTION, frames[:end]) < TOLERANCE
        rooms.add(encoder.cached_bytes)
    assert len(rooms) > 2


def test_bfloat16_features_are_stored_exactly(folder: Path) -> None:
    import torch

    encoder, plain = load(folder, dtype="bfloat16"), PlainQwen(folder, "bfloat16")
    frame = seen(encoder, 3)
    inputs = plain.inputs(QUESTION, [frame])
    with torch.inference_mode():
        tower = plain.model.model.get_image_features(
            inputs["pixel_values"], inputs["image_grid_thw"]
        ).pooler_output[0]
    assert frame.features.arrays["tokens"].dtype == np.uint16
    bits = tower.view(torch.int16).numpy().view(np.uint16)
    np.testing.assert_array_equal(frame.features.arrays["tokens"], bits)


def test_hidden_states_of_earlier_layers_are_joined(folder: Path, plain: PlainQwen) -> None:
    encoder = load(folder, layers=[1, -2, -1])
    frames = frames_of(encoder)
    output = plain.forward(QUESTION, frames, output_hidden_states=True)
    wanted = [output.hidden_states[layer][0, -1].numpy() for layer in (1, -2, -1)]
    vector = encoder.encode(QUESTION, frames).vector
    assert encoder.dimension == vector.size == 3 * 64
    np.testing.assert_allclose(vector, np.concatenate(wanted), atol=TOLERANCE)


def test_relevance_is_the_attention_that_the_layers_computed(folder: Path) -> None:
    encoder = load(folder, relevance_layers=[1, 3])
    frames = frames_of(encoder)
    eager = PlainQwen(folder, attention="eager")
    maps = eager.forward(QUESTION, frames, output_attentions=True).attentions
    to_tokens = np.mean([maps[layer][0, :, -1].mean(dim=0).numpy() for layer in (1, 3)], axis=0)
    ids = eager.inputs(QUESTION, frames)["input_ids"][0].numpy()
    image = ids == eager.model.config.image_token_id
    starts = np.flatnonzero(image & ~np.roll(image, 1))
    ends = np.flatnonzero(image & ~np.roll(image, -1)) + 1
    means = np.array([to_tokens[a:b].mean() for a, b in zip(starts, ends, strict=True)])
    relevance = encoder.encode(QUESTION, frames).relevance
    np.testing.assert_allclose(relevance, means / means.sum(), atol=1e-5)


def test_the_model_keeps_no_positions_of_its_own(encoder: QwenEncoder) -> None:
    """``rope_deltas`` on the model is neither needed nor touched."""
    encoder._model.model.rope_deltas = "left by someone else"
    frames = frames_of(encoder)
    first = encoder.encode(QUESTION, frames).vector
    encoder.answer(OTHER, frames, max_tokens=3)
    assert encoder._model.model.rope_deltas == "left by someone else"
    encoder._model.model.rope_deltas = None
    np.testing.assert_array_equal(encoder.encode(QUESTION, frames).vector, first)


def test_every_pass_is_a_single_unpadded_sequence(encoder: QwenEncoder) -> None:
    """The trap: hidden states of a padded batch differ; offline and robot read alike, one by one.

    Nor is any picture part of a video, which would merge two of them into one token.
    """
    shapes, kinds = [], set()

    def note(_: object, __: object, given: dict[str, object]) -> None:
        ids = given["input_ids"]
        shapes.append(tuple(ids.shape))  # type: ignore[attr-defined]
        kinds.update(ids.ravel().tolist())  # type: ignore[attr-defined]
        assert given.get("attention_mask") is None
        assert given.get("pixel_values_videos") is None

    with encoder._model.model.register_forward_pre_hook(note, with_kwargs=True):
        encoder.encode(QUESTION, frames_of(encoder))
    assert len(shapes) == 1 + 6 + 1
    assert {batch for batch, _ in shapes} == {1}
    config = encoder._model.config
    assert config.image_token_id in kinds and config.video_token_id not in kinds


def test_the_kept_states_do_not_depend_on_what_crop_means(
    encoder: QwenEncoder, plain: PlainQwen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trap: ``crop`` took a length and takes a negative count since transformers 5.20."""
    from transformers import cache_utils

    def crop(*_: object) -> None:
        raise AssertionError("crop was called")

    for kind in (cache_utils.DynamicLayer, cache_utils.DynamicCache, cache_utils.Cache):
        monkeypatch.setattr(kind, "crop", crop)
    frames = frames_of(encoder)
    encoder.encode(QUESTION, frames)
    encoder.answer(OTHER, frames, max_tokens=3)
    assert difference(encoder, plain, OTHER, frames[:4]) < TOLERANCE


def test_without_token_types_transformers_itself_would_be_wrong(
    encoder: QwenEncoder, plain: PlainQwen
) -> None:
    """The trap: ``mm_token_type_ids`` left out gives sequential positions and no error."""
    import torch

    frames = frames_of(encoder)
    inputs = plain.inputs(QUESTION, frames)
    del inputs["mm_token_type_ids"]
    plain.model.model.rope_deltas = None
    with torch.inference_mode():
        wrong = plain.model.model(**inputs, use_cache=False).last_hidden_state[0, -1].numpy()
    assert np.abs(encoder.encode(QUESTION, frames).vector - wrong).max() > 100 * TOLERANCE


def test_features_of_another_dtype_or_encoder_are_refused(
    encoder: QwenEncoder, folder: Path
) -> None:
    foreign = seen(load(folder, dtype="bfloat16"), 1)
    with pytest.raises(EncoderError, match="made again"):
        encoder.encode(QUESTION, [foreign])
    nothing = MemoryFrame(foreign.record, FrameFeatures({}), foreign.picture)
    with pytest.raises(EncoderError, match="not qwen2_5_vl's"):
        encoder.encode(QUESTION, [nothing])


def test_more_frames_than_fit_are_an_error_that_says_so(folder: Path) -> None:
    encoder = load(folder, max_sequence_tokens=400)
    with pytest.raises(EncoderError, match="recall.recalled_frames"):
        encoder.encode(QUESTION, frames_of(encoder))
