"""Pipeline stages by the cells of the network, as frameworks assign them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from exporters.errors import ExportError
from exporters.python_tables import table
from exporters.sharding import Sharding, as_filed
from ir.plan import NamedLayout, Plan, PlannedCollective
from ir.plan_stages import leaving, received, stage_plan, stage_ranks
from ir.violations import Violation

_LAYER = re.compile(r"^(.*?\.)?\d+(?=\.|$)")


def stages_of_cells(plan: Plan) -> dict[str, set[int]]:
    """By the path of every cell, the stages that run something of it."""
    out: dict[str, set[int]] = {}
    for op in plan.operators:
        path = op.scope.split(".") if op.scope else []
        for depth in range(1, len(path) + 1):
            out.setdefault(".".join(path[:depth]), set()).add(op.stage)
    return out


def assigned_cells(plan: Plan) -> dict[str, int]:
    """The largest cells that lie in one stage, with that stage, in the order of the plan."""
    stages = stages_of_cells(plan)
    out: dict[str, int] = {}
    for path, own in stages.items():
        outer = path.rpartition(".")[0]
        if len(own) == 1 and (not outer or len(stages[outer]) > 1):
            out[path] = min(own)
    return out


def torn_cells(plan: Plan) -> tuple[str, ...]:
    """Cells whose own operators, those of no cell inside it, lie in several stages."""
    own: dict[str, set[int]] = {}
    for op in plan.operators:
        own.setdefault(op.scope, set()).add(op.stage)
    return tuple(sorted(scope or "the network" for scope, found in own.items() if len(found) > 1))


def layer_of(scope: str) -> str:
    """The numbered layer that a scope lies in, such as `model.layers.3`; empty if in none."""
    found = _LAYER.match(scope)
    return found[0] if found else ""


def layer_counts(plan: Plan) -> list[int]:
    """Layers of every stage, by numbered cells; one that is cut counts where it begins."""
    count = len(plan.pipeline.stages)
    first: dict[str, int] = {}
    for op in plan.operators:
        if layer_of(op.scope):
            first.setdefault(layer_of(op.scope), op.stage)
    return [sum(stage == s for stage in first.values()) for s in range(count)]


def cut_scopes(plan: Plan) -> list[str]:
    """Numbered layers that lie in several stages."""
    stages = stages_of_cells(plan)
    layers = dict.fromkeys(layer_of(op.scope) for op in plan.operators)
    return [layer for layer in layers if layer and len(stages[layer]) > 1]


def stages_json(
    plan: Plan,
    name: str,
    sharding: Callable[[Plan], str],
    layout: Callable[[PlannedCollective], object],
) -> str:
    """Text of a file with one mesh for each stage; its devices are places among the stage's own.

    Args:
        plan: with micro-batches.
        name: of the format.
        sharding: the text of one stage's layouts.
        layout: how the target writes the layout in which something is sent.

    Raises:
        ExportError: the target cannot lay out a tensor as the plan does.
    """
    pipeline = plan.pipeline
    record = {
        "format": f"{name}-stages",
        "version": 1,
        "model": plan.graph.name,
        "schedule": pipeline.schedule,
        "micro_batches": pipeline.micro_batches,
        "micro_batch": pipeline.micro_batch,
        "stages": [
            {
                "stage": stage,
                "devices": list(stage_ranks(plan, stage)),
                "operators": [op.name for op in plan.graph.ops[own.start : own.end]],
                "in_flight": own.in_flight,
                "receives": list(_sends(received(plan, stage), layout)),
                "sends": list(_sends(leaving(plan, stage), layout)),
                "sharding": json.loads(sharding(stage_plan(plan, stage))),
            }
            for stage, own in enumerate(pipeline.stages)
        ],
    }
    return json.dumps(record, indent=1, ensure_ascii=False) + "\n"


def _sends(
    items: Sequence[PlannedCollective], layout: Callable[[PlannedCollective], object]
) -> Iterator[Mapping[str, object]]:
    for item in items:
        yield {
            "tensor": item.tensor,
            "layout": layout(item),
            "bytes_per_device": item.nbytes,
            "gradient": item.backward > 0,
        }


WRITE_JSON = "name a file that ends in .json; it holds the stages one by one"
_STEP = """
MICRO_BATCHES = {micro_batches}
\"\"\"Parts of the batch of a step, run one after the other: their gradients are added up, and the
optimizer updates once, after the last.\"\"\"

STATES = {states}
\"\"\"Optimizer state that is cut further than its parameter, by parameter.\"\"\"
"""


def one_stage(plan: Plan) -> Plan:
    """A plan of one batch, or of one stage with what it does for a micro-batch.

    Raises:
        ExportError: there are several stages.
    """
    if plan.pipeline.is_single:
        return plan
    if len(plan.pipeline.stages) > 1:
        refuse_stages(plan, "a module has one mesh, the plan one for each stage", WRITE_JSON)
    return stage_plan(plan, 0)


def step_lines(plan: Plan, sharding: Sharding, encode: Callable[[NamedLayout], object]) -> str:
    """Lines of a module on the micro-batches of a step in one stage, and where optimizer state
    rests; none if it is one batch whose state rests as the parameters do.

    Args:
        plan: with one stage.
        sharding: of that stage.
        encode: how the target writes a layout.
    """
    filed: dict[object, object] = {
        each.file_name: encode(as_filed(each.states, each.permutation))
        for each in sharding.parameters
        if each.states is not None
    }
    if plan.pipeline.is_single and not filed:
        return ""
    return _STEP.format(micro_batches=plan.pipeline.micro_batches, states=table(filed))


def stage_losses(plan: Plan, losses: Callable[[Plan], tuple[str, ...]]) -> tuple[str, ...]:
    """What a target does otherwise in any stage, and what it is not told."""
    stages = range(len(plan.pipeline.stages))
    every = dict.fromkeys(loss for s in stages for loss in losses(stage_plan(plan, s)))
    if len(stages) == 1:
        count = plan.pipeline.micro_batches
        adds = f"the training loop adds up the gradients of {count} micro-batches"
        return (*every, adds) if count > 1 else (*every,)
    order = "the file says what each stage runs; the program that reads it makes the schedule"
    return (*every, order)


def refuse_stages(plan: Plan, what: str, fix: str) -> None:
    """Raise `ExportError` for a plan with pipeline stages."""
    if not plan.pipeline.is_single:
        raise ExportError(Violation(what, "pipeline", fix))
