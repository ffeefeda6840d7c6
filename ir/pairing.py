"""Which forward operator each backward operator of a traced training step belongs to.

Tracers lose the tie between the two passes; the data flow has it. A backward operator reads what
its forward operator read or made (the operands that were kept), and gradients flow from later
forward operators to earlier ones: among the forward operators that a kept tensor touches, it is the
latest that is no later than the ones its gradients come from. What leads to the gradient of one
parameter alone belongs to a reader of that parameter. What reads nothing kept follows the gradient:
to the operator in front, if that moves elements in the same way, else it is a part of the one it
comes from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from ir.graph import Op, OpGraph, Role
from ir.ops import Needs, lookup


def backward_operators(graph: OpGraph) -> frozenset[str]:
    """Operators of a traced training step that its loss does not depend on, by name."""
    if not graph.is_training_step:
        return frozenset()
    gradients = set(graph.gradients.values())
    wanted = {n for n in graph.outputs if n not in gradients}
    backward: set[str] = set()
    for op in reversed(graph.ops):
        if wanted.intersection(op.outputs):
            wanted.update(op.inputs)
        else:
            backward.add(op.name)
    return frozenset(backward)


def pairs(graph: OpGraph) -> Mapping[str, str]:
    """Names of backward operators with those of their forward operators; empty for a graph that
    has no backward pass.
    """
    backward = backward_operators(graph)
    if not backward:
        return MappingProxyType({})
    work = _Pairing(graph, backward)
    for op in graph.ops:
        if op.name in backward:
            work.visit(op)
    return MappingProxyType({b: work.forward[i].name for b, i in work.place.items()})


@dataclass(slots=True)
class _Pairing:
    graph: OpGraph
    backward: frozenset[str]
    forward: list[Op] = field(default_factory=list)
    makers: dict[str, int] = field(default_factory=dict)
    """By tensor, the place of the forward operator that makes it."""
    touching: dict[str, list[int]] = field(default_factory=dict)
    """By tensor, places of the forward operators that make it, or read it or a view of it."""
    flow: dict[str, int] = field(default_factory=dict)
    """By gradient, the place of the forward operator whose backward pass makes it."""
    place: dict[str, int] = field(default_factory=dict)
    sole: dict[str, str] = field(default_factory=dict)
    """By backward operator the only parameter whose gradient depends on it."""

    def __post_init__(self) -> None:
        self.forward = [op for op in self.graph.ops if op.name not in self.backward]
        touching: dict[str, set[int]] = {}
        for place in range(len(self.forward) - 1, -1, -1):
            op = self.forward[place]
            self.makers.update({n: place for n in op.outputs if n})
            for name in (*op.inputs, *op.outputs):
                touching.setdefault(name, set()).add(place)
            if lookup(op.kind).needs is Needs.NOTHING and len(op.inputs) == 1:
                # A view keeps nothing: what reads it reads what it is a view of.
                touching[op.inputs[0]] |= touching[op.outputs[0]]
        self.touching = {n: self._keeping(places) for n, places in touching.items()}
        self._find_sole()

    def _keeping(self, places: set[int]) -> list[int]:
        """Those whose gradient needs a kept tensor, if there are any, in order."""
        keeping = [p for p in places if lookup(self.forward[p].kind).needs is not Needs.NOTHING]
        return sorted(keeping or places)

    def _find_sole(self) -> None:
        """Follow the gradients back; `""` stands for several parameters."""
        leads = {gradient: name for name, gradient in self.graph.gradients.items()}
        for op in reversed(self.graph.ops):
            found = {leads[n] for n in op.outputs if n in leads}
            if op.name not in self.backward or not found:
                continue
            only = found.pop() if len(found) == 1 else ""
            if only:
                self.sole[op.name] = only
            for name in op.inputs:
                leads[name] = only if leads.get(name, only) == only else ""

    def visit(self, op: Op) -> None:
        """Pair one backward operator; those before it are paired."""
        coming = [self.flow[n] for n in op.inputs if n in self.flow]
        latest = min(coming, default=len(self.forward) - 1)
        kept = [n for n in op.inputs if n in self.touching and self._counts(n)]
        if op.name in self.sole:
            kept = [n for n in (self.sole[op.name],) if n in self.touching]
        # A weight says more than an activation, which several operators may read.
        kept.sort(key=lambda n: len(self.touching[n]))
        found = [max((p for p in self.touching[n] if p <= latest), default=-1) for n in kept]
        place = next((p for p in found if p >= 0), -1)
        if place < 0:
            place = self._in_front(op, latest) if coming else latest
        self.place[op.name] = place
        self.flow.update({n: place for n in op.outputs if n})

    def _counts(self, name: str) -> bool:
        return self.graph.tensors[name].role is not Role.CONSTANT

    def _in_front(self, op: Op, place: int) -> int:
        """The forward operator of the same kind that makes an operand of the one at a place."""
        elements = self.graph.tensors[op.outputs[0]].elements
        for name in self.forward[place].inputs:
            before = self.makers.get(name)
            if before is not None and self.forward[before].kind == op.kind:
                source = self.forward[before].inputs[0]
                if self.graph.tensors[source].elements == elements:
                    return before
        return place
