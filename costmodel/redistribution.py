"""The cheapest way from one layout of a tensor to another, for targets that may use any sequence
of moves (`costmodel.layout_moves`).

All pairs are solved at once by Floyd and Warshall's algorithm, one table per distinct dims, element
type and mesh.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from costmodel.collectives import Collective, CollectiveModel, Curve, CurveTable
from costmodel.layout_moves import FloatArray, Move, StateSpace, bytes_of, held_by
from ir.dtypes import dtype_bytes
from ir.layout import Layout
from topology.mesh import Mesh

IntArray = NDArray[np.int64]
_Prices = tuple[IntArray, IntArray, IntArray, CurveTable, IntArray, FloatArray]
_NO_MESSAGE = Curve.line(0.0, 0.0)

UNREACHABLE_S = 1e3
"""Price of a layout that the tensor cannot have, large against any step and small enough that
sums stay exact.
"""


@dataclass(frozen=True, slots=True)
class Shardable:
    """What redistribution needs to know of a tensor."""

    dims: tuple[int, ...]
    dtype: str
    latency_scale: float = 1.0
    """Share of a collective's latency that this tensor pays, below 1 where tensors are sent in
    buckets.
    """


@dataclass(frozen=True, slots=True)
class Step:
    """One move of a redistribution."""

    kind: Collective | None
    """None for a step without communication."""
    axes: tuple[int, ...]
    nbytes: float
    time_s: float
    result: Layout


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """Seconds between the layouts of a space, each of shape (S, S)."""

    single: FloatArray
    """By one move."""
    closed: FloatArray
    """By the cheapest sequence of moves."""
    best: FloatArray
    """The same, with a last step that is none of the moves."""
    goal: IntArray
    """The layout before that last step, shape (S, S)."""


@dataclass(slots=True)
class Redistribution:
    """All-pairs tables, made when first asked for and shared."""

    model: CollectiveModel
    mesh: Mesh
    max_waste: float = 0.0
    """Largest share by which padding may enlarge a shard, 0 for even splits only."""
    eager_sums: bool = False
    """Sums are completed before anything else happens to them, as XLA does; a tensor may become a
    term of a sum in the last step only.
    """
    _spaces: dict[int, StateSpace] = field(default_factory=dict)
    _moves: dict[int, _Prices] = field(default_factory=dict)
    _tables: dict[Shardable, _Table] = field(default_factory=dict)
    _by_tier: dict[Shardable, FloatArray] = field(default_factory=dict)

    def space(self, rank: int) -> StateSpace:
        if rank not in self._spaces:
            self._spaces[rank] = StateSpace(rank, self.mesh, eager_sums=self.eager_sums)
        return self._spaces[rank]

    def valid(self, tensor: Shardable) -> NDArray[np.bool_]:
        """Which layouts of the state space the tensor can have, shape (S,)."""
        shards = self.space(len(tensor.dims)).shards
        dims = np.array(tensor.dims, dtype=np.int64)
        padded = -(-dims // shards) * shards
        fine = ((padded <= dims * (1 + self.max_waste)) & (shards <= np.maximum(dims, 1))).all(
            axis=1
        )
        return np.asarray(fine, dtype=np.bool_)

    def pair_time_s(
        self, tensor: Shardable, sources: Sequence[Layout], targets: Sequence[Layout]
    ) -> FloatArray:
        """Seconds from each source to each target, shape (len(sources), len(targets))."""
        space = self.space(len(tensor.dims))
        table = self._table(tensor).best
        rows = np.array([space.index[s] for s in sources], dtype=np.intp)
        columns = np.array([space.index[t] for t in targets], dtype=np.intp)
        return table[np.ix_(rows, columns)]

    def pair_tier_s(
        self, tensor: Shardable, sources: Sequence[Layout], targets: Sequence[Layout]
    ) -> FloatArray:
        """Seconds in which each way from a source to a target holds the links of a tier, which a
        message does to all that it crosses; shape (tiers, len(sources), len(targets)).
        """
        space = self.space(len(tensor.dims))
        if tensor not in self._by_tier:
            self._by_tier[tensor] = self._in_tiers(tensor)
        rows = np.array([space.index[s] for s in sources], dtype=np.intp)
        columns = np.array([space.index[t] for t in targets], dtype=np.intp)
        return self._by_tier[tensor][:, rows[:, None], columns]

    def _in_tiers(self, tensor: Shardable) -> FloatArray:
        """The same of all layouts: every pair goes its cheapest way, move by move."""
        space, found = self.space(len(tensor.dims)), self._table(tensor)
        count, tiers = len(space.layouts), self.mesh.used_tiers
        crosses = self._crosses(tensor, tiers)
        following = np.empty((count, count), dtype=np.intp)
        for here in range(count):
            through = found.single[here][:, None] + found.closed
            through[here] = np.inf
            following[here] = through.argmin(axis=0)
        goal = found.goal
        at_layout = np.broadcast_to(np.arange(count)[:, None], (count, count)).copy()
        out = np.zeros((len(tiers), count, count))
        open_still = (at_layout != goal) & (found.best < UNREACHABLE_S)
        for _ in range(count):
            if not open_still.any():
                break
            at = at_layout[open_still]
            after = following[at, goal[open_still]]
            out[:, open_still] += crosses[:, at, after] * found.single[at, after]
            at_layout[open_still] = after
            open_still = open_still & (at_layout != goal)
        return out

    def _crosses(self, tensor: Shardable, tiers: Sequence[int]) -> FloatArray:
        """Whether the cheapest move between two layouts crosses a tier, shape (tiers, S, S)."""
        space = self.space(len(tensor.dims))
        sources, targets, held, curves, rows, factor = self._priced_moves(space)
        times = curves.time_s(rows, self._local_bytes(tensor)[held] * factor, tensor.latency_scale)
        own = np.array(
            [
                [
                    move.kind is not None and tier in self.mesh.tiers_of(move.axes)
                    for move in space.moves
                ]
                for tier in tiers
            ],
            dtype=np.float64,
        ).reshape(len(tiers), len(space.moves))
        out = np.zeros((len(tiers), len(space.layouts), len(space.layouts)))
        # Written last: the cheapest of several moves between the same two.
        order = np.argsort(-times, kind="stable")
        out[:, sources[order], targets[order]] = own[:, order]
        return out

    def steps(self, tensor: Shardable, source: Layout, target: Layout) -> tuple[Step, ...]:
        """The moves of the cheapest way, in order."""
        space = self.space(len(tensor.dims))
        found = self._table(tensor)
        single, table = found.single, found.closed
        here, goal = space.index[source], space.index[target]
        if self.eager_sums:
            goal = min(space.with_fewer_terms(target), key=lambda each: float(table[here, each]))
        local = self._local_bytes(tensor)
        out: list[Step] = []
        for _ in range(len(space.layouts)):
            if here == goal:
                break
            through = single[here] + table[:, goal]
            through[here] = np.inf
            following = int(np.argmin(through))
            move = min(
                (m for m in space.moves if m.source == here and m.target == following),
                key=lambda m: self._move_time(m, local, tensor.latency_scale),
            )
            nbytes = bytes_of(move, local)
            out.append(
                Step(
                    move.kind,
                    move.axes,
                    nbytes,
                    float(single[here, following]),
                    space.layouts[following],
                )
            )
            here = following
        if space.layouts[goal] != target:
            terms = tuple(a for a in target.partial if a not in space.layouts[goal].partial)
            out.append(Step(None, terms, 0.0, 0.0, target))
        return tuple(out)

    def _local_bytes(self, tensor: Shardable) -> FloatArray:
        shards = self.space(len(tensor.dims)).shards
        local = -(-np.array(tensor.dims, dtype=np.int64) // shards)
        return np.asarray(local.prod(axis=1) * dtype_bytes(tensor.dtype), dtype=np.float64)

    def _move_time(self, move: Move, local: FloatArray, latency_scale: float) -> float:
        if move.kind is None:
            return 0.0
        nbytes = bytes_of(move, local)
        return float(self.model.time_s(move.kind, nbytes, move.axes, latency_scale))

    def _table(self, tensor: Shardable) -> _Table:
        if tensor not in self._tables:
            self._tables[tensor] = self._solve(tensor)
        return self._tables[tensor]

    def _solve(self, tensor: Shardable) -> _Table:
        space = self.space(len(tensor.dims))
        local, valid = self._local_bytes(tensor), self.valid(tensor)
        sources, targets, held, curves, rows, factor = self._priced_moves(space)
        times = curves.time_s(rows, local[held] * factor, tensor.latency_scale)
        possible = valid[sources] & valid[targets] & self._nested(tensor, sources, targets)
        single = np.full((len(space.layouts),) * 2, UNREACHABLE_S)
        np.minimum.at(single, (sources[possible], targets[possible]), times[possible])
        np.fill_diagonal(single, np.where(valid, 0.0, UNREACHABLE_S))
        inside = np.flatnonzero(valid)
        compact = np.ascontiguousarray(single[np.ix_(inside, inside)])
        for middle in range(len(inside)):
            np.minimum(compact, compact[:, middle, None] + compact[None, middle, :], out=compact)
        closed = single.copy()
        closed[np.ix_(inside, inside)] = compact
        return _Table(single, closed, *self._with_last_step(space, closed))

    def _with_last_step(self, space: StateSpace, closed: FloatArray) -> tuple[FloatArray, IntArray]:
        """Times with the free step to a term of a sum at the end, where that is a step apart, and
        the layouts before it.
        """
        goal = np.broadcast_to(np.arange(len(closed)), closed.shape)
        if not self.eager_sums:
            return closed, goal
        best, goal = closed.copy(), goal.copy()
        for number, layout in enumerate(space.layouts):
            if layout.partial:
                fewer = np.array(space.with_fewer_terms(layout))
                chosen = closed[:, fewer].argmin(axis=1)
                best[:, number] = closed[np.arange(len(closed)), fewer[chosen]]
                goal[:, number] = fewer[chosen]
        return best, goal

    def _nested(self, tensor: Shardable, sources: IntArray, targets: IntArray) -> NDArray[np.bool_]:
        """Whether the coarser pieces of every dimension are made of whole finer ones, per move.

        Where a dimension is padded they need not be: 23 rows in 8 pieces are 3 each, in 16 pieces
        2 each, and what a group holds is then not what it needs.
        """
        shards = self.space(len(tensor.dims)).shards
        pieces = -(-np.array(tensor.dims, dtype=np.int64) // shards)
        few = np.minimum(shards[sources], shards[targets])
        many = np.maximum(shards[sources], shards[targets])
        coarse = np.maximum(pieces[sources], pieces[targets])
        fine = np.minimum(pieces[sources], pieces[targets])
        whole = (few == 1) | (coarse * few == fine * many)
        return np.asarray(whole.all(axis=1), dtype=np.bool_)

    def _priced_moves(self, space: StateSpace) -> _Prices:
        """Of every move: source, target, whose local bytes count, row of its curve, and how many
        bytes a local byte makes.
        """
        key = id(space)
        if key not in self._moves:
            row: dict[tuple[Collective | None, tuple[int, ...]], int] = {}
            rows = [row.setdefault((m.kind, m.axes), len(row)) for m in space.moves]
            curves = [
                _NO_MESSAGE if kind is None else self.model.curve(kind, axes) for kind, axes in row
            ]
            self._moves[key] = (
                np.array([m.source for m in space.moves], dtype=np.int64),
                np.array([m.target for m in space.moves], dtype=np.int64),
                np.array([held_by(m) for m in space.moves], dtype=np.int64),
                CurveTable.of(curves),
                np.array(rows, dtype=np.int64),
                np.array([m.factor for m in space.moves], dtype=np.float64),
            )
        return self._moves[key]
