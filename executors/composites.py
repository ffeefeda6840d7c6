"""Composites: the parts run one after the other, in layouts that follow from those outside.

The gradient of a tensor that several devices hold in full is either the same on all of them, or a
term of a sum: a term where what reads it works on a part only. A reader of the first sort passes
its gradient on through the first device of a group, so that the terms add up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import autograd.numpy as anp
from autograd.tracer import getval

from executors.device import Backward
from executors.placement import Array, Spread, coordinates, spread
from executors.splits import (
    Assignment,
    derived_assignment,
    narrowed,
    part_factors,
    reduced_axes,
)
from executors.spmd import Algorithm, Around, OperatorRun, Shards, run_operator
from ir.graph import Op
from ir.layout import Layout
from ir.ops import OpView, lookup
from ir.ops.fused import fused_rule, tensor_maps
from ir.rule import ShardingRule
from ir.semantics.call import NotRunError


def run_composite(task: OperatorRun, algorithms: Mapping[str, Algorithm]) -> Shards:
    """Run the parts of a composite; what they send is logged as sent inside it.

    Raises:
        NotRunError: the layouts outside are not those that the parts allow.
    """
    layouts = [None if o is None else o.layout for o in task.operands]
    flow = flow_of(OpView(task.op, task.graph), layouts, task.layouts, task.mesh.sizes)
    return _Composite(task, algorithms, flow, _given(task)).run()


def _given(task: OperatorRun) -> dict[str, Spread]:
    """The operands by name."""
    pairs = zip(task.op.inputs, task.operands, strict=True)
    return {name: operand for name, operand in pairs if name and operand is not None}


def run_parts(task: OperatorRun, algorithms: Mapping[str, Algorithm]) -> Shards:
    """Run the parts of a composite that sends nothing inside, such as attention.

    What an axis splits of a part follows from its operands; one that is wider than another one of
    the same factor is cut.
    """
    mesh = task.mesh
    held = _given(task)
    for part in task.op.parts:
        operands = [_held(task, held, name) if name else None for name in part.inputs]
        rule = lookup(part.kind).rule(OpView(part, task.graph))
        layouts = [None if o is None else o.layout for o in operands]
        assignment = derived_assignment(rule, layouts, mesh.sizes)
        found, _ = run_operator(
            part, task.graph, operands, assignment, task.runner, algorithms, Around(mesh, task)
        )
        held.update(zip((n for n in part.outputs if n), found, strict=True))
    ends = [
        held[name] if held[name].layout == layout else narrowed(held[name], layout)
        for name, layout in zip((n for n in task.op.outputs if n), task.layouts, strict=True)
    ]
    return [[end.shards[rank] for end in ends] for rank in task.ranks]


def _held(task: OperatorRun, held: Mapping[str, Spread], name: str) -> Spread:
    if name in held:
        return held[name]
    if name not in task.constants:
        raise NotRunError(f"the numbers of {name!r}, which a part reads, are not known")
    array = task.constants[name]
    return spread(array, Layout(((),) * array.ndim), task.mesh)


@dataclass(frozen=True, slots=True)
class Step:
    """One part, and what each mesh axis splits of it."""

    part: Op
    rule: ShardingRule
    assignment: Assignment

    @property
    def axes(self) -> set[int]:
        return {axis for axis, factor in enumerate(self.assignment) if factor >= 0}

    @property
    def lost(self) -> set[int]:
        """Axes over which the result is summed."""
        return reduced_axes(self.rule, self.assignment)


@dataclass(slots=True)
class Flow:
    """How the parts of a composite are split, and which of their gradients are terms of sums."""

    steps: tuple[Step, ...]
    terms: dict[str, set[int]]
    """For each tensor the axes over which its gradient is a term of a sum."""
    ends: Mapping[str, Layout]
    """Layouts of the results of the composite."""
    working: list[set[int]] = field(default_factory=list)
    """For each step the axes over which the gradients that it passes on are terms."""

    def find_terms(self) -> None:
        """From the last part to the first: which gradients are terms."""
        reading: dict[str, set[int]] = {}
        self.working = [set() for _ in self.steps]
        for place in reversed(range(len(self.steps))):
            step = self.steps[place]
            outputs = [n for n in step.part.outputs if n]
            for name in outputs:
                found = reading.get(name, set())
                # One message serves all axes of a sum.
                self.terms[name] = found | (step.lost if found & step.lost else set())
            passed = set().union(*(self.terms[n] for n in outputs)) - step.axes
            for name in outputs:
                self.terms[name] |= passed
            self.working[place] = step.axes | passed
            for name in step.part.inputs:
                reading.setdefault(name, set()).update(self.working[place])

    def completed(self, name: str, layout: Layout) -> tuple[Layout, tuple[int, ...], Backward]:
        """The layout of a result once its sum is complete, the axes over which that is summed, and
        what the gradient takes; a sum that the composite ends in stays as its layout says.
        """
        wanted = self.ends[name].partial if name in self.ends else ()
        extra = tuple(a for a in layout.partial if a not in wanted)
        backward = Backward.SUM if self.terms[name] & set(extra) else Backward.OWN
        return (replace(layout, partial=tuple(wanted)) if extra else layout), extra, backward

    def summed_late(self, step: Step, name: str, layout: Layout) -> tuple[int, ...]:
        """Axes over which the gradients of a complete result are summed on their way back."""
        inside = tuple(sorted(step.lost - set(layout.partial) - set(layout.split_axes)))
        return inside if self.terms[name] & set(inside) else ()

    def once(self, name: str, layout: Layout | None, working: set[int]) -> set[int]:
        """Axes along which only the first device passes a gradient on that is the same everywhere,
        so that it counts once.
        """
        own = {*layout.split_axes, *layout.partial} if layout is not None else set()
        return self.terms.get(name, set()) - working - own


def flow_of(
    view: OpView,
    operands: Sequence[Layout | None],
    results: Sequence[Layout],
    sizes: Sequence[int],
) -> Flow:
    """The flow of a composite, from the layouts of its operands and results.

    Raises:
        NotRunError: the layouts outside are not those that the parts allow.
    """
    op = view.op
    rule, maps = fused_rule(view), tensor_maps(view)
    ends = replace(rule, operands=(*rule.operands, *rule.results))
    given = derived_assignment(ends, [*operands, *results], sizes)
    if any(f in rule.locked for f in given):
        raise NotRunError("a factor is split that the parts do not let be split")
    steps = []
    for part in op.parts:
        own = lookup(part.kind).rule(OpView(part, view.graph))
        classes = part_factors(part, own, maps)
        steps.append(Step(part, own, tuple(classes.get(f, -1) if f >= 0 else -1 for f in given)))
    axes = {axis for axis, factor in enumerate(given) if factor >= 0}
    terms = {
        name: axes - set(layout.split_axes if layout else ())
        for name, layout in zip(op.inputs, operands, strict=True)
    }
    names = [n for n in op.outputs if n]
    flow = Flow(tuple(steps), terms, dict(zip(names, results, strict=True)))
    flow.find_terms()
    return flow


@dataclass(slots=True)
class _Composite:
    """A composite under way."""

    task: OperatorRun
    algorithms: Mapping[str, Algorithm]
    flow: Flow
    held: dict[str, Spread]

    def run(self) -> Shards:
        for place, step in enumerate(self.flow.steps):
            self._run_step(step, self.flow.working[place])
        ends = [self._passed(name, set()) for name in self.flow.ends]
        return [[end.shards[rank] for end in ends] for rank in self.task.ranks]

    def _run_step(self, step: Step, working: set[int]) -> None:
        task = self.task
        operands = [self._passed(n, working) if n else None for n in step.part.inputs]
        found, _ = run_operator(
            step.part,
            task.graph,
            operands,
            step.assignment,
            task.runner,
            self.algorithms,
            Around(task.mesh, task),
        )
        for name, result in zip((n for n in step.part.outputs if n), found, strict=True):
            self.held[name] = self._complete(step, name, result)

    def _complete(self, step: Step, name: str, result: Spread) -> Spread:
        """A sum inside is completed. With shares the task repeats every message anyway."""
        layout, extra, backward = self.flow.completed(name, result.layout)
        if extra:
            shards = self.task.all_reduce(result.shards, extra, anp.add, backward)
            return replace(result, layout=layout, shards=tuple(shards))
        late = self.flow.summed_late(step, name, layout)
        if late and not self.task.shares and result.shards[0].dtype.kind == "f":
            return replace(result, shards=tuple(self.task.sum_gradients(result.shards, late)))
        return result

    def _passed(self, name: str, working: set[int]) -> Spread:
        """A tensor for one reader; a gradient that is the same everywhere counts once."""
        if name not in self.held:
            raise NotRunError(f"its parts read {name}, which is none of its operands")
        tensor = self.held[name]
        once = self.flow.once(name, tensor.layout, working)
        if not once or self.task.shares:
            return tensor
        shards: list[Array] = [
            getval(shard) if any(place[a] for a in once) else shard
            for place, shard in zip(coordinates(tensor.mesh), tensor.shards, strict=True)
        ]
        return replace(tensor, shards=tuple(shards))
