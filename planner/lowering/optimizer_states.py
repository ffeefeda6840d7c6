"""Where gradients and optimizer state of a parameter rest: stages 1 and 2 of ZeRO.

A parameter that rests in the layout of its readers has copies on the axes that do not split it.
Level 1 shares its optimizer state out over them: in a step its gradient is scattered once, each
device updates its part, and the parts are gathered once. Level 2 shares the gradient out too,
which leaves no room to add up a whole one: it is scattered in every micro-batch. At level 3 the
parameter itself rests in parts, which are gathered in every micro-batch; those layouts at rest
are among the candidates of every search.

Source: Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models",
arXiv 1910.02054, section 5.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from costmodel.redistribution import UNREACHABLE_S
from ir.plan_enums import Cause
from planner.candidates.columns import Columns
from planner.candidates.layout_tables import LayoutPair, LayoutTable
from planner.lowering.edges import EdgeKind, EdgePricer, Transfer, is_same
from planner.lowering.overlap import Messages

FloatArray = NDArray[np.float64]
Exchange = Callable[[FloatArray], FloatArray]
"""Seconds in a step in which stages that share a parameter add up so many bytes of gradients."""


@dataclass(frozen=True, slots=True)
class StateOptions:
    """Where gradients and optimizer state of parameters may rest."""

    zero: str
    """`auto` for all levels of ZeRO, or the one that every parameter has that can."""
    offload: str = "off"
    """`off`, `auto` for the device or the host, or `on` for the host."""
    shared: frozenset[str] = frozenset()
    """Parameters that other stages hold too; their state stays on the device."""
    exchange_s: Exchange | None = None
    """What adding up their gradients takes."""

    def exchange_of(self, name: str) -> Exchange | None:
        """The exchange of a parameter, if other stages hold it too."""
        return self.exchange_s if name in self.shared else None


def zero_columns(layouts: LayoutTable, axes: int, zero: str, *, free: bool) -> Columns:
    """The candidates of a parameter: where it rests, and where its state does.

    Args:
        layouts: that it may have at rest.
        axes: of the mesh.
        zero: levels asked for, as in `StateOptions`.
        free: whether the target lays a parameter out at rest as it likes.
    """
    finer = _finer(layouts, axes, free=free)
    count = len(layouts.states)
    rests = np.array([s.forward == s.gradient for s in layouts.states])
    rows = [
        (at, finer.get(at, at) if level else at, level)
        for at in range(count)
        for level in _levels(zero, whole=bool(free or rests[at]), parts=at in finer)
    ]
    table = np.array(rows or [(at, at, 0) for at in range(count)], dtype=np.intp)
    plain = Columns.of(len(table))
    return replace(plain, assignment=table[:, 0], zero=table[:, 2], states=table[:, 1])


def _levels(zero: str, *, whole: bool, parts: bool) -> tuple[int, ...]:
    """Levels at which a candidate of a parameter is offered; 0 stands for what it is by itself.

    Args:
        zero: what is asked for.
        whole: it rests in the layout of its readers, or may.
        parts: there is a layout that shares it out over its copies.
    """
    if zero == "auto":
        return (0, 1, 2) if whole and parts else (0,)
    if zero == "3":
        return () if whole and parts else (0,)
    if not whole:
        return ()
    return (int(zero),) if parts else (0,)


def _finer(layouts: LayoutTable, axes: int, *, free: bool) -> dict[int, int]:
    """For states of a parameter the state in which it is shared out over all its copies.

    With cut counts the second layout is the one of its readers; among all layouts of a free target
    those that go on where the first ends have the smallest parts first.
    """
    if not free:
        index = {s.gradient: i for i, s in enumerate(layouts.states) if s.forward != s.gradient}
        return {
            i: index[s.forward]
            for i, s in enumerate(layouts.states)
            if s.forward == s.gradient and s.forward in index
        }
    full = [i for i, s in enumerate(layouts.states) if len(s.forward.split_axes) == axes]
    found = {}
    for i, state in enumerate(layouts.states):
        own = state.forward.dims
        for j in full:
            other = layouts.states[j].forward.dims
            if j != i and all(b[: len(a)] == a for a, b in zip(own, other, strict=True)):
                found[i] = j
                break
    return found


def times_in_parts(
    pricer: EdgePricer,
    kind: EdgeKind,
    ends: tuple[LayoutTable, LayoutTable],
    columns: Columns,
    counts: tuple[int, float],
) -> FloatArray:
    """Seconds of a micro-batch at levels 1 and 2, shape (candidates, layouts of the target).

    Args:
        pricer: of the mesh.
        kind: what flows from the parameter.
        ends: layouts at rest and of the reader.
        columns: candidates at these levels alone.
        counts: micro-batches of a step, and how many share what happens once in it.
    """
    source, target = ends
    once, kind = pricer.at_rest(), replace(kind, regathered=False)
    parts = source.rows(columns.states)
    whole = once.times(kind, parts, target)
    gather = once.times(replace(kind, gradient=False), parts, target)
    micro_batches, shared_by = counts
    second = (micro_batches > 1) & (columns.zero == 2)[:, None]
    spent = np.where(second, whole - gather + gather / shared_by, whole / shared_by)
    own = source.rows(columns.assignment)
    reachable = is_same(own, target) & (whole < UNREACHABLE_S)
    return np.where(reachable, spent, UNREACHABLE_S)


def messages_in_parts(
    pricer: EdgePricer,
    kind: EdgeKind,
    ends: tuple[LayoutTable, LayoutTable],
    columns: Columns,
    micro_batches: int,
) -> Messages:
    """The messages of parameters at levels 1 and 2 between candidates and layouts of the target.

    Args:
        pricer: of the mesh.
        kind: what flows from the parameter.
        ends: layouts at rest and of the reader.
        columns: candidates at these levels alone.
        micro_batches: of a step.
    """
    source, target = ends
    found = pricer.at_rest().messages(
        replace(kind, regathered=False), source.rows(columns.states), target
    )
    second = (micro_batches > 1) & (columns.zero == 2)[:, None]
    none = np.zeros_like(found.gather)
    each, once = np.where(second, found.once, 0.0), np.where(second, 0.0, found.once)
    return Messages(none, none, each, once, updated=found.gather)


def transfers_in_parts(
    pricer: EdgePricer, kind: EdgeKind, ends: tuple[LayoutPair, LayoutPair], level: int
) -> tuple[Transfer, ...]:
    """The collectives of a parameter at level 1 or 2.

    Args:
        pricer: of the mesh.
        kind: what flows from the parameter.
        ends: where its optimizer state rests, and how its reader has it.
        level: of ZeRO.
    """
    moves = pricer.at_rest().transfers(replace(kind, regathered=False), *ends)
    scattered = [
        replace(move, once=level == 1) for move in moves if move.cause == Cause.GRADIENT_SYNC
    ]
    gathered = [
        replace(move, once=True, cause=Cause.UPDATED_PARAMETERS)
        for move in moves
        if move.cause == Cause.PARAMETER_GATHER
    ]
    return (*scattered, *gathered)
