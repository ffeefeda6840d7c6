"""Whole plans: stages, micro-batches and layouts chosen together.

For every number of stages and size of micro-batch all intervals of the network that may be a stage
are priced on a stage's mesh, equal ones once, memory left aside; what the best cuts then take
bounds all plans of that shape from below. The best shapes are solved again, whole and within the
memory, until no other shape can be better.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from ir.graph import OpGraph
from ir.plan import Bound, Plan
from planner.at_once import search_at_once
from planner.deadline import Deadline
from planner.evidence import space_of
from planner.fit import check_states, infeasible
from planner.least_memory import least_memory
from planner.lowered import Lowered
from planner.pins import pin_notes
from planner.preparation import dialect_for
from planner.pricing import MEMORY, TIME, check_cost
from planner.request import InfeasibleError, RequestError, SearchRequest
from planner.solvers import Solution
from planner.stages.floors import Floors
from planner.stages.held import held_notes
from planner.stages.menu import Shape
from planner.stages.offload import check_offload, no_room_on_host
from planner.stages.other_cost import LAYOUT_COSTS, follows_cost, objective_note, objective_of
from planner.stages.record import Draft, Least, drafted, plan_of
from planner.stages.remedies import with_remedy
from planner.stages.shape_hunt import ShapeHunt
from planner.stages.shape_prices import Priced
from planner.stages.solved import Solved
from planner.stages.task import Task
from planner.stages.tied import TIED_NOTE, tied_pairs
from planner.stages.unequal import UnequalHunt
from planner.stages.whole import solved
from planner.stages.wished import wished_notes
from planner.stages.within_memory import excess_bytes
from planner.token_cuts import context_notes
from planner.wishes import changed_in, paid_s, too_many_changes
from topology.cluster import Cluster

SOLVED = 3
"""Shapes that are solved whole at most, per unit of effort."""

NOTES = (
    "stages are cut where one activation crosses, sent in as many pieces as a stage has devices",
    "gradients are added up when the passes of a stage are over, parameters updated after all",
)

Report = Callable[[str], None]


def search_whole(
    graph: OpGraph, cluster: Cluster, request: SearchRequest, report: Report = lambda _: None
) -> Plan:
    """The fastest plan for a global batch.

    Args:
        graph: as imported.
        cluster: the machine.
        request: with a global batch.
        report: receives progress.

    Raises:
        RequestError: the request does not fit the model or the machine.
        BatchError: the batch cannot be followed through the model.
        InfeasibleError: nothing fits into memory.
    """
    deadline = Deadline.after(request.time_limit_s)
    try:
        return plan_whole(graph, cluster, request, report)
    except InfeasibleError as error:
        report(error.what)
        report("nothing fits: looking for a change that makes it possible")
        asked = replace(request, time_limit_s=deadline.left_s)

        def find(larger: Cluster, asked: SearchRequest) -> Plan:
            return any_whole(graph, larger, asked)

        raise with_remedy(error, cluster, asked, find, len(graph.ops), report) from error


def plan_whole(
    graph: OpGraph,
    cluster: Cluster,
    request: SearchRequest,
    report: Report = lambda _: None,
    *,
    tries_whole_batch: bool = True,
) -> Plan:
    """The same without a look for remedies where nothing fits.

    Args:
        graph: as imported.
        cluster: the machine.
        request: with a global batch.
        report: receives progress.
        tries_whole_batch: a step may be one micro-batch: the whole batch may fit.

    Raises:
        RequestError: the request does not fit the model or the machine.
        BatchError: the batch cannot be followed through the model.
        InfeasibleError: nothing fits into memory.
    """
    check_whole(graph, request)
    check_cost(request.cost, dialect_for(request, cluster.devices), graph)

    def at_once(asked: SearchRequest) -> Plan:
        if asked.cost == MEMORY:
            return least_memory(asked, at_once)
        return _Joint(Task(graph, cluster, asked), report, tries_whole_batch).plan()

    return at_once(request)


def any_whole(graph: OpGraph, cluster: Cluster, request: SearchRequest) -> Plan:
    """A plan for a global batch that fits, the first one that is found.

    Raises:
        RequestError: the request does not fit the model or the machine.
        BatchError: the batch cannot be followed through the model.
        InfeasibleError: nothing fits into memory.
    """
    check_whole(graph, request)
    return _Joint(Task(graph, cluster, request, any_will_do=True), lambda _: None, True).plan()


def check_whole(graph: OpGraph, request: SearchRequest) -> None:
    """Raise `RequestError` if this request cannot have stages and micro-batches."""
    faults = (
        (request.global_batch is None, "there is no global batch", "--global-batch", "give one"),
        (
            request.batch is not None,
            "--global-batch is --batch that may be cut into micro-batches",
            "--batch",
            "leave one of the two out",
        ),
        (
            not request.training,
            "only training has stages and micro-batches",
            "--phase infer",
            "use --batch in place of --global-batch",
        ),
        (
            graph.is_training_step,
            "the model is a traced training step, and stages are cut in a forward model",
            "--global-batch",
            "use --batch, or export the forward model",
        ),
        (
            request.cost not in {TIME, MEMORY}
            and (bool(request.soft_pins) or request.max_changes is not None),
            "soft pins and older plans are weighed in seconds, and the layouts follow another cost",
            f"--cost {request.cost}",
            "leave it out, or leave out the soft pins and the older plan",
        ),
        (
            isinstance(request.dataset_strategy, tuple),
            "cuts of the inputs are of one batch on all devices",
            "--dataset-strategy",
            "use data_parallel or full_batch, or --batch in place of --global-batch",
        ),
        (
            request.rest == "semi-auto",
            "operators are split by batch over all devices, and a stage has a part of them",
            "--rest semi-auto",
            "use --batch in place of --global-batch",
        ),
        (
            request.stage_meshes == "any" and request.target == "mindspore",
            "MindSpore has as many devices in every stage",
            "--stage-meshes any",
            "leave it out, or name another target: --target generic",
        ),
        (
            request.stage_meshes == "any" and _wishes(request),
            "pins with a price, older plans and costs of layouts want stages of equal devices",
            "--stage-meshes any",
            "leave it out",
        ),
        (
            request.stage_meshes == "any" and request.interleave not in {"auto", "1"},
            "chunks take turns on parts of one size",
            "--stage-meshes any",
            "leave it out, or use --interleave 1",
        ),
    )
    for wrong, what, where, fix in faults:
        if wrong:
            raise RequestError(f"{what}\n  at:  {where}\n  fix: {fix}")


def _wishes(request: SearchRequest) -> bool:
    """Whether layouts follow more than time and memory."""
    wished = bool(request.soft_pins or request.close_to) or request.max_changes is not None
    return wished or request.cost in LAYOUT_COSTS


class _Joint:
    def __init__(self, task: Task, report: Report, tries_whole_batch: bool) -> None:
        self.task, self.report, self.tries_whole_batch = task, report, tries_whole_batch
        self.tried: set[Shape] = set()
        self.fitting: list[Draft] = []
        self.searched: list[Lowered] = []
        self.plain: Plan | None = None
        self.refused: Solved | None = None

    def plan(self) -> Plan:
        """The best of all shapes."""
        every = self.task.shapes()
        shapes = [s for s in every if self.tries_whole_batch or s.micro_batches > 1]
        first = self.task.micro(self.task.first_micro_batch)
        said = check_offload(self.task.cluster.chip, self.task.request.offload)
        check_states(first.graph, self.task.cluster, self.task.request)
        devices, name = self.task.cluster.devices, self.task.cluster.name
        self.report(
            f"{len(first.graph.ops)} operators, {len(first.cuts)} cuts, {len(shapes)} ways to cut "
            f"a batch of {self.task.batch} on {devices} devices of {name}"
        )
        floors = Floors(self.task)
        bound_s = min(self._equal(shapes, floors), self._unequal(floors))
        best = self._best(bound_s)
        context = context_notes(
            best.graph, best.mesh, best.operators, self.task.request.ring_attention
        )
        return replace(best, notes=(*best.notes, *said, *context))

    def _equal(self, shapes: Sequence[Shape], floors: Floors) -> float:
        """Solve the best stages of equal devices; seconds that all of them take at least."""
        if not shapes:
            return math.inf
        hunt = ShapeHunt(self.task, shapes, floors, self.report)
        priced, left_s = hunt.run()
        self._solve(priced)
        while hunt.reopened(self._least_s()):
            priced, left_s = hunt.run()
            self._solve(priced)
        return min([left_s, *(item.bound_s for item in priced)])

    def _unequal(self, floors: Floors) -> float:
        """The same of stages that differ in their devices, if they may."""
        if self.task.request.stage_meshes == "equal" or (self.task.any_will_do and self.fitting):
            return math.inf
        best = min(self.fitting, key=lambda draft: draft.step_s, default=None)
        micro = None if best is None else best.solved.shape.micro_batch
        hunt, bound_s = UnequalHunt(self.task, floors, self.report), math.inf
        for priced in hunt.run(micro, self._least_s):
            self._solve(priced, more=SOLVED)
            bound_s = min([bound_s, *(item.bound_s for item in priced)])
        return min(bound_s, hunt.left_s)

    def _least_s(self) -> float:
        """The shortest step so far."""
        steps = [_worth_s(draft) for draft in self.fitting]
        plain = [] if self.plain is None else [self._plain_s(self.plain)]
        return min((*steps, *plain), default=math.inf)

    def _plain_s(self, plain: Plan) -> float:
        """The step of a plan on one mesh with what its soft pins are charged."""
        return plain.estimate.step_time_s + paid_s(plain, self.task.wants.soft)

    def _solve(self, priced: Sequence[Priced], more: int = 0) -> None:
        """Shapes are solved whole in the order of what is expected of them; some more of them."""
        for item in sorted(priced, key=lambda p: (p.expected_s, p.bound_s, p.shape)):
            if self.tried and self.task.is_late:
                self.task.truncated = True
                return
            least_s = self._least_s()
            if self.task.any_will_do and self.fitting:
                return
            most = (SOLVED + more) * self.task.request.effort
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
        whole = item.shape == Shape(1, self.task.batch, 1)
        if whole and self.task.request.is_open and self.task.all_can_stay:
            self.plain = self._plain()
        found = self._best_cut(item, least_s)
        self.searched += [group.lowered for group in found.solved.groups]
        self.report(
            f"{item.shape}, solved whole: {found.step_s:.6g} s"
            f"{'' if found.solved.fits else ', too large'}"
        )
        if found.solved.fits:
            self.fitting.append(found)
        else:
            refused = self.refused or found.solved
            self.refused = min(refused, found.solved, key=lambda s: s.peak_bytes)

    def _best(self, bound_s: float) -> Plan:
        best = self._planned(bound_s) if self.fitting else self.plain
        if best is None:
            raise self._nothing(self.refused)
        plain = self.plain
        shorter = min(map(_worth_s, self.fitting), default=math.inf)
        if plain is None or shorter < self._plain_s(plain):
            return best
        paid = self._plain_s(plain) - plain.estimate.step_time_s
        return _within(plain, max(bound_s - paid, 0.0))

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

    def _plain(self) -> Plan | None:
        """The plan of one batch on one mesh, as it is found without a global batch."""
        task = self.task
        asked = replace(task.request, batch=task.batch, time_limit_s=task.deadline.left_s)
        try:
            found = search_at_once(task.source, task.cluster, asked, self.report)
        except InfeasibleError:
            return None
        wants = self.task.wants
        few = wants.most is None or changed_in(found, wants.old) <= wants.most
        return found if few else None

    def _nothing(self, refused: Solved | None) -> Exception:
        if refused is None and self.task.request.stage_meshes == "any":
            wanted = self.task.request.pipeline
            return RequestError(
                f"no parts of {self.task.cluster.devices} devices of this machine make these "
                f"stages\n  at:  --pipeline {wanted}\n  fix: --pipeline auto"
            )
        if refused is None:
            return RequestError(
                "no shape of the pipeline can be priced\n  at:  --global-batch\n"
                "  fix: leave --pipeline and --micro-batch out"
            )
        if self.task.wants.most is not None:
            return too_many_changes(self.task.request)
        fullest = max(refused.groups, key=lambda group: group.peak_bytes)
        lowered, choice = fullest.lowered, fullest.choice
        peak = fullest.peak_bytes + excess_bytes(lowered, choice)
        solution = Solution(choice, math.inf, math.inf, "none", peak, refused.truncated)
        error = infeasible(lowered, solution, self.task.request)
        return no_room_on_host(error, self.task.cluster, self.task.request.offload)

    def _planned(self, bound_s: float) -> Plan:
        """The plan with the shortest step."""
        found = min(self.fitting, key=_worth_s)
        task, shape = self.task, found.solved.shape
        notes = (
            *wished_notes(found.solved, task.wants),
            *dict.fromkeys(
                note
                for group in found.solved.groups
                for note in held_notes(group.lowered, task.request, task.where)
            ),
            *pin_notes(task.pins),
            *dict.fromkeys(TIED_NOTE for g in found.solved.groups if tied_pairs(g.lowered)),
            *task.true_micro(shape.micro_batch).notes,
            *NOTES,
        )
        objective = None
        if follows_cost(task):
            objective = objective_of(task, found.solved)
            notes = (objective_note(objective), *notes)
        least = Least(max(bound_s - found.solved.paid_s, 0.0), task.request.solver, task.truncated)
        plan = plan_of(found, task.request, notes, space_of(self.searched), least)
        return replace(plan, objective=objective)


def _worth_s(draft: Draft) -> float:
    """Seconds by which it is compared: of a step, and what is paid for wishes."""
    return draft.step_s + draft.solved.paid_s


def _within(plan: Plan, bound_s: float) -> Plan:
    """A plan of one batch on one mesh among all shapes."""
    own = plan.bound
    if bound_s >= own.bound_s:
        return plan
    gap = (plan.estimate.step_time_s - bound_s) / bound_s if bound_s > 0 else 0.0
    return replace(plan, bound=Bound(bound_s, gap, "bounded", own.solver, own.truncated))
