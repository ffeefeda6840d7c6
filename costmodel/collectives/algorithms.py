"""What each algorithm takes inside one tier: steps, and bytes over a link.

Notation: p ranks, n bytes (as `Collective` counts them), a seconds of latency per step, b seconds
per byte of what one step uses, g seconds per byte of adding up.

Source of the formulas, unless one says otherwise: HCCL algorithm guide (Ring, Mesh, recursive
halving-doubling, NHR, NB, Pairwise, Star); Thakur et al., "Optimization of Collective
Communication Operations in MPICH", IJHPCA 19(1), 2005.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from costmodel.collectives.curves import Curve
from costmodel.collectives.kinds import Collective
from costmodel.collectives.shares import doublings, others
from topology.cluster import TierKind

__all__ = ["ALGORITHMS", "AUTO", "Stage", "stage_curve", "torus_curve"]

AUTO = "auto"
"""The algorithm that the library chooses, or the plain one of the wiring."""

_ROOTED = frozenset({Collective.SCATTER, Collective.GATHER})


@dataclass(frozen=True, slots=True)
class Stage:
    """The part of a group that lies inside one tier."""

    ranks: int
    """p, at least 2."""

    latency_s: float
    """a."""

    seconds_per_byte: float
    """b: of one link, or of the port of one device."""

    wiring: TierKind
    """Whether every pair has a link of its own, or every device one port."""

    reduction_s_per_byte: float = 0.0
    """g."""

    wrap: bool = True
    """Of a torus: the ring is closed."""

    @property
    def steps(self) -> int:
        """ceil(log2 p)."""
        return int(doublings(self.ranks))

    @property
    def others(self) -> float:
        """(p - 1) / p: the share of a vector that is not one's own."""
        return others(self.ranks)

    @property
    def fan_s_per_byte(self) -> float:
        """Seconds per byte that a device sends to, or receives from, all others at once."""
        if self.wiring is TierKind.FULL_MESH:
            return self.seconds_per_byte / (self.ranks - 1)
        return self.seconds_per_byte


_Formula = Callable[[Stage, Collective], Curve | None]


def stage_curve(algorithm: str, stage: Stage, kind: Collective) -> Curve | None:
    """Time of one collective by one algorithm; `None` if the algorithm cannot do it."""
    if kind is Collective.POINT_TO_POINT:
        return Curve.line(stage.latency_s, stage.seconds_per_byte)
    return ALGORITHMS[algorithm](stage, kind)


def _both(stage: Stage, kind: Collective, gather: Curve) -> Curve | None:
    """An all-gather, and what is made of it and its mirror image, the reduce-scatter.

    All-reduce = reduce-scatter + all-gather; broadcast = scatter + all-gather; reduce =
    reduce-scatter + gather.
    Source of the last two: van de Geijn, "On global combine operations", J. Parallel Distrib.
    Comput. 22, 1994.
    """
    adding = Curve.line(0.0, stage.others * stage.reduction_s_per_byte)
    if kind in {Collective.ALL_GATHER, *_ROOTED}:
        return gather
    if kind is Collective.REDUCE_SCATTER:
        return gather + adding
    if kind is Collective.BROADCAST:
        return gather + gather
    if kind in {Collective.ALL_REDUCE, Collective.REDUCE}:
        return gather + gather + adding
    return None


def _mesh(stage: Stage, kind: Collective) -> Curve | None:
    """Every rank sends to all others at once: a + (p - 1) / p n b of all its links together."""
    gather = Curve.line(stage.latency_s, stage.others * stage.fan_s_per_byte)
    return gather if kind is Collective.ALL_TO_ALL else _both(stage, kind, gather)


def _ring(stage: Stage, kind: Collective) -> Curve | None:
    """(p - 1) a + (p - 1) / p n b; broadcast and reduce pass the whole vector on."""
    whole = Curve.line(stage.latency_s, stage.seconds_per_byte).times(stage.ranks - 1)
    if kind is Collective.BROADCAST:
        return whole
    if kind is Collective.REDUCE:
        return whole + Curve.line(0.0, (stage.ranks - 1) * stage.reduction_s_per_byte)
    gather = Curve.line((stage.ranks - 1) * stage.latency_s, stage.others * stage.seconds_per_byte)
    return _both(stage, kind, gather)


def _halving_doubling(stage: Stage, kind: Collective) -> Curve | None:
    """log2(p) a + (p - 1) / p n b.

    Where p is no power of two, the ranks beyond q = 2^floor(log2 p) fold into others before an
    all-reduce and are told after: 2 more steps of the whole vector.
    """
    if kind is Collective.BROADCAST:
        return Curve.line(stage.latency_s, stage.seconds_per_byte).times(stage.steps)
    p, g = stage.ranks, stage.reduction_s_per_byte
    if p & (p - 1):
        if kind not in {Collective.ALL_REDUCE, Collective.REDUCE}:
            return None
        rounds, q = p.bit_length() - 1, 1 << (p.bit_length() - 1)
        share = (q - 1) / q
        slope = (2 * share + 2) * stage.seconds_per_byte + (share + 1) * g
        return Curve.line((2 * rounds + 2) * stage.latency_s, slope)
    gather = Curve.line(stage.steps * stage.latency_s, stage.others * stage.seconds_per_byte)
    return _both(stage, kind, gather)


def _nhr(stage: Stage, kind: Collective) -> Curve | None:
    """ceil(log2 p) a + (p - 1) / p n b, for any p (NHR, NB)."""
    gather = Curve.line(stage.steps * stage.latency_s, stage.others * stage.seconds_per_byte)
    return _both(stage, kind, gather)


def _pairwise(stage: Stage, kind: Collective) -> Curve | None:
    """All-to-all, one partner after the other: (p - 1) a + (p - 1) / p n b."""
    if kind is not Collective.ALL_TO_ALL:
        return None
    return Curve.line((stage.ranks - 1) * stage.latency_s, stage.others * stage.seconds_per_byte)


def _star(stage: Stage, kind: Collective) -> Curve | None:
    """The root sends to, or receives from, all others at once."""
    if kind in _ROOTED:
        return Curve.line(stage.latency_s, stage.others * stage.fan_s_per_byte)
    if kind in {Collective.BROADCAST, Collective.REDUCE}:
        adding = stage.reduction_s_per_byte if kind is Collective.REDUCE else 0.0
        slope = (stage.ranks - 1) * (stage.fan_s_per_byte + adding)
        return Curve.line(stage.latency_s, slope)
    return None


def _overlapped(stage: Stage, kind: Collective) -> Curve | None:
    """A switch that never blocks: NHR, and an all-to-all whose steps are counted alike.

    The messages to different peers are in flight together, so their latencies overlap.
    """
    if kind is Collective.ALL_TO_ALL:
        return Curve.line(stage.steps * stage.latency_s, stage.others * stage.seconds_per_byte)
    return _nhr(stage, kind)


def _torus(stage: Stage, kind: Collective) -> Curve | None:
    return torus_curve((stage,), kind)


def torus_curve(stages: Sequence[Stage], kind: Collective) -> Curve | None:
    """One or several dimensions of a torus at once, whose links work side by side.

    A dimension of p ranks passes an all-gather on both ways, in p / 2 steps: k dimensions take
    sum(p / 2) a + (1 - 1 / ranks) n b / (2 k). In an all-to-all a byte travels p / 4 steps of a
    dimension, over 2 links of each rank: p n b / 8 of the longest dimension. A line, without the
    link that closes the ring, takes twice as long.

    Source: "How to Scale Your Model", chapter on sharded matrices; with the sum of latency and
    bytes where it takes the larger of the two.
    """
    ranks = math.prod(stage.ranks for stage in stages)
    hops_s = sum(stage.ranks / 2 * _open(stage) * stage.latency_s for stage in stages)
    if kind is Collective.ALL_TO_ALL:
        slopes = [s.ranks * _open(s) * s.seconds_per_byte / 8 for s in stages]
        return Curve.line(hops_s, max(slopes))
    rate = sum(2 / (_open(stage) * stage.seconds_per_byte) for stage in stages)
    whole = Stage(ranks, 0.0, 0.0, TierKind.TORUS, stages[0].reduction_s_per_byte)
    return _both(whole, kind, Curve.line(hops_s, whole.others / rate))


def _open(stage: Stage) -> float:
    """2 where the ring is not closed: a ring of two has one link and no more."""
    return 1.0 if stage.wrap and stage.ranks > 2 else 2.0


ALGORITHMS: Mapping[str, _Formula] = MappingProxyType(
    {
        "mesh": _mesh,
        "ring": _ring,
        "halving_doubling": _halving_doubling,
        "nhr": _nhr,
        "pairwise": _pairwise,
        "star": _star,
        "overlapped": _overlapped,
        "torus": _torus,
    }
)
"""Algorithms inside one tier by name."""
