"""Which frames an encoder gets to see, out of a long memory."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semflip_core.encoders.contract import Retriever
from semflip_core.errors import EncoderError
from semflip_core.frames import FrameFeatures
from semflip_core.memory import VideoMemory
from semflip_core.recall import Recall, RecallChoice, evidence_recall
from semflip_core.recall_index import (
    BLOCK_FRAMES,
    QUERY_SCALE,
    ROW_SCALE,
    RegionIndex,
    standing_for,
    subspace,
)
from semflip_core.settings import MemorySettings, RecallSettings
from support.regions import WORDS_DIGEST, WordRetriever, scene, see, thing, unit

FOUR = RecallSettings(recalled_frames=4)


def recall(memory: VideoMemory, chosen: RecallSettings = FOUR) -> Recall:
    made = Recall(memory, WordRetriever(), chosen)
    made.refresh()
    return made


def test_the_retriever_of_these_tests_keeps_the_contract():
    assert isinstance(WordRetriever(), Retriever)


# What is found.


def test_a_small_thing_in_one_frame_of_thousands_is_found():
    """Forty regions of wall and floor, one of the thing: the average of the frame loses it."""
    memory = VideoMemory()
    rng = np.random.default_rng(1)
    for _ in range(600):
        see(memory, *(f"clutter{k}" for k in rng.integers(0, 200, 2)), x=0.3 * len(memory))
    for name in ("mug", "key", "lamp"):
        see(memory, name, "clutter7", x=0.3 * len(memory))
    for _ in range(200):
        see(memory, *(f"clutter{k}" for k in rng.integers(0, 200, 2)), x=0.3 * len(memory))
    found = recall(memory)
    averages = {
        r.id: unit(memory.features(r.id, WORDS_DIGEST).arrays["v"].mean(axis=0))
        for r in memory.records()
    }
    lost = 0
    for number, name in enumerate(("mug", "key", "lamp")):
        assert 601 + number in found.choose(name).recalled
        by_average = sorted(averages, key=lambda i, name=name: -float(averages[i] @ thing(name)))
        lost += 601 + number not in by_average[:4]
    assert lost >= 2, "one vector a frame would have lost most of them"


def test_the_target_counts_more_than_what_it_is_next_to():
    memory = VideoMemory()
    for k in range(40):
        see(memory, "table", x=5.0 * k)
    mug = see(memory, "mug", x=300.0)
    both = see(memory, "mug", "table", x=310.0)
    for k in range(40):
        see(memory, "table", x=400.0 + 5.0 * k)
    chosen = recall(memory, RecallSettings(recalled_frames=2)).choose("mug table").recalled
    assert chosen == (mug, both)


def test_a_robot_parked_before_the_thing_does_not_crowd_out_another_sight_of_it():
    memory = VideoMemory()
    parked = [see(memory, "mug", x=0.0) for _ in range(100)]
    for k in range(100):
        see(memory, "cup", x=100.0 + k)
    elsewhere = see(memory, "mug", x=50.0)
    for weight in (0.5, 0.0):  # without holding frames back softly, one view still gives way
        chosen = recall(memory, RecallSettings(recalled_frames=4, spread_weight=weight))
        found = chosen.choose("mug").recalled
        assert elsewhere in found
        assert len(set(found) & set(parked)) == 3


def test_without_poses_time_spreads_the_choice():
    memory = VideoMemory()
    for k in range(100):
        see(memory, "mug", stamp_s=1 + 0.02 * k)
    for k in range(100):
        see(memory, "cup", stamp_s=100.0 + k)
    later = see(memory, "mug", stamp_s=500.0)
    assert later in recall(memory).choose("mug").recalled


def test_frames_are_at_least_the_separation_apart():
    memory = VideoMemory()
    for k in range(60):
        see(memory, "mug", stamp_s=1 + 0.5 * k)
    chosen = recall(memory, RecallSettings(recalled_frames=8, min_separation_s=3.0)).choose("mug")
    stamps = [memory.record(i).stamp_ns / 1e9 for i in chosen.recalled]
    assert len(stamps) >= 6 and min(np.diff(stamps)) >= 3.0


def test_a_memory_no_longer_than_the_choice_is_seen_whole_and_in_time_order():
    memory = VideoMemory()
    see(memory, "mug", segment=1, stamp_s=1)
    see(memory, "cup", segment=0, stamp_s=9)
    see(memory, "key", segment=0, stamp_s=5)
    assert recall(memory).choose("key") == RecallChoice((), (3, 2, 1))


def test_an_empty_memory_gives_no_frames():
    assert recall(VideoMemory()).choose("mug") == RecallChoice((), ())


# The same memory and question give the same frames.


def filled(order: random.Random | None, path=None) -> VideoMemory:
    """150 frames whose features are computed in some order."""
    memory = VideoMemory(path)
    rng = np.random.default_rng(5)
    shown = [[f"t{k}" for k in rng.integers(0, 30, 3)] for _ in range(150)]
    ids = [see(memory, x=0.4 * k, encode=False) for k in range(150)]
    todo = list(zip(ids, shown, strict=True))
    if order:
        order.shuffle(todo)
    for keyframe, things in todo:
        memory.put_features(keyframe, WORDS_DIGEST, FrameFeatures({"v": scene(keyframe, *things)}))
    return memory


QUESTIONS = [f"t{k} t{k + 1}" for k in range(0, 28, 3)]


def test_the_order_in_which_features_were_made_does_not_matter():
    expected = [recall(filled(None)).choose(q) for q in QUESTIONS]
    for seed in range(3):
        again = recall(filled(random.Random(seed)))
        assert [again.choose(q) for q in QUESTIONS] == expected


def test_growing_step_by_step_gives_what_starting_afresh_gives():
    grown_memory, whole_memory = VideoMemory(), VideoMemory()
    rng = np.random.default_rng(6)
    grown = Recall(grown_memory, WordRetriever(), RecallSettings(prefix_frames=3))
    for _ in range(120):
        things = [f"t{k}" for k in rng.integers(0, 30, 3)]
        x = float(rng.uniform(0, 20))
        for memory in (grown_memory, whole_memory):
            see(memory, *things, x=x)
        if rng.random() < 0.2:
            gone = [int(rng.choice([r.id for r in whole_memory.records()]))]
            grown_memory.remove(gone)
            whole_memory.remove(gone)
        if rng.random() < 0.3:
            grown.refresh()
    grown.refresh()
    whole = recall(whole_memory, RecallSettings(prefix_frames=3))
    assert [grown.choose(q) for q in QUESTIONS] == [whole.choose(q) for q in QUESTIONS]


def test_a_restart_chooses_the_same_without_encoding_again(tmp_path):
    path = tmp_path / "m.sqlite"
    with filled(None, path) as memory:
        expected = [recall(memory).choose(q) for q in QUESTIONS]
    for read_only in (False, True):
        with VideoMemory(path, read_only=read_only) as memory:
            retriever = WordRetriever()
            again = Recall(memory, retriever, FOUR)
            again.refresh()
            assert [again.choose(q) for q in QUESTIONS] == expected
            assert retriever.encoded == 0


def test_frames_that_are_gone_are_not_chosen_and_new_ones_are():
    memory = VideoMemory()
    first = see(memory, "mug", x=0.0)
    for k in range(10):
        see(memory, "cup", x=10.0 + k)
    made = recall(memory, RecallSettings(recalled_frames=1))
    assert made.choose("mug").recalled == (first,)
    memory.remove([first])
    second = see(memory, "mug", x=50.0)
    made.refresh()
    assert made.choose("mug").recalled == (second,)


def test_a_cleared_memory_is_forgotten():
    memory = VideoMemory()
    see(memory, "mug")
    made = recall(memory)
    memory.clear()
    made.refresh()
    assert made.choose("mug") == RecallChoice((), ())


def test_features_evicted_for_the_budget_are_made_again_where_needed():
    memory = VideoMemory(settings=MemorySettings(max_feature_bytes=1_000_000))
    for k in range(150):
        see(memory, x=float(k), encode=False)
    retriever = WordRetriever()
    for record in memory.records():
        features = retriever.encode_frame(memory.picture(record.id))
        memory.put_features(record.id, WORDS_DIGEST, features)
    assert memory.info().digests[WORDS_DIGEST] < 150
    before = retriever.encoded
    made = Recall(memory, retriever, FOUR)
    made.refresh()
    assert len(made.choose("mug").recalled) == 4
    assert retriever.encoded > before
    assert memory.missing_features(WORDS_DIGEST) == []


# The prefix.


def test_the_prefix_covers_the_memory_and_is_not_recalled_again():
    memory = VideoMemory()
    for k in range(200):
        see(memory, "mug" if k % 2 else "cup", x=0.2 * k)
    made = recall(memory, RecallSettings(prefix_frames=8, recalled_frames=8))
    choices = [made.choose(q) for q in ("mug", "cup", "key")]
    assert len({c.prefix for c in choices}) == 1
    for choice in choices:
        assert len(choice.prefix) == 8 and len(choice.recalled) == 8
        assert not set(choice.prefix) & set(choice.recalled)
    places = sorted(memory.record(i).pose.position[0] for i in choices[0].prefix)
    assert max(np.diff([0.0, *places, 40.0])) < 12.0


def test_prefix_and_recalled_frames_share_out_a_short_memory():
    memory = VideoMemory()
    ids = [see(memory, "mug", x=3.0 * k) for k in range(20)]
    choice = recall(memory, RecallSettings(prefix_frames=8, recalled_frames=16)).choose("mug")
    assert len(choice.prefix) == 8 and len(choice.recalled) == 12
    assert sorted(choice.prefix + choice.recalled) == ids


def test_the_policy_is_named_with_every_number():
    made = recall(VideoMemory(), RecallSettings(recalled_frames=5, prefix_frames=2))
    fingerprint = made.fingerprint()
    assert fingerprint["recalled_frames"] == 5 and fingerprint["prefix_frames"] == 2
    assert set(RecallSettings.model_fields) <= set(fingerprint)
    assert fingerprint["policy"] and fingerprint["version"] >= 1


# The index.


def test_few_dimensions_are_kept_whole_and_many_are_cut_to_what_names_span():
    rng = np.random.default_rng(0)
    assert np.array_equal(subspace(unit(rng.normal(size=(200, 64))), 64), np.eye(64))
    span = np.linalg.qr(rng.normal(size=(384, 20)))[0]
    names = unit(rng.normal(size=(200, 20)) @ span.T)
    basis = subspace(names, 32)
    assert basis.shape == (32, 384)
    np.testing.assert_allclose(basis @ basis.T, np.eye(32), atol=5e-3)
    np.testing.assert_allclose(names @ basis.T @ basis, names, atol=5e-3)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), regions=st.integers(1, 30), count=st.integers(1, 40))
def test_with_as_many_centres_as_regions_every_region_is_found(seed, regions, count):
    rng = np.random.default_rng(seed)
    vectors = unit(rng.normal(size=(regions, 16)))
    rows = standing_for(vectors, np.eye(16, dtype=np.float32), count)
    assert rows.shape == (count, 16) and rows.dtype == np.int8
    best = (rows.astype(np.float32) / ROW_SCALE) @ vectors.T
    if count >= regions:
        assert best.max(axis=0).min() > 0.97
    else:
        assert len({tuple(row) for row in rows.tolist()}) == count


def test_a_region_that_stands_out_keeps_a_centre_of_its_own():
    basis = np.eye(64, dtype=np.float32)
    for seed in range(50):
        rows = standing_for(scene(seed, "mug"), basis, 24).astype(np.float32) / ROW_SCALE
        whole = (scene(seed, "mug") @ thing("mug")).max()
        assert (rows @ thing("mug")).max() == pytest.approx(whole, abs=0.02)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_scores_are_exact_whatever_the_order_of_rows_and_sums(seed):
    rng = np.random.default_rng(seed)
    basis = np.eye(384, dtype=np.float32)[:64]
    frames = {i: standing_for(unit(rng.normal(size=(9, 384))), basis, 3) for i in range(1, 200)}
    phrases = unit(rng.normal(size=(2, 384)))
    found = []
    for _ in range(2):
        order = list(frames)
        rng.shuffle(order)
        index = RegionIndex(basis, 3)
        for keyframe in order:
            index.add(keyframe, frames[keyframe])
        ids, scores = index.scores(phrases)
        assert ids.tolist() == list(frames)
        found.append(scores)
    np.testing.assert_array_equal(found[0], found[1])
    queries = np.rint(basis @ phrases.T * QUERY_SCALE).astype(np.int64)
    for keyframe, rows in frames.items():
        whole = (rows.astype(np.int64) @ queries).max(axis=0)
        expected = whole.astype(np.float32) / np.float32(ROW_SCALE * QUERY_SCALE)
        np.testing.assert_array_equal(found[0][keyframe - 1], expected)


def test_the_index_uses_the_room_of_frames_that_are_gone():
    basis = np.eye(8, dtype=np.float32)
    index = RegionIndex(basis, 2)
    rows = standing_for(basis, basis, 2)
    for keyframe in range(1, 5000):
        index.add(keyframe, rows)
        if keyframe > 100:
            index.remove(keyframe - 100)
    assert len(index) == 100
    assert index.nbytes == BLOCK_FRAMES * 2 * 8


# Retrievers that break their contract, and the measure.


@pytest.mark.parametrize("bad", [np.zeros((0, 8)), np.full((1, 8), np.nan), np.zeros(8)])
def test_unusable_vectors_are_named(bad, monkeypatch):
    memory = VideoMemory()
    see(memory, "mug")
    made = recall(memory)
    monkeypatch.setattr(WordRetriever, "phrase_vectors", lambda *_: bad)
    with pytest.raises(EncoderError, match="'words' gave unusable phrase vectors"):
        made.choose("mug")
    monkeypatch.setattr(WordRetriever, "region_vectors", lambda *_: bad)
    see(memory, "cup")
    with pytest.raises(EncoderError, match="'words' gave unusable region vectors"):
        made.refresh()


def test_evidence_recall_counts_answerable_questions_with_a_visible_frame():
    visible = {"a": [(10, 20)], "b": [(10, 20), (90, 95)], "c": [], "d": [(5, 5)]}
    recalled = {"a": [5, 20], "b": [21, 89], "c": [15], "d": [5]}
    assert evidence_recall(recalled, visible) == pytest.approx(2 / 3)
    assert evidence_recall({}, visible) == 0.0
    assert math.isnan(evidence_recall(recalled, {"c": []}))
