"""Makes the ports of operators. Operators of one form have the same, whatever their sizes are."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ir.layout import Layout
from ir.rule import FactorMap
from planner.assignments import GRADIENT_PARTIAL, Assignments, axes_of_mask
from planner.ports import Dims, IntArray, Port, PortState

NONE: frozenset[int] = frozenset()


@dataclass(slots=True)
class PortMaker:
    """Ports, states and layouts on one mesh, each of them once."""

    partial_edges: bool
    """Sums may stay partial between operators."""
    _layouts: dict[tuple[Dims, tuple[int, ...]], Layout] = field(default_factory=dict)
    _states: dict[tuple[int, int], PortState] = field(default_factory=dict)
    _ports: dict[tuple[FactorMap, Assignments, frozenset[int], frozenset[int]], Port] = field(
        default_factory=dict
    )

    def layout(self, dims: Dims, partial: tuple[int, ...] = ()) -> Layout:
        """A layout."""
        key = (dims, partial)
        if key not in self._layouts:
            self._layouts[key] = Layout(dims, partial)
        return self._layouts[key]

    def state(self, forward: Layout, gradient: Layout) -> PortState:
        """A state of two layouts that `layout` made."""
        key = (id(forward), id(gradient))
        if key not in self._states:
            self._states[key] = PortState(forward, gradient)
        return self._states[key]

    def operand(self, mapping: FactorMap, splits: Assignments) -> Port:
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

    def result(self, mapping: FactorMap, splits: Assignments, summed: frozenset[int]) -> Port:
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
    ) -> Port:
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
    ) -> Port:
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
        port = Port(states, np.array(of, dtype=np.intp), _masks_of(mapping, codes[first]))
        pieces = [splits.counts(dim)[first] for dim in mapping]
        none = np.ones((len(first), 0), dtype=np.int64)
        port.cuts[splits.sizes] = np.stack(pieces, axis=1) if pieces else none
        return port

    def _state(self, dims: Dims, forward: int, gradient: int) -> PortState:
        layout = self.layout(dims, axes_of_mask(forward))
        if gradient == forward:
            return self.state(layout, layout)
        return self.state(layout, self.layout(dims, axes_of_mask(gradient)))


def _masks_of(mapping: FactorMap, codes: IntArray) -> IntArray:
    """As `Port.masks`, from the axes of all factors in turn and the two of the terms."""
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
