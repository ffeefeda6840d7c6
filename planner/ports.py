"""Ports: the layouts that the candidates of a node give to one of its tensors, forward and for
the gradient.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ir.layout import Layout
from ir.rule import FactorMap
from planner.assignments import Assignment
from topology.mesh import Mesh

IntArray = NDArray[np.intp]
Dims: TypeAlias = tuple[tuple[int, ...], ...]
"""Mesh axes of every dimension of a tensor."""


@dataclass(frozen=True, slots=True)
class PortState:
    """Layout of a tensor at a port and that of its gradient."""

    forward: Layout
    gradient: Layout


class PortKey:
    """States of a port and the state of each candidate, hashed once: a port has many readers."""

    __slots__ = ("_hash", "_parts")

    def __init__(self, *parts: Hashable) -> None:
        self._parts, self._hash = parts, hash(parts)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, PortKey) and self._parts == other._parts)


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
class Port:
    """What a node's candidates do to one tensor."""

    states: tuple[PortState, ...]
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
    def key(self) -> PortKey:
        """Equal for ports that are alike."""
        facts = (
            (s.forward.dims, s.forward.partial, s.gradient.dims, s.gradient.partial)
            for s in self.states
        )
        return PortKey(tuple(facts), self.of.tobytes())

    @cached_property
    def elements(self) -> dict[tuple[tuple[int, ...], tuple[int, ...]], NDArray[np.float64]]:
        """What `port_elements` found for some dims on some mesh."""
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

    @cached_property
    def forward(self) -> Layouts:
        return Layouts(s.forward for s in self.states)

    @cached_property
    def gradient(self) -> Layouts:
        return Layouts(s.gradient for s in self.states)


def _mask(axes: tuple[int, ...]) -> int:
    return sum(1 << axis for axis in axes if axis >= 0)


def port_of(states: Sequence[PortState]) -> Port:
    """Port from the state of every candidate."""
    number: dict[PortState, int] = {}
    of = np.array([number.setdefault(s, len(number)) for s in states], dtype=np.intp)
    return Port(tuple(number), of)


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


def port_elements(dims: Sequence[int], port: Port, mesh: Mesh) -> NDArray[np.float64]:
    """Elements of the largest shard in every state of a port, shape (states,)."""
    key = (tuple(dims), mesh.sizes)
    if key not in port.elements:
        sizes = np.array(dims, dtype=np.int64)
        local = -(-sizes // port.pieces(mesh.sizes))
        port.elements[key] = local.prod(axis=1).astype(np.float64)
    return port.elements[key]


def entry_elements(dims: tuple[int, ...], port: Port, mesh: Mesh) -> NDArray[np.float64]:
    """Elements of the largest shard for every candidate, then those of the whole tensor, shape
    (C + 1,).
    """
    key = (dims, mesh.sizes)
    if key not in port.entries:
        out = np.empty(len(port.of) + 1)
        np.take(port_elements(dims, port, mesh), port.of, out=out[:-1])
        out[-1] = math.prod(dims)
        port.entries[key] = out
    return port.entries[key]


def twice(port: Port) -> Port:
    """The port of a node whose candidates are doubled."""
    return Port(port.states, np.concatenate([port.of, port.of]))
