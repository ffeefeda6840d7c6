"""A plan as MindSpore's operator-strategy file: a strategy for every operator of the network.

MindSpore's sharding propagation takes such a file in place of its own search, if it has every
operator under its full name with scope. Those names, and the operands as MindSpore has them, are
in the MindIR file that was planned.

Source: MindSpore 2.7.0, `frontend/parallel/strategy_loader.cc`; `make test-judges` hands the files
to 2.10.0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from exporters.errors import ExportError
from exporters.mindspore.checkpoint import check_strategy
from exporters.mindspore.checks import reader_violations
from exporters.mindspore.file_operators import (
    FilePrimitive,
    Group,
    Part,
    aligned,
    apart,
    groups,
    merged,
    turned,
)
from exporters.mindspore.operator_json import OperatorStrategies
from exporters.mindspore.operator_stages import cell_around, own_operators, repeated
from exporters.mindspore.records import StrategyItem
from exporters.settings import Setting
from exporters.sharding import named
from ir.mindspore_forms.primitives import primitive_form
from ir.mindspore_forms.readers import NEVER_CUT, Reader
from ir.mindspore_forms.strategies import Cuts
from ir.normalise.ends import ENDS
from ir.plan import Plan, PlannedOperator
from ir.plan_enums import Cause
from ir.violations import Violation

SETTINGS = (
    Setting("model", "FILE.mindir", "the model that was planned: it has the operators' names"),
    Setting("scope", "PATH", "of the exported cell in what is compiled, such as network-Net"),
)
DATASET = "Default/_VirtualDataset-op0"
"""MindSpore's own operator that brings the inputs."""
_ROOT = "Default/"


@dataclass(frozen=True, slots=True)
class OperatorFile:
    """The file of a plan."""

    content: OperatorStrategies
    derived: tuple[str, ...]
    """Primitives that the plan does not hold: they are cut as what they read."""
    displaced: tuple[str, ...] = ()
    """Primitives on rows that the file has merged, of which the plan cuts the inner ones: MindSpore
    cuts as often, but from the outside.
    """


def operator_strategy(
    plan: Plan, primitives: Sequence[FilePrimitive], scope: str = ""
) -> OperatorFile:
    """A strategy for every primitive of the file that was planned.

    Args:
        plan: in the dialect `mindspore`.
        primitives: of the MindIR file, in order.
        scope: path of the exported cell in the one that is compiled, such as `network-Net`; with
            stages that of the network in `PipelineCell`.

    Raises:
        ExportError: MindSpore cannot express the plan, or the file is another model's.
    """
    cell = cell_around(scope) if not plan.pipeline.is_single else ""
    violations = [*check_strategy(plan), *_foreign(plan, primitives)]
    if violations:
        raise ExportError(*violations)
    work = _Work(plan, primitives)
    inputs = tuple(work.inputs())
    items = [StrategyItem(scoped(p.name, scope), 0, work.cuts(p)) for p in primitives]
    if work.violations:
        raise ExportError(*work.violations)
    if not plan.pipeline.is_single:
        count = plan.pipeline.micro_batches
        own = own_operators(cell, inputs, _result_rank(plan), count)
        items = [*own, *repeated(items, count)]
    items.insert(0, StrategyItem(DATASET, 0, inputs))
    return OperatorFile(
        OperatorStrategies(tuple(items)), tuple(work.derived), tuple(work.displaced)
    )


def _result_rank(plan: Plan) -> int:
    """Dimensions of what the network makes, before what the planner puts behind it."""
    ends = [name for op in plan.graph.ops if op.kind in ENDS for name in op.inputs[:1]]
    name = next(iter((*ends, *plan.graph.outputs)))
    return len(plan.graph.tensors[name].dims)


def scoped(name: str, scope: str) -> str:
    """The full name of an operator whose network is compiled within another cell.

    >>> scoped("Default/up-Dense/MatMul-op0", "network-Net")
    'Default/network-Net/up-Dense/MatMul-op0'
    """
    if not scope or not name.startswith(_ROOT):
        return name
    return f"{_ROOT}{scope.strip('/')}/{name.removeprefix(_ROOT)}"


def losses(plan: Plan, file: OperatorFile) -> tuple[str, ...]:
    """What the file says otherwise than the plan, a sentence each."""
    out: list[str] = []
    if not plan.pipeline.is_single:
        one = plan.pipeline.parts == 1
        cell = "GradAccumulation" if one else "PipelineCell"
        out.append(
            f"{'' if one else 'apply_mindspore.py gives cells their stages; '}{cell} makes "
            f"{plan.pipeline.micro_batches} micro-batches, and slices whole inputs"
        )
    if file.derived:
        out.append(
            f"{len(file.derived)} primitives are not in the plan and are cut as what they read: "
            f"{named(file.derived)}"
        )
    if file.displaced:
        out.append(
            f"{len(file.displaced)} operators work on merged rows of which the plan cuts the inner "
            f"ones, and MindSpore as many pieces from the outside: {named(file.displaced)}"
        )
    moved = tuple(_moved_twice(plan))
    if moved:
        out.append(
            f"{len(moved)} reshapes are redistributed before and behind; MindSpore goes straight "
            f"from what makes their operand to what reads their result: {named(moved)}"
        )
    return tuple(out)


def _moved_twice(plan: Plan) -> Iterator[str]:
    """Reshapes with a layout of their own: MindSpore gives them none."""
    moves = [item for item in plan.collectives if item.cause == Cause.FORWARD]
    read, moved = {item.operator for item in moves}, {item.tensor for item in moves}
    for op in plan.graph.ops:
        if op.kind in NEVER_CUT and op.name in read and op.outputs[0] in moved:
            yield op.name


def _foreign(plan: Plan, primitives: Sequence[FilePrimitive]) -> Iterator[Violation]:
    """Whether the plan is of another model than the file: then hardly a name is known."""
    known = {part.name for op in plan.graph.ops for part in op.parts or (op,)}
    if not any(each.name in known for each in primitives):
        what = f"the plan has none of the {len(primitives)} primitives of the model file"
        yield Violation(what, f"plan of {plan.graph.name!r}", "pass the .mindir that was planned")


class _Work:
    def __init__(self, plan: Plan, primitives: Sequence[FilePrimitive]) -> None:
        self.plan = plan
        self.sizes = tuple(size for _, size, _ in plan.mesh)
        self.planned = {operator.name: operator for operator in plan.operators}
        self.groups = groups(plan.graph, primitives)
        self.made: dict[str, tuple[Sequence[int], Cuts]] = {}
        """Dims and cuts of the first result of every primitive, as the plan has it."""
        for name, group in self.groups.items():
            self._note(name, group)
        self.derived: list[str] = []
        self.displaced: list[str] = []
        self.violations: list[Violation] = []

    def inputs(self) -> Iterator[Cuts]:
        """How the inputs arrive."""
        found = {t.name: t for t in self.plan.tensors if t.role == "input"}
        axes: Mapping[str, int] = {name: size for name, size, _ in self.plan.mesh}
        for name in self.plan.graph.inputs:
            dims = found[name].layout.dims if name in found else ()
            cuts = tuple(math.prod(axes[axis] for axis in dim) for dim in dims)
            self.made[name] = (self.plan.graph.tensors[name].dims, cuts)
            yield cuts

    def _note(self, name: str, group: Group) -> None:
        reader = self._reader(group.main)
        result = group.main.rule.results[0]
        if result is not None:
            dims = self.plan.graph.tensors[group.main.view.op.outputs[0]].dims
            self.made[name] = (dims, tuple(reader.count(dim) for dim in result))

    def _reader(self, part: Part) -> Reader:
        operator: PlannedOperator = self.planned[part.whole]
        split = tuple(factor for _, factor in operator.split)
        return Reader(part.view.op, primitive_form(part.view, part.rule), (), split, self.sizes)

    def cuts(self, primitive: FilePrimitive) -> tuple[Cuts, ...]:
        """The strategy of one primitive, in the dims that the file has."""
        group = self.groups.get(primitive.name)
        if group is None:
            return self._as_read(primitive)
        reader = self._reader(group.main)
        if reader.op.kind not in NEVER_CUT:
            self.violations += reader_violations(reader)
        places = aligned(group.main, len(reader.cuts), len(primitive.operands))
        if places is None:
            self._misfit(primitive, f"{len(reader.cuts)} operands", f"{len(primitive.operands)}")
            return ()
        own = [self._operand(group, reader, index) for index in places]
        out = []
        for (dims, cuts), target in zip(own, primitive.operands, strict=True):
            fitted = merged(dims, cuts, tuple(target))
            if fitted is None:
                self._misfit(primitive, f"an operand of {list(dims)}", f"{list(target)}")
            out.append(fitted or ())
        if self._is_displaced(group.main, reader, places, primitive):
            self.displaced.append(primitive.name)
        return tuple(out)

    def _is_displaced(
        self, main: Part, reader: Reader, places: Sequence[int], primitive: FilePrimitive
    ) -> bool:
        """Whether merged rows are cut otherwise than from the outside."""
        present = [
            (tensor.dims, mapping)
            for tensor, mapping in zip(main.view.inputs, main.rule.operands, strict=True)
            if tensor is not None
        ]
        if len(present) != len(reader.cuts):
            return False
        for index, target in zip(places, primitive.operands, strict=True):
            dims, mapping = present[index]
            if mapping is None or len(dims) <= len(target):
                continue
            cuts = tuple(reader.count(dim) for dim in mapping)
            together = merged(dims, cuts, target)
            if together is not None and apart(dims, target, together) != cuts:
                return True
        return False

    def _operand(self, group: Group, reader: Reader, index: int) -> tuple[Sequence[int], Cuts]:
        """Dims and cuts of an operand as the file has it, before what turns it."""
        dims, cuts = reader.form.dims[index], reader.cuts[index]
        present = [name for name in reader.op.inputs if name]
        between = group.between(present[index]) if index < len(present) else ()
        for part in between:
            before = turned(part, cuts)
            helper = self._reader(part)
            dims = helper.form.dims[0]
            cuts = helper.cuts[0] if before is None else before
        return dims, cuts

    def _as_read(self, primitive: FilePrimitive) -> tuple[Cuts, ...]:
        """Cuts of a primitive that the plan lacks: where it only moves its operand, those in which
        that is made, and else none.
        """
        self.derived.append(primitive.name)
        whole = tuple((1,) * len(dims) for dims in primitive.operands)
        made = self.made.get(primitive.makers[0]) if len(whole) == 1 else None
        fitted = merged(*made, tuple(primitive.operands[0])) if made is not None else None
        return whole if fitted is None else (fitted,)

    def _misfit(self, primitive: FilePrimitive, own: str, wanted: str) -> None:
        what = f"the plan has {own}, the model file {wanted}"
        fix = "plan it with --attention decomposed, or pass the .mindir that was planned"
        self.violations.append(
            Violation(what, f"operator {primitive.name!r} ({primitive.kind})", fix)
        )
