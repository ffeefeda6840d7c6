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

from executors.evaluation import NotRunError
from executors.placement import Array, Spread, coordinates, spread
from executors.splits import (
    Assignment,
    derived_assignment,
    narrowed,
    part_factors,
    reduced_axes,
)
from executors.spmd import Algorithm, Around, Backward, Shards, Task, run_operator
from ir.graph import Op
from ir.layout import Layout
from ir.ops import OpView, lookup
from ir.ops.fused import fused_rule, tensor_maps
from ir.rule import ShardingRule


def run_composite(task: Task, algorithms: Mapping[str, Algorithm]) -> Shards:
    """Run the parts of a composite; what they send is logged as sent inside it.

    Raises:
        NotRunError: the layouts outside are not those that the parts allow.
    """
    return _Composite(task, algorithms).run()


def run_parts(task: Task, algorithms: Mapping[str, Algorithm]) -> Shards:
    """Run the parts of a composite that sends nothing inside, such as attention.

    What an axis splits of a part follows from its operands; one that is wider than another one of
    the same factor is cut.
    """
    mesh = task.mesh
    held: dict[str, Spread] = {
        name: operand
        for name, operand in zip(task.op.inputs, task.operands, strict=True)
        if name and operand is not None
    }
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


def _held(task: Task, held: Mapping[str, Spread], name: str) -> Spread:
    if name in held:
        return held[name]
    if name not in task.constants:
        raise NotRunError(f"the numbers of {name!r}, which a part reads, are not known")
    array = task.constants[name]
    return spread(array, Layout(((),) * array.ndim), task.mesh)


@dataclass(frozen=True, slots=True)
class _Step:
    """One part, and what each mesh axis splits of it."""

    part: Op
    rule: ShardingRule
    assignment: Assignment

    @property
    def axes(self) -> set[int]:
        return {axis for axis, factor in enumerate(self.assignment) if factor >= 0}


@dataclass(slots=True)
class _Composite:
    """A composite under way."""

    task: Task
    algorithms: Mapping[str, Algorithm]
    steps: list[_Step] = field(default_factory=list)
    held: dict[str, Spread] = field(default_factory=dict)
    terms: dict[str, set[int]] = field(default_factory=dict)
    """For each tensor the axes over which its gradient is a term of a sum."""
    working: list[set[int]] = field(default_factory=list)
    """For each step the axes over which the gradients that it passes on are terms."""

    def run(self) -> Shards:
        self._plan()
        self._find_terms()
        for name, operand in zip(self.task.op.inputs, self.task.operands, strict=True):
            if name and operand is not None:
                self.held[name] = operand
        for place in range(len(self.steps)):
            self._run_step(place)
        names = [n for n in self.task.op.outputs if n]
        ends = [self._passed(name, set()) for name in names]
        return [[end.shards[rank] for end in ends] for rank in self.task.ranks]

    def _plan(self) -> None:
        """What each axis splits of the parts, from the layouts of operands and results."""
        view = OpView(self.task.op, self.task.graph)
        rule, maps = fused_rule(view), tensor_maps(view)
        layouts = [None if o is None else o.layout for o in self.task.operands]
        ends = replace(rule, operands=(*rule.operands, *rule.results))
        given = derived_assignment(ends, [*layouts, *self.task.layouts], self.task.mesh.sizes)
        if any(f in rule.locked for f in given):
            raise NotRunError("a factor is split that the parts do not let be split")
        for part in self.task.op.parts:
            own = lookup(part.kind).rule(OpView(part, self.task.graph))
            classes = part_factors(part, own, maps)
            split = tuple(classes.get(f, -1) if f >= 0 else -1 for f in given)
            self.steps.append(_Step(part, own, split))
        split_axes = {axis for axis, factor in enumerate(given) if factor >= 0}
        for name, layout in zip(self.task.op.inputs, layouts, strict=True):
            self.terms[name] = split_axes - set(layout.split_axes if layout else ())

    def _find_terms(self) -> None:
        """From the last part to the first: which gradients are terms."""
        reading: dict[str, set[int]] = {}
        self.working = [set() for _ in self.steps]
        for place in reversed(range(len(self.steps))):
            step = self.steps[place]
            outputs = [n for n in step.part.outputs if n]
            lost = reduced_axes(step.rule, step.assignment)
            for name in outputs:
                found = reading.get(name, set())
                # One message serves all axes of a sum.
                self.terms[name] = found | (lost if found & lost else set())
            passed = set().union(*(self.terms[n] for n in outputs)) - step.axes
            for name in outputs:
                self.terms[name] |= passed
            self.working[place] = step.axes | passed
            for name in step.part.inputs:
                reading.setdefault(name, set()).update(self.working[place])

    def _run_step(self, place: int) -> None:
        step, task = self.steps[place], self.task
        operands = [self._passed(n, self.working[place]) if n else None for n in step.part.inputs]
        found, _ = run_operator(
            step.part,
            task.graph,
            operands,
            step.assignment,
            task.runner,
            self.algorithms,
            Around(task.mesh, task),
        )
        lost = reduced_axes(step.rule, step.assignment)
        for name, result in zip((n for n in step.part.outputs if n), found, strict=True):
            self.held[name] = self._complete(name, result, lost)

    def _complete(self, name: str, result: Spread, lost: set[int]) -> Spread:
        """A sum inside is completed; one that the composite ends in stays as its layout says."""
        wanted = self._wanted_partial(name)
        extra = tuple(a for a in result.layout.partial if a not in wanted)
        terms = self.terms[name]
        if extra:
            # With shares the task repeats every message anyway.
            backward = Backward.SUM if terms & set(extra) else Backward.OWN
            shards = self.task.all_reduce(result.shards, extra, anp.add, backward)
            layout = replace(result.layout, partial=tuple(wanted))
            return replace(result, layout=layout, shards=tuple(shards))
        inside = tuple(sorted(lost - set(result.layout.partial) - set(result.layout.split_axes)))
        sent = bool(terms & set(inside)) and not self.task.shares
        if sent and result.shards[0].dtype.kind == "f":
            shards = self.task.sum_gradients(result.shards, inside)
            return replace(result, shards=tuple(shards))
        return result

    def _wanted_partial(self, name: str) -> Sequence[int]:
        names = [n for n in self.task.op.outputs if n]
        return self.task.layouts[names.index(name)].partial if name in names else ()

    def _passed(self, name: str, working: set[int]) -> Spread:
        """A tensor for one reader; a gradient that is the same everywhere counts once."""
        if name not in self.held:
            raise NotRunError(f"its parts read {name}, which is none of its operands")
        tensor = self.held[name]
        own = {*tensor.layout.split_axes, *tensor.layout.partial}
        once = self.terms.get(name, set()) - working - own
        if not once or self.task.shares:
            return tensor
        shards: list[Array] = [
            getval(shard) if any(place[a] for a in once) else shard
            for place, shard in zip(coordinates(tensor.mesh), tensor.shards, strict=True)
        ]
        return replace(tensor, shards=tuple(shards))
