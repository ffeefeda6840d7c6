"""What a step sends over each tier and between which devices.

A collective over several tiers works tier by tier from the inside: inside a tier each device sends
to the members of its own group there, and what leaves the tier is what is left to exchange.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from costmodel.collectives import Collective
from ir.plan import Plan
from ir.plan_stages import stage_mesh

FloatArray = NDArray[np.float64]

_ONE_WAY = frozenset({Collective.ALL_GATHER, Collective.REDUCE_SCATTER})
_WHOLE = frozenset({Collective.BROADCAST, Collective.POINT_TO_POINT})


@dataclass(frozen=True, slots=True)
class Flow:
    """What each device sends in one step over one tier to the members of its groups there."""

    tier: int
    axes: tuple[int, ...]
    """Axes of the mesh, all of this tier, that the members differ in."""
    nbytes: float


def sent_bytes(kind: str, nbytes: float, sizes: Sequence[int]) -> tuple[float, ...]:
    """Bytes that a device sends over each tier for one collective.

    Args:
        kind: of the collective.
        nbytes: as `Collective` counts them.
        sizes: members along each tier, outermost first.

    >>> sent_bytes("all_gather", 16.0, (2, 4))
    (2.0, 12.0)
    >>> sent_bytes("all_reduce", 16.0, (2, 4))
    (4.0, 24.0)

    Source: Thakur et al., IJHPCA 19(1), 2005, section 4: (p - 1) / p of the bytes for each half of
    an all-reduce; outside, the share of one inner member.
    """
    out = []
    for position, size in enumerate(sizes):
        inner = math.prod(sizes[position + 1 :])
        left = (size - 1) / size
        if Collective(kind) in _ONE_WAY:
            out.append(nbytes * left / inner)
        elif Collective(kind) is Collective.ALL_REDUCE:
            out.append(2 * nbytes * left / inner)
        elif Collective(kind) is Collective.ALL_TO_ALL:
            outer = math.prod(sizes[:position])
            out.append(nbytes * left / outer)
        elif Collective(kind) in _WHOLE:
            out.append(nbytes if size > 1 else 0.0)
        else:
            out.append(nbytes * left)
    return tuple(out)


def flows_of(plan: Plan) -> tuple[Flow, ...]:
    """All traffic of a step, equal groups together; of parts of the machine that differ in their
    devices, those with the mesh of the plan.
    """
    index = {name: i for i, (name, _, _) in enumerate(plan.mesh)}
    sums: dict[tuple[int, tuple[int, ...]], float] = {}
    for item in (i for i in plan.collectives if stage_mesh(plan, i.stage) == plan.mesh):
        axes = sorted(index[name] for name in item.axes if plan.mesh[index[name]][1] > 1)
        tiers = [
            (tier, tuple(own))
            for tier, own in itertools.groupby(
                sorted(axes, key=lambda a: plan.mesh[a][2]), key=lambda a: plan.mesh[a][2]
            )
        ]
        sizes = [math.prod(plan.mesh[a][1] for a in own) for _, own in tiers]
        for key, nbytes in zip(tiers, sent_bytes(item.kind, item.nbytes, sizes), strict=True):
            sums[key] = sums.get(key, 0.0) + nbytes * item.count
    return tuple(Flow(tier, axes, nbytes) for (tier, axes), nbytes in sorted(sums.items()))


def between_devices(plan: Plan, flows: Sequence[Flow], devices: int) -> FloatArray:
    """Bytes that each of the first devices sends to each other one, shape (devices, devices).

    Members of a group share what a device sends evenly.
    """
    sizes = tuple(size for _, size, _ in plan.mesh)
    count = math.prod(sizes)
    place = np.array(plan.rank_order if len(plan.rank_order) == count else range(count))
    grid = np.arange(count).reshape(sizes)
    out = np.zeros((devices, devices))
    for flow in flows:
        members = math.prod(sizes[a] for a in flow.axes)
        groups = np.moveaxis(grid, flow.axes, range(-len(flow.axes), 0)).reshape(-1, members)
        for group in place[groups].tolist():
            shown = [device for device in group if device < devices]
            for one, two in itertools.permutations(shown, 2):
                out[one, two] += flow.nbytes / (members - 1)
    return out
