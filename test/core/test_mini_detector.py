"""The COCO detector and what it says of phrases: where things are, silence where it knows none."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from semflip_core.bags import memory_from_bag
from semflip_core.encoders.mini.backbone import input_size
from semflip_core.encoders.mini.coco_names import KINDS, WORDS
from semflip_core.encoders.mini.colours import COLOURS
from semflip_core.encoders.mini.detector import (
    CLASSES,
    DEFAULT_NETWORK,
    PICTURE_AREA,
    PLACES,
    Detections,
    Detector,
)
from semflip_core.encoders.mini.labels import DIMENSION, LAYOUT, LabelTable, Meaning, reference_of
from semflip_core.encoders.mini.places import colour_share, overlaps
from semflip_core.encoders.mini.projection import ProjectionWeights
from semflip_core.encoders.mini.text import TextEncoder
from semflip_core.errors import EncoderError
from semflip_core.frames import KeyframeRecord, Picture
from semflip_core.memory import VideoMemory
from semflip_core.settings import KeyframeSettings

SAMPLE = Path(__file__).parents[2] / "data" / "sample"


@pytest.fixture(scope="module")
def detector() -> Detector:
    return Detector()


@pytest.fixture(scope="module")
def weights() -> ProjectionWeights:
    return ProjectionWeights.load()


@pytest.fixture(scope="module")
def table(weights: ProjectionWeights) -> LabelTable:
    return LabelTable(weights.centred)


@pytest.fixture(scope="module")
def text() -> TextEncoder:
    return TextEncoder()


@pytest.fixture(scope="module")
def sample() -> Iterator[VideoMemory]:
    with VideoMemory() as memory:
        memory_from_bag(SAMPLE / "sequences" / "train_0", memory, keyframes=KeyframeSettings())
        yield memory


@pytest.fixture(scope="module")
def china() -> Picture:
    datasets = pytest.importorskip("sklearn.datasets")
    return np.asarray(datasets.load_sample_image("china.jpg"), np.uint8)


def named(table: LabelTable, text: TextEncoder, weights: ProjectionWeights, word: str) -> set[str]:
    meaning = table.meaning(weights.centred(text.vectors([word]))[0])
    return {CLASSES[i] for i in np.flatnonzero(meaning.classes)}


def meaning_of(*names: str) -> Meaning:
    classes = np.isin(CLASSES, names)
    return Meaning(classes, 1.0 if classes.any() else 0.0)


def seen(*things: tuple[str, float, tuple[int, int, int, int], str]) -> Detections:
    """A frame that shows things: (class, score, box, colour); everything else scores 0.04."""
    best = np.full(len(CLASSES), 0.04, np.float16)
    where = np.tile(np.array([0, 0, 255, 255], np.uint8), (len(CLASSES), 1))
    colours = np.zeros((len(CLASSES), len(COLOURS)), np.uint8)
    places = sorted(things, key=lambda thing: -thing[1])
    for name, score, box, colour in reversed(places):
        index = CLASSES.index(name)
        best[index], where[index] = score, box
        colours[index] = 0
        colours[index, COLOURS.index(colour)] = 255
    painted = np.zeros((len(places), len(COLOURS)), np.uint8)
    painted[np.arange(len(places)), [COLOURS.index(p[3]) for p in places]] = 255
    return Detections(
        best=best,
        where=where,
        colours=colours,
        rival=np.zeros(len(CLASSES), np.uint8),
        rival_score=np.full(len(CLASSES), 0.04, np.float16),
        classes=np.array([CLASSES.index(p[0]) for p in places], np.uint8),
        scores=np.array([p[1] for p in places], np.float16),
        boxes=np.array([p[2] for p in places], np.uint8).reshape(-1, 4),
        box_colours=painted,
    )


LEFT, RIGHT = (10, 50, 70, 150), (180, 50, 250, 150)
KEYS = np.arange(3)


@pytest.mark.parametrize("name", ["toilet", "sink", "chair"])
def test_it_scores_a_thing_highest_where_the_labels_say_it_is_seen(
    detector: Detector, sample: VideoMemory, name: str
) -> None:
    referent = {"toilet": "loo", "sink": "white pedestal sink", "chair": "desk chair"}[name]
    lines = (SAMPLE / "queries.jsonl").read_text().splitlines()
    queries = (q for q in map(json.loads, lines) if q["sequence"] == "train_0")
    spans = next(q["answer"]["visible"] for q in queries if q["referent"] == referent)
    records = sample.records()
    shown = [r for r in records if any(a <= r.stamp_ns <= b for a, b in spans)]
    hidden = [r for r in records if r not in shown]

    def best(chosen: Sequence[KeyframeRecord]) -> float:
        step = max(1, len(chosen) // 4)
        found = [detector.detect(sample.picture(r.id)) for r in chosen[step // 2 :: step]]
        return max(float(frame.best[CLASSES.index(name)]) for frame in found)

    assert best(shown) > best(hidden) + 0.1


def test_a_picture_half_as_large_shows_the_same_thing_at_the_same_place(
    detector: Detector,
) -> None:
    datasets = pytest.importorskip("sklearn.datasets")
    flower = np.asarray(datasets.load_sample_image("flower.jpg"), np.uint8)
    whole = detector.detect(flower)
    half = detector.detect(np.ascontiguousarray(flower[::2, ::2]))
    first = int(whole.best.argmax())
    assert first == int(half.best.argmax())
    assert np.abs(whole.where[first].astype(int) - half.where[first]).max() < 20
    x0, y0, x1, y1 = whole.where[first] / 255  # a tall blossom left of the middle
    assert x0 < 0.35 < 0.6 < x1 < 0.8
    assert y0 < 0.3 < 0.7 < y1


def test_places_are_the_strongest_first_and_within_the_best_of_their_class(
    detector: Detector, china: Picture
) -> None:
    found = detector.detect(china)
    assert 0 < len(found.classes) <= PLACES
    assert (np.diff(found.scores) <= 0).all()
    assert (found.scores <= found.best[found.classes]).all()
    assert (found.boxes[:, :2] <= found.boxes[:, 2:]).all()
    assert found.scores[0] == found.best.max()
    assert (found.rival != np.arange(len(CLASSES))).all()


def test_a_frame_takes_few_bytes_and_comes_back_whole(detector: Detector, china: Picture) -> None:
    found = detector.detect(china)
    arrays = found.arrays()
    assert sum(array.nbytes for array in arrays.values()) < 2600
    back = Detections.from_arrays({**arrays, "projected": np.zeros(3)})
    assert all((back.arrays()[name] == array).all() for name, array in arrays.items())
    del arrays["coco_best"]
    with pytest.raises(EncoderError, match="coco_best"):
        Detections.from_arrays(arrays)


def test_colours_are_those_inside_the_box(detector: Detector, china: Picture) -> None:
    red = np.zeros_like(china)
    red[..., 0] = 200
    found = detector.detect(red)
    assert (found.colours[:, COLOURS.index("red")] == 255).all()


@pytest.mark.parametrize("shape", [(1, 4000), (15, 200)])
def test_pictures_too_thin_to_see_anything_are_refused(
    detector: Detector, shape: tuple[int, int]
) -> None:
    with pytest.raises(EncoderError, match="at least 16"):
        detector.detect(np.zeros((*shape, 3), np.uint8))


def test_grey_pictures_are_refused(detector: Detector) -> None:
    with pytest.raises(EncoderError, match="expected"):
        detector.detect(np.zeros((64, 64), np.uint8))  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [(480, 640), (1080, 1920), (640, 480), (16, 4000)])
def test_all_pictures_cost_about_the_same(shape: tuple[int, int]) -> None:
    height, width = input_size(*shape, PICTURE_AREA)
    assert height % 32 == width % 32 == 0
    assert 0.85 < height * width / PICTURE_AREA < 1.15


def test_a_missing_or_damaged_network_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match="detector_convert"):
        Detector(tmp_path / "none.onnx")
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(DEFAULT_NETWORK.read_bytes()[:50000])
    with pytest.raises(EncoderError, match="broken"):
        Detector(broken)


@pytest.mark.parametrize(
    ("word", "classes"),
    [
        ("sofa", {"couch"}),
        ("dog", {"dog"}),
        ("rucksack", {"backpack"}),
        ("television", {"tv"}),
        ("fridge", {"refrigerator"}),
        ("woman", {"person"}),
        ("stuffed bear", {"teddy bear"}),
        ("animal", set(KINDS["animal"])),
        ("fire extinguisher", set()),
        ("ladder", set()),
        ("tv cabinet", set()),
        ("washing machine", set()),
        ("idea", set()),
    ],
)
def test_words_name_the_classes_people_mean(
    table: LabelTable,
    text: TextEncoder,
    weights: ProjectionWeights,
    word: str,
    classes: set[str],
) -> None:
    assert named(table, text, weights, word) == classes


@pytest.mark.parametrize(
    ("word", "narrower"),
    [("chair", False), ("sofa", False), ("armchair", True), ("desk", True), ("vehicle", False)],
)
def test_a_word_for_some_things_of_a_class_says_so(
    table: LabelTable, text: TextEncoder, weights: ProjectionWeights, word: str, narrower: bool
) -> None:
    assert table.meaning(weights.centred(text.vectors([word]))[0]).narrower == narrower


def test_the_fullest_phrase_that_is_a_word_counts(
    table: LabelTable, text: TextEncoder, weights: ProjectionWeights
) -> None:
    for full, head, wanted in (
        ("stuffed bear", "bear", "teddy bear"),
        ("old brown bear here", "bear", "bear"),
    ):
        meaning = table.meaning(*weights.centred(text.vectors([full, head])))
        assert np.flatnonzero(meaning.classes).tolist() == [CLASSES.index(wanted)]


def test_every_class_names_itself_alone_or_with_what_shares_its_word() -> None:
    assert all(WORDS[name] == name for name in CLASSES)
    assert set(WORDS.values()) == set(CLASSES)
    assert all(members <= set(CLASSES) for members in KINDS.values())


def test_what_is_seen_scores_above_what_is_not_and_says_where(table: LabelTable) -> None:
    frames = [seen(), seen(("dog", 0.8, RIGHT, "black")), seen(("dog", 0.3, LEFT, "black"))]
    present = table.evidence([meaning_of("dog")], frames, KEYS)
    absent = table.evidence([meaning_of("cat")], frames, KEYS)
    assert present.vector.shape == (DIMENSION,)
    assert present.vector[0] == absent.vector[0] == 1
    assert (present.vector[2:9] > absent.vector[2:9]).all()
    assert present.support.argmax() == 1
    assert present.boxes[1] == pytest.approx(np.array(RIGHT) / 255)


def test_a_phrase_that_names_no_class_says_so_and_nothing_else(table: LabelTable) -> None:
    found = table.evidence(
        [meaning_of()], [seen(("dog", 0.8, LEFT, "black"))], KEYS[:1], COLOURS.index("red")
    )
    assert not found.vector.any()
    assert not found.support.any()


def test_the_order_of_frames_does_not_matter(table: LabelTable) -> None:
    frames = [seen(("cup", 0.2, LEFT, "red")), seen(), seen(("cup", 0.6, RIGHT, "blue"))]
    meanings = [meaning_of("cup"), meaning_of("dining table")]
    one = table.evidence(meanings, frames, KEYS, 3)
    other = table.evidence(meanings, frames[::-1], KEYS[::-1], 3)
    assert one.vector == pytest.approx(other.vector)
    assert one.support == pytest.approx(other.support[::-1])


def test_a_colour_is_looked_for_at_the_things_own_places(table: LabelTable) -> None:
    frames = [seen(("chair", 0.7, LEFT, "black"), ("chair", 0.6, RIGHT, "red"))]
    red, blue = (
        table.evidence([meaning_of("chair")], frames, KEYS[:1], COLOURS.index(name)).vector[
            LAYOUT["colour"]
        ]
        for name in ("red", "blue")
    )
    assert red == pytest.approx([1, 1, 0])
    assert blue == pytest.approx([1, 0, 0])


def test_the_colour_is_that_of_the_place_on_the_matching_region() -> None:
    frame = seen(("chair", 0.7, LEFT, "black"), ("couch", 0.6, RIGHT, "red"))
    regions = np.array([LEFT, RIGHT, (0, 0, 255, 255)], np.float32) / 255
    red = COLOURS.index("red")
    on_left, on_right = (
        colour_share(frame, regions, np.array(z, np.float32), red) for z in ((9, 0, 0), (0, 9, 0))
    )
    assert on_left == pytest.approx(0, abs=0.01)
    assert on_right == pytest.approx(1, abs=0.01)


def test_without_a_place_on_any_region_no_colour_is_told() -> None:
    corner = np.array([[0.9, 0.9, 1, 1]], np.float32)
    for frame in (seen(), seen(("chair", 0.7, LEFT, "black"))):
        assert colour_share(frame, corner, np.ones(1, np.float32), 0) is None


def test_overlap_is_that_of_areas() -> None:
    boxes = np.array([(0, 0, 1, 1), (0, 0, 0.5, 1), (0.5, 0, 1, 1)], np.float32)
    expected = [[1, 0.5, 0.5], [0.5, 1, 0], [0.5, 0, 1]]
    assert overlaps(boxes, boxes) == pytest.approx(np.array(expected))


def test_two_that_fit_are_told_from_one(table: LabelTable) -> None:
    one = [seen(("chair", 0.7, LEFT, "black"))]
    two = [seen(("chair", 0.7, LEFT, "black"), ("chair", 0.6, RIGHT, "red"))]
    counts = [
        table.evidence([meaning_of("chair")], frames, KEYS[:1]).vector[10] for frames in (one, two)
    ]
    assert counts == [0, 1]


def test_target_and_place_are_seen_together_or_not(table: LabelTable) -> None:
    meanings = [meaning_of("cup"), meaning_of("dining table")]
    cup, desk = ("cup", 0.7, LEFT, "red"), ("dining table", 0.7, RIGHT, "brown")
    together = table.evidence(meanings, [seen(cup, desk), seen()], KEYS[:2]).vector[LAYOUT["pair"]]
    apart = table.evidence(meanings, [seen(cup), seen(desk)], KEYS[:2]).vector[LAYOUT["pair"]]
    assert together[0] == apart[0] == 1
    assert together[1] > apart[1] + 1
    assert together[2] == pytest.approx((215 - 40) / 255, abs=0.01)


def test_a_few_pictures_that_show_a_class_do_not_move_the_reference() -> None:
    plain = [seen() for _ in range(9)]
    mean, spread = reference_of([*plain, seen(("dog", 0.9, LEFT, "black"))])
    usual, narrow = reference_of(plain)
    assert mean == pytest.approx(usual)
    assert spread == pytest.approx(narrow)


def test_labels_of_other_words_are_refused(tmp_path: Path, weights: ProjectionWeights) -> None:
    from safetensors.numpy import save_file

    file = tmp_path / "labels.safetensors"
    with pytest.raises(EncoderError, match="no such labels"):
        LabelTable(weights.centred, file)
    save_file({"words": np.zeros((3, 384), np.float16)}, file)
    with pytest.raises(EncoderError, match="other words"):
        LabelTable(weights.centred, file)
