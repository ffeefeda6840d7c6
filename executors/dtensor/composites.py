"""Composites: their parts one after the other, on DTensors or on the part of one device.

On parts, what each mesh axis splits of a part follows from the layouts outside. A sum inside is
completed where the next part needs it; where devices make different things of what all of them
hold, gradients are summed on the way back (see `executors.composites`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from executors.dtensor.algorithms import run_part
from executors.dtensor.call import Call
from executors.dtensor.kernels import KERNELS
from executors.dtensor.numbers import worked_in
from executors.dtensor.part import Part
from executors.dtensor.split import Split, split_of
from executors.splits import derived_assignment, part_factors, reduced_axes
from executors.spmd import Backward
from ir.graph import Op, OpGraph
from ir.layout import Layout
from ir.ops import OpView, lookup
from ir.ops.fused import fused_rule, tensor_maps


def run_whole_parts(op: Op, graph: OpGraph, held: dict[str, Any], *, double: bool) -> list[Any]:
    """Parts on DTensors: DTensor itself decides what is sent between them.

    Raises:
        NotImplementedError: a kind is not written for torch.
    """
    for part in op.parts or (op,):
        if part.parts:
            found = run_whole_parts(part, graph, dict(held), double=double)
        elif part.kind in KERNELS:
            tensors = [graph.tensors[n] for n in part.outputs if n]
            call = Call(
                part,
                tuple(held[n] if n else None for n in part.inputs),
                tuple(t.dims for t in tensors),
                tuple(worked_in(t.dtype, double=double) for t in tensors),
            )
            found = KERNELS[part.kind](call)
        else:
            raise NotImplementedError(f"{part.kind} is not written for torch")
        held.update(zip((n for n in part.outputs if n), found, strict=True))
    return [held[n] for n in op.outputs if n]


def run_parts(whole: Part) -> list[Any]:
    """Parts on what one device has."""
    if not whole.op.parts:
        return run_part(whole)
    if whole.op.kind == "Fused":
        return _Fused(whole).run()
    return _run_in_turn(whole)


def _run_in_turn(whole: Part) -> list[Any]:
    """Parts that send nothing: what an axis splits of each follows from its operands."""
    sizes = whole.grid.mesh.sizes
    held = dict(
        zip(whole.op.inputs, zip(whole.operands, whole.split.operands, strict=True), strict=True)
    )
    for part in whole.op.parts:
        found = [
            held.get(n, (whole.constants.get(n), None)) if n else (None, None) for n in part.inputs
        ]
        rule = lookup(part.kind).rule(OpView(part, whole.graph))
        assignment = derived_assignment(rule, [layout for _, layout in found], sizes)
        split = split_of(part, whole.graph, assignment, sizes)
        operands = [
            cut(whole, n, tensor, layout, wanted)
            for n, (tensor, layout), wanted in zip(part.inputs, found, split.operands, strict=True)
        ]
        results = run_parts(replace(whole, op=part, split=split, operands=operands))
        names = [n for n in part.outputs if n]
        held.update(zip(names, zip(results, split.results, strict=True), strict=True))
    return [
        cut(whole, n, *held[n], layout)
        for n, layout in zip((n for n in whole.op.outputs if n), whole.split.results, strict=True)
    ]


def cut(whole: Part, name: str, tensor: Any, layout: Layout | None, wanted: Layout | None) -> Any:
    """What a part needs of what the device has.

    Raises:
        NotImplementedError: the device lacks something.
    """
    if tensor is None or wanted is None:
        return tensor
    dims = whole.graph.tensors[name].dims
    have = whole.grid.region(dims, layout or Layout(((),) * len(dims)))
    need = whole.grid.region(dims, wanted)
    for dim, (old, new) in enumerate(zip(have, need, strict=True)):
        if len(old) == len(new):
            continue
        first = int(new[0] - old[0]) if len(new) else 0
        if first < 0 or first + len(new) > len(old):
            raise NotImplementedError(f"a device lacks a part of {name} that it needs")
        tensor = tensor.narrow(dim, first, len(new))
    return tensor


@dataclass(slots=True)
class _Fused:
    """A fused chain on one device's part, under way."""

    whole: Part
    steps: list[Split] = field(default_factory=list)
    held: dict[str, Any] = field(default_factory=dict)
    layouts: dict[str, Layout | None] = field(default_factory=dict)
    terms: dict[str, set[int]] = field(default_factory=dict)
    """For each tensor the axes over which its gradient is a term of a sum."""
    working: list[set[int]] = field(default_factory=list)
    """For each step the axes over which the gradients that it passes on are terms."""

    def run(self) -> list[Any]:
        self._plan()
        self._find_terms()
        for place in range(len(self.steps)):
            self._run_step(place)
        return [self._passed(n, set()) for n in self.whole.op.outputs if n]

    def _plan(self) -> None:
        whole = self.whole
        view = OpView(whole.op, whole.graph)
        rule, maps = fused_rule(view), tensor_maps(view)
        ends = replace(rule, operands=(*rule.operands, *rule.results))
        layouts = [*whole.split.operands, *whole.split.results]
        given = derived_assignment(ends, layouts, whole.grid.mesh.sizes)
        for part in whole.op.parts:
            own = lookup(part.kind).rule(OpView(part, whole.graph))
            classes = part_factors(part, own, maps)
            split = tuple(classes.get(f, -1) if f >= 0 else -1 for f in given)
            self.steps.append(split_of(part, whole.graph, split, whole.grid.mesh.sizes))
        axes = {axis for axis, factor in enumerate(given) if factor >= 0}
        for name, tensor, layout in zip(
            whole.op.inputs, whole.operands, whole.split.operands, strict=True
        ):
            self.held[name], self.layouts[name] = tensor, layout
            self.terms[name] = axes - set(layout.split_axes if layout else ())

    def _find_terms(self) -> None:
        """From the last part to the first: which gradients are terms."""
        reading: dict[str, set[int]] = {}
        self.working = [set() for _ in self.steps]
        for place in reversed(range(len(self.steps))):
            step = self.steps[place]
            outputs, axes, lost = (
                [n for n in step.op.outputs if n],
                set(step.axes),
                reduced_axes(step.rule, step.assignment),
            )
            for name in outputs:
                found = reading.get(name, set())
                # One message serves all axes of a sum.
                self.terms[name] = found | (lost if found & lost else set())
            passed = set[int]().union(*(self.terms[n] for n in outputs)) - axes
            for name in outputs:
                self.terms[name] |= passed
            self.working[place] = axes | passed
            for name in step.op.inputs:
                reading.setdefault(name, set()).update(self.working[place])

    def _run_step(self, place: int) -> None:
        step, whole = self.steps[place], self.whole
        operands = [
            cut(whole, n, self._passed(n, self.working[place]), self.layouts.get(n), wanted)
            if n
            else None
            for n, wanted in zip(step.op.inputs, step.operands, strict=True)
        ]
        found = run_parts(replace(whole, op=step.op, split=step, operands=operands))
        names = [n for n in step.op.outputs if n]
        for name, tensor, layout in zip(names, found, step.results, strict=True):
            self.held[name], self.layouts[name] = self._complete(
                name, tensor, layout, reduced_axes(step.rule, step.assignment)
            )

    def _complete(
        self, name: str, tensor: Any, layout: Layout, lost: set[int]
    ) -> tuple[Any, Layout]:
        """A sum inside is completed; one that the composite ends in stays as its layout says."""
        wanted = self._wanted_partial(name)
        extra = tuple(a for a in layout.partial if a not in wanted)
        terms = self.terms[name]
        if extra:
            backward = Backward.SUM if terms & set(extra) else Backward.OWN
            tensor = self.whole.all_reduce(tensor, extra, "sum", backward)
            return tensor, replace(layout, partial=tuple(wanted))
        inside = tuple(sorted(lost - set(layout.partial) - set(layout.split_axes)))
        if terms & set(inside):
            tensor = self.whole.sum_gradients(tensor, inside)
        return tensor, layout

    def _wanted_partial(self, name: str) -> Sequence[int]:
        names = [n for n in self.whole.op.outputs if n]
        return self.whole.split.results[names.index(name)].partial if name in names else ()

    def _passed(self, name: str, working: set[int]) -> Any:
        """A tensor for one reader; a gradient that is the same everywhere counts once."""
        if name not in self.held:
            return self.whole.constants.get(name)
        tensor, layout = self.held[name], self.layouts[name]
        own = {*layout.split_axes, *layout.partial} if layout else set[int]()
        once = self.terms.get(name, set()) - working - own
        place = self.whole.grid.place
        return tensor.detach() if tensor is not None and any(place[a] for a in once) else tensor
