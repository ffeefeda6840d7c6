"""What HCCL chooses, and what it takes: Ascend servers.

Level 0 is the inside of a server, level 1 joins servers, level 2 joins super pods.
Source: HCCL algorithm guide, two-level table and defaults; the chooser of the open part of HCCL
(coll_alg_operator.cc), whose formulas reduce to "ring up to 3 servers, NHR beyond" on the second
generation, because the bandwidth cancels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from costmodel.collectives.algorithms import AUTO, Stage
from costmodel.collectives.curves import Curve, spliced
from costmodel.collectives.hierarchy import PAIRED_RINGS, Level, composed
from costmodel.collectives.kinds import Collective
from topology.cluster import TierKind

__all__ = ["hccl_curve", "level_0_algorithm", "level_1_algorithm"]

PIPELINE_BYTES = 32 * 2**10
"""All-gather and reduce-scatter of as many bytes are pipelined over servers."""

PIPELINE_SLICE_BYTES = 2**20
"""An all-reduce is pipelined where each rank's share of it has as many bytes."""

_INTER_FIRST = frozenset(
    {Collective.ALL_GATHER, Collective.REDUCE_SCATTER, Collective.SCATTER, Collective.GATHER}
)


def level_0_algorithm(generation: str, stage: Stage) -> str:
    """Inside a server: full mesh where there are links for it, else a ring."""
    if stage.wiring is not TierKind.SWITCH:
        return "mesh"
    return "ring" if generation == "910c" else AUTO


def level_1_algorithm(generation: str, servers: int) -> str:
    """Between servers, where the pipeline does not apply."""
    regular = servers >= 8 or servers & (servers - 1) == 0
    if generation == "910b":
        return "ring" if servers <= 3 else "nhr"
    if not regular:
        return "ring"
    return "halving_doubling" if generation == "910a" else "nhr"


def hccl_curve(generation: str, levels: Sequence[Level], inner: int, kind: Collective) -> Curve:
    """Time of one collective.

    Args:
        generation: `910a`, `910b` or `910c`.
        levels: innermost first.
        inner: how many of them are inside a server.
        kind: what is done.
    """
    inside = [_with_default(level, generation, 0) for level in levels[:inner]]
    outside = [_with_default(level, generation, 1) for level in levels[inner:]]
    if kind is Collective.ALL_TO_ALL:
        outside = [_exchange(level) for level in outside]
    plain = _two_levels(inside, outside, kind)
    if generation == "910b" and len(inside) == 1 and len(outside) == 1:
        return _perhaps_pipelined(inside[0], outside[0], kind, plain)
    return plain


def _with_default(level: Level, generation: str, depth: int) -> Level:
    if level.algorithm != AUTO or len(level.stages) > 1:
        return level
    stage = level.stages[0]
    if depth:
        return replace(level, algorithm=level_1_algorithm(generation, stage.ranks))
    return replace(level, algorithm=level_0_algorithm(generation, stage))


def _exchange(level: Level) -> Level:
    """An all-to-all between servers is pairwise whatever the level is set to."""
    single = len(level.stages) == 1 and level.algorithm != PAIRED_RINGS
    return replace(level, algorithm="pairwise") if single else level


def _two_levels(inside: Sequence[Level], outside: Sequence[Level], kind: Collective) -> Curve:
    """Gathers and scatters send whole vectors between servers, the rest only shares of them.

    The order of the two levels keeps what is sent contiguous in memory; for that the outer level
    of an all-gather or a reduce-scatter carries n, not n / p of the ranks inside.
    """
    if kind not in _INTER_FIRST or not inside or not outside:
        return composed((*inside, *outside), kind)
    servers = 1
    for level in outside:
        servers *= level.ranks
    return composed(outside, kind) + composed(inside, kind).on_share(servers)


def _perhaps_pipelined(inside: Level, outside: Level, kind: Collective, plain: Curve) -> Curve:
    """The pipeline from the size on at which it is switched on."""
    ranks = inside.ranks * outside.ranks
    first = {
        Collective.ALL_GATHER: PIPELINE_BYTES,
        Collective.REDUCE_SCATTER: PIPELINE_BYTES,
        Collective.ALL_REDUCE: PIPELINE_SLICE_BYTES * ranks,
    }.get(kind)
    if first is None or inside.algorithm != "mesh":
        return plain
    pipelined = _pipeline(inside.stages[0], outside.stages[0], kind)
    return spliced((plain, pipelined), ((0.0, 0), (float(first), 1)))


def _pipeline(intra: Stage, inter: Stage, kind: Collective) -> Curve:
    """(q - 1) max(a1 + n / p b1, a0 + n / p b0) + a0 + n / p b0 of q servers, p ranks.

    Each rank's piece goes from server to server over the rank's own port; what arrived is dealt
    out inside the server at the same time. An all-reduce does it twice. The larger of the two is
    taken of latency and bytes each.
    """
    ranks = intra.ranks * inter.ranks
    adding = 0.0 if kind is Collective.ALL_GATHER else intra.reduction_s_per_byte
    one = Curve.line(intra.latency_s, (intra.seconds_per_byte + adding) / ranks)
    step = Curve.line(
        max(intra.latency_s, inter.latency_s),
        (max(intra.seconds_per_byte, inter.seconds_per_byte) + adding) / ranks,
    )
    once = step.times(inter.ranks - 1) + one
    return once + once if kind is Collective.ALL_REDUCE else once
