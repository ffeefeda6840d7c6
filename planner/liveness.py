"""Which gradients exist, which tensors the backward pass needs, and when each tensor is alive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ir.differentiation import operand_gradients, read_back, tensors_with_gradient
from ir.graph import Op, OpGraph, Role
from ir.ops import Engine, lookup


@dataclass(frozen=True, slots=True)
class Liveness:
    """Facts of a graph with its ends. Time runs over the operators forward and, in derived
    training, back again.
    """

    graph: OpGraph
    derived: bool
    """The backward pass is derived: operator i runs backward at point `2 N - 1 - i`."""
    gradient: frozenset[str]
    """Tensors that have a gradient."""
    saved_by: Mapping[str, tuple[int, ...]]
    """Operators that need a tensor in their backward pass, by tensor, as positions."""
    last_use: Mapping[str, int]
    """Position of the last operator that reads a tensor forward."""
    position: Mapping[str, int]
    """Position of each operator by name."""
    read: Mapping[str, tuple[str, ...]]
    """By operator the operands and results that its backward pass reads; empty unless derived."""

    @property
    def time_points(self) -> int:
        return len(self.graph.ops) * (2 if self.derived else 1)

    def backward_point(self, position: int) -> int:
        return 2 * len(self.graph.ops) - 1 - position

    def operand_gradients(self, op: Op) -> tuple[bool, ...]:
        """For every operand whether this operator computes its gradient."""
        return operand_gradients(op, self.gradient) if self.derived else (False,) * len(op.inputs)

    def is_read_back(self, op: Op, name: str) -> bool:
        """Whether the backward pass of an operator reads one of its operands or results."""
        return name in self.read.get(op.name, ())

    def held_until(self, tensor: str) -> int:
        """First point at which a saved tensor is no longer needed."""
        return self.backward_point(min(self.saved_by[tensor])) + 1


def analyse(graph: OpGraph, *, training: bool) -> Liveness:
    """Liveness of a graph that `add_ends` has ended."""
    derived = training and not graph.is_training_step
    gradient = tensors_with_gradient(graph) if derived else frozenset()
    last: dict[str, int] = {}
    read: dict[str, tuple[str, ...]] = {}
    saved: dict[str, list[int]] = {}
    for index, op in enumerate(graph.ops):
        for name in op.inputs:
            last[name] = index
        if derived:
            read[op.name] = read_back(op, gradient)
            for name in _kept(read[op.name], graph):
                saved.setdefault(name, []).append(index)
    position = {op.name: i for i, op in enumerate(graph.ops)}
    return Liveness(
        graph, derived, gradient, {n: tuple(v) for n, v in saved.items()}, last, position, read
    )


def _kept(names: tuple[str, ...], graph: OpGraph) -> tuple[str, ...]:
    """Tensors that are kept for a backward pass that reads these: no weights, no constants."""
    return tuple(n for n in names if graph.tensors[n].role in {Role.ACTIVATION, Role.INPUT})


def recomputable(op: Op, liveness: Liveness) -> bool:
    """Whether the results of an operator can be computed again in the backward pass from what is
    kept anyway.
    """
    entry = lookup(op.kind)
    if entry.engine is Engine.ATTENTION or len(op.outputs) != 1:
        return False
    tensors = liveness.graph.tensors
    data = [n for n in op.inputs if n and tensors[n].role in {Role.ACTIVATION, Role.INPUT}]
    return bool(data) and all(n in liveness.saved_by or tensors[n].role is Role.INPUT for n in data)
