"""The production encoder: a frozen Qwen2.5-VL whose repeated query costs only its own words."""

from semflip_core.encoders.qwen2_5_vl.encoder import QwenEncoder, load

__all__ = ["QwenEncoder", "load"]
