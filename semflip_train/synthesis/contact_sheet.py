"""A contact sheet of erased frames (before, mask, after), so that a person can judge V-Flip."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from semflip_core.frames import Picture
from semflip_train.pictures import jpeg, thumbnail
from semflip_train.stores import write_whole
from semflip_train.synthesis.samples import Sample, read_samples

MASK_COLOUR = (230, 60, 160)


def masked(rgb: Picture, mask: Picture) -> Picture:
    """The picture with its mask tinted."""
    tinted = rgb.astype(np.float32)
    inside = mask > 127
    tinted[inside] = 0.45 * tinted[inside] + 0.55 * np.array(MASK_COLOUR, np.float32)
    return tinted.astype(np.uint8)


def row_of(before: Picture, mask: Picture, after: Picture, title: str, width: int) -> Picture:
    """Before, mask and after side by side with a title above."""
    import cv2

    cells = [thumbnail(p, width) for p in (before, masked(before, mask), after)]
    row = np.concatenate(cells, axis=1)
    strip = np.full((20, row.shape[1], 3), 32, dtype=np.uint8)
    shown = title.encode("ascii", "replace").decode()[: row.shape[1] // 8]
    cv2.putText(
        strip, shown, (6, 14), cv2.FONT_HERSHEY_SIMPLEX, 0.42, (240, 240, 240), 1, cv2.LINE_AA
    )
    return np.concatenate([strip, row], axis=0)


def write_contact_sheet(
    synth: Path, memories: Path, *, rows: int = 16, width: int = 220
) -> Path | None:
    """Write ``contact_sheet.jpg`` beside the samples: V-Flips and shams, spread over the run.

    Args:
        synth: folder of the samples.
        memories: folder of the sequences' memories, which hold the pictures before.

    Returns:
        The file, or None where nothing was erased.
    """
    import cv2

    from semflip_core.images import decode_compressed
    from semflip_core.memory import VideoMemory

    samples = [
        sample
        for file in sorted(synth.glob("samples_*.jsonl"))
        for sample in read_samples(file)
        if sample.frames
    ]
    if not samples:
        return None
    step = max(1, len(samples) // rows)
    shown = []
    for sample in samples[::step][:rows]:
        frame = sample.frames[len(sample.frames) // 2]
        after = decode_compressed((synth / frame.file).read_bytes())
        stored = cv2.imread(str((synth / frame.file).with_suffix(".png")), cv2.IMREAD_GRAYSCALE)
        if stored is None:
            continue
        files = sorted(memories.glob(f"{sample.sequence}-*.ready"))
        if not files:
            continue
        with VideoMemory(files[-1].with_suffix(".sqlite"), read_only=True) as memory:
            ids = [record.id for record in memory.records()]
            before = memory.picture(ids[frame.index])
        mask: Picture = stored.astype(np.uint8)
        shown.append(row_of(before, mask, after, _title(sample), width))
    if not shown:
        return None
    file = synth / "contact_sheet.jpg"
    write_whole(file, jpeg(np.concatenate(shown, axis=0)))
    return file


def _title(sample: Sample) -> str:
    return f"{sample.kind}  {sample.question}  [{sample.sequence}, {len(sample.frames)} frames]"
