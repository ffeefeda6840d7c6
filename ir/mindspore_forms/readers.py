"""The operators of a plan as MindSpore has them, and where their cuts lie on the mesh."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from ir.dialects import MINDSPORE
from ir.graph import Op, OpGraph, Role, Tensor
from ir.graph_rules import rule_of
from ir.mindspore_forms.primitives import PrimitiveForm, primitive_form
from ir.ops import Engine, OpView, lookup
from ir.ops.fused import FUSED, tensor_maps
from ir.plan import Plan
from ir.plan_stages import stage_plan
from ir.rule import FactorMap, ShardingRule

_Parameters: TypeAlias = tuple[tuple[Tensor, FactorMap], ...]
_Part: TypeAlias = tuple[Op, PrimitiveForm, _Parameters]
"""What is the same of a `Reader` in all plans of a graph."""

_KEPT = "MindSpore's operators"

NEVER_CUT = MINDSPORE.never_cut


@dataclass(frozen=True, slots=True)
class Reader:
    """An operator, or a part of a composite; most callers want those that read parameters."""

    op: Op
    form: PrimitiveForm
    parameters: _Parameters
    """Trainable parameters that it reads, in order, each with the factors of its dimensions."""

    split: tuple[int, ...]
    """For every mesh axis the factor that it splits; negative repeats."""

    sizes: tuple[int, ...]
    """Size of every mesh axis."""

    @property
    def key(self) -> str:
        """Name under which MindSpore looks for the strategy."""
        return f"{self.form.name}_{file_name(self.parameters[0][0])}"

    @property
    def cuts(self) -> tuple[tuple[int, ...], ...]:
        """For each input the number of cuts of every dimension."""
        return tuple(tuple(self.count(dim) for dim in mapping) for mapping in self.form.inputs)

    @property
    def wide(self) -> tuple[int, ...]:
        """Mesh axes of more than one device."""
        return tuple(axis for axis, size in enumerate(self.sizes) if size > 1)

    def axes(self, mapping: FactorMap) -> tuple[tuple[int, ...], ...]:
        """Mesh axes that split each dimension of a tensor, outermost first."""
        return tuple(tuple(a for a in self.wide if self.split[a] in dim) for dim in mapping)

    def count(self, factors: tuple[int, ...]) -> int:
        """Number of pieces that a dimension of these factors is cut into."""
        axes = zip(self.split, self.sizes, strict=True)
        return math.prod(size for factor, size in axes if factor in factors)

    @property
    def repeats_first(self) -> bool:
        """Whether MindSpore puts the repetition outermost: a table cut by rows and by no more.

        Source: MindSpore 2.7.0, `gather_info.cc`, ShardAxisImpl::SetAttribute.
        """
        if self.count(tuple(self.form.looked_up)) == 1:
            return False
        return math.prod(self.cuts[0]) not in {1, math.prod(self.sizes)}

    @property
    def whole_result(self) -> tuple[int, ...]:
        """Cuts of the result of a lookup in rows that are cut; empty for every other operator, and
        where MindSpore leaves the result whole by itself. Else it scatters the rows that it finds.

        Source: MindSpore 2.7.0, `gather_info.cc`, CheckOutputStrategy and SetAttribute.
        """
        rows = self.count(tuple(self.form.looked_up))
        if rows == 1 or self.form.name != "Gather":
            return ()
        table, indices = self.cuts
        scattered = indices and math.prod(indices) == 1 and self.form.dims[1][0] % rows == 0
        return (*indices, *table[1:]) if scattered and table[0] == rows else ()

    @property
    def positions(self) -> tuple[int, ...]:
        """For every mesh axis its place in the device matrix that MindSpore makes of the cuts."""
        matrix = self.form.device_matrix
        place = {factor: index for index, factors in enumerate(matrix) for factor in factors}
        repeated = -1 if self.repeats_first else len(matrix)
        return tuple(place.get(factor, repeated) for factor in self.split)

    @property
    def is_in_order(self) -> bool:
        """Whether that device matrix puts the cuts where the plan has them."""
        positions = self.positions
        places = [positions[axis] for axis in self.wide]
        return places == sorted(places)


def file_name(tensor: Tensor) -> str:
    """Name of a parameter in the model file."""
    return tensor.source or tensor.name


def readers(plan: Plan) -> Iterator[Reader]:
    """Everything that reads a trainable parameter, in graph order, composites part by part.

    In a traced training step only what its loss depends on: MindSpore makes its own backward pass.
    """
    return (found for found in operators(plan) if found.parameters)


def operators(plan: Plan) -> Iterator[Reader]:
    """As `readers`, with the operators that read no parameter among them."""
    splits = {each.name: tuple(factor for _, factor in each.split) for each in plan.operators}
    sizes = tuple(size for _, size, _ in plan.mesh)
    for name, parts in _forward_parts(plan.graph).items():
        for op, form, read in parts:
            yield Reader(op, form, read, splits[name], sizes)


def read_stage(plan: Plan, stage: int) -> Plan:
    """As `stage_plan`, with its operators read together with those of the whole plan."""
    own = stage_plan(plan, stage)
    if not own.graph.is_training_step:
        read = _forward_parts(plan.graph)
        own.graph.once(_KEPT, lambda graph: {op.name: read[op.name] for op in graph.ops})
    return own


def read_stages(plan: Plan) -> tuple[Plan, ...]:
    """What each stage does, or the plan itself, where it is one batch on one mesh."""
    if plan.pipeline.is_single:
        return (plan,)
    return tuple(read_stage(plan, stage) for stage in range(len(plan.pipeline.stages)))


def _forward_parts(graph: OpGraph) -> Mapping[str, Sequence[_Part]]:
    """By operator; made once for a graph, as several files are written of a plan."""
    return graph.once(_KEPT, _read)


def _read(graph: OpGraph) -> Mapping[str, Sequence[_Part]]:
    return {
        op.name: [
            (part.op, primitive_form(part, rule), _parameters_read(part, rule))
            for part, rule in parts_of(OpView(op, graph))
        ]
        for op in forward_ops(graph)
    }


def forward_ops(graph: OpGraph) -> Sequence[Op]:
    """What MindSpore compiles of a graph: it makes its own backward pass, so of a traced step what
    its loss depends on.
    """
    wanted = set(graph.outputs) - set(graph.gradients.values())
    if not graph.is_training_step or not wanted:
        return graph.ops
    kept: list[Op] = []
    for op in reversed(graph.ops):
        if wanted.intersection(op.outputs):
            wanted.update(op.inputs)
            kept.append(op)
    return kept[::-1]


def parts_of(view: OpView) -> Sequence[tuple[OpView, ShardingRule]]:
    """An operator, or every part of a composite that MindSpore has none for in order, each with its
    rule in the factors that the plan assigns axes to; made once for a graph.
    """
    known = view.graph.once("parts with rules", _no_parts_yet)
    found = known.get(view.op.name)
    if found is None or found[0] is not view.op:
        entry = lookup(view.op.kind)
        if view.op.parts and (entry.kind == FUSED or entry.engine is Engine.ATTENTION):
            parts = tuple(every_part(view))
        else:
            parts = ((view, rule_of(view.op, view.graph)),)
        found = known[view.op.name] = view.op, parts
    return found[1]


def _no_parts_yet(_: OpGraph) -> dict[str, tuple[Op, tuple[tuple[OpView, ShardingRule], ...]]]:
    return {}


def every_part(view: OpView) -> Iterator[tuple[OpView, ShardingRule]]:
    """The parts of a composite in order, each with its rule in the composite's factors."""
    maps = dict(tensor_maps(view) if view.op.kind == FUSED else _outer_maps(view))
    for part in view.op.parts:
        inner = OpView(part, view.graph)
        rule = _in_composite(inner, maps)
        yield inner, rule
        for name, mapping in zip((n for n in part.outputs if n), rule.results, strict=True):
            maps.setdefault(name, mapping or ())


def _outer_maps(view: OpView) -> Mapping[str, FactorMap]:
    """Factors of the tensors that a composite of its own kind reads; its parts carry them on."""
    operands = zip(view.op.inputs, lookup(view.op.kind).rule(view).operands, strict=True)
    return {name: mapping for name, mapping in operands if name and mapping is not None}


def _parameters_read(view: OpView, rule: ShardingRule) -> _Parameters:
    return tuple(
        (tensor, mapping if mapping is not None else ((),) * len(tensor.dims))
        for tensor, mapping in zip(view.inputs, rule.operands, strict=True)
        if tensor is not None and _is_trainable(view.graph, tensor.name)
    )


def _is_trainable(graph: OpGraph, name: str) -> bool:
    return bool(name) and graph.tensors[name].role is Role.PARAMETER


def _in_composite(view: OpView, maps: Mapping[str, FactorMap]) -> ShardingRule:
    """Rule of a part in the factors of its composite; a factor that has none there is dropped."""
    rule = lookup(view.op.kind).rule(view)
    known: dict[int, tuple[int, ...]] = {}
    operands = zip(view.op.inputs, rule.operands, strict=True)
    results = zip((n for n in view.op.outputs if n), rule.results, strict=True)
    for name, mapping in (*operands, *results):
        for own, outer in zip(mapping or (), maps.get(name, ()), strict=False):
            if len(own) == len(outer):
                known.update({f: (g,) for f, g in zip(own, outer, strict=True)})
            elif len(own) == 1:
                known[own[0]] = outer

    def outside(factors: Iterable[int]) -> tuple[int, ...]:
        return tuple(g for f in factors for g in known.get(f, ()))

    def renamed(mapping: FactorMap | None) -> FactorMap | None:
        return None if mapping is None else tuple(outside(dim) for dim in mapping)

    return replace(
        rule,
        operands=tuple(renamed(mapping) for mapping in rule.operands),
        results=tuple(renamed(mapping) for mapping in rule.results),
        order=outside(rule.order or range(len(rule.sizes))),
        lookup=frozenset(outside(rule.lookup)),
    )
