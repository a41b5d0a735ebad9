"""Variants of an experiment: what an ablation leaves out, and the gate that comes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from semflip_core.errors import ConfigError
from semflip_core.settings import read_settings
from semflip_train.comparison import Tables
from semflip_train.features import FeatureTable, Layout
from semflip_train.run_directory import ExperimentSettings
from semflip_train.synthesis.samples import PUBLISHED, STRATEGIES, Sample
from semflip_train.training import Matrix

Change = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Variant:
    """One thing changed.

    Args:
        change: settings by section; a change of ``synthesis`` is synthesised anew.
        without: kinds of training samples left out.
        strategies: the only Q-Flip strategies kept; None keeps all.
        blind_to: groups of the gate's inputs left out, by the start of their names.
    """

    change: Change = field(default_factory=dict)
    without: tuple[str, ...] = ()
    strategies: tuple[str, ...] | None = None
    blind_to: tuple[str, ...] = ()

    @property
    def resynthesised(self) -> bool:
        """Whether it needs samples of its own."""
        return "synthesis" in self.change

    def keeps(self, sample: Sample) -> bool:
        """Whether a training sample stays."""
        if sample.kind in self.without:
            return False
        return (
            self.strategies is None or sample.kind != "qflip" or sample.strategy in self.strategies
        )

    def tables(self, tables: Tables) -> Tables:
        """Training and calibration rows as this variant sees them.

        Raises:
            ConfigError: the experiment makes no flips of the strategies kept.
        """
        made = {sample.strategy for sample in tables.train.samples if sample.kind == "qflip"}
        if self.strategies is not None and not made.intersection(self.strategies):
            raise ConfigError(
                f"no flips of {', '.join(self.strategies)} here: not in synthesis.strategies, or "
                "none passed the filters"
            )

        def seen(table: FeatureTable) -> FeatureTable:
            kept = table.where(self.keeps)
            return replace(kept, x=self.inputs(kept.x, kept.layout))

        return Tables(seen(tables.train), seen(tables.calibration))

    def inputs(self, x: Matrix, layout: Layout) -> Matrix:
        """``(n, dim)`` with the groups that it is blind to set to zero.

        Raises:
            ConfigError: the encoder has no such group.
        """
        if not self.blind_to:
            return x
        masked: Matrix = x.copy()
        for start in self.blind_to:
            found = [where for name, where in layout.items() if name.startswith(start)]
            if not found:
                known = ", ".join(layout) or "it names none"
                raise ConfigError(f"no inputs named '{start}' in this encoder; known: {known}")
            for where in found:
                masked[:, where] = 0.0
        return masked


def changed(settings: ExperimentSettings, change: Change) -> ExperimentSettings:
    """The settings with a change applied and checked.

    Raises:
        ConfigError: a section, key or value is wrong.
    """
    values = settings.model_dump(mode="json")
    for section, fields in change.items():
        if section not in values:
            raise ConfigError(f"no section '{section}'; known: {', '.join(values)}")
        values[section] = values[section] | dict(fields)
    return read_settings(ExperimentSettings, values, "ablation")


#: Axis -> variant -> what changes against the experiment as it is configured.
AXES: Mapping[str, Mapping[str, Variant]] = {
    "flips": {
        "no V-Flip": Variant(without=("vflip", "sham")),
        "no Q-Flip": Variant(without=("qflip",)),
        "no shams": Variant(without=("sham",)),
    },
    "inputs": {
        "ConSE only": Variant(blind_to=("space0", "agreement", "colour")),
        "projection only": Variant(blind_to=("space1", "agreement")),
        "no attributes": Variant(blind_to=("colour",)),
        "no relations": Variant(blind_to=("space0.pairing", "space1.pairing")),
        "no wording": Variant(blind_to=("wording",)),
    },
    "strategies": {
        "published three": Variant(strategies=PUBLISHED),
        **{f"only {name.replace('_', ' ')}": Variant(strategies=(name,)) for name in STRATEGIES},
    },
    "members": {
        f"{count} member{'s' if count > 1 else ''}": Variant({"training": {"seeds": range(count)}})
        for count in (1, 3, 10)
    },
    "threshold": {
        "threshold 0.5": Variant({"calibration": {"method": "fixed", "tau": 0.5}}),
        "best balanced accuracy": Variant({"calibration": {"method": "balanced_accuracy"}}),
        "risk control 0.05": Variant({"calibration": {"method": "risk_control", "alpha": 0.05}}),
        "risk control 0.2": Variant({"calibration": {"method": "risk_control", "alpha": 0.2}}),
        "no temperature": Variant({"calibration": {"fit_temperature": False}}),
    },
    "fill": {
        f"filled by {name}": Variant({"synthesis": {"inpainter": name}})
        for name in ("patchmatch", "telea", "mean", "blur")
    },
    "pool": {
        f"{count} rewrites a pair": Variant({"synthesis": {"samples_per_pair": count}})
        for count in (1, 2, 4)
    },
}


def chosen_axes(names: Sequence[str]) -> dict[str, Variant]:
    """Variants of the named axes; of all where none is named.

    Raises:
        ConfigError: an axis is unknown.
    """
    for name in names:
        if name not in AXES:
            raise ConfigError(f"unknown ablation '{name}'; known: {', '.join(AXES)}")
    return {title: variant for axis in names or AXES for title, variant in AXES[axis].items()}
