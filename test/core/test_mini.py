"""mini on real pictures and odd ones: what it finds, what it stores, what it never does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from semflip_core.encoders.mini import MiniEncoder, assets
from semflip_core.encoders.mini.backbone import PICTURE_AREA, input_size
from semflip_core.encoders.mini.colours import COLOURS, region_colours
from semflip_core.encoders.mini.conse import conse_vectors, top_classes
from semflip_core.encoders.mini.projection import DEFAULT_WEIGHTS, ProjectionWeights
from semflip_core.encoders.mini.regions import averages, boxes, windows
from semflip_core.errors import AssetError, EncoderError, MissingExtraError
from semflip_core.frames import KeyframeRecord, MemoryFrame, Picture


@pytest.fixture(scope="module")
def mini() -> Iterator[MiniEncoder]:
    encoder = MiniEncoder()
    yield encoder
    encoder.close()


@pytest.fixture(scope="module")
def photographs() -> dict[str, Picture]:
    datasets = pytest.importorskip("sklearn.datasets")
    return {
        name: np.asarray(datasets.load_sample_image(f"{name}.jpg"), np.uint8)
        for name in ("flower", "china")
    }


def memory(encoder: MiniEncoder, pictures: list[Picture]) -> list[MemoryFrame]:
    return [
        MemoryFrame(
            KeyframeRecord(n + 1, n, None, "map", 0, p.shape[1], p.shape[0]),
            encoder.encode_frame(p),
            lambda p=p: p,  # type: ignore[misc]
        )
        for n, p in enumerate(pictures)
    ]


def blocks(colour: tuple[int, int, int]) -> Picture:
    """A grey room with one block of a colour right of the middle."""
    picture = np.full((480, 640, 3), 150, np.uint8)
    picture[300:] = 110
    picture[160:352, 384:576] = colour
    return picture


@pytest.mark.parametrize(
    ("question", "wanted"),
    [
        ("Where are the flowers?", "flower"),
        ("a blossom", "flower"),
        ("Where is the temple?", "china"),
        ("take me to the palace", "china"),
    ],
)
def test_photographs_are_told_apart(
    mini: MiniEncoder, photographs: dict[str, Picture], question: str, wanted: str
) -> None:
    names = list(photographs)
    joint = mini.encode(question, memory(mini, [photographs[n] for n in names]))
    assert names[int(joint.relevance.argmax())] == wanted


def test_a_colour_asked_for_chooses_the_frame_and_the_place(mini: MiniEncoder) -> None:
    frames = memory(mini, [blocks((30, 60, 190)), blocks((200, 30, 30)), blocks((40, 150, 60))])
    for question, best in (("the red box", 1), ("the blue box", 0), ("the green box", 2)):
        assert int(mini.encode(question, frames).relevance.argmax()) == best


def test_the_detector_speaks_only_of_what_it_knows_and_of_colours(mini: MiniEncoder) -> None:
    frames = memory(mini, [blocks((200, 30, 30)), blocks((30, 60, 190))])
    where = mini.layout["beside"]
    known = mini.encode("Where is the couch?", frames).vector[where]
    unknown = mini.encode("Where is the fire extinguisher?", frames).vector[where]
    coloured = mini.encode("Where is the red fire extinguisher?", frames).vector[where]
    assert known[0] == 1.0 and np.abs(known[1:]).max() > 0.1
    assert not unknown[:13].any() and unknown[-1] == 0.0
    assert 0.0 < coloured[-1] <= 1.0
    assert not coloured[:13].any()


def test_order_of_frames_changes_nothing_but_the_order(mini: MiniEncoder) -> None:
    frames = memory(mini, [blocks((200, 30, 30)), blocks((30, 60, 190)), blocks((250, 250, 250))])
    one, two = mini.encode("the red box", frames), mini.encode("the red box", frames[::-1])
    np.testing.assert_allclose(one.vector, two.vector, atol=1e-6)
    np.testing.assert_allclose(one.relevance, two.relevance[::-1], rtol=1e-6)


def test_a_keyframe_keeps_at_most_64_kb(mini: MiniEncoder) -> None:
    for size in ((480, 640), (720, 1280), (1000, 700), (512, 512), (40, 400)):
        features = mini.encode_frame(np.full((*size, 3), 90, np.uint8))
        assert len(features.to_bytes()) <= 64_000


def test_features_of_another_encoder_are_refused(mini: MiniEncoder) -> None:
    frame = memory(mini, [blocks((1, 2, 3))])[0]
    arrays = dict(frame.features.arrays)
    del arrays["projected"]
    with pytest.raises(EncoderError, match="not mini's"):
        mini.encode(
            "sofa", [MemoryFrame(frame.record, type(frame.features)(arrays), frame.picture)]
        )


@pytest.mark.parametrize("shape", [(21, 28), (28, 21), (15, 20), (12, 12)])
def test_regions_cover_the_picture_and_average_their_cells(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    grid = rng.normal(size=(*shape, 5)).astype(np.float32)
    seen = np.zeros(shape, int)
    assert len(windows(*shape)) == (128 if shape != (12, 12) else 62)
    for (r0, c0, r1, c1), mean in zip(windows(*shape), averages(grid), strict=True):
        np.testing.assert_allclose(mean, grid[r0:r1, c0:c1].mean(axis=(0, 1)), atol=1e-5)
        seen[r0:r1, c0:c1] += 1
    assert seen.min() >= 3
    found = boxes(*shape)
    assert found.min() == 0.0
    assert found.max() == 1.0


@pytest.mark.parametrize(
    "size", [(480, 640), (640, 480), (720, 1280), (100, 100), (16, 4000), (3000, 20), (17, 17)]
)
def test_any_picture_is_scaled_to_about_the_same_area(size: tuple[int, int]) -> None:
    height, width = input_size(*size)
    assert height % 32 == width % 32 == 0
    assert 0.9 < height * width / PICTURE_AREA < 1.1


@pytest.mark.parametrize(
    ("name", "rgb"),
    [
        ("red", (190, 30, 35)),
        ("green", (40, 140, 60)),
        ("blue", (40, 70, 180)),
        ("yellow", (230, 210, 40)),
        ("orange", (240, 130, 30)),
        ("brown", (110, 70, 40)),
        ("black", (15, 15, 15)),
        ("white", (245, 245, 245)),
        ("grey", (128, 128, 130)),
        ("pink", (240, 150, 170)),
        ("purple", (110, 40, 150)),
    ],
)
def test_colours_have_their_names(name: str, rgb: tuple[int, int, int]) -> None:
    shares = region_colours(np.tile(np.array(rgb, np.uint8), (96, 96, 1)))
    assert COLOURS[int(shares[-1].argmax())] == name
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, atol=1e-5)


def test_conse_is_the_weighted_mean_of_the_likely_labels() -> None:
    labels = np.eye(1000, 16, dtype=np.float32)
    logits = np.full((1, 1000), -50, np.float32)
    logits[0, [3, 5]] = [np.log(3.0), 0.0]
    classes, probabilities = top_classes(logits)
    assert classes[0, :2].tolist() == [3, 5]
    vector = conse_vectors(classes, probabilities, labels)[0]
    np.testing.assert_allclose(vector[3] / vector[5], 3.0, rtol=2e-3)


def test_damaged_weights_are_named(tmp_path: Path) -> None:
    weights = ProjectionWeights.load()
    with pytest.raises(EncoderError, match="no such weights"):
        ProjectionWeights.load(tmp_path / "none.safetensors")
    cut = tmp_path / "cut.safetensors"
    cut.write_bytes(DEFAULT_WEIGHTS.read_bytes()[:5000])
    with pytest.raises(EncoderError, match="not a readable safetensors file"):
        ProjectionWeights.load(cut)
    lacking = {k: v for k, v in weights.tensors.items() if k != "labels"}
    ProjectionWeights(lacking, weights.header).save(tmp_path / "lacking.safetensors")
    with pytest.raises(EncoderError, match="lacks the tensor 'labels'"):
        ProjectionWeights.load(tmp_path / "lacking.safetensors")
    poisoned = dict(weights.tensors) | {"mlp.bias2": weights["mlp.bias2"] * np.nan}
    ProjectionWeights(poisoned, weights.header).save(tmp_path / "nan.safetensors")
    with pytest.raises(EncoderError, match=r"'mlp\.bias2' holds NaN"):
        MiniEncoder(tmp_path / "nan.safetensors")


def test_other_weights_are_another_fingerprint(mini: MiniEncoder, tmp_path: Path) -> None:
    weights = ProjectionWeights.load()
    changed = dict(weights.tensors) | {"mlp.bias2": weights["mlp.bias2"] + 0.5}
    path = tmp_path / "other.safetensors"
    ProjectionWeights(changed, weights.header).save(path)
    other = MiniEncoder(path)
    assert other.fingerprint()["weights"] != mini.fingerprint()["weights"]
    assert other.frame_fingerprint() != mini.frame_fingerprint()
    assert DEFAULT_WEIGHTS.stat().st_size < 10_000_000


def test_a_wrong_or_missing_packaged_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "fake_weights_package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "w.bin").write_bytes(b"not the weights")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(AssetError, match="is not the expected"):
        assets.checked_bytes(("fake_weights_package", "w.bin", "0" * 64), "a test")
    with pytest.raises(AssetError, match="missing from the package"):
        assets.packaged_file(("fake_weights_package", "x.bin", ""), "a test")
    with pytest.raises(MissingExtraError, match=r"semflip\[cpu\]"):
        assets.packaged_file(("no_such_package", "x.bin", ""), "a test")


def test_a_cache_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    monkeypatch.setenv(assets.CACHE_VARIABLE, str(blocked / "cache"))
    with pytest.raises(AssetError, match="SEMFLIP_CACHE"):
        assets.cached_file("x", lambda path: None)


def test_a_conversion_that_breaks_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(assets.CACHE_VARIABLE, str(tmp_path))

    def breaks(path: Path) -> None:
        path.write_bytes(b"half")
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        assets.cached_file("x", breaks)
    assert list(tmp_path.iterdir()) == []


FIRST_START = """
from semflip_core.encoders.mini.backbone import Backbone
import numpy as np
print(float(Backbone(1).grid(np.full((96, 96, 3), 90, np.uint8)).sum()))
"""

OFFLINE = """
import socket, sys
def refuse(*a, **k): raise OSError("the network was touched")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
sys.modules["torch"] = sys.modules["transformers"] = None  # importing either fails from here on
import numpy as np
from semflip_core.encoders import load_encoder
from semflip_core.frames import KeyframeRecord, MemoryFrame
encoder = load_encoder("mini")
picture = np.full((120, 160, 3), 90, np.uint8)
frame = MemoryFrame(KeyframeRecord(1, 1, None, "m", 0, 160, 120), encoder.encode_frame(picture),
                    lambda: picture)
encoder.encode("where is the sofa", [frame])
print("hub:", "huggingface_hub" in sys.modules)
"""


def run(code: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, **environment, "OMP_NUM_THREADS": "1"},
    )


def test_two_first_starts_at_once_both_work(tmp_path: Path) -> None:
    both = [run(FIRST_START, SEMFLIP_CACHE=str(tmp_path)) for _ in range(2)]
    results = [process.communicate(timeout=150) for process in both]
    assert [p.returncode for p in both] == [0, 0], results
    assert results[0][0] == results[1][0]
    assert [f.suffix for f in tmp_path.iterdir()] == [".onnx"]


def test_works_without_network_torch_or_transformers(mini: MiniEncoder) -> None:
    process = run(OFFLINE)
    out, err = process.communicate(timeout=150)
    assert process.returncode == 0, err
    assert out.strip() == "hub: False"


def test_words_are_looked_for_where_they_were_moved_to_and_compared_where_they_were(
    mini: MiniEncoder,
) -> None:
    names = ["table lamp", "reading lamp", "fire extinguisher"]
    seen, meant = mini.name_vectors(names), mini.meanings(names)
    assert ((seen * meant).sum(axis=1) < 0.98).all()
    for name, moved, meaning in zip(names, seen, meant, strict=True):
        (target,) = mini.phrase_vectors(f"Where is the {name}?")
        view = mini._phrase_view(mini.parse(f"Where is the {name}?").phrases[0])
        np.testing.assert_allclose(target, moved, atol=1e-3)
        np.testing.assert_allclose(view.full[0], moved, atol=1e-3)
        np.testing.assert_allclose(view.full[1], meaning, atol=1e-3)
        np.testing.assert_allclose(view.meanings[0], meaning, atol=1e-3)


def test_levels_lie_in_each_space_where_its_phrases_do(mini: MiniEncoder) -> None:
    trained, plain = (space.levels for space in mini._spaces)
    assert trained is not None and plain is not None
    meant = mini._weights["levels.names"]
    np.testing.assert_allclose(trained.names, mini._weights.seen(meant))
    np.testing.assert_allclose(plain.names, meant)
    for number, levels in enumerate((trained, plain)):
        np.testing.assert_array_equal(levels.absent, mini._weights["levels.absent"][number])
        np.testing.assert_array_equal(levels.present, mini._weights["levels.present"][number])
    sofa, teapot = (mini._phrase_view(mini.parse(t).phrases[0]) for t in ("sofa", "qwxz"))
    assert trained.of(sofa.full[0])[1] != pytest.approx(trained.of(teapot.full[0])[1], abs=0.02)
