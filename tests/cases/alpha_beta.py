"""Machines of the cases: a mesh with a latency and a price of a byte for each axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from costmodel.collectives import Collective, CollectiveModel, Curve
from topology.cluster import Chip, Cluster, Tier, TierKind

UNIT_S = 1e-9
"""Seconds of one unit of the cases' cost: a byte at beta 1, a latency of alpha 1."""
SECONDS_PER_FLOP = 1e-8
"""Dear against any byte, so that a product computed twice is no way to save communication."""


@dataclass(frozen=True, slots=True)
class AlphaBeta(CollectiveModel):
    """Alpa's formulas: alpha + beta x bytes over each axis in turn, without its tie-breakers.

    Source: alpa_cost of the cases; a local tensor is 1 / n of what its all-to-all counts.
    """

    def _curve(self, kind: Collective, axes: tuple[int, ...]) -> Curve:
        total = Curve.line(0.0, 0.0)
        for axis in axes:
            tier, n = self.cluster.tiers[self.mesh.axes[axis].tier], self.mesh.sizes[axis]
            share = {Collective.ALL_REDUCE: 2 * (n - 1) / n, Collective.ALL_TO_ALL: (n - 1) / 2}
            factor = share.get(kind, (n - 1) / n)
            total += Curve.line(tier.latency_s, factor / tier.bandwidth_bytes_per_s)
        return total


def use_alpha_beta(monkeypatch: pytest.MonkeyPatch) -> None:
    """Price communication as the cases do."""
    for module in ("planner.lowering.operator_prices", "planner.pipeline.mesh_collectives"):
        monkeypatch.setattr(f"{module}.CollectiveModel", AlphaBeta)


def chip(seconds_per_flop: float = SECONDS_PER_FLOP, memory_bytes: int = 2**50) -> Chip:
    """A device whose products take time and nothing else does."""
    rates = dict.fromkeys(("float32", "float16", "bfloat16"), 1 / seconds_per_flop)
    return Chip("case", "ideal", rates, 1e30, memory_bytes, 1e30, 1.0, 1.0, 0.0)


def machine(
    shape: Sequence[int],
    alpha: Sequence[float] | None = None,
    beta: Sequence[float] | None = None,
    device: Chip | None = None,
) -> Cluster:
    """A cluster with one tier for each axis of a case's mesh that is longer than 1."""
    prices = zip(shape, alpha or [1.0] * len(shape), beta or [1.0] * len(shape), strict=True)
    tiers = [
        Tier(f"axis{i}", n, TierKind.SWITCH, 1 / (b * UNIT_S), 1 / (b * UNIT_S), a * UNIT_S)
        for i, (n, a, b) in enumerate(prices)
        if n > 1
    ]
    return Cluster(f"case of {math.prod(shape)}", device or chip(), tuple(tiers))
