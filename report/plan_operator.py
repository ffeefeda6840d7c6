"""Everything that a plan says of one operator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ir.folding import Axes
from ir.graph import Op
from ir.layout import Layout
from ir.plan import NamedLayout, Plan, PlannedCollective
from ir.plan_stages import MeshAxes, stage_mesh
from report.operators import dims_text
from report.tables import Head, Lines, Part, Table, Unit
from topology.units import format_seconds

_MOST_NEIGHBOURS = 8


@dataclass(frozen=True, slots=True)
class NamedTensor:
    """One operand or result, with what stands at its other end."""

    tensor: str
    role: str
    dims: tuple[int, ...]
    dtype: str
    layout: str
    """Empty where the plan gives none."""
    shard: tuple[int, ...]
    """Dims of the largest shard; empty without a layout."""
    neighbours: tuple[str, ...]
    """`operator: layout` at the other end; the parameter at rest."""


@dataclass(frozen=True, slots=True)
class OperatorReport:
    """One operator of a plan."""

    name: str
    kind: str
    label: str
    scope: str
    split: tuple[str, ...]
    """For each mesh axis what it splits, in words."""
    compute_s: float
    compute_share: float
    """Of the computation of all operators."""
    operands: tuple[NamedTensor, ...]
    results: tuple[NamedTensor, ...]
    collectives: tuple[PlannedCollective, ...]
    """What runs for the operator, its operands and its results."""


def operator_report(plan: Plan, op: Op) -> OperatorReport:
    """What the plan says of an operator of its graph."""
    planned = next(p for p in plan.operators if p.name == op.name)
    total = sum(p.compute_s for p in plan.operators)
    view = _View(plan, Axes.of(plan), stage_mesh(plan, planned.stage))
    return OperatorReport(
        name=op.name,
        kind=op.kind,
        label=op.label,
        scope=op.scope,
        split=tuple(_split(axis, planned.inputs, planned.outputs) for axis, _ in planned.split),
        compute_s=planned.compute_s,
        compute_share=planned.compute_s / total if total > 0 else 0.0,
        operands=tuple(
            view.tensor(n, layout, view.sources(n))
            for n, layout in zip(op.inputs, planned.inputs, strict=True)
            if n
        ),
        results=tuple(
            view.tensor(n, layout, view.readers(n))
            for n, layout in zip(op.outputs, planned.outputs, strict=True)
            if n
        ),
        collectives=tuple(
            c
            for c in plan.collectives
            if c.operator == op.name or c.tensor in {*op.outputs, *_own_parameters(plan, op)}
        ),
    )


def _own_parameters(plan: Plan, op: Op) -> set[str]:
    return {p.name for p in plan.parameters} & set(op.inputs)


def _split(
    axis: str, operands: Sequence[NamedLayout | None], results: Sequence[NamedLayout | None]
) -> str:
    """What one mesh axis does in an operator, in words."""
    places = [
        f"dimension {dim} of {noun} {index}"
        for noun, layouts in (("operand", operands), ("result", results))
        for index, layout in enumerate(layouts)
        if layout is not None
        for dim, axes in enumerate(layout.dims)
        if axis in axes
    ]
    if any(x is not None and axis in x.partial for x in results):
        places.append("leaves the result terms of a sum")
    return f"{axis}: {', '.join(places) or 'repeats the operator'}"


@dataclass(frozen=True, slots=True)
class _View:
    plan: Plan
    axes: Axes
    mesh: MeshAxes
    """That the operator runs on."""

    def tensor(
        self, name: str, layout: NamedLayout | None, neighbours: Iterator[str]
    ) -> NamedTensor:
        tensor = self.plan.graph.tensors[name]
        sizes = [size for _, size, _ in self.mesh]
        numbers = {axis: i for i, (axis, _, _) in enumerate(self.mesh)}
        shard: tuple[int, ...] = ()
        if layout is not None:
            split = Layout(tuple(tuple(numbers[a] for a in dim) for dim in layout.dims))
            shard = split.local_dims(tensor.dims, sizes)
        text = "" if layout is None else self.axes.layout(layout)
        return NamedTensor(
            name, tensor.role.value, tensor.dims, tensor.dtype, text, shard, tuple(neighbours)
        )

    def sources(self, name: str) -> Iterator[str]:
        """Who makes a tensor, and in which layout it is kept."""
        for op, planned in zip(self.plan.graph.ops, self.plan.operators, strict=True):
            if name in op.outputs:
                yield self._said(f"made by {op.name}", planned.outputs[op.outputs.index(name)])
        for tensor in self.plan.tensors:
            if tensor.name == name:
                where = "at rest" if tensor.role == "parameter" else f"kept as {tensor.role}"
                yield self._said(where, tensor.layout)

    def readers(self, name: str) -> Iterator[str]:
        """Who reads a tensor, and in which layout."""
        for tensor in self.plan.tensors:
            if tensor.name == name:
                yield self._said(f"kept as {tensor.role}", tensor.layout)
        for op, planned in zip(self.plan.graph.ops, self.plan.operators, strict=True):
            if name in op.inputs:
                yield self._said(f"read by {op.name}", planned.inputs[op.inputs.index(name)])

    def _said(self, text: str, layout: NamedLayout | None) -> str:
        return text if layout is None else f"{text} {self.axes.layout(layout)}"


def parts(facts: OperatorReport) -> Iterator[Part]:
    """What it is, how it is split, what it costs, and what stands around it."""
    place = f"at {facts.scope}" if facts.scope else ""
    share = f"{100 * facts.compute_share:.1f} % of all operators"
    computes = f"computes {format_seconds(facts.compute_s)} in a step, {share}"
    yield Head(f"{facts.label} {facts.name}", (place, computes, *facts.split))
    yield Lines("Operands", tuple(_tensor_lines(facts.operands)))
    yield Lines("Results", tuple(_tensor_lines(facts.results)))
    if not facts.collectives:
        yield Lines("", ("\nNo collectives",))
        return
    columns = (
        "collective", ("count", Unit.NUMBER), ("bytes", Unit.BYTES), ("exposed", Unit.SECONDS),
        ("hidden", Unit.SECONDS), ("over", Unit.CODE), "for",
    )  # fmt: skip
    rows = [
        (c.kind.replace("_", "-"), c.count, c.nbytes, c.exposed_s, c.hidden_s,
         f"{'*'.join(c.axes)} ({c.group_size})", f"{c.cause} {c.tensor}".rstrip())
        for c in facts.collectives
    ]  # fmt: skip
    yield Table.of("Collectives", columns, rows)


def _tensor_lines(tensors: Sequence[NamedTensor]) -> Iterator[str]:
    for each in tensors:
        layout = f"{each.layout} of {dims_text(each.shard)}" if each.layout else each.role
        yield f"{each.tensor} {dims_text(each.dims)} {each.dtype}: {layout}"
        yield from (f"  {line}" for line in each.neighbours[:_MOST_NEIGHBOURS])
        if len(each.neighbours) > _MOST_NEIGHBOURS:
            yield f"  and {len(each.neighbours) - _MOST_NEIGHBOURS} others"
