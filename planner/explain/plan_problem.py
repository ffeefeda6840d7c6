"""One part of the machine of a plan as the problem that it answers: explanations start from it.

A plan of one batch on one mesh has one part. Between stages a tensor goes in a layout of its own,
so parts share no more than parameters that lie alike in them: what a part does is chosen for it
alone, within its memory. Its problem is made again with the boundaries of its stages, their blocks
and micro-batches as planned, and counted for a whole step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from costmodel.redistribution import UNREACHABLE_S
from costmodel.schedules.closed_form import pipeline_time_s
from ir.graph import OpGraph
from ir.plan import Plan
from ir.plan_stages import part_times, send_times, stage_size
from planner.explain.plan_request import holds_of, request_of
from planner.explain.restricted_problem import Answer, Hold, RestrictedProblem
from planner.lowering.liveness import analyse
from planner.lowering.lower import lower
from planner.lowering.lowered import Lowered, NodeKind
from planner.lowering.optimizer_states import StateOptions
from planner.lowering.pieces import Pieces, Span, cuts_of, pieces_of
from planner.pipeline.plan_builder import PlanBuilder
from planner.pipeline.prices import setting_of as setting_of_pieces
from planner.pipeline.solved import send_s
from planner.pipeline.space import Configuration, moments_of_pieces
from planner.problem import FloatArray, Problem, Table
from planner.repricing.planned_choice import planned_choice, setting_of
from planner.request import RequestError
from planner.requests.plan_names import unknown_part
from planner.solvers import Budget
from topology.cluster import Cluster
from topology.part import stage_cluster

LONGEST_S = 120.0
"""Emergency brake of one question; the time limit of the search stands in no plan."""
SAME_PRICE = 1e-6
"""Relative difference up to which a plan costs what its file says."""
SELECTIVE = ("auto", "selective")
"""Values of `--recompute` with which single tensors may be computed again."""


def _the_step(cost_s: float) -> float:
    return cost_s


@dataclass(frozen=True, slots=True, eq=False)
class PlanProblem:
    """A plan, its problem, and its choice there: all of it, or a part of the machine."""

    lowered: Lowered
    """With every saved tensor offered to be computed again. Its problem counts whole steps."""
    posed: RestrictedProblem
    """The same as numbers, with what the user asked as holds."""
    choice: tuple[int, ...]
    """The plan's."""
    step_s: Callable[[float], float] = _the_step
    """Seconds of the whole step by those of the problem."""

    @classmethod
    def of(
        cls,
        lowered: Lowered,
        choice: Sequence[int],
        holds: Iterable[Hold] = (),
        budget: Budget | None = None,
        step_s: Callable[[float], float] = _the_step,
    ) -> Self:
        """From a problem that is lowered already.

        Args:
            lowered: without pins.
            choice: the plan.
            holds: what the plan is held to.
            budget: what the search had that found the plan; by default that of effort 1.
            step_s: as in the record.
        """
        posed = RestrictedProblem(
            lowered.problem,
            tuple(holds),
            tuple(node.columns.kept for node in lowered.nodes),
            lambda own: float(PlanBuilder(lowered, own).buffer_excess_bytes()) if own else 0.0,
            UNREACHABLE_S,
            budget=budget or Budget(),
        )
        return cls(lowered, posed, tuple(choice), step_s)

    def plain(self, name: str) -> str:
        """The name of an operator or tensor in the plan by that in the problem."""
        return self.lowered.liveness.origin(name).name

    @property
    def graph(self) -> OpGraph:
        return self.lowered.liveness.graph

    @property
    def plan_answer(self) -> Answer:
        """The plan itself as an answer."""
        problem = self.posed.problem
        cost_s = problem.cost_s(self.choice)
        peak = problem.peak_bytes(self.choice) + self.posed.buffer_excess_bytes(self.choice)
        return Answer(self.choice, cost_s, -math.inf, peak, problem.fits(peak), "none")

    def node_of(self, name: str, *, tensor: bool = False) -> int:
        """The node of an operator or, where asked, of a tensor.

        Raises:
            RequestError: there is none of that name.
        """
        for number, node in enumerate(self.lowered.nodes):
            if node.origin.name == name and (node.kind is NodeKind.OPERATOR) != tensor:
                return number
        nodes = (n for n in self.lowered.nodes if (n.kind is NodeKind.OPERATOR) != tensor)
        noun, option = ("decision about a tensor", "--tensor") if tensor else ("operator", "--op")
        raise unknown_part(noun, option, name, (node.origin.name for node in nodes))


def problem_of(
    plan: Plan,
    part: int = 0,
    *,
    cluster: Cluster | None = None,
    graph: OpGraph | None = None,
    repriced: bool = False,
) -> PlanProblem:
    """The problem of one part of the machine, and what the plan has there.

    Args:
        plan: of one stage or several.
        part: which one; stage s runs on part s mod so many.
        cluster: in place of the plan's own machine, such as one with faster links.
        graph: in place of the plan's own, such as one with another batch.
        repriced: whether the times of the plan were found from those of another machine.

    Raises:
        RequestError: this version prices the plan otherwise than its file says.
    """
    as_planned = cluster is None and graph is None and not repriced
    plan = plan if graph is None else replace(plan, graph=graph)
    lowered = _lowered_part(plan, part, cluster or Cluster.from_dict(plan.cluster))
    choice = planned_choice(plan, lowered)
    if as_planned:
        _check_price(plan, part, lowered.problem.cost_s(choice))
    lowered = replace(lowered, problem=_of_step(lowered.problem, plan.pipeline.micro_batches))
    request = request_of(plan)
    return PlanProblem.of(
        lowered,
        choice,
        holds_of(plan, request, lowered, choice),
        Budget(request.effort, LONGEST_S, request.seed, request.threads),
        lambda work_s: step_s(plan, {part: work_s}),
    )


def _check_price(plan: Plan, part: int, found_s: float) -> None:
    """Raise `RequestError` if a part does not cost what the file of the plan says."""
    said_s = plan.estimate.step_time_s
    if not plan.pipeline.is_single:
        found_s, said_s = found_s + _received_s(plan, part), part_times(plan)[part]
    if abs(found_s - said_s) > SAME_PRICE * said_s:
        raise RequestError(
            f"the plan says {said_s:.6g} s, and this version finds {found_s:.6g} s for it\n"
            "  at:  estimate.step_time_s\n  fix: plan again with `planner search`"
        )


def stages_of(plan: Plan, part: int) -> range:
    """The stages that a part of the machine runs."""
    pipeline = plan.pipeline
    return range(part, len(pipeline.stages), pipeline.parts)


def _lowered_part(plan: Plan, part: int, machine: Cluster) -> Lowered:
    """The problem of one micro-batch on a part of a machine."""
    pipeline, request = plan.pipeline, request_of(plan)
    if pipeline.is_single:
        liveness = analyse(plan.graph, training=request.training)
        return lower(liveness, replace(setting_of(plan, machine), recompute=liveness.derived))
    own = stage_cluster(machine, stage_size(plan, part))
    if own is None:
        raise ValueError(f"{machine.name} has no part of {stage_size(plan, part)} devices")
    numbers = stages_of(plan, part)
    pieces = _pieces(plan, numbers)
    setting = replace(
        setting_of(plan, own, part),
        recompute=request.recompute in SELECTIVE,
        micro_batches=pipeline.micro_batches,
        in_flight=tuple(pipeline.stages[number].in_flight for number in numbers),
        states=StateOptions(
            request.zero,
            request.offload,
            frozenset(pieces.shared),
            lambda nbytes: np.array([send_s(machine, float(each)) for each in nbytes]),
        ),
        ring_attention=request.ring_attention != "off",
    )
    return lower(pieces.liveness, setting_of_pieces(setting, pieces))


def _pieces(plan: Plan, numbers: range) -> Pieces:
    pipeline = plan.pipeline
    liveness = analyse(plan.graph, training=True)
    ends = {stage.end for stage in pipeline.stages}
    cuts = {cut.position: cut for cut in cuts_of(liveness) if cut.position in ends}
    stages = (pipeline.stages[number] for number in numbers)
    spans = [Span(stage.start, stage.end, None, stage.blocks) for stage in stages]
    shape = Configuration(pipeline.parts, 1, pipeline.micro_batches, pipeline.chunks)
    return pieces_of(liveness, cuts, spans, numbers, moments_of_pieces(shape, numbers))


def _received_s(plan: Plan, part: int) -> float:
    """Seconds of a micro-batch in which a part receives, and sends gradients back."""
    return math.fsum(sum(send_times(plan, stage)) for stage in stages_of(plan, part))


def step_s(plan: Plan, works_s: Mapping[int, float]) -> float:
    """Seconds of the whole step if some parts work otherwise than planned.

    Args:
        plan: of one stage or several.
        works_s: by part what it works in a step, without what it receives.
    """
    pipeline, planned = plan.pipeline, part_times(plan)
    if pipeline.is_single:
        return works_s.get(0, plan.estimate.step_time_s)
    shape = (pipeline.micro_batches, pipeline.chunks)
    order_s = plan.estimate.step_time_s - pipeline_time_s(planned, *shape)
    own = list(planned)
    for part, work_s in works_s.items():
        own[part] = work_s / pipeline.micro_batches + _received_s(plan, part)
    return math.fsum((pipeline_time_s(own, *shape), order_s))


def _of_step(problem: Problem, count: int) -> Problem:
    """A problem of one micro-batch as that of a step; what cannot be stays so."""

    def times(own: FloatArray) -> FloatArray:
        more = np.minimum(own * count, np.nextafter(UNREACHABLE_S, 0.0))
        return np.where(own >= UNREACHABLE_S, UNREACHABLE_S, more)

    def scaled(table: Table) -> Table:
        loads = None if table.loads is None else times(table.loads)
        return replace(table, time_s=times(table.time_s), loads=loads)

    return replace(
        problem,
        node_tables=tuple(scaled(table) for table in problem.node_tables),
        edge_tables=tuple(scaled(table) for table in problem.edge_tables),
    )
