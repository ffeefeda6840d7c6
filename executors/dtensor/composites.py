"""Composites: their parts one after the other, on DTensors or on the part of one device.

On parts, what each mesh axis splits of a part follows from the layouts outside. A sum inside is
completed where the next part needs it; where devices make different things of what all of them
hold, gradients are summed on the way back (see `executors.composites`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from executors.composites import Flow, Step, flow_of
from executors.dtensor.algorithms import run_part
from executors.dtensor.call import Call
from executors.dtensor.kernels import KERNELS
from executors.dtensor.numbers import worked_in
from executors.dtensor.part import Part
from executors.dtensor.split import split_of
from executors.splits import derived_assignment
from ir.graph import Op, OpGraph
from ir.layout import Layout
from ir.ops import FUSED, OpView, lookup


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
    if whole.op.kind == FUSED:
        operands, sizes = whole.split.operands, whole.grid.mesh.sizes
        view = OpView(whole.op, whole.graph)
        flow = flow_of(view, operands, whole.split.results, sizes)
        held = dict(zip(whole.op.inputs, whole.operands, strict=True))
        layouts = dict(zip(whole.op.inputs, operands, strict=True))
        return _Fused(whole, flow, held, layouts).run()
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
    flow: Flow
    held: dict[str, Any]
    layouts: dict[str, Layout | None]

    def run(self) -> list[Any]:
        for place, step in enumerate(self.flow.steps):
            self._run_step(step, self.flow.working[place])
        return [self._passed(n, set()) for n in self.flow.ends]

    def _run_step(self, step: Step, working: set[int]) -> None:
        whole = self.whole
        split = split_of(step.part, whole.graph, step.assignment, whole.grid.mesh.sizes)
        operands = [
            cut(whole, n, self._passed(n, working), self.layouts.get(n), wanted) if n else None
            for n, wanted in zip(split.op.inputs, split.operands, strict=True)
        ]
        found = run_parts(replace(whole, op=split.op, split=split, operands=operands))
        names = [n for n in split.op.outputs if n]
        for name, tensor, before in zip(names, found, split.results, strict=True):
            layout, extra, backward = self.flow.completed(name, before)
            late = () if extra else self.flow.summed_late(step, name, layout)
            summed = whole.all_reduce(tensor, extra, "sum", backward)
            self.held[name] = whole.sum_gradients(summed, late)
            self.layouts[name] = layout

    def _passed(self, name: str, working: set[int]) -> Any:
        """A tensor for one reader; a gradient that is the same everywhere counts once."""
        if name not in self.held:
            return self.whole.constants.get(name)
        tensor = self.held[name]
        once = self.flow.once(name, self.layouts[name], working)
        place = self.whole.grid.place
        return tensor.detach() if tensor is not None and any(place[a] for a in once) else tensor
