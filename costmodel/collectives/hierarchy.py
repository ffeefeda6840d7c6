"""Groups that cross several tiers: what is done inside each tier, and on how many bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from costmodel.collectives.algorithms import AUTO, Stage, stage_curve, torus_curve
from costmodel.collectives.curves import NOTHING, Curve
from costmodel.collectives.kinds import Collective
from topology.cluster import TierKind

__all__ = ["PAIRED_RINGS", "Level", "composed", "default_algorithm"]

PAIRED_RINGS = "paired_rings"
"""Two full meshes of q ranks joined by q pairs, worked as q rings over all 2 q ranks."""

_ONE_WAY = frozenset(
    {Collective.ALL_GATHER, Collective.REDUCE_SCATTER, Collective.SCATTER, Collective.GATHER}
)


@dataclass(frozen=True, slots=True)
class Level:
    """What a group does inside one tier, or inside several that work as one."""

    stages: tuple[Stage, ...]
    """Several for a torus, and for two meshes joined by pairs (mesh, then pairs)."""

    algorithm: str = AUTO
    """A key of `ALGORITHMS`, `paired_rings`, or the plain one of the wiring."""

    @property
    def ranks(self) -> int:
        """Members of the group here."""
        count = 1
        for stage in self.stages:
            count *= stage.ranks
        return count

    def curve(self, kind: Collective) -> Curve:
        """Time of one collective of n bytes inside the level."""
        if self.algorithm == PAIRED_RINGS:
            return _paired_rings(self.stages[0], self.stages[1], kind)
        if len(self.stages) > 1:
            return torus_curve(self.stages, kind) or NOTHING
        stage = self.stages[0]
        algorithm = default_algorithm(stage) if self.algorithm == AUTO else self.algorithm
        found = stage_curve(algorithm, stage, kind)
        if found is None:
            found = stage_curve(default_algorithm(stage), stage, kind)
        return found or NOTHING


def default_algorithm(stage: Stage) -> str:
    """The plain algorithm of a wiring."""
    if stage.wiring is TierKind.SWITCH:
        return "overlapped"
    return "torus" if stage.wiring is TierKind.TORUS else "mesh"


def composed(levels: Sequence[Level], kind: Collective) -> Curve:
    """Time of one collective over all levels, innermost first.

    An all-gather gathers the small pieces over the outer levels first, then the larger ones
    inside, so that an outer level carries 1 / p of the bytes, p the ranks inside it; a
    reduce-scatter is its mirror image. All-reduce, broadcast and reduce are made of the two. An
    all-to-all exchanges all n bytes in every level in turn.

    Source: HCCL algorithm guide, two-level table (AllReduce, AlltoAll).
    """
    total, inside = NOTHING, 1
    for level in levels:
        if kind is Collective.ALL_TO_ALL:
            total += level.curve(kind)
        elif kind in _ONE_WAY:
            total += level.curve(kind).on_share(inside)
        else:
            total += _there_and_back(level, kind, outermost=level is levels[-1]).on_share(inside)
        inside *= level.ranks
    return total


def _there_and_back(level: Level, kind: Collective, *, outermost: bool) -> Curve:
    """The share of one level in an all-reduce, a broadcast or a reduce.

    Inside it is a reduce-scatter (a scatter) and an all-gather (a gather) around what the outer
    levels do with each piece.
    """
    if outermost:
        return level.curve(kind)
    first = Collective.SCATTER if kind is Collective.BROADCAST else Collective.REDUCE_SCATTER
    last = Collective.GATHER if kind is Collective.REDUCE else Collective.ALL_GATHER
    return level.curve(first) + level.curve(last)


def _paired_rings(mesh: Stage, pairs: Stage, kind: Collective) -> Curve:
    """Two full meshes of q ranks joined by q pairs, as q rings that each carry n / q.

    all-gather: (p - 1) a + (p - 1) / p * n / q * b, with p = 2 q and b of the slower of mesh link
    and pair. Together the rings use every link once per direction (checked for q = 4, the cards
    of a first-generation Ascend server).

    Source: HCCL's 8P_RING, four concurrent rings.
    """
    if kind is Collective.ALL_TO_ALL:
        parts = [stage_curve("mesh", stage, kind) or NOTHING for stage in (mesh, pairs)]
        return parts[0] + parts[1]
    ranks = mesh.ranks * pairs.ranks
    ring = Stage(
        ranks,
        max(mesh.latency_s, pairs.latency_s),
        max(mesh.seconds_per_byte, pairs.seconds_per_byte) / mesh.ranks,
        TierKind.PAIRS,
        mesh.reduction_s_per_byte,
    )
    if kind in {Collective.BROADCAST, Collective.REDUCE}:
        halves = (
            (Collective.SCATTER, Collective.ALL_GATHER)
            if kind is Collective.BROADCAST
            else (Collective.REDUCE_SCATTER, Collective.GATHER)
        )
        curves = [stage_curve("ring", ring, half) or NOTHING for half in halves]
        return curves[0] + curves[1]
    return stage_curve("ring", ring, kind) or NOTHING
