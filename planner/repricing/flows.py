"""What a step sends over each tier and between which devices.

A collective over several tiers works tier by tier from the inside: inside a tier each device sends
to the members of its own group there, and what leaves the tier is what is left to exchange.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from costmodel.collectives import Collective
from ir.plan import Plan, PlannedCollective
from ir.plan_stages import MeshAxes, part_cluster, received, stage_mesh, stage_ranks
from planner.repricing.binding_tiers import tier_times
from report.traffic import TierLoad
from topology.cluster import Cluster, TierKind
from topology.mesh import rank_groups

FloatArray = NDArray[np.float64]

_ONE_WAY = frozenset({Collective.ALL_GATHER, Collective.REDUCE_SCATTER})
_WHOLE = frozenset({Collective.BROADCAST, Collective.POINT_TO_POINT})


@dataclass(frozen=True, slots=True)
class Flow:
    """What each device of a part of the machine sends in one step over one tier: to the members of
    its groups there, or to its peer in another part.
    """

    part: int
    to: int
    """The part of the machine that gets it."""
    tier: int
    """Of the machine, the outermost first."""
    axes: tuple[int, ...]
    """Axes of the mesh of the part, all of this tier, that the members differ in; none to a peer.
    """
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
    """All traffic of a step, equal groups together."""
    names = [tier.name for tier in Cluster.from_dict(plan.cluster).tiers]
    tiers_of = {
        stage: [names.index(tier.name) for tier in part_cluster(plan, stage).tiers]
        for stage in range(len(plan.pipeline.stages))
    }
    sums: dict[tuple[int, int, int, tuple[int, ...]], float] = {}

    def add(part: int, to: int, tier: int, axes: tuple[int, ...], nbytes: float) -> None:
        key = part, to, tier, axes
        sums[key] = sums.get(key, 0.0) + nbytes

    for item in plan.collectives:
        part = item.stage % plan.pipeline.parts
        own = tiers_of[item.stage]
        for tier, axes, nbytes in _by_tier(item, stage_mesh(plan, item.stage)):
            add(part, part, own[tier], axes, nbytes * item.count)
    for stage in range(1, len(plan.pipeline.stages)):
        one, two = ((stage - back) % plan.pipeline.parts for back in (1, 0))
        for send in received(plan, stage):
            tier = names.index(send.tier)
            add(one, two, tier, (), send.nbytes * (send.count - send.backward))
            add(two, one, tier, (), send.nbytes * send.backward)
    return tuple(Flow(*key, nbytes) for key, nbytes in sorted(sums.items()) if nbytes)


def _by_tier(
    item: PlannedCollective, mesh: MeshAxes
) -> Iterator[tuple[int, tuple[int, ...], float]]:
    """Tier, axes and bytes of one collective in each tier that it crosses."""
    index = {name: i for i, (name, _, _) in enumerate(mesh)}
    axes = sorted((index[n] for n in item.axes if mesh[index[n]][1] > 1), key=lambda a: mesh[a][2])
    runs = [(t, tuple(own)) for t, own in itertools.groupby(axes, key=lambda a: mesh[a][2])]
    sizes = [math.prod(mesh[a][1] for a in own) for _, own in runs]
    for (tier, own), nbytes in zip(runs, sent_bytes(item.kind, item.nbytes, sizes), strict=True):
        yield tier, tuple(sorted(own)), nbytes


def between_devices(plan: Plan, flows: Sequence[Flow], devices: int) -> FloatArray:
    """Bytes that each of the first devices sends to each other one, shape (devices, devices).

    Members of a group share what a device sends evenly.
    """
    out = np.zeros((devices, devices))
    for flow in flows:
        ranks = stage_ranks(plan, flow.part)
        if not flow.axes:
            peers = stage_ranks(plan, flow.to)
            for place, one in enumerate(ranks):
                two = peers[place * len(peers) // len(ranks)]
                if one < devices and two < devices:
                    out[one, two] += flow.nbytes
            continue
        sizes = [size for _, size, _ in stage_mesh(plan, flow.part)]
        for group in rank_groups(sizes, flow.axes):
            shown = [ranks[rank] for rank in group if ranks[rank] < devices]
            for one, two in itertools.permutations(shown, 2):
                out[one, two] += flow.nbytes / (len(group) - 1)
    return out


def tier_loads(plan: Plan, flows: Sequence[Flow]) -> tuple[TierLoad, ...]:
    """What a step does with the links of each tier, the outermost first."""
    times, step_s = tier_times(plan), plan.estimate.step_time_s
    loads = []
    for number, tier in enumerate(Cluster.from_dict(plan.cluster).tiers):
        sent = [0.0] * plan.pipeline.parts
        for flow in flows:
            sent[flow.part] += flow.nbytes * (flow.tier == number)
        links = max(tier.size - 1, 1) if tier.kind is TierKind.FULL_MESH else 1
        capacity = tier.bandwidth_bytes_per_s * links * step_s
        loads.append(
            TierLoad(
                name=tier.name,
                size=tier.size,
                kind=tier.kind.value,
                transport=tier.transport,
                bandwidth_bytes_per_s=tier.bandwidth_bytes_per_s,
                latency_s=tier.latency_s,
                sent_bytes=max(sent),
                busy=max(sent) / capacity if capacity > 0 else 0.0,
                time_s=times[tier.name].exposed_s,
                hidden_s=times[tier.name].hidden_s,
            )
        )
    return tuple(loads)
