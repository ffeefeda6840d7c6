"""The decision as numbers: candidates with times and memory, pairs with times, one limit.

A solver sees a :class:`Problem` and nothing else. Equal nodes share one table, and so do equal
edges, so that eighty equal layers are held once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from costmodel.overlap import Layers, Loads, StepForm

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.intp]
Interval: TypeAlias = tuple[int, int]

ROUNDING = 1e-12
"""Relative allowance for the rounding of a sum when a peak is held against the limit."""


T = TypeVar("T")


Tables: TypeAlias = tuple[tuple[T, ...], tuple[int, ...]]
"""Distinct tables, and the number of that of every node or edge."""


def tables_of(keys: Iterable[Hashable], make: Callable[[int], T]) -> Tables[T]:
    """Tables, and the one of each node or edge: those of equal keys share the first one's.

    Args:
        keys: of the nodes or edges in order.
        make: the table of one of them, by its number.
    """
    known: dict[Hashable, int] = {}
    tables: list[T] = []
    of: list[int] = []
    for number, key in enumerate(keys):
        of.append(known.setdefault(key, len(tables)))
        if of[-1] == len(tables):
            tables.append(make(number))
    return tuple(tables), tuple(of)


class Inherited(IntEnum):
    """From which neighbours a candidate may come that is no choice of its own."""

    FROM_MAKERS = 1
    FROM_ALL = 2


@dataclass(frozen=True, slots=True, eq=False)
class NodeTable:
    """What each candidate of a node costs; shared by all equal nodes."""

    time_s: FloatArray
    """Seconds per candidate, shape (C,), finite; a candidate to avoid has a large number."""
    memory_bytes: tuple[FloatArray, ...] = ()
    """Bytes per candidate, one (C,) vector for each live interval of the node."""
    axes: IntArray | None = None
    """A hint: what each candidate does with every axis of the machine, slowest axis first, shape
    (C, A). 0 is nothing, other numbers are only names; None where that is not known."""
    loads: FloatArray | None = None
    """What `time_s` is made of, shape (columns, C); None where nothing of it hides anything."""
    inherited: IntArray | None = None
    """A hint: which candidates are no choice of their own, shape (C,); one of `Inherited`, 0 for a
    choice. A search that follows neighbours takes one where a neighbour has that very layout."""


@dataclass(frozen=True, slots=True, eq=False)
class EdgeTable:
    """What each pair of candidates costs; shared by all equal edges."""

    time_s: FloatArray
    """Seconds per pair, shape (Cu, Cv), finite; a pair to avoid has a large number."""
    memory_bytes: tuple[FloatArray, ...] = ()
    """Bytes per pair, one (Cu, Cv) matrix for each live interval of the edge."""
    loads: FloatArray | None = None
    """What `time_s` is made of, shape (columns, Cu, Cv); None where nothing hides any of it."""
    row_numbers: dict[int, IntArray] = field(default_factory=dict, init=False, repr=False)
    """What solvers found of candidates with equal costs at either side: the table has many
    readers."""


Table = TypeVar("Table", NodeTable, EdgeTable)


def loads_of(
    table: NodeTable | EdgeTable, columns: int, at: Sequence[int | slice] = (slice(None),)
) -> FloatArray:
    """What some candidates or pairs of a table load, shape (columns, ...)."""
    if table.loads is not None:
        return np.asarray(table.loads[(slice(None), *at)])
    time_s = np.asarray(table.time_s[tuple(at)])
    out = np.zeros((*time_s.shape, columns))
    out[..., Loads.FIXED] = time_s
    return np.moveaxis(out, -1, 0)


def with_more(table: Table, time_s: FloatArray | float) -> Table:
    """The table with time that nothing hides on top."""
    loads = None if table.loads is None else table.loads.copy()
    if loads is not None:
        loads[Loads.FIXED] += time_s
    return replace(table, time_s=table.time_s + time_s, loads=loads)


@dataclass(frozen=True, slots=True, eq=False)
class ChoiceLimit:
    """A limit on what all candidates of a choice take together of something that is no memory, such
    as changes of an older plan.
    """

    amounts: Mapping[int, FloatArray]
    """By node what each candidate takes, shape (C,), none below 0; other nodes take nothing."""
    most: float
    """What a choice may take."""

    def holds(self, choice: Sequence[int]) -> bool:
        """Whether a choice takes no more, up to the rounding of the sum."""
        taken = math.fsum(float(own[choice[node]]) for node, own in self.amounts.items())
        return taken <= self.most * (1.0 + ROUNDING)


@dataclass(frozen=True, eq=False)
class Overlap:
    """That some of the time of a choice hides behind other time."""

    form: StepForm
    """How time follows from loads."""
    layers: Layers
    layer_of: tuple[int, ...]
    """Of each node. What an edge loads is of the layer of its first end."""
    piece_of: tuple[int, ...]
    """Of each layer, counted from 0: pieces of the network share nothing."""

    @property
    def count(self) -> int:
        """Number of layers."""
        return len(self.layers.before)

    @cached_property
    def piece_of_node(self) -> tuple[int, ...]:
        """The piece of every node."""
        return tuple(self.piece_of[layer] for layer in self.layer_of)

    def layers_s(self, loads: FloatArray) -> FloatArray:
        """Seconds of the windows of each layer, shape (..., layers).

        Args:
            loads: of layers, shape (..., layers, columns).
        """
        return self.form.time_s(self.layers.windows(self.form.loads, loads))

    def pieces_s(self, loads: FloatArray) -> FloatArray:
        """Seconds of each piece, shape (..., pieces).

        Args:
            loads: as for `layers_s`.
        """
        each = self.layers_s(loads)
        out = np.zeros((*each.shape[:-1], max(self.piece_of, default=-1) + 1))
        for layer, piece in enumerate(self.piece_of):
            out[..., piece] += each[..., layer]
        return out


@dataclass(frozen=True, eq=False)
class Problem:
    """Choose one candidate per node: least total time, memory within the limit at all times."""

    node_tables: tuple[NodeTable, ...]
    """Distinct node tables."""
    edge_tables: tuple[EdgeTable, ...]
    """Distinct edge tables."""
    node_table_of: tuple[int, ...]
    """Table of each node, in program order."""
    node_intervals: tuple[tuple[Interval, ...], ...]
    """Per node the time points `[start, end)` of each vector in its table's `memory_bytes`."""
    edges: tuple[tuple[int, int], ...]
    """Pairs `(u, v)` with `u != v`, in any order; parallel edges add."""
    edge_table_of: tuple[int, ...]
    """Table of each edge, indexed `[choice of u, choice of v]`."""
    edge_intervals: tuple[tuple[Interval, ...], ...]
    """Per edge the time points `[start, end)` of each matrix in its table's `memory_bytes`."""
    time_points: int
    """Number of time points, e.g. 1 if only the end of the forward pass can bind."""
    memory_limit_bytes: float
    """Bytes that no time point may exceed; `math.inf` for no limit."""
    pinned: tuple[int, ...] = ()
    """A hint: nodes whose candidates the user restricted, ascending."""
    stated: tuple[int, ...] = ()
    """A hint: nodes of which the user gave the result a layout, ascending."""
    limits: tuple[ChoiceLimit, ...] = ()
    """What a choice has to keep beside the memory; `solver_by_name` finds solvers that do."""
    overlap: Overlap | None = None
    """How its time overlaps; None if it is the sum of the tables. `solver_by_name` finds solvers
    that minimise either."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of candidates of each node."""
        counts = [table.time_s.shape[0] for table in self.node_tables]
        return tuple(counts[table] for table in self.node_table_of)

    @cached_property
    def edges_at(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """Of every node its edges in ascending order, each with the node at its other end."""
        found: list[list[tuple[int, int]]] = [[] for _ in self.node_table_of]
        for edge, (u, v) in enumerate(self.edges):
            found[u].append((edge, v))
            found[v].append((edge, u))
        return tuple(map(tuple, found))

    def with_tables(self, nodes: Tables[NodeTable], edges: Tables[EdgeTable]) -> Problem:
        """The problem with other tables, such as `tables_of` makes."""
        return replace(
            self, node_tables=nodes[0], node_table_of=nodes[1],
            edge_tables=edges[0], edge_table_of=edges[1],
        )  # fmt: skip

    def without_memory(self, nodes: Tables[NodeTable], edges: Tables[EdgeTable]) -> Problem:
        """The problem with other tables, which hold nothing, and without a limit."""
        return replace(
            self.with_tables(nodes, edges),
            node_intervals=((),) * len(nodes[1]),
            edge_intervals=((),) * len(edges[1]),
            memory_limit_bytes=math.inf,
        )

    def cost_s(self, choice: Sequence[int]) -> float:
        """Seconds of a choice: the judge of every solver.

        Sums are exactly rounded, hence the same for every order of the nodes.
        """
        if self.overlap is not None:
            return math.fsum(self.overlap.layers_s(self.loads(choice)).tolist())
        return self.sum_s(choice)

    def sum_s(self, choice: Sequence[int]) -> float:
        """Seconds of a choice if nothing overlapped."""
        nodes = (
            self.node_tables[table].time_s[candidate]
            for table, candidate in zip(self.node_table_of, choice, strict=True)
        )
        edges = (
            self.edge_tables[table].time_s[choice[u], choice[v]]
            for table, (u, v) in zip(self.edge_table_of, self.edges, strict=True)
        )
        return math.fsum((*nodes, *edges))

    def loads(self, choice: Sequence[int]) -> FloatArray:
        """What a choice loads in each layer, shape (layers, columns).

        Raises:
            ValueError: nothing of the problem overlaps.
        """
        if self.overlap is None:
            raise ValueError("nothing of the problem overlaps")
        layer_of, columns = self.overlap.layer_of, self.overlap.form.loads.count
        fixed: list[list[float]] = [[] for _ in range(self.overlap.count)]
        rows: list[list[FloatArray]] = [[] for _ in fixed]
        for node, table in enumerate(self.node_table_of):
            own, chosen = self.node_tables[table], choice[node]
            if own.loads is None:
                fixed[layer_of[node]].append(own.time_s[chosen])
            else:
                rows[layer_of[node]].append(own.loads[:, chosen])
        for (u, v), table in zip(self.edges, self.edge_table_of, strict=True):
            pair = self.edge_tables[table]
            if pair.loads is None:
                fixed[layer_of[u]].append(pair.time_s[choice[u], choice[v]])
            else:
                rows[layer_of[u]].append(pair.loads[:, choice[u], choice[v]])
        out = np.zeros((len(fixed), columns))
        for layer, found in enumerate(rows):
            spread = np.stack(found, axis=1).tolist() if found else [[]] * columns
            for column, values in enumerate(spread):
                more = fixed[layer] if column == Loads.FIXED else ()
                out[layer, column] = math.fsum((*values, *more))
        return out

    def least_loads(self) -> FloatArray:
        """What nodes load in each layer at least, shape (layers, columns).

        Raises:
            ValueError: nothing of the problem overlaps.
        """
        if self.overlap is None:
            raise ValueError("nothing of the problem overlaps")
        out = np.zeros((self.overlap.count, self.overlap.form.loads.count))
        for layer, table in zip(self.overlap.layer_of, self.node_table_of, strict=True):
            loads = self.node_tables[table].loads
            if loads is not None:
                out[layer] += loads.min(axis=1, initial=math.inf)
        return out

    def at_prices(self, prices: Sequence[FloatArray]) -> Problem:
        """The sum that bounds the time of every choice from below under some prices.

        Args:
            prices: on the resources of the windows of each layer, as `StepForm.weights` takes them.
        """
        if self.overlap is None:
            return self
        form, layer_of = self.overlap.form, self.overlap.layer_of
        each = np.array([form.weights(own) for own in prices])
        weights = self.overlap.layers.weights(form.loads, each)
        known: dict[bytes, int] = {}
        number = [known.setdefault(own.tobytes(), layer) for layer, own in enumerate(weights)]

        def node_table(node: int) -> NodeTable:
            own = self.node_tables[self.node_table_of[node]]
            time_s = _counted(own, weights[layer_of[node]])
            return NodeTable(time_s, own.memory_bytes, own.axes)

        def edge_table(edge: int) -> EdgeTable:
            own = self.edge_tables[self.edge_table_of[edge]]
            if own.loads is None:
                return own
            time_s = _counted(own, weights[layer_of[self.edges[edge][0]]])
            return EdgeTable(time_s, own.memory_bytes)

        def key(table: int, loads: FloatArray | None, node: int) -> tuple[int, int]:
            return table, -1 if loads is None else number[layer_of[node]]

        nodes = [key(t, self.node_tables[t].loads, n) for n, t in enumerate(self.node_table_of)]
        pairs = zip(self.edge_table_of, self.edges, strict=True)
        edges = [key(t, self.edge_tables[t].loads, u) for t, (u, _) in pairs]
        found = self.with_tables(tables_of(nodes, node_table), tables_of(edges, edge_table))
        return replace(found, overlap=None)

    def with_all_hidden(self) -> Problem:
        """The sum in which whatever may hide costs nothing: no choice takes less."""
        if self.overlap is None:
            return self
        free = self.overlap.form.all_on_compute()
        return self.at_prices([free] * self.overlap.count)

    def memory_profile(self, choice: Sequence[int]) -> FloatArray:
        """Bytes in use at each time point, shape (T,)."""
        held = list(self.held(choice, range(len(choice)), range(len(self.edges))))
        starts = np.array([start for start, _, _ in held], dtype=np.intp)
        ends = np.array([end for _, end, _ in held], dtype=np.intp)
        nbytes = np.array([amount for _, _, amount in held], dtype=np.float64)
        return profile_bytes(starts, ends, nbytes, self.time_points)

    def held(
        self, choice: Sequence[int], nodes: Iterable[int], edges: Iterable[int]
    ) -> Iterator[tuple[int, int, float]]:
        """What some nodes and edges hold under a choice: from when, until when, and bytes."""
        for node in nodes:
            own = self.node_tables[self.node_table_of[node]].memory_bytes
            for (start, end), vector in zip(self.node_intervals[node], own, strict=True):
                yield start, end, float(vector[choice[node]])
        for edge in edges:
            (u, v), own = self.edges[edge], self.edge_tables[self.edge_table_of[edge]].memory_bytes
            for (start, end), matrix in zip(self.edge_intervals[edge], own, strict=True):
                yield start, end, float(matrix[choice[u], choice[v]])

    def peak_bytes(self, choice: Sequence[int]) -> float:
        """Largest number of bytes in use at any time point."""
        return float(self.memory_profile(choice).max(initial=0.0))

    def is_feasible(self, choice: Sequence[int]) -> bool:
        """Whether the memory fits at every time point, and every other limit is kept."""
        kept = all(limit.holds(choice) for limit in self.limits)
        return kept and self.fits(self.peak_bytes(choice))

    def fits(self, peak_bytes: float) -> bool:
        """Whether a peak is within the limit, up to the rounding of the sum."""
        return peak_bytes <= self.memory_limit_bytes * (1.0 + ROUNDING)


def profile_bytes(
    starts: NDArray[np.intp], ends: NDArray[np.intp], nbytes: FloatArray, time_points: int
) -> FloatArray:
    """Bytes at each time point.

    Args:
        starts: shape (K,), first time point of each amount.
        ends: shape (K,), the time point at which it is gone.
        nbytes: shape (K,), the amounts.
        time_points: length of the profile.

    Returns:
        Shape (time_points,).
    """
    gained = np.bincount(starts, weights=nbytes, minlength=time_points + 1)
    lost = np.bincount(ends, weights=nbytes, minlength=time_points + 1)
    profile: FloatArray = np.cumsum(gained - lost, dtype=np.float64)[:time_points]
    return profile


def _counted(table: NodeTable | EdgeTable, weights: FloatArray) -> FloatArray:
    """Seconds of every candidate or pair where each load counts by its weight."""
    if table.loads is None:
        return table.time_s
    return np.asarray(np.tensordot(weights, table.loads, axes=1))
