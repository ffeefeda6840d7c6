"""Between which multiples of the priced step published runs were, by kind of run and generation of
chips.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from costmodel.operators.constants import POOLED
from ir.published import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

COVERAGE = 0.92
"""Share of the runs at hand that an interval holds; of new ones it holds a little less."""

_ORDER = tuple(KINDS)
_EQUAL_RUNS = 60
_FEWEST_MODELS = 4
"""A kind of run with fewer has no ends."""
_MODELS_OF_A_GENERATION = 8
"""A generation with runs of fewer has the ends of all: of models left out, those of four or five
models held a quarter to three fifths of the runs."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One published run beside the model of plans."""

    name: str
    block: str
    model: str
    kind: str
    """One of `KINDS`."""
    generation: str
    ratio: float
    """Measured over priced."""
    operator_s: float
    """Mean of a forward operator."""


def quantiles(runs: Sequence[Compared]) -> tuple[float, float, float]:
    """Low end, middle and high end of the ratios; no block counts as more than 60 runs."""
    counts = Counter(run.block for run in runs)
    ratios = np.array([run.ratio for run in runs])
    weights = np.array([min(1.0, _EQUAL_RUNS / counts[run.block]) for run in runs])
    order = np.argsort(ratios, kind="stable")
    middles = (np.cumsum(weights[order]) - 0.5 * weights[order]) / np.sum(weights)
    tail = (1.0 - COVERAGE) / 2
    low, middle, high = np.interp([tail, 0.5, 1.0 - tail], middles, ratios[order])
    return float(low), float(middle), float(high)


def held(runs: Sequence[Compared]) -> float:
    """Share of the runs between ends that were made without their model."""
    ends = {
        model: quantiles([other for other in runs if other.model != model] or runs)
        for model in {run.model for run in runs}
    }
    return sum(ends[run.model][0] <= run.ratio <= ends[run.model][2] for run in runs) / len(runs)


def ends_of(runs: Sequence[Compared]) -> dict[str, Any]:
    """Ends by kind and generation, as the package ships them."""
    content: dict[str, dict[str, Any]] = {}
    for kind, name, group in _groups(runs):
        ends = zip(("low", "middle", "high"), quantiles(group), strict=True)
        rounded = {key: round(value, 3) for key, value in ends}
        content.setdefault(kind, {})[name] = {"runs": len(group), **rounded}
    return content


def held_lines(runs: Sequence[Compared]) -> Iterator[str]:
    """The ends of each group and what they hold of models left out, in Markdown."""
    yield "| kind | generation | runs | models | of models left out, inside | low | middle | high |"
    yield "|---|---|--:|--:|--:|--:|--:|--:|"
    for kind, name, group in _groups(runs):
        ends = " | ".join(f"{value:.2f}" for value in quantiles(group))
        models = len({run.model for run in group})
        share = f"{100 * held(group):.0f} %"
        yield f"| {kind} | {name} | {len(group)} | {models} | {share} | {ends} |"


def _groups(runs: Sequence[Compared]) -> Iterator[tuple[str, str, list[Compared]]]:
    """Runs of each kind, by generation where there are models enough, and of all."""
    groups: dict[tuple[str, str], list[Compared]] = defaultdict(list)
    for run in runs:
        groups[run.kind, run.generation].append(run)
        groups[run.kind, POOLED].append(run)
    for kind, name in sorted(groups, key=lambda key: (_ORDER.index(key[0]), key[1])):
        group = groups[kind, name]
        fewest = _FEWEST_MODELS if name == POOLED else _MODELS_OF_A_GENERATION
        if len({run.model for run in group}) >= fewest:
            yield kind, name, group
