"""What a plan says of each operator, and of equal ones together: time, memory, layouts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from ir.dtypes import dtype_bytes
from ir.folding import Axes, common_scope, folded
from ir.plan import NamedLayout, Plan, PlannedOperator, PlannedTensor
from ir.plan_stages import axis_sizes


@dataclass(frozen=True, slots=True)
class OperatorFacts:
    """One operator of a plan."""

    planned: PlannedOperator
    communication_s: float
    """Exposed, of the collectives that it needs, those of its parameters included, in one step."""
    held_bytes: float
    """Of a device: its results, and the parameters that it is the first to read, at rest."""
    inputs: str
    outputs: str
    recomputed: bool
    """Whether a result of it is computed again in the backward pass."""

    @property
    def layouts(self) -> str:
        """Of operands and results."""
        return f"{self.inputs} -> {self.outputs or 'a scalar'}"

    @property
    def compute_s(self) -> float:
        """In one step, with what is computed again."""
        return self.planned.compute_s + self.planned.recompute_s

    @property
    def time_s(self) -> float:
        return self.compute_s + self.communication_s


@dataclass(frozen=True, slots=True)
class ParameterFacts:
    """One parameter of a plan."""

    planned: PlannedTensor
    nbytes: float
    held_bytes: float
    """Of a device, at rest."""
    layouts: str
    communication_s: float
    """Exposed, of its collectives, in one step."""


@dataclass(frozen=True, slots=True)
class OperatorGroup:
    """Operators of one label at one place of the model, split alike."""

    label: str
    where: str
    example: PlannedOperator
    count: int
    compute_s: float
    communication_s: float
    held_bytes: float
    layouts: str

    @property
    def time_s(self) -> float:
        return self.compute_s + self.communication_s


@dataclass(frozen=True, slots=True)
class ParameterGroup:
    """Parameters of one name pattern, stored and used alike."""

    where: str
    example: PlannedTensor
    count: int
    nbytes: float
    layouts: str


def operator_facts(plan: Plan) -> tuple[OperatorFacts, ...]:
    """The operators of a plan, in its order."""
    axes = Axes.of(plan)
    readers = first_readers(plan)
    spent = _communication(plan, readers)
    parameters: dict[str, float] = {}
    for tensor in plan.parameters:
        owner = readers.get(tensor.name, "")
        share = local_share(tensor.layout, axis_sizes(plan, tensor.stage))
        parameters[owner] = parameters.get(owner, 0.0) + parameter_bytes(tensor) * share
    again = set(plan.recomputed)
    return tuple(
        OperatorFacts(
            planned,
            spent.get(op.name, 0.0),
            parameters.get(op.name, 0.0)
            + sum(
                plan.graph.tensors[name].nbytes
                * local_share(layout, axis_sizes(plan, planned.stage))
                for name, layout in zip(op.outputs, planned.outputs, strict=True)
                if name
            ),
            axes.layouts(planned.inputs),
            axes.layouts(planned.outputs),
            not again.isdisjoint(op.outputs),
        )
        for op, planned in zip(plan.graph.ops, plan.operators, strict=True)
    )


def parameter_facts(plan: Plan) -> tuple[ParameterFacts, ...]:
    """The parameters of a plan, in the order of the model."""
    axes = Axes.of(plan)
    spent: dict[str, float] = {}
    for item in plan.collectives:
        spent[item.tensor] = spent.get(item.tensor, 0.0) + item.exposed_s
    return tuple(
        ParameterFacts(
            tensor,
            parameter_bytes(tensor),
            parameter_bytes(tensor) * local_share(tensor.layout, axis_sizes(plan, tensor.stage)),
            rest_and_use(tensor, axes),
            spent.get(tensor.name, 0.0),
        )
        for tensor in plan.parameters
    )


def operator_groups(plan: Plan) -> tuple[OperatorGroup, ...]:
    """Groups of equal operators by all that they take, the heaviest first."""
    members: dict[Hashable, list[OperatorFacts]] = {}
    for each in operator_facts(plan):
        op = each.planned
        key = (op.label, folded(op.scope or op.name), op.inputs, op.outputs)
        members.setdefault(key, []).append(each)
    prefix = common_scope(op.scope for op in plan.operators)
    groups = [
        OperatorGroup(
            label=own[0].planned.label,
            where=_shown([f.planned.scope or f.planned.name for f in own]).removeprefix(prefix),
            example=own[0].planned,
            count=len(own),
            compute_s=math.fsum(f.compute_s for f in own),
            communication_s=math.fsum(f.communication_s for f in own),
            held_bytes=math.fsum(f.held_bytes for f in own),
            layouts=own[0].layouts,
        )
        for own in members.values()
    ]
    return tuple(sorted(groups, key=lambda g: -g.time_s))


def parameter_groups(plan: Plan) -> tuple[ParameterGroup, ...]:
    """Groups of equal parameters, the largest first."""
    axes = Axes.of(plan)
    members: dict[Hashable, list[PlannedTensor]] = {}
    for tensor in plan.parameters:
        key = (folded(tensor.name), tensor.dims, tensor.dtype, tensor.layout, tensor.used)
        members.setdefault(key, []).append(tensor)
    scopes = [op.scope for op in plan.operators]
    prefix = common_scope([*scopes, *(t.name for t in plan.parameters)])
    groups = [
        ParameterGroup(
            where=_shown([t.name for t in own]).removeprefix(prefix),
            example=own[0],
            count=len(own),
            nbytes=len(own) * parameter_bytes(own[0]),
            layouts=rest_and_use(own[0], axes),
        )
        for own in members.values()
    ]
    return tuple(sorted(groups, key=lambda g: -g.count * math.prod(g.example.dims)))


def recomputed_groups(plan: Plan) -> tuple[tuple[str, int], ...]:
    """What the backward pass computes again: operator and place, and how many tensors."""
    makers = plan.graph.producers()
    prefix = common_scope(op.scope for op in plan.graph.ops)
    counts: Counter[str] = Counter()
    for name in plan.recomputed:
        maker = makers.get(name)
        where = folded(maker.scope or maker.name).removeprefix(prefix) if maker else folded(name)
        counts[f"{maker.label if maker else 'tensor'} at {where}"] += 1
    return tuple(sorted(counts.items(), key=lambda kv: (-kv[1], kv[0])))


def _shown(names: Sequence[str]) -> str:
    """The name of a group: folded if the names differ."""
    return names[0] if len(set(names)) == 1 else folded(names[0])


def rest_and_use(tensor: PlannedTensor, axes: Axes) -> str:
    """The layout of a parameter at rest, and as used if that is another."""
    rest = axes.layout(tensor.layout)
    used = "not read" if tensor.used is None else axes.layout(tensor.used)
    return rest if used == rest else f"{rest} -> {used}"


def parameter_bytes(tensor: PlannedTensor) -> float:
    """Of the whole tensor."""
    return math.prod(tensor.dims) * dtype_bytes(tensor.dtype)


def first_readers(plan: Plan) -> dict[str, str]:
    """The first operator that reads each tensor."""
    found: dict[str, str] = {}
    for op in plan.graph.ops:
        for name in op.inputs:
            if name:
                found.setdefault(name, op.name)
    return found


def local_share(layout: NamedLayout | None, sizes: Mapping[str, int]) -> float:
    """Share of a tensor that each device holds."""
    if layout is None:
        return 1.0
    parts = math.prod(sizes.get(axis, 1) for dim in layout.dims for axis in dim)
    return 1.0 / parts


def _communication(plan: Plan, readers: Mapping[str, str]) -> dict[str, float]:
    """Exposed seconds by operator; what belongs to a tensor alone goes to its first reader."""
    makers = {name: op.name for op in plan.graph.ops for name in op.outputs}
    spent: dict[str, float] = {}
    for item in plan.collectives:
        owner = item.operator or readers.get(item.tensor) or makers.get(item.tensor, "")
        spent[owner] = spent.get(owner, 0.0) + item.exposed_s
    return spent


def dims_text(dims: Sequence[int]) -> str:
    """Dims of a tensor, such as `64x512`."""
    return "x".join(map(str, dims)) or "1"
