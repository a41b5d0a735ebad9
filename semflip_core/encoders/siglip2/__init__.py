"""The laptop-class encoder and retriever: any SigLIP 2, SigLIP or CLIP checkpoint."""

from semflip_core.encoders.siglip2.encoder import SiglipEncoder, load

__all__ = ["SiglipEncoder", "load"]
