"""A plan as MindSpore's operator-strategy file: a strategy for every operator of the network.

MindSpore's sharding propagation takes such a file in place of its own search, if it has every
operator under its full name with scope. Those names, and the operands as MindSpore has them, are
in the MindIR file that was planned.

Source: MindSpore 2.7.0, `frontend/parallel/strategy_loader.cc`; `make test-judges` hands the files
to 2.10.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from exporters.errors import ExportError
from exporters.mindspore.checkpoint import check_strategy
from exporters.mindspore.compiled_names import compiled_names
from exporters.mindspore.listed import PlannedPrimitives
from exporters.mindspore.loss import loss_operators
from exporters.mindspore.operator_json import OperatorStrategies
from exporters.mindspore.operator_stages import cell_around, own_operators, repeated
from exporters.mindspore.records import StrategyItem
from exporters.settings import Setting
from ir.file_primitives import FilePrimitive
from ir.mindspore_forms.readers import NEVER_CUT
from ir.mindspore_forms.strategies import Cuts
from ir.normalise.ends import ENDS
from ir.plan import Plan
from ir.plan_enums import Cause
from ir.texts import listed
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
    work = PlannedPrimitives(plan, primitives)
    inputs = tuple(work.inputs())
    cuts = {each.name: work.cut(each).cuts for each in primitives}
    named = compiled_names(primitives, inside=bool(scope))
    found: dict[str, tuple[Cuts, ...]] = {}
    for name, primitive in named:
        found.setdefault(scoped(name, scope), cuts[primitive.name])
    items = [StrategyItem(name, 0, own) for name, own in found.items()]
    items += loss_operators(plan, scope)
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


def has_full_names(primitives: Sequence[FilePrimitive]) -> bool:
    """Whether names have the classes of cells in them; those that an ONNX file tells have none."""
    steps = (step for each in primitives for step in each.name.split("/")[1:-1])
    return all("-" in step for step in steps)


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
            f"{listed(file.derived, 3)}"
        )
    if file.displaced:
        out.append(
            f"{len(file.displaced)} operators work on merged rows of which the plan cuts the inner "
            f"ones, and MindSpore as many pieces from the outside: {listed(file.displaced, 3)}"
        )
    moved = tuple(_moved_twice(plan))
    if moved:
        out.append(
            f"{len(moved)} reshapes are redistributed before and behind; MindSpore goes straight "
            f"from what makes their operand to what reads their result: {listed(moved, 3)}"
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
