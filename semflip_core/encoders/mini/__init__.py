"""The embedded default encoder: no GPU, no model hub (DESIGN section 6)."""

from semflip_core.encoders.mini.encoder import MiniEncoder

__all__ = ["MiniEncoder"]
