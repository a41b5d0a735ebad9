"""What every offline stage shares: weights found, hubs off, backends made as the robot does."""

from semflip_core.loading import load_backends, shipped_gate, stay_offline

__all__ = ["load_backends", "shipped_gate", "stay_offline"]
