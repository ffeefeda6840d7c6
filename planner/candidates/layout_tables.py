"""Ports: the layouts that the candidates of a node give to one of its tensors, forward and for
the gradient.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ir.layout import Layout
from ir.rule import FactorMap
from planner.candidates.assignments import GRADIENT_PARTIAL, Assignment, Assignments, axes_of_mask
from topology.mesh import Mesh

IntArray = NDArray[np.intp]
Dims: TypeAlias = tuple[tuple[int, ...], ...]
"""Mesh axes of every dimension of a tensor."""


@dataclass(frozen=True, slots=True)
class LayoutPair:
    """Layout of a tensor at a port and that of its gradient."""

    forward: Layout
    gradient: Layout


class LayoutTableKey:
    """States of a port and the state of each candidate, hashed once: a port has many readers."""

    __slots__ = ("_hash", "_parts")

    def __init__(self, *parts: Hashable) -> None:
        self._parts, self._hash = parts, hash(parts)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, LayoutTableKey) and self._parts == other._parts)


class Layouts(tuple[Layout, ...]):  # noqa: SLOT001  a tuple with slots cannot keep its hash
    """Layouts in order, hashed once."""

    _hash: int | None = None

    @cached_property
    def facts(self) -> tuple[tuple[Dims, tuple[int, ...]], ...]:
        """What tells layouts apart, for comparisons in number."""
        return tuple((layout.dims, layout.partial) for layout in self)

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = super().__hash__()
        return self._hash


@dataclass(frozen=True, eq=False)
class LayoutTable:
    """What a node's candidates do to one tensor."""

    states: tuple[LayoutPair, ...]
    """Distinct states, in order of first appearance."""
    of: IntArray
    """State of each candidate, shape (C,)."""
    _masks: IntArray | None = None

    @cached_property
    def masks(self) -> IntArray:
        """Axes of every dimension, then those of the terms of a sum, as sums of powers of two,
        forward and of the gradient; shape (states, 2, dims + 1).
        """
        if self._masks is not None:
            return self._masks
        found = [
            [[_mask(axes) for axes in (*x.dims, x.partial)] for x in (s.forward, s.gradient)]
            for s in self.states
        ]
        return np.array(found, dtype=np.intp)

    @cached_property
    def key(self) -> LayoutTableKey:
        """Equal for ports that are alike."""
        facts = (
            (s.forward.dims, s.forward.partial, s.gradient.dims, s.gradient.partial)
            for s in self.states
        )
        return LayoutTableKey(tuple(facts), self.of.tobytes())

    def axis_choices(self, axes: int) -> IntArray:
        """What each mesh axis is to the layout and to that of the gradient of every candidate, as
        numbers, 0 if nothing: the hint of `NodeTable.axes`; shape (C, A).
        """
        radix = self.masks.shape[2] + 1
        has = self.masks[..., None] >> np.arange(axes) & 1
        forward, gradient = (np.arange(1, radix) @ has).swapaxes(0, 1)
        return np.asarray((forward * radix + gradient)[self.of])

    @cached_property
    def elements(self) -> dict[tuple[tuple[int, ...], tuple[int, ...]], NDArray[np.float64]]:
        """What `shard_elements` found for some dims on some mesh."""
        return {}

    @cached_property
    def entries(self) -> dict[tuple[tuple[int, ...], tuple[int, ...]], NDArray[np.float64]]:
        """What `entry_elements` found for some dims on some mesh."""
        return {}

    def pieces(self, sizes: tuple[int, ...]) -> NDArray[np.int64]:
        """Pieces of every dimension in each state, shape (states, dims), on such a mesh."""
        if sizes not in self.cuts:
            found = [state.forward.shards(sizes) for state in self.states]
            shape = (len(found), len(self.states[0].forward.dims))
            self.cuts[sizes] = np.array(found, dtype=np.int64).reshape(shape)
        return self.cuts[sizes]

    @cached_property
    def cuts(self) -> dict[tuple[int, ...], NDArray[np.int64]]:
        """What `pieces` found on some meshes."""
        return {}

    def rows(self, states: IntArray) -> LayoutTable:
        """Some of the states, a candidate for each."""
        key = states.tobytes()
        if key not in self._parts:
            chosen = tuple([self.states[i] for i in states.tolist()])
            part = LayoutTable(chosen, np.arange(len(chosen)), self.masks[states])
            part.cuts.update({sizes: own[states] for sizes, own in self.cuts.items()})
            self._parts[key] = part
        return self._parts[key]

    @cached_property
    def _parts(self) -> dict[bytes, LayoutTable]:
        """What `rows` made."""
        return {}

    @cached_property
    def forward(self) -> Layouts:
        return Layouts(s.forward for s in self.states)

    @cached_property
    def gradient(self) -> Layouts:
        return Layouts(s.gradient for s in self.states)


def _mask(axes: tuple[int, ...]) -> int:
    return sum(1 << axis for axis in axes if axis >= 0)


def layout_table_of(states: Sequence[LayoutPair]) -> LayoutTable:
    """Layout table from the pair of every candidate."""
    number: dict[LayoutPair, int] = {}
    of = np.array([number.setdefault(s, len(number)) for s in states], dtype=np.intp)
    return LayoutTable(tuple(number), of)


def tensor_dims(mapping: FactorMap, assignment: Assignment) -> Dims:
    """Mesh axes of every dimension: those of its factors, in their order."""
    places: dict[int, tuple[int, ...]] = {}
    for axis, factor in enumerate(assignment):
        places[factor] = (*places.get(factor, ()), axis)
    return tuple(
        tuple(axis for factor in dim for axis in places.get(factor, ())) for dim in mapping
    )


def local_elements(dims: Sequence[int], layout: Layout, mesh: Mesh) -> int:
    """Elements of the largest shard."""
    return math.prod(layout.local_dims(dims, mesh.sizes))


def shard_elements(dims: Sequence[int], port: LayoutTable, mesh: Mesh) -> NDArray[np.float64]:
    """Elements of the largest shard for each pair of a layout table, shape (states,)."""
    key = (tuple(dims), mesh.sizes)
    if key not in port.elements:
        sizes = np.array(dims, dtype=np.int64)
        local = -(-sizes // port.pieces(mesh.sizes))
        port.elements[key] = local.prod(axis=1).astype(np.float64)
    return port.elements[key]


def entry_elements(dims: tuple[int, ...], port: LayoutTable, mesh: Mesh) -> NDArray[np.float64]:
    """Elements of the largest shard for every candidate, then those of the whole tensor, shape
    (C + 1,).
    """
    key = (dims, mesh.sizes)
    if key not in port.entries:
        out = np.empty(len(port.of) + 1)
        np.take(shard_elements(dims, port, mesh), port.of, out=out[:-1])
        out[-1] = math.prod(dims)
        port.entries[key] = out
    return port.entries[key]


NONE: frozenset[int] = frozenset()


@dataclass(slots=True)
class LayoutTableMaker:
    """Ports, states and layouts on one mesh, each of them once."""

    partial_edges: bool
    """Sums may stay partial between operators."""
    _layouts: dict[tuple[Dims, tuple[int, ...]], Layout] = field(default_factory=dict)
    _states: dict[tuple[int, int], LayoutPair] = field(default_factory=dict)
    _ports: dict[tuple[FactorMap, Assignments, frozenset[int], frozenset[int]], LayoutTable] = (
        field(default_factory=dict)
    )

    def layout(self, dims: Dims, partial: tuple[int, ...] = ()) -> Layout:
        """A layout."""
        key = (dims, partial)
        if key not in self._layouts:
            self._layouts[key] = Layout(dims, partial)
        return self._layouts[key]

    def state(self, forward: Layout, gradient: Layout) -> LayoutPair:
        """A state of two layouts that `layout` made."""
        key = (id(forward), id(gradient))
        if key not in self._states:
            self._states[key] = LayoutPair(forward, gradient)
        return self._states[key]

    def operand(self, mapping: FactorMap, splits: Assignments) -> LayoutTable:
        """The port of an operand: its gradient is partial over the axes of factors that it lacks.

        Args:
            mapping: factors of its dimensions.
            splits: the candidates of the operator.
        """
        if not self.partial_edges:
            return self._port(mapping, splits, NONE, NONE)
        own = {f for dim in mapping for f in dim}
        lacking = (f for f in splits.choices if f == GRADIENT_PARTIAL or (f >= 0 and f not in own))
        return self._port(mapping, splits, NONE, frozenset(lacking))

    def result(
        self, mapping: FactorMap, splits: Assignments, summed: frozenset[int]
    ) -> LayoutTable:
        """The port of a result: partial over the axes of factors that are summed away."""
        if not self.partial_edges:
            return self._port(mapping, splits, NONE, NONE)
        return self._port(mapping, splits, summed, frozenset({GRADIENT_PARTIAL}))

    def _port(
        self,
        mapping: FactorMap,
        splits: Assignments,
        forward: frozenset[int],
        gradient: frozenset[int],
    ) -> LayoutTable:
        """A port: the last two are the factors over whose axes the tensor and its gradient are
        partial.
        """
        key = (mapping, splits, forward, gradient)
        if key not in self._ports:
            self._ports[key] = self._made(mapping, splits, forward, gradient)
        return self._ports[key]

    def _made(
        self,
        mapping: FactorMap,
        splits: Assignments,
        forward: frozenset[int],
        gradient: frozenset[int],
    ) -> LayoutTable:
        columns = [splits.mask(f) for dim in mapping for f in dim]
        columns += [splits.together(forward), splits.together(gradient)]
        codes = np.stack(columns, axis=1)
        state_of: dict[tuple[int, ...], int] = {}
        number: dict[tuple[Dims, int, int], int] = {}
        of: list[int] = []
        first: list[int] = []
        for index, row in enumerate(map(tuple, codes.tolist())):
            found = state_of.get(row)
            if found is None:
                key = (_dims(mapping, row), row[-2], row[-1])
                found = state_of[row] = number.setdefault(key, len(number))
                if found == len(first):
                    first.append(index)
            of.append(found)
        states = tuple(self._state(*key) for key in number)
        port = LayoutTable(states, np.array(of, dtype=np.intp), _masks_of(mapping, codes[first]))
        pieces = [splits.counts(dim)[first] for dim in mapping]
        none = np.ones((len(first), 0), dtype=np.int64)
        port.cuts[splits.sizes] = np.stack(pieces, axis=1) if pieces else none
        return port

    def _state(self, dims: Dims, forward: int, gradient: int) -> LayoutPair:
        layout = self.layout(dims, axes_of_mask(forward))
        if gradient == forward:
            return self.state(layout, layout)
        return self.state(layout, self.layout(dims, axes_of_mask(gradient)))


def _masks_of(mapping: FactorMap, codes: IntArray) -> IntArray:
    """As `LayoutTable.masks`, from the axes of all factors in turn and the two of the terms."""
    out = np.zeros((len(codes), 2, len(mapping) + 1), dtype=np.intp)
    place = 0
    for dim, factors in enumerate(mapping):
        for _ in factors:
            out[:, :, dim] += codes[:, place, None]
            place += 1
    out[:, :, -1] = codes[:, -2:]
    return out


def _dims(mapping: FactorMap, code: tuple[int, ...]) -> Dims:
    """Mesh axes of every dimension from those of all factors in turn, as masks."""
    if len(code) == len(mapping) + 2 and all(len(dim) == 1 for dim in mapping):
        return tuple(map(axes_of_mask, code[:-2]))
    masks = iter(code)
    return tuple(
        axes_of_mask(next(masks))
        if len(dim) == 1
        else tuple(axis for _ in dim for axis in axes_of_mask(next(masks)))
        for dim in mapping
    )
