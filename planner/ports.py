"""Ports: the layouts that the candidates of a node give to one of its tensors, forward and for
the gradient.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ir.layout import Layout
from ir.rule import FactorMap
from planner.dialects import GRADIENT_PARTIAL, Assignment
from topology.mesh import Mesh

IntArray = NDArray[np.intp]


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

    @cached_property
    def key(self) -> PortKey:
        """Equal for ports that are alike."""
        return PortKey(self.states, self.of.tobytes())

    @cached_property
    def elements(self) -> dict[tuple[tuple[int, ...], tuple[int, ...]], NDArray[np.float64]]:
        """What `port_elements` found for some dims on some mesh."""
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
    def forward(self) -> tuple[Layout, ...]:
        return Layouts(s.forward for s in self.states)

    @cached_property
    def gradient(self) -> tuple[Layout, ...]:
        return Layouts(s.gradient for s in self.states)


def port_of(states: Sequence[PortState]) -> Port:
    """Port from the state of every candidate."""
    number: dict[PortState, int] = {}
    of = np.array([number.setdefault(s, len(number)) for s in states], dtype=np.intp)
    return Port(tuple(number), of)


def whole_port(mapping: FactorMap, assignments: Sequence[Assignment]) -> Port:
    """The port of an operand or a result where no sums are kept partial between operators."""
    number: dict[tuple[tuple[int, ...], ...], int] = {}
    found = [number.setdefault(tensor_dims(mapping, a), len(number)) for a in assignments]
    layouts = (Layout(dims) for dims in number)
    return Port(tuple(PortState(x, x) for x in layouts), np.array(found, dtype=np.intp))


def tensor_dims(mapping: FactorMap, assignment: Assignment) -> tuple[tuple[int, ...], ...]:
    """Mesh axes of every dimension: those of its factors, in their order."""
    places: dict[int, tuple[int, ...]] = {}
    for axis, factor in enumerate(assignment):
        places[factor] = (*places.get(factor, ()), axis)
    return tuple(
        places.get(dim[0], ())
        if len(dim) == 1
        else tuple(axis for factor in dim for axis in places.get(factor, ()))
        for dim in mapping
    )


def operand_state(mapping: FactorMap, assignment: Assignment, *, partial: bool) -> PortState:
    """State of an operand: its gradient is partial over the axes of factors that it lacks.

    Args:
        mapping: factors of the operand.
        assignment: factor of each mesh axis.
        partial: whether the target keeps sums partial between operators.
    """
    dims = tensor_dims(mapping, assignment)
    own = {f for dim in mapping for f in dim}
    missing = tuple(
        a for a, f in enumerate(assignment) if f == GRADIENT_PARTIAL or (f >= 0 and f not in own)
    )
    forward = Layout(dims)
    return PortState(forward, Layout(dims, missing) if partial else forward)


def result_state(
    mapping: FactorMap, assignment: Assignment, summed: frozenset[int], *, partial: bool
) -> PortState:
    """State of a result: partial over the axes of factors that are summed away."""
    dims = tensor_dims(mapping, assignment)
    if not partial:
        return PortState(Layout(dims), Layout(dims))
    terms = tuple(a for a, f in enumerate(assignment) if f in summed)
    wanted = tuple(a for a, f in enumerate(assignment) if f == GRADIENT_PARTIAL)
    return PortState(Layout(dims, terms), Layout(dims, wanted))


def axes_of(assignment: Assignment, factors: Sequence[int]) -> tuple[int, ...]:
    """Mesh axes that split any of the factors."""
    wanted = set(factors)
    return tuple(a for a, f in enumerate(assignment) if f in wanted)


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


def twice(port: Port) -> Port:
    """The port of a node whose candidates are doubled."""
    return Port(port.states, np.concatenate([port.of, port.of]))
