"""Constants of operators for one chip: its own, those of its generation, or those of all chips.

Read from data/calibration: architectures.yaml holds facts, operators.yaml what
benchmarks/calibrate_operators.py fitted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

import data
from costmodel.operators.attention import AttentionRates
from costmodel.operators.matmul import MatmulRates
from topology.chips import chip_names, chip_profile
from topology.cluster import Chip

POOLED = "pooled"
"""Key of the constants of a chip whose generation nobody measured."""


class Basis(StrEnum):
    """Where the constants of matrix products come from."""

    CHIP = "fitted to measurements of this chip"
    GENERATION = "mean of measured chips of its generation (this one is not measured)"
    POOLED = "mean of measured chips (this one is not measured)"


@dataclass(frozen=True, slots=True)
class ChipConstants:
    """What the formulas take for one chip."""

    generation: str
    """Such as `ampere`; `pooled` if no mark fits."""

    matmul: MatmulRates
    attention: AttentionRates
    """Of the kernel that this generation usually runs."""

    basis: Basis
    units: float
    """Cores that share one product."""

    share: float
    """Of the peak, that large products reach."""

    start_s: float
    """Of a kernel on the device."""

    shaped: bool
    """Whether shapes matter; a hypothetical machine has rates alone."""


def chip_constants(chip: Chip) -> ChipConstants:
    """Constants of a chip; unmeasured ones keep the share of the peak and the start of kernels that
    their own file states.
    """
    return _constants(chip.name, chip.family, chip.matmul_efficiency, chip.launch_latency_s)


def attention_rates(kernel: str) -> AttentionRates:
    """Constants of a fused kernel such as `flash2`, `flash3`, `cudnn`; see `attention_kernels`."""
    try:
        return AttentionRates(**data.calibration("operators")["attention"][kernel])
    except KeyError:
        known = ", ".join(attention_kernels())
        raise ValueError(f"unknown kernel of attention {kernel!r}; known: {known}") from None


def attention_kernels() -> tuple[str, ...]:
    """Names of the fused kernels with constants."""
    return tuple(data.calibration("operators")["attention"])


def generation_of(name: str, family: str = "") -> str:
    """Generation of a chip by its name and family, else as its own file says; `pooled` if none
    fits.
    """
    known = data.calibration("architectures")["generations"]
    for generation, facts in known.items():
        if any(_stands_in(mark, name) or _stands_in(mark, family) for mark in facts["marks"]):
            return str(generation)
    stated = chip_profile(name).generation if name in chip_names() else ""
    return next((str(each) for each in known if stated.startswith(each)), POOLED)


def units_of(name: str, family: str = "") -> float:
    """Cores of a chip that share one matrix product."""
    for text in (name, family):
        for mark, fact in data.calibration("architectures")["units"].items():
            if _stands_in(mark, text):
                return float(fact["value"])
    return float(data.calibration("architectures")["other_units"]["value"])


@cache
def _constants(name: str, family: str, known_share: float, start_s: float) -> ChipConstants:
    fitted, facts = data.calibration("operators"), data.calibration("architectures")["generations"]
    table = fitted["matmul"]
    generation = generation_of(name, family)
    found = dict(table["generations"].get(generation, table["generations"][POOLED]))
    basis = Basis.GENERATION
    if generation not in table["generations"] or generation == POOLED:
        basis = Basis.POOLED
        found["start_s"] = start_s
    own = table["chips"].get(name)
    architecture = facts.get(generation, {"largest_tile": 32768, "fewest_rows": 64})
    found |= {"share": known_share} if own is None else own
    units = units_of(name, family)
    rates = MatmulRates(
        units=units,
        largest_tile=float(architecture["largest_tile"]),
        fewest_rows=float(architecture["fewest_rows"]),
        memory=table["memory"],
        throttle_after_s=table["throttle_after_s"],
        **found,
    )
    return ChipConstants(
        generation=generation,
        matmul=rates,
        attention=attention_rates(architecture.get("attention", fitted["other_attention"])),
        basis=basis if own is None else Basis.CHIP,
        units=units,
        share=found["share"],
        start_s=found["start_s"],
        shaped=bool(architecture.get("shaped", True)),
    )


def _stands_in(mark: str, text: str) -> bool:
    """Whether the mark stands in the text, not as a part of a longer word."""
    return bool(re.search(rf"(?<![a-z0-9]){re.escape(mark)}(?![a-z0-9])", text.lower()))
