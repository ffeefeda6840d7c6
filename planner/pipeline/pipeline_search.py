"""Pipelines: stages, micro-batches and layouts chosen together.

For every number of stages and size of micro-batch all intervals of the network that may be a stage
are priced on a stage's mesh, equal ones once, memory left aside; what the best cuts then take
bounds all plans of that shape from below. The best shapes are solved again, all stages together and
within the memory, until no other shape can be better.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum

from ir.graph import OpGraph
from ir.plan import Plan
from planner.constraints.pins import pin_notes
from planner.constraints.soft import too_many_changes
from planner.constraints.stage_pins import held_notes
from planner.constraints.token_cuts import context_notes
from planner.lowering.lowered import Lowered
from planner.lowering.parameters import TIED_NOTE, check_offload, no_room_on_host, tied_pairs
from planner.lowering.pricing import MEMORY, check_cost
from planner.pipeline.bounds.configurations import Priced
from planner.pipeline.bounds.network import NetworkBounds
from planner.pipeline.bounds.order import ConfigurationSearch
from planner.pipeline.configuration import solved
from planner.pipeline.infeasibility import check_states, infeasible
from planner.pipeline.objectives import (
    follows_cost,
    least_memory,
    objective_note,
    objective_of,
)
from planner.pipeline.one_batch import BatchAnswer, PreparedModel, batch_answer
from planner.pipeline.preparation import check_pipeline_request, dialect_for
from planner.pipeline.search_state import PipelineSearch, Report
from planner.pipeline.soft_trade_off import soft_notes
from planner.pipeline.solved import Solved
from planner.pipeline.space import Configuration
from planner.pipeline.stage_plan import Draft, bound_of, drafted, plan_of, space_of, with_bound
from planner.pipeline.unequal import UnequalSearch
from planner.request import InfeasibleError, RequestError, SearchRequest
from planner.solvers import Solution
from topology.cluster import Cluster

SOLVED = 3
"""Shapes that are solved in full at most, per unit of effort."""

STAGES_PROMISE = 0.03
"""Share of the step of a plan without stages that they must promise by their bound to be looked at
beside it."""
STAGES_GAIN = 0.01
"""Share that they must save to be taken."""

BOUNDARY_NOTE = (
    "stage boundaries are where one activation crosses; each device of a stage sends its shard"
)
MICRO_BATCH_NOTE = (
    "gradients are reduced after the last micro-batch of a stage, the update follows all stages"
)


class Among(Enum):
    """Among which plans a search looks for the fastest."""

    ALL = "all"
    MICRO_BATCHES = "micro-batches"
    """The batch as one is known not to fit."""
    STAGES = "stages"
    """Those with stages that promise to be faster than a plan without, which is known."""


def search_pipeline(
    graph: OpGraph,
    cluster: Cluster,
    request: SearchRequest,
    report: Report = lambda _: None,
    *,
    among: Among = Among.ALL,
    one_batch: BatchAnswer | None = None,
    any_will_do: bool = False,
    ready: PreparedModel | None = None,
) -> Plan:
    """The fastest plan for a global batch.

    Args:
        graph: as imported.
        cluster: the machine.
        request: with a global batch.
        report: receives progress.
        among: what is looked at.
        one_batch: the plan of that, where it is known; it is the answer unless another is faster.
        any_will_do: the first plan that is found to fit is enough.
        ready: the model at the whole batch, where it is prepared.

    Raises:
        RequestError: the request does not fit the model or the machine.
        BatchError: the batch cannot be followed through the model.
        InfeasibleError: nothing fits into memory.
    """
    check_pipeline_request(graph, request)
    check_cost(request.cost, dialect_for(request, cluster.devices), graph)

    def fastest(asked: SearchRequest) -> Plan:
        networks = None if ready is None else ready.networks(graph, cluster, asked)
        search = PipelineSearch(
            graph, cluster, asked, any_will_do, beside=among is Among.STAGES, known=networks
        )
        return _Search(search, report, one_batch, among).plan()

    if request.cost == MEMORY and not any_will_do:
        return least_memory(request, fastest)
    return fastest(request)


class _Search:
    def __init__(
        self, task: PipelineSearch, report: Report, one_batch: BatchAnswer | None, among: Among
    ) -> None:
        self.task, self.report, self.among = task, report, among
        self.tried: set[Configuration] = set()
        self.fitting: list[Draft] = []
        self.searched: list[Lowered] = []
        self.one_batch = None if one_batch is None else one_batch.plan
        self.one_batch_least_s = 0.0 if one_batch is None else self._least_of(one_batch)
        self.is_one_batch_known = one_batch is not None
        self.promise, self.gain = (STAGES_PROMISE, STAGES_GAIN) if task.beside else (0.0, 0.0)
        self.refused: Solved | None = None

    def plan(self) -> Plan:
        """The best of all shapes."""
        bounds = NetworkBounds(self.task)
        shapes = [shape for shape in self.task.shapes() if self._is_looked_at(shape, bounds)]
        if self.task.beside and not shapes:
            return self._best(math.inf)
        first = self.task.network
        said = check_offload(self.task.cluster.chip, self.task.request.offload)
        check_states(first.graph, self.task.cluster, self.task.request)
        devices, name = self.task.cluster.devices, self.task.cluster.name
        self.report(
            f"{len(first.graph.ops)} operators, {len(first.cuts)} stage boundaries, {len(shapes)} "
            f"pipelines of a batch of {self.task.batch} on {devices} devices of {name}"
        )
        if Configuration(1, self.task.batch, 1) in shapes and not self.task.is_whole_far_beyond:
            self._find_one_batch()
        if self.one_batch_least_s:
            bounds.known_s[Configuration(1, self.task.batch, 1)] = self.one_batch_least_s
        goal_s = self._least_s(self.promise) if self.task.beside else math.inf
        bound_s = min(self._equal(shapes, bounds), self._unequal(bounds), goal_s)
        best = self._best(bound_s)
        if self.task.beside and best.pipeline.is_single:
            return best
        context = context_notes(
            best.graph, best.mesh, best.operators, self.task.request.ring_attention
        )
        return replace(best, notes=(*best.notes, *said, *context))

    def _is_looked_at(self, shape: Configuration, bounds: NetworkBounds) -> bool:
        if not self.task.beside:
            return self.among is Among.ALL or shape.micro_batches > 1
        is_filled = shape.micro_batches >= shape.stages > 1
        return is_filled and bounds.of_whole_batch(shape) < self._least_s(self.promise)

    def _equal(self, shapes: Sequence[Configuration], bounds: NetworkBounds) -> float:
        """Solve the best stages of equal devices; seconds that all of them take at least."""
        if not shapes:
            return math.inf
        search = ConfigurationSearch(self.task, shapes, bounds, self.report)
        first = self._one_stage(search)
        if self.task.beside:
            self._solve_likely(search)
            return min([search.left_s, *(item.bound_s for item in search.priced)])
        priced, left_s = search.run()
        self._solve(priced, more=first)
        while search.reopened(self._least_s()):
            priced, left_s = search.run()
            self._solve(priced, more=first)
        return min([left_s, *(item.bound_s for item in priced)])

    def _solve_likely(self, search: ConfigurationSearch) -> None:
        """Solve the likeliest stages beside a plan without, until enough of them save time."""
        saving = 0
        for priced in search.likely(self._least_s):
            self._solve(priced)
            saving += min(map(_worth_s, self.fitting), default=math.inf) <= self._least_s()
            if saving == self.task.request.effort:
                break

    def _one_stage(self, search: ConfigurationSearch) -> int:
        """A plan of one stage before all others, so that no time limit comes before it; how many
        shapes were solved for it.
        """
        if self.one_batch is None and not self.task.any_will_do:
            best = search.one_stage()
            if best is not None:
                self._solve([best])
        search.least_s = min(search.least_s, self._least_s(self.promise))
        return len(self.tried)

    def _unequal(self, bounds: NetworkBounds) -> float:
        """The same of stages that differ in their devices, if they may."""
        if self.task.request.stage_meshes == "equal" or (self.task.any_will_do and self.fitting):
            return math.inf
        best = min(self.fitting, key=lambda draft: draft.step_s, default=None)
        micro = None if best is None else best.solved.shape.micro_batch
        search, bound_s = UnequalSearch(self.task, bounds, self.report), math.inf
        for priced in search.run(micro, self._least_s):
            self._solve(priced, more=SOLVED * self.task.request.effort)
            bound_s = min([bound_s, *(item.bound_s for item in priced)])
        return min(bound_s, search.left_s)

    def _least_s(self, saved: float | None = None) -> float:
        """The shortest step so far; of that without stages what is left where they save a share,
        what they must to be taken if none is said.
        """
        steps = [_worth_s(draft) for draft in self.fitting]
        if self.one_batch is not None:
            left = 1 - (self.gain if saved is None else saved)
            steps.append(self._one_batch_s(self.one_batch) * left)
        return min(steps, default=math.inf)

    def _one_batch_s(self, plain: Plan) -> float:
        """The step of a plan on one mesh with what its soft pins are charged."""
        return plain.estimate.step_time_s + self.task.soft.paid_s(plain)

    def _solve(self, priced: Sequence[Priced], more: int = 0) -> None:
        """Shapes are solved in the order of what is expected of them; some more of them."""
        for item in sorted(priced, key=lambda p: (p.expected_s, p.bound_s, p.shape)):
            if (self.tried or self.one_batch) and self.task.is_late:
                self.task.truncated = True
                return
            least_s = self._least_s()
            if self.task.any_will_do and self.fitting:
                return
            most = SOLVED * self.task.request.effort + more
            several = len(self.tried) >= most * (1 if math.isfinite(least_s) else 2)
            enough = several and not self.task.is_small
            hoped_s = item.bound_s if item.every else item.expected_s
            # Where nothing is expected to fit, some are solved all the same: one may fit.
            beaten = math.isfinite(least_s) and hoped_s >= least_s
            late = beaten or (enough and not item.every) or math.isinf(item.bound_s)
            if not late and item.shape not in self.tried:
                self._try(item, least_s)

    def _try(self, item: Priced, least_s: float) -> None:
        self.tried.add(item.shape)
        if item.shape == Configuration(1, self.task.batch, 1):
            self._find_one_batch()
        found = self._best_cut(item, least_s)
        self.searched += [group.lowered for group in found.solved.groups]
        self.report(
            f"{item.shape}, solved in full: {found.step_s:.6g} s"
            f"{'' if found.solved.fits else ', too large'}"
        )
        if found.solved.fits:
            self.fitting.append(found)
        else:
            refused = self.refused or found.solved
            self.refused = min(refused, found.solved, key=lambda s: s.peak_bytes)

    def _best(self, bound_s: float) -> Plan:
        best = self._planned(bound_s) if self.fitting else self.one_batch
        if best is None:
            raise self._nothing(self.refused)
        plain = self.one_batch
        shorter = min(map(_worth_s, self.fitting), default=math.inf)
        if plain is None or shorter < self._one_batch_s(plain) * (1 - self.gain):
            return best
        paid = self._one_batch_s(plain) - plain.estimate.step_time_s
        return with_bound(plain, max(bound_s - paid, 0.0), truncated=self.task.truncated)

    def _best_cut(self, item: Priced, least_s: float) -> Draft:
        """The best layouts of a shape: at the cuts expected to be best, or at any if few."""
        ends = item.ends or item.least_ends
        best = drafted(solved(self.task, item.shape, ends, item.shares, item.price))
        for bound_s, ends in item.every:
            if bound_s >= (min(least_s, _worth_s(best)) if best.solved.fits else least_s):
                break
            found = solved(self.task, item.shape, ends)
            if found.fits:
                draft = drafted(found)
                if not best.solved.fits or _worth_s(draft) < _worth_s(best):
                    best = draft
        return best

    def _find_one_batch(self) -> None:
        """Look once for the plan of one batch on one mesh, unless what is asked rules it out."""
        task = self.task
        if not self.is_one_batch_known and task.request.is_open and task.all_can_stay:
            self.is_one_batch_known = True
            answer = self._one_batch_answer()
            if answer is not None:
                self.one_batch = answer.plan
                self.one_batch_least_s = self._least_of(answer)

    def _one_batch_answer(self) -> BatchAnswer | None:
        """The plan of one batch on one mesh, as it is found without a global batch."""
        task = self.task
        asked = replace(task.request, batch=task.batch, time_limit_s=task.deadline.left_s)
        try:
            found = batch_answer(task.source, task.cluster, asked, self.report)
        except InfeasibleError:
            return None
        return found if self.task.soft.keeps_changes(found.plan) else None

    def _least_of(self, answer: BatchAnswer) -> float:
        """What a step of one batch takes at least on the mesh of a pipeline's one stage; 0 where
        the answer is on another one.
        """
        mesh = self.task.stage_machine(Configuration(1, self.task.batch, 1))[1]
        same = answer.plan.mesh == mesh.rows
        return answer.least_s if same and self.task.soft.is_empty else 0.0

    def _nothing(self, refused: Solved | None) -> Exception:
        if refused is None and self.task.request.stage_meshes == "any":
            asked = self.task.request.pipeline
            return RequestError(
                f"no parts of {self.task.cluster.devices} devices of this machine make these "
                f"stages\n  at:  --pipeline {asked}\n  fix: --pipeline auto"
            )
        if refused is None:
            return RequestError(
                "no pipeline configuration can be priced\n  at:  --batch\n"
                "  fix: leave --pipeline and --micro-batch out"
            )
        if self.task.soft.most is not None:
            return too_many_changes(self.task.request)
        fullest = max(refused.groups, key=lambda group: group.peak_bytes)
        lowered, choice = fullest.lowered, tuple(fullest.choice)
        peak = fullest.peak_bytes + fullest.buffer_excess_bytes()
        solution = Solution(choice, math.inf, math.inf, "none", peak, refused.truncated)
        error = infeasible(lowered, solution, self.task.request)
        return no_room_on_host(error, self.task.cluster, self.task.request.offload)

    def _planned(self, bound_s: float) -> Plan:
        """The plan with the shortest step."""
        found = min(self.fitting, key=_worth_s)
        task, shape = self.task, found.solved.shape
        notes = (
            *soft_notes(found.solved, task.soft),
            *dict.fromkeys(
                note
                for group in found.solved.groups
                for note in held_notes(group.lowered, task.request, task.where)
            ),
            *pin_notes(task.pins),
            *dict.fromkeys(TIED_NOTE for g in found.solved.groups if tied_pairs(g.lowered)),
            *task.true_micro(shape.micro_batch).notes,
            *([BOUNDARY_NOTE] if shape.stages > 1 else []),
            MICRO_BATCH_NOTE,
        )
        objective = None
        if follows_cost(task):
            objective = objective_of(task, found.solved)
            notes = (objective_note(objective), *notes)
        bound = bound_of(
            found.step_s,
            max(bound_s - found.solved.paid_s, 0.0),
            task.request.solver,
            truncated=task.truncated,
        )
        plan = plan_of(found, task.request, notes, space_of(self.searched), bound)
        return replace(plan, objective=objective)


def _worth_s(draft: Draft) -> float:
    """Seconds by which it is compared: of a step, and what is paid for wishes."""
    return draft.step_s + draft.solved.paid_s
