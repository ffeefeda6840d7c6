"""A small copy of a plan: the same layouts and splits on tensors that fit into a test.

Extents that belong together are cut to the smallest size that is split as before, attributes that
tell extents follow, and of equal layers two are kept.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from executors.shrinking.demands import demands_of, split_factors, whole_majors
from executors.shrinking.extents import Extent, Term
from executors.shrinking.knowledge import KNOWLEDGE
from executors.shrinking.layers import without_equal_layers
from executors.shrinking.sizes import smallest_sizes
from executors.shrinking.space import Place, space_of, with_parts
from executors.shrinking.stages import with_few_micro_batches
from ir.graph import Op, OpGraph, Tensor
from ir.ops import OpView, lookup
from ir.plan import Plan
from ir.plan_stages import axis_sizes
from ir.resizing import rewritten
from ir.rule import ShardingRule

_ROUNDS = 8
_MISFITS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


class ShrinkError(Exception):
    """A plan of which no small copy can be made; the message says why."""


@dataclass(frozen=True, slots=True)
class Shrunk:
    """A plan that was made smaller."""

    plan: Plan
    sizes: Mapping[str, tuple[int, int]]
    """What extents became: a dimension, e.g. `input_ids[1]`, with its old and new size; one for all
    that changed alike.
    """
    layers_left_out: int
    """Equal layers that the small plan lacks."""


def shrunk(plan: Plan) -> Shrunk:
    """A small copy of a plan with the same mesh, layouts and splits.

    The digest is that of the small graph. Times, bytes and estimates remain those of the large one.

    Raises:
        ShrinkError: the plan contradicts its own graph.
    """
    small, left_out = with_few_micro_batches(plan), 0
    sizes: Mapping[Place, int] = {}
    for _ in range(_ROUNDS):
        shorter, count = without_equal_layers(small)
        smaller, sizes = _with_small_extents(shorter)
        left_out += count
        if not count and smaller.graph == small.graph:
            break
        small = smaller
    old = plan.graph.tensors
    changes: dict[tuple[int, int], str] = {}
    for (name, index), size in sizes.items():
        if old[name].dims[index] != size:
            changes.setdefault((old[name].dims[index], size), f"{name}[{index}]")
    named = {name: change for change, name in changes.items()}
    return Shrunk(replace(small, digest=small.graph.digest()), named, left_out)


def _with_small_extents(plan: Plan) -> tuple[Plan, Mapping[Place, int]]:
    """The plan on a graph of small dims, and the size of one dimension of each class.

    An operator whose rule would be another one keeps its dims; in the worst case nothing changes.
    """
    pins: set[Place] = set()
    while True:
        small = _Small(plan, pins)
        wrong = {place for op in small.misfits() for place in _places(op, plan.graph)}
        if not wrong:
            return small.plan(), small.sizes()
        if wrong <= pins:
            raise ShrinkError(f"an operator of {plan.graph.name} does not follow its own rule")
        pins |= wrong


class _Small:
    """A plan on smaller dims, while it is made."""

    def __init__(self, plan: Plan, pins: Collection[Place]) -> None:
        self.old = plan
        self.space = space_of(plan.graph, KNOWLEDGE, pins)
        demands = list(demands_of(plan, self.space))
        self.pieces = {
            op.name: split_factors(op, axis_sizes(plan, op.stage)) for op in plan.operators
        }
        self.values = smallest_sizes(
            self.space.extents,
            [*self.space.dims.values(), *itertools.chain(*self.space.factors.values())],
            [*self.space.fixed, *whole_majors(plan, self.space)],
            self.space.relations,
            demands,
        )
        tensors = {name: self._tensor(tensor) for name, tensor in plan.graph.tensors.items()}
        self.resized = replace(plan.graph, tensors=tensors)
        self.graph = replace(self.resized, ops=tuple(self._op(op, 0) for op in plan.graph.ops))

    def _value(self, extent: Extent) -> int:
        return self.space.extents.value((extent,), self.values)

    def _tensor(self, tensor: Tensor) -> Tensor:
        dims = tuple(
            self._value(self.space.dims[tensor.name, i])
            if (tensor.name, i) in self.space.dims
            else d
            for i, d in enumerate(tensor.dims)
        )
        return replace(tensor, dims=dims, divisors=())

    def _op(self, op: Op, depth: int) -> Op:
        parts = tuple(self._op(part, depth + 1) for part in op.parts)
        factors = [self._value(f) for f in self.space.factors[op.name, depth]]
        try:
            attributes = rewritten(OpView(op, self.old.graph), self.resized, factors)
        except _MISFITS:
            attributes = dict(op.attributes)
        return replace(op, parts=parts, attributes=attributes, divisors=())

    def misfits(self) -> Iterator[Op]:
        """Operators of the large graph whose rule is another one, or none, in the small graph."""
        for old, new in zip(self.old.graph.ops, self.graph.ops, strict=True):
            pairs = zip(with_parts(old), with_parts(new), strict=True)
            if not all(self._fits(a, b, depth) for (a, depth), (b, _) in pairs):
                yield old

    def _fits(self, old: Op, new: Op, depth: int) -> bool:
        before = self.space.rules[old.name, depth]
        try:
            view = OpView(new, self.graph)
            after = lookup(new.kind).rule(view)
            lookup(new.kind).flops(view)
        except _MISFITS:
            return False
        pieces = self.pieces[old.name] if not depth else {}
        reached = all(w.fits(after.sizes[w.factor], pieces.get(w.factor, 1)) for w in after.windows)
        return reached and _form(before) == _form(after)

    def plan(self) -> Plan:
        """The small plan."""
        planned = (replace(t, dims=self.graph.tensors[t.name].dims) for t in self.old.tensors)
        return replace(self.old, graph=self._with_batch(), tensors=tuple(planned))

    def _with_batch(self) -> OpGraph:
        """The graph with the batch that its inputs have now."""
        tensors = self.old.graph.tensors
        found = [
            self.graph.tensors[n].dims[0]
            for n in self.old.graph.inputs
            if tensors[n].dims and tensors[n].dims[0] == self.old.graph.batch
        ]
        return replace(self.graph, batch=found[0]) if found else self.graph

    def sizes(self) -> dict[Place, int]:
        """The present size of the first dimension of each class."""
        out: dict[Term, tuple[Place, int]] = {}
        for place in self.space.dims:
            term = self.space.extents.atoms((self.space.dims[place],))
            out.setdefault(term, (place, self._value(self.space.dims[place])))
        return dict(out.values())


def _places(op: Op, graph: OpGraph) -> Iterator[Place]:
    """All dimensions that an operator and its parts touch."""
    for part, _ in with_parts(op):
        for name in (*part.inputs, *part.outputs):
            if name:
                yield from ((name, i) for i in range(len(graph.tensors[name].dims)))


def _form(rule: ShardingRule) -> object:
    """All of a rule but its sizes."""
    return replace(rule, sizes=()), tuple(min(size, 2) for size in rule.sizes)
