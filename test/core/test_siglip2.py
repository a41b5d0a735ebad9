"""The SigLIP 2 / CLIP encoder on tiny random checkpoints in the hub's format."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch

from semflip_core.agent import RefusalAgent
from semflip_core.decision import Verdict
from semflip_core.encoders import fingerprint_digest, load_encoder
from semflip_core.encoders.siglip2 import SiglipEncoder, regions
from semflip_core.encoders.siglip2.settings import SiglipSettings
from semflip_core.encoders.siglip2.towers import Towers
from semflip_core.errors import EncoderError
from semflip_core.frames import FrameFeatures, Picture
from semflip_core.images import decode_compressed
from semflip_core.memory import VideoMemory
from semflip_core.poses import Pose, quaternion_from_yaw
from semflip_core.settings import DecisionSettings, RecallSettings
from support.colours import room_picture
from support.gates import linear_gate
from support.tiny_siglip import KINDS, tiny_checkpoint


@pytest.fixture(scope="module", params=KINDS)
def towers(request: pytest.FixtureRequest) -> Iterator[Towers]:
    made = Towers(SiglipSettings(model=str(tiny_checkpoint(request.param))))
    yield made
    made.close()


@pytest.fixture(scope="module")
def encoder() -> Iterator[SiglipEncoder]:
    made = load_encoder("siglip2", model=str(tiny_checkpoint()))
    assert isinstance(made, SiglipEncoder)
    yield made
    made.close()


def noise(side: int, seed: int = 0) -> Picture:
    return np.random.default_rng(seed).integers(0, 255, (side, side, 3), dtype=np.uint8)


def read(towers: Towers, picture: Picture) -> dict[str, torch.Tensor]:
    """What transformers' own picture processor makes of a square of the right size."""
    from transformers import AutoImageProcessor

    folder = tiny_checkpoint("naflex" if towers.kind == "siglip2" else towers.kind)
    processor = AutoImageProcessor.from_pretrained(folder, backend="pil")
    return dict(processor(images=picture, return_tensors="pt"))


def unit(rows: torch.Tensor) -> np.ndarray:
    return torch.nn.functional.normalize(rows, dim=-1).detach().numpy()


def test_the_whole_picture_is_what_transformers_makes_of_it(towers: Towers) -> None:
    picture = noise(towers.side)
    _, whole = towers.pictures([picture])
    with torch.no_grad():
        plain = towers._model.get_image_features(**read(towers, picture))
    np.testing.assert_allclose(whole, unit(plain.pooler_output), atol=2e-5)


@pytest.mark.parametrize("text", ["a red chair", "fire extinguisher next to the door"])
def test_a_text_is_what_transformers_makes_of_it(towers: Towers, text: str) -> None:
    padding = {"padding": "max_length", "max_length": 16} if towers.kind != "clip" else {}
    ids = towers._tokenizer([text], return_tensors="pt", truncation=True, **padding)["input_ids"]
    with torch.no_grad():
        plain = towers._model.get_text_features(input_ids=ids)
    np.testing.assert_allclose(towers.texts([text]), unit(plain.pooler_output), atol=2e-5)


def test_a_patch_is_what_the_last_attention_makes_of_it_alone(towers: Towers) -> None:
    """Dense vectors against the model's own attention, masked so that each patch sees itself."""
    picture = noise(towers.side, 1)
    dense, _ = towers.pictures([picture])
    model = towers._model
    tower = model.vision_model
    with torch.no_grad():
        seen = tower(**read(towers, picture), output_hidden_states=True)
        if towers.kind == "clip":
            before = seen.hidden_states[-2]
            count = before.shape[1]
            only = torch.full((count, count), float("-inf")).fill_diagonal_(0.0)[None, None]
            after = tower.encoder.layers[-1](before, only)
            expected = model.visual_projection(tower.post_layernorm(after))[0, 1:]
        else:
            tokens = seen.last_hidden_state
            rows = []
            for number in range(tokens.shape[1]):
                hidden = torch.ones(1, tokens.shape[1], dtype=torch.bool)
                hidden[0, number] = False
                mixed = tower.head.attention(
                    tower.head.probe, tokens, tokens, key_padding_mask=hidden
                )[0]
                rows.append((mixed + tower.head.mlp(tower.head.layernorm(mixed)))[0, 0])
            expected = torch.stack(rows)
    patches = towers.patches
    np.testing.assert_allclose(dense[0].reshape(patches**2, -1), unit(expected), atol=2e-5)


def test_pictures_do_not_depend_on_their_company(towers: Towers) -> None:
    together, _ = towers.pictures([noise(towers.side, 1), noise(towers.side, 2)])
    alone, _ = towers.pictures([noise(towers.side, 2)])
    np.testing.assert_array_equal(together[1], alone[0])


def test_long_texts_are_cut_and_capitals_do_not_count(towers: Towers) -> None:
    assert np.isfinite(towers.texts(["word " * 500])).all()
    np.testing.assert_array_equal(towers.texts(["Red Chair"]), towers.texts(["red chair"]))


@pytest.mark.parametrize(
    ("dimension", "patches"), [(512, 7), (512, 14), (768, 14), (768, 16), (1024, 24), (1152, 27)]
)
def test_features_of_real_models_fit(dimension: int, patches: int) -> None:
    cells = regions.cells_for(dimension, patches, 60_000)
    count = len(regions.region_boxes(cells, 480, 640))
    features = FrameFeatures(
        {
            "regions": np.zeros((count, dimension), np.int8),
            "scale": np.zeros(count, np.float16),
            "colours": np.zeros((count, 11), np.uint8),
            "distractors": np.zeros(200, np.float16),
            "size": np.zeros(2, np.uint16),
        }
    )
    assert len(features.to_bytes()) <= 65_536
    assert cells >= 6


def test_vectors_that_cannot_fit_are_refused() -> None:
    with pytest.raises(EncoderError, match="do not fit feature_bytes 8192"):
        regions.cells_for(4096, 16, 8192)


def test_boxes_and_colours_belong_to_the_same_regions(encoder: SiglipEncoder) -> None:
    picture = np.zeros((120, 240, 3), np.uint8)
    picture[:, 120:] = (220, 20, 20)
    features = encoder.encode_frame(picture)
    boxes = regions.region_boxes(encoder._cells, 120, 240)
    shares = features.arrays["colours"][:, 3] / 255.0  # red
    assert len(boxes) == len(features.arrays["regions"]) == len(shares)
    red = np.clip(boxes[:, 2], 0.5, 1) - np.clip(boxes[:, 0], 0.5, 1)
    np.testing.assert_allclose(shares, red / (boxes[:, 2] - boxes[:, 0]), atol=0.01)
    np.testing.assert_array_equal(boxes[-1], [0, 0, 1, 1])
    np.testing.assert_array_equal(boxes[-3:-1], [[0, 0, 0.5, 1], [0.5, 0, 1, 1]])


def test_bfloat16_is_another_encoder_that_sees_nearly_the_same(encoder: SiglipEncoder) -> None:
    half = load_encoder("siglip2", model=str(tiny_checkpoint()), dtype="bfloat16")
    assert isinstance(half, SiglipEncoder)
    assert half.fingerprint()["dtype"] == "bfloat16"
    picture = noise(160, 4)
    mine = encoder._plain_regions(picture)
    its = half._plain_regions(picture)
    assert (mine * its).sum(axis=1).min() > 0.99
    assert not np.array_equal(mine, its)
    half.close()


def test_features_of_a_memory_are_those_of_its_stored_pictures(encoder: SiglipEncoder) -> None:
    """Live, offline and computed again: the same to the last bit."""
    with VideoMemory() as memory:
        agent = agent_of(memory, encoder)
        drive(memory)
        agent.ask("Where is the red box?")
        digest = fingerprint_digest(encoder.frame_fingerprint())
        assert memory.missing_features(digest) == []
        for record in memory.records():
            kept = memory.features(record.id, digest)
            again = encoder.encode_frame(decode_compressed(memory.encoded_picture(record.id)))
            assert kept is not None and kept.arrays.keys() == again.arrays.keys()
            for name, array in again.arrays.items():
                np.testing.assert_array_equal(array, kept.arrays[name])


def drive(memory: VideoMemory) -> None:
    for number, colour in enumerate(("red", "green", "blue", "yellow")):
        memory.add(
            room_picture(colour, "red", width=160, height=120),
            stamp_ns=(number + 1) * 10**9,
            pose=Pose("map", (2.0 * number, 0.0, 0.0), quaternion_from_yaw(0.0)),
            map_id="house",
        )


def agent_of(memory: VideoMemory, encoder: SiglipEncoder) -> RefusalAgent:
    """An agent whose gate accepts everything; the encoder is its own retriever."""
    parts = {"recall": RecallSettings(recalled_frames=4), "map_id": "house"}
    fingerprint = RefusalAgent(memory, encoder, None, **parts).fingerprint()
    gate = linear_gate(np.zeros(encoder.dimension, np.float32), dict(fingerprint), tau=0.6)
    return RefusalAgent(memory, encoder, gate, decision=DecisionSettings(min_peak=1.0), **parts)


def test_the_agent_answers_on_it(encoder: SiglipEncoder) -> None:
    with VideoMemory() as memory:
        agent = agent_of(memory, encoder)
        drive(memory)
        decision = agent.ask("Where is the red box?")
    assert decision.gate_verdict is Verdict.ANSWER
    assert decision.score == pytest.approx(0.5)
    assert decision.reason is not None or decision.goal is not None
