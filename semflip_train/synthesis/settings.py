"""What is synthesised and with what, and the backends that these settings name."""

from __future__ import annotations

from importlib import import_module
from typing import Literal

from pydantic import Field, field_validator

from semflip_core.errors import ConfigError
from semflip_core.settings import Settings
from semflip_train.synthesis.detect import Detector
from semflip_train.synthesis.qflip import Rewriter
from semflip_train.synthesis.samples import PUBLISHED, STRATEGIES
from semflip_train.synthesis.vflip import EraseSettings


class SynthesisSettings(Settings):
    """What is synthesised, and with what."""

    strategies: tuple[str, ...] = Field(default=PUBLISHED, description="Of Q-Flip.")
    samples_per_pair: int = Field(
        default=1, ge=1, description="Rewrites for each question and strategy."
    )
    rewriter: str = Field(default="slot_fill", description="slot_fill or instruct.")
    rewriter_model: str | None = Field(
        default=None, description="Chat model of the instruct rewriter: directory or hub id."
    )
    lexicon_share: float = Field(
        default=0.15,
        ge=0.0,
        le=1.0,
        description="How often slot_fill takes a thing from proposals, not from other sequences.",
    )
    proposals: Literal["lexicon", "smollm2", "both"] = Field(
        default="lexicon",
        description="What slot_fill proposes things by. Never chosen by what is installed: the "
        "same settings make the same samples everywhere.",
    )
    detector: str = Field(default="mini", description="mini, grounding_dino, module:Class.")
    detector_model: str | None = None
    present: float | None = Field(
        default=None,
        gt=0.0,
        description="Strength from which on a thing counts as detected; None: see next.",
    )
    present_quantile: float = Field(
        default=0.5,
        ge=0.0,
        le=1.0,
        description="Without it: this quantile of what a memory's known referents reach.",
    )
    inpainter: str = Field(default="patchmatch")
    inpainter_model: str | None = Field(default=None, description="LaMa's TorchScript file.")
    vflip: bool = True
    vflip_share: float = Field(
        default=1.0, ge=0.0, le=1.0, description="Share of the questions that are erased."
    )
    sham: bool = True
    qflip: bool = True
    erase: EraseSettings = EraseSettings()
    seed: int = 0

    @field_validator("strategies")
    @classmethod
    def _known(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if name not in STRATEGIES:
                raise ValueError(f"unknown strategy '{name}'; known: {', '.join(STRATEGIES)}")
        return value


def load_detector(settings: SynthesisSettings) -> Detector:
    """The detector that the settings name.

    Raises:
        ConfigError: the name is unknown.
    """
    if settings.detector == "mini":
        from semflip_train.synthesis.detect import MiniDetector

        return MiniDetector() if settings.present is None else MiniDetector(settings.present)
    if settings.detector == "grounding_dino":
        from semflip_train.synthesis.grounding_dino import GroundingDino

        model = settings.detector_model
        return (
            GroundingDino(model)
            if settings.present is None
            else GroundingDino(model, settings.present)
        )
    if ":" in settings.detector:
        module, _, name = settings.detector.partition(":")
        try:
            made: Detector = getattr(import_module(module), name)()
        except (ImportError, AttributeError) as error:
            raise ConfigError(f"detector '{settings.detector}': {error}") from error
        return made
    raise ConfigError(
        f"unknown detector '{settings.detector}'; known: mini, grounding_dino, or your own as "
        "'module:Class'"
    )


def load_rewriter(settings: SynthesisSettings) -> Rewriter:
    """The rewriter that the settings name.

    Raises:
        ConfigError: the name is unknown.
    """
    if settings.rewriter == "slot_fill":
        from semflip_train.synthesis.lexicon import load_lexicon
        from semflip_train.synthesis.qflip import SlotFill

        names = None
        if settings.proposals != "lexicon":
            from semflip_train.synthesis.smollm2 import smollm2

            names = smollm2()
        return SlotFill(
            load_lexicon(),
            lexicon_share=settings.lexicon_share,
            names=names,
            lexicon_objects=settings.proposals != "smollm2",
            seed=settings.seed,
        )
    if settings.rewriter == "instruct":
        from semflip_train.synthesis.instruct import Instruct

        return Instruct(settings.rewriter_model, seed=settings.seed)
    raise ConfigError(f"unknown rewriter '{settings.rewriter}'; known: slot_fill, instruct")
