"""Video files without poses: keyframes that can be shown as evidence but lead to no goal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from semflip_core.errors import BagError, MissingExtraError

if TYPE_CHECKING:
    from semflip_core.bags import Progress
    from semflip_core.ingest import Ingest
    from semflip_core.memory import VideoMemory
    from semflip_core.settings import KeyframeSettings

#: Used where a file does not say its rate; frames per second.
ASSUMED_RATE = 25.0


def memory_from_video(
    path: str | Path,
    memory: VideoMemory,
    *,
    keyframes: KeyframeSettings,
    map_id: str = "video",
    progress: Progress | None = None,
) -> Ingest:
    """Turn a video file into keyframes without poses; the first frame is at stamp 1 ns.

    Args:
        path: any file that OpenCV's video reader opens.
        memory: receives the keyframes.
        keyframes: which frames are kept; without poses, time and looks decide.
        map_id: recorded with the keyframes.
        progress: told (frames read, frames in all; 0 where the file does not say).

    Raises:
        BagError: the file is missing or no video.
        MissingExtraError: OpenCV is not installed.
    """
    try:
        import cv2
    except ImportError as error:
        raise MissingExtraError("cv2", "cpu", "reading video files") from error
    from semflip_core.images import StoredPicture, store_raw
    from semflip_core.ingest import Ingest

    file = Path(path)
    if not file.is_file():
        raise BagError(f"{file}: no such video file")
    capture = cv2.VideoCapture(str(file))
    ingest = Ingest(memory, keyframes, map_id=map_id, needs_pose=False)
    try:
        if not capture.isOpened():
            raise BagError(f"{file}: not a video that OpenCV can read; try an .mp4 or .avi")
        rate = capture.get(cv2.CAP_PROP_FPS)
        rate = rate if 0.1 < rate < 1000.0 else ASSUMED_RATE
        total = max(0, int(capture.get(cv2.CAP_PROP_FRAME_COUNT)))
        read = 0
        while capture.grab():
            stamp_ns = 1 + round(read * 1e9 / rate)
            read += 1
            if ingest.wants(stamp_ns):
                found, bgr = capture.retrieve()
                if found:
                    rgb = cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB)

                    def load(rgb: object = rgb) -> StoredPicture:
                        return store_raw(rgb, keyframes)  # type: ignore[arg-type]

                    ingest.offer(stamp_ns, load)
            if progress is not None:
                progress(read, total)
        if read == 0:
            raise BagError(f"{file}: holds no frame that OpenCV can decode")
    finally:
        capture.release()
    ingest.finish()
    return ingest
