"""The video memory: keyframes with poses and features, bounded, fair and safe from crashes."""

from semflip_core.memory.info import MemoryInfo
from semflip_core.memory.video_memory import VideoMemory

__all__ = ["MemoryInfo", "VideoMemory"]
