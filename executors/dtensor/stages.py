"""What one rank runs of a plan: a stage, or several that take turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist

from executors.dtensor.at_rest import StageParameters, given_parts, late_of
from executors.dtensor.counts import inner_constants
from executors.dtensor.grid import grid_of
from executors.dtensor.late import LateSync
from executors.dtensor.local_step import LocalStep
from executors.dtensor.module import Running
from executors.matching import Match, one_stage
from executors.reference import mesh_of
from executors.syncs import late_syncs
from executors.torch_differences import ApplyError
from ir.differentiation import tensors_with_gradient
from ir.graph import Role
from ir.layout import Layout
from ir.plan import NamedLayout, Plan
from ir.plan_stages import leaving, received


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage on one rank."""

    kept: StageParameters
    received: tuple[str, ...]
    constants: Mapping[str, Any]
    """Whole tensors."""

    @property
    def plan(self) -> Plan:
        return self.kept.step.plan

    def running(
        self, inputs: Sequence[str], out_spec: Any, *, whole_outputs: bool, losses: bool
    ) -> Running:
        """What runs when the stage is called with what it receives and the model's operands.

        Args:
            inputs: the plan's names of the operands of the model, in order; empty where it has
                none.
            out_spec: how the results of the model are nested.
            whole_outputs: results are whole tensors.
            losses: the plan's own losses are the results.
        """
        step, graph = self.kept.step, self.plan.graph
        own = [n if n in graph.inputs else "" for n in inputs]
        return Running(
            step, self.kept.parameters, [*self.received, *own], self.kept.late,
            given_parts(step, self.constants), inner_constants(self.plan, self.constants),
            None if step.leaving else out_spec, whole_outputs, losses, frozenset(self.received),
        )  # fmt: skip


def own_stages(plan: Plan) -> range:
    """Numbers of the stages that this rank runs."""
    parts = plan.pipeline.parts
    part = dist.get_rank() // (plan.devices // parts)
    return range(part, len(plan.pipeline.stages), parts)


def stage_of(match: Match, number: int, constants: Mapping[str, Any], device: str) -> Stage:
    """A stage of a matched model.

    Args:
        match: the model and the plan.
        number: of the stage.
        constants: whole tensors of what the model fixes.
        device: `cpu` or `cuda`.
    """
    whole = match.plan
    plan = one_stage(whole, number)
    grid = grid_of(plan, mesh_of(plan), dist.get_rank(), device, whole.pipeline.parts)
    trains = bool(whole.request.get("training", True))
    flowing = frozenset(tensors_with_gradient(whole.graph))
    leaves = {s.tensor: s.before for s in leaving(whole, number) if s.before is not None}
    step = LocalStep(plan, grid, trains, flowing, _checked(whole, leaves))
    table = plan.graph.tensors
    parameters = {
        n: name for n, name in match.names.items() if n in table and table[n].role is Role.PARAMETER
    }
    syncs = {n: s for n, s in late_syncs(whole, number).items() if n in parameters}
    late = late_of(step, syncs, whole.pipeline.micro_batches)
    _check_tied(parameters, late.syncs)
    comes = tuple(s.tensor for s in received(whole, number))
    own = {n: a for n, a in constants.items() if n in table}
    return Stage(StageParameters(step, parameters, late), comes, own)


def _checked(plan: Plan, leaves: Mapping[str, NamedLayout]) -> Mapping[str, NamedLayout]:
    """Raise `ApplyError` for a whole number on its way to the next stage."""
    for name in leaves:
        if not plan.graph.tensors[name].is_float:
            raise ApplyError(
                f"{name!r} goes from stage to stage and is no floating-point number\n"
                "  at:  plan.json: pipeline.sends\n  fix: search with other --stage-starts"
            )
    return leaves


def _check_tied(parameters: Mapping[str, str], late: Mapping[str, LateSync]) -> None:
    """Raise `ApplyError` where uses of one parameter want its optimizer's state in two places."""
    rests: dict[str, set[Layout | None]] = {}
    for planned, name in parameters.items():
        rests.setdefault(name, set()).add(late[planned].rest if planned in late else None)
    for name, found in rests.items():
        if len(found) > 1:
            raise ApplyError(
                f"parameter {name!r} is used twice, and its state rests in two layouts\n"
                "  at:  plan.json: tensors\n  fix: search with --zero 0 or --zero 3"
            )
