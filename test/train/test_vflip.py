"""V-Flip erases the referent from every frame, verifies it, and its sham leaves it alone."""

from __future__ import annotations

import numpy as np
import pytest

from semflip_core.errors import ConfigError, SynthesisError
from semflip_core.settings import KeyframeSettings
from semflip_train.synthesis import vflip
from semflip_train.synthesis.detect import Detection, View, box_overlap, distinct_count
from semflip_train.synthesis.inpaint import Telea, load_inpainter
from semflip_train.synthesis.vflip import Eraser, EraseSettings, box_mask, scaled_box, tightest
from support.synthesis import ColourDetector, no_features, room

VIEWS = [
    View(room({"red box": (16, 64), "blue box": (80, 64)})),
    View(room({"blue box": (16, 64)})),
    View(room({"red box": (48, 32), "green box": (80, 80)})),
    View(room({"green box": (16, 16)})),
]


def eraser(name: str = "telea", **changes: object) -> Eraser:
    return Eraser(
        ColourDetector(),
        load_inpainter(name),
        no_features,
        KeyframeSettings(),
        EraseSettings(**changes),  # type: ignore[arg-type]
        present=5.0,
    )


@pytest.mark.parametrize("inpainter", ["patchmatch", "telea", "mean"])
def test_the_referent_is_gone_from_every_frame_that_showed_it(inpainter):
    from semflip_core.images import decode_compressed

    erased, problem = eraser(inpainter).erase("red box", VIEWS)
    assert problem is None
    assert [frame.index for frame in erased] == [0, 2]
    detector = ColourDetector()
    for frame in erased:
        after = decode_compressed(frame.jpeg)
        before = VIEWS[frame.index].picture
        assert detector.strengths("red box", [View(after)])[0] < 3.0
        outside = np.abs(after.astype(int) - before.astype(int))[~frame.mask]
        assert outside.mean() < 2.0  # nothing but JPEG's own noise
    assert detector.strengths("blue box", [View(decode_compressed(erased[0].jpeg))])[0] > 9.0


def test_what_is_not_seen_cannot_be_erased():
    assert eraser().erase("red box", [VIEWS[1], VIEWS[3]]) == ([], vflip.NOT_SEEN)


def test_too_many_frames_drop_the_sample():
    assert eraser(max_frames=1).erase("red box", VIEWS) == ([], vflip.EVERYWHERE)


def test_a_mask_that_leaves_nothing_drops_the_sample():
    assert eraser(max_area=0.01).erase("red box", VIEWS)[1] == vflip.TOO_LARGE


def test_an_erasure_that_does_not_work_drops_the_sample():
    class Nothing(Telea):
        def fill(self, rgb, mask):
            return rgb.copy()

    work = eraser()
    broken = Eraser(
        work.detector, Nothing(), work.encode, work.keyframes, work.settings, work.present
    )
    assert broken.erase("red box", VIEWS)[1] == vflip.STILL_SEEN


def test_blur_leaves_a_trace_and_is_found_out():
    assert eraser("blur").erase("red box", VIEWS)[1] == vflip.STILL_SEEN


def test_the_sham_erases_something_else_over_the_same_area():
    from semflip_core.images import decode_compressed

    work = eraser()
    erased, _ = work.erase("red box", VIEWS)
    sham, problem = work.sham(erased, "blue box", VIEWS, "red box")
    assert problem is None
    for original, other in zip(erased, sham, strict=False):
        assert other.mask.mean() == pytest.approx(original.mask.mean(), rel=0.15)
        assert other.after < other.before
        before = work.detector.strengths("red box", [VIEWS[other.index]])[0]
        after = work.detector.strengths("red box", [View(decode_compressed(other.jpeg))])[0]
        assert after >= before - 1.0


def test_no_sham_where_there_is_no_other_object():
    work = eraser()
    erased, _ = work.erase("red box", [VIEWS[0]])
    assert work.sham(erased, "green box", [VIEWS[0]], "red box") == ([], vflip.NO_SHAM)


@pytest.mark.parametrize("inpainter", ["patchmatch", "telea", "mean", "blur"])
def test_inpainters_keep_what_is_not_masked(inpainter):
    rgb = room({"red box": (16, 64)})
    mask = box_mask((0.1, 0.45, 0.4, 0.8), rgb.shape, 0.0)
    filled = load_inpainter(inpainter).fill(rgb, mask)
    assert filled.shape == rgb.shape
    assert filled.dtype == np.uint8
    assert (filled[~mask] == rgb[~mask]).all()
    assert (filled[mask] != rgb[mask]).any()
    assert (load_inpainter(inpainter).fill(rgb, mask) == filled).all()


def test_masks_that_do_not_fit_are_named():
    rgb = room({})
    with pytest.raises(SynthesisError, match="does not fit"):
        Telea().fill(rgb, np.zeros((4, 4), bool))
    with pytest.raises(SynthesisError, match="whole picture"):
        Telea().fill(rgb, np.ones(rgb.shape[:2], bool))
    with pytest.raises(ConfigError, match="unknown inpainter 'paint'; known: blur, lama"):
        load_inpainter("paint")


def test_boxes():
    assert box_overlap((0, 0, 1, 1), (0, 0, 0.5, 1)) == pytest.approx(0.5)
    assert box_overlap((0, 0, 0.4, 1), (0.5, 0, 1, 1)) == 0.0
    grown = box_mask((0.25, 0.25, 0.5, 0.5), (100, 100), 0.05)
    assert grown.sum() == 35 * 35
    x0, y0, x1, y1 = scaled_box((0.8, 0.8, 1.0, 1.0), 0.16)
    assert (x1 - x0) * (y1 - y0) == pytest.approx(0.16)
    assert x1 <= 1.0 and y1 <= 1.0
    inner, outer = Detection((0.2, 0.2, 0.4, 0.4), 9.0), Detection((0.0, 0.0, 0.6, 0.6), 8.0)
    apart = Detection((0.7, 0.7, 0.9, 0.9), 7.0)
    assert tightest([inner, outer, apart]) == [inner, apart]
    assert distinct_count([inner, outer, apart], 6.0) == 2
    assert distinct_count([inner, outer, apart], 8.5) == 1
