"""The production adapters on tiny random checkpoints in the real formats."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
from safetensors.torch import load_file, save_file

from semflip_core.errors import AssetError
from semflip_train.synthesis.detect import View, strongest
from semflip_train.synthesis.grounding_dino import GroundingDino
from semflip_train.synthesis.inpaint import load_inpainter
from semflip_train.synthesis.instruct import Instruct, parse_reply, prompt_template
from semflip_train.synthesis.qflip import Request
from semflip_train.synthesis.samples import STRATEGIES
from support.synthesis import query, room
from support.tiny_models import tiny_chat_model, tiny_grounding_dino, tiny_lama


@pytest.fixture(scope="module")
def chat(tmp_path_factory):
    return tiny_chat_model(tmp_path_factory.mktemp("chat"))


@pytest.fixture
def own_chat(chat, tmp_path):
    """A copy of the chat model that may be broken."""
    return shutil.copytree(chat, tmp_path / "copy")


@pytest.fixture(scope="module")
def dino(tmp_path_factory):
    return GroundingDino(
        str(tiny_grounding_dino(tmp_path_factory.mktemp("dino"))), short_side=96, batch=2
    )


REQUESTS = [
    Request(query("q1", "Where is the red lamp?", "red lamp"), "object", [], 0, ("sofa", "chair")),
    Request(query("q2", "Is the sofa on the table?", "sofa"), "relation", []),
]


def test_prompts_name_question_referent_and_what_is_there(chat):
    text = Instruct(str(chat)).prompt(REQUESTS[0])
    assert text.startswith("<|im_start|>user\n")
    assert text.endswith("<|im_start|>assistant\n")
    assert "Question: Where is the red lamp?" in text
    assert "Thing it asks about: red lamp" in text
    assert "really there: sofa, chair" in text


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_has_a_prompt_that_fills(strategy):
    filled = prompt_template(strategy).format(question="Q?", referent="r", here="h")
    assert '{"question": "<the new question>"' in filled


def test_generation_is_batched_bounded_and_the_same_twice(chat):
    model = Instruct(str(chat), tries=3, batch=2, max_tokens=8)
    first = model.propose(REQUESTS)
    # A random model never gives the form asked for: three tries each, all counted.
    assert first == [[], []]
    assert model.counts == {"generated": 6, "unparsed": 6}
    prompts = [model.prompt(r) for r in REQUESTS]
    both = model._generate(prompts, 1)
    assert both == model._generate(prompts, 1)


def test_batched_replies_are_those_of_single_prompts(chat):
    model = Instruct(str(chat), max_tokens=6)
    prompts = [model.prompt(r) for r in REQUESTS]
    assert len(prompts[0]) != len(prompts[1])
    together = model._generate(prompts, 0)
    assert together == [model._generate([p], 0)[0] for p in prompts]


def test_parsed_replies_become_proposals(chat, monkeypatch):
    model = Instruct(str(chat), tries=2, candidates=1)
    replies = {
        0: ["well...", json.dumps({"question": "Is the sofa  under it?", "asks_about": "sofa"})],
        1: [json.dumps({"question": "Where is the drum?", "asks_about": "drum"})],
    }
    monkeypatch.setattr(model, "_generate", lambda prompts, attempt: replies[attempt])
    found = model.propose(REQUESTS)
    assert found[0][0].question == "Where is the drum?"
    assert found[0][0].must_be_absent == "drum"
    assert found[0][0].replaced_words == "red lamp"
    assert found[1][0].question == "Is the sofa under it?"
    assert found[1][0].must_be_absent == ""


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ('{"question": "Where?", "asks_about": "x"}', ("Where?", "x")),
        ('```json\n{"question": "Where?", "asks_about": "x"}\n```', ("Where?", "x")),
        ('Sure! {"question": "Where?", "asks_about": "x"}', None),
        ('{"question": "Where?"}', None),
        ('{"question": 5, "asks_about": "x"}', None),
        ('{"question": " ", "asks_about": "x"}', None),
        ("null", None),
        ("[" * 5000, None),
    ],
)
def test_replies_are_read_strictly(text, parsed):
    assert parse_reply(text) == parsed


def test_pickled_weights_are_never_read(own_chat):
    weights = own_chat / "model.safetensors"
    torch.save(load_file(weights), own_chat / "pytorch_model.bin")
    Instruct(str(own_chat))
    weights.unlink()
    with pytest.raises(AssetError, match="never pickled"):
        Instruct(str(own_chat))


def test_weights_that_transformers_would_draw_at_random_are_an_error(own_chat):
    tensors = load_file(own_chat / "model.safetensors")
    del tensors["model.norm.weight"]
    save_file(tensors, own_chat / "model.safetensors", {"format": "pt"})
    with pytest.raises(AssetError, match=r"missing_keys.*norm\.weight"):
        Instruct(str(own_chat))


def test_a_rewriters_fingerprint_is_its_weights_not_its_place(chat, own_chat):
    first = Instruct(str(chat)).fingerprint()
    assert Instruct(str(own_chat)).fingerprint() == first
    tensors = load_file(own_chat / "model.safetensors")
    tensors["model.norm.weight"][0] += 0.5
    save_file(tensors, own_chat / "model.safetensors", {"format": "pt"})
    changed = Instruct(str(own_chat)).fingerprint()
    assert {name for name in first if first[name] != changed[name]} == {"weights"}


def test_missing_models_name_the_setting(tmp_path):
    with pytest.raises(AssetError, match="rewriter_model"):
        Instruct(str(tmp_path / "nowhere"))
    with pytest.raises(AssetError, match="detector_model"):
        GroundingDino(str(tmp_path / "nowhere"))
    with pytest.raises(AssetError, match="inpainter_model"):
        load_inpainter("lama", model=tmp_path / "nowhere.pt")
    with pytest.raises(AssetError, match="hf download nobody/nothing"):
        Instruct("nobody/nothing")
    (tmp_path / "broken.pt").write_bytes(b"not a module")
    with pytest.raises(AssetError, match="not a TorchScript module"):
        load_inpainter("lama", model=tmp_path / "broken.pt")


def test_grounding_dino_is_asked_in_lower_case_with_a_dot(dino):
    assert dino.prompt("Red fire extinguisher") == "red fire extinguisher."
    ids = dino._tokenizer([dino.prompt("red lamp")])["input_ids"][0]
    words = dino._word_positions(ids)
    assert dino._tokenizer.convert_ids_to_tokens([ids[i] for i in words]) == ["red", "lamp"]


def test_grounding_dino_boxes_are_corners_in_the_picture(dino):
    views = [View(room({"red box": (16, 64)})), View(room({})), View(room({}, size=96))]
    found = dino.detect("red lamp", views)
    assert [len(f) for f in found] == [20, 20, 20]
    for detections in found:
        strengths = [d.strength for d in detections]
        assert strengths == sorted(strengths, reverse=True)
        assert all(0.0 <= s <= 1.0 for s in strengths)
        for d in detections:
            x0, y0, x1, y1 = d.box
            assert 0.0 <= x0 < x1 <= 1.0 and 0.0 <= y0 < y1 <= 1.0
    assert dino.strengths("red lamp", views) == pytest.approx(strongest(found))


def test_grounding_dino_does_as_transformers_own_post_processing(dino):
    """The library's own route on the same pixels: the best box and its score are the same."""
    import torch

    view = View(room({"red box": (16, 64)}))
    best = dino.detect("lamp", [view])[0][0]
    text = dino._tokenizer(["lamp."], return_tensors="pt")
    pixels = torch.from_numpy(dino._pixels([view]))
    mask = torch.ones((1, *pixels.shape[-2:]), dtype=torch.int64)
    with torch.inference_mode():
        out = dino._model(pixel_values=pixels, pixel_mask=mask, **text)
    scores = out.logits[0].sigmoid()[:, 1]  # [CLS] lamp . [SEP]
    index = int(scores.argmax())
    cx, cy, w, h = out.pred_boxes[0, index].tolist()
    assert best.strength == pytest.approx(float(scores[index]), abs=1e-5)
    expected = np.clip([cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2], 0, 1)
    assert best.box == pytest.approx(tuple(expected), abs=1e-4)


def test_pictures_of_other_sizes_do_not_change_a_detection(dino):
    small, wide = View(room({}, size=96)), View(room({"red box": (16, 64)}))
    tall = View(np.concatenate([wide.picture, wide.picture[:40]], axis=0))
    mixed = dino.detect("lamp", [small, tall, tall, wide])
    assert mixed[0] == dino.detect("lamp", [small])[0]
    assert len(mixed) == 4


@pytest.mark.parametrize("size", [(64, 64), (61, 75)])
def test_lama_is_padded_to_eight_and_cropped_back(tmp_path, size):
    lama = load_inpainter("lama", model=tiny_lama(tmp_path / "lama.pt"))
    rgb = np.full((*size, 3), 100, np.uint8)
    rgb[:10] = (200, 20, 20)
    mask = np.zeros(size, bool)
    mask[:10, :20] = True
    filled = lama.fill(rgb, mask)
    assert filled.shape == rgb.shape
    assert (filled[~mask] == rgb[~mask]).all()
    # Filled with the mean of what is left: red strips and grey, never the erased red itself.
    assert (filled[mask].astype(int).max(axis=0) < (200, 200, 200)).all()
    assert filled[mask].std(axis=0).max() == 0
