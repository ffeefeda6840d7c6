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
from planner.evidence import space_of
from planner.fit import check_states, infeasible
from planner.lowered import Lowered
from planner.pins import pin_notes
from planner.pricing import TIME
from planner.request import InfeasibleError, RequestError, SearchRequest
from planner.search import search
from planner.solvers import Solution
from planner.stages.held import held_notes
from planner.stages.menu import Shape
from planner.stages.offload import check_offload, no_room_on_host
from planner.stages.record import Draft, Least, drafted, plan_of
from planner.stages.remedies import with_remedy
from planner.stages.shape_hunt import ShapeHunt
from planner.stages.shape_prices import Priced
from planner.stages.solved import Solved
from planner.stages.task import Task
from planner.stages.whole import excess_bytes, solved
from planner.token_cuts import context_notes
from topology.cluster import Cluster

SOLVED = 3
"""Shapes that are solved whole at most, per unit of effort."""

NOTES = (
    "stages are cut where one activation crosses, sent in as many pieces as a stage has devices",
    "what happens once in a step counts by its share in every micro-batch of its stage",
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
    check_whole(graph, request)
    try:
        return _Joint(Task(graph, cluster, request), report).plan()
    except InfeasibleError as error:
        report("nothing fits: looking for a change that makes it possible")

        def find(larger: Cluster, asked: SearchRequest) -> Plan:
            return _Joint(Task(graph, larger, asked, any_will_do=True), lambda _: None).plan()

        raise with_remedy(error, cluster, request, find, len(graph.ops)) from error


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
            request.cost != TIME,
            "other costs than time know no stages yet",
            f"--cost {request.cost}",
            "leave it out, or use --batch in place of --global-batch",
        ),
        (
            bool(request.soft_pins) or request.max_changes is not None,
            "soft pins and older plans know no stages yet",
            "--pin or --keep-close-to",
            "leave them out, or use --batch in place of --global-batch",
        ),
        (
            isinstance(request.dataset_strategy, tuple),
            "cuts of the inputs are of one batch on all devices",
            "--dataset-strategy",
            "use data_parallel or full_batch, or --batch in place of --global-batch",
        ),
    )
    for wrong, what, where, fix in faults:
        if wrong:
            raise RequestError(f"{what}\n  at:  {where}\n  fix: {fix}")


class _Joint:
    def __init__(self, task: Task, report: Report) -> None:
        self.task, self.report = task, report
        self.tried: set[Shape] = set()
        self.fitting: list[Draft] = []
        self.searched: list[Lowered] = []
        self.plain: Plan | None = None
        self.refused: Solved | None = None

    def plan(self) -> Plan:
        """The best of all shapes."""
        shapes = self.task.shapes()
        first = self.task.micro(shapes[0].micro_batch)
        said = check_offload(self.task.cluster.chip, self.task.request.offload)
        check_states(first.graph, self.task.cluster, self.task.request)
        devices, name = self.task.cluster.devices, self.task.cluster.name
        self.report(
            f"{len(first.graph.ops)} operators, {len(first.cuts)} cuts, {len(shapes)} ways to cut "
            f"a batch of {self.task.batch} on {devices} devices of {name}"
        )
        hunt = ShapeHunt(self.task, shapes, self.report)
        priced, left_s = hunt.run()
        self._solve(priced)
        while hunt.reopened(self._least_s()):
            priced, left_s = hunt.run()
            self._solve(priced)
        best = self._best(min([left_s, *(item.bound_s for item in priced)]))
        context = context_notes(
            best.graph, best.mesh, best.operators, self.task.request.ring_attention
        )
        return replace(best, notes=(*best.notes, *said, *context))

    def _least_s(self) -> float:
        """The shortest step so far."""
        steps = [draft.step_s for draft in self.fitting]
        plain = [] if self.plain is None else [self.plain.estimate.step_time_s]
        return min((*steps, *plain), default=math.inf)

    def _solve(self, priced: Sequence[Priced]) -> None:
        """Shapes are solved whole in the order of what is expected of them."""
        for item in sorted(priced, key=lambda p: (p.expected_s, p.bound_s, p.shape)):
            least_s = self._least_s()
            if self.task.any_will_do and self.fitting:
                return
            most = SOLVED * self.task.request.effort
            enough = len(self.tried) >= most * (1 if math.isfinite(least_s) else 2)
            hoped_s = item.bound_s if item.every else item.expected_s
            # Where nothing is expected to fit, some are solved all the same: one may fit.
            beaten = math.isfinite(least_s) and hoped_s >= least_s
            late = beaten or (enough and not item.every) or math.isinf(item.bound_s)
            if not late and item.shape not in self.tried:
                self._try(item, least_s)

    def _try(self, item: Priced, least_s: float) -> None:
        self.tried.add(item.shape)
        if item.shape == Shape(1, self.task.batch, 1) and self.task.request.is_open:
            self.plain = self._plain()
        found = self._best_cut(item, least_s)
        self.searched.append(found.solved.lowered)
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
        if plain is None or best.estimate.step_time_s < plain.estimate.step_time_s:
            return best
        return _within(plain, bound_s)

    def _best_cut(self, item: Priced, least_s: float) -> Draft:
        """The best layouts of a shape: at the cuts expected to be best, or at any if few."""
        ends = item.ends or item.least_ends
        best = drafted(solved(self.task, item.shape, ends, item.shares, item.price))
        for bound_s, ends in item.every:
            if bound_s >= (min(least_s, best.step_s) if best.solved.fits else least_s):
                break
            found = solved(self.task, item.shape, ends)
            if found.fits and (not best.solved.fits or found.step_s < best.step_s):
                draft = drafted(found)
                if not best.solved.fits or draft.step_s < best.step_s:
                    best = draft
        return best

    def _plain(self) -> Plan | None:
        """The plan of one batch on one mesh, as it is found without a global batch."""
        asked = replace(self.task.request, batch=self.task.batch)
        try:
            return search(self.task.source, self.task.cluster, asked, self.report)
        except InfeasibleError:
            return None

    def _nothing(self, refused: Solved | None) -> Exception:
        if refused is None:
            return RequestError(
                "no shape of the pipeline can be priced\n  at:  --global-batch\n"
                "  fix: leave --pipeline and --micro-batch out"
            )
        problem = refused.lowered.problem
        peak = problem.peak_bytes(refused.choice) + excess_bytes(refused.lowered, refused.choice)
        solution = Solution(refused.choice, math.inf, math.inf, "none", peak, refused.truncated)
        error = infeasible(refused.lowered, solution, self.task.request)
        return no_room_on_host(error, self.task.cluster, self.task.request.offload)

    def _planned(self, bound_s: float) -> Plan:
        """The plan with the shortest step."""
        found = min(self.fitting, key=lambda draft: draft.step_s)
        task, shape = self.task, found.solved.shape
        notes = (
            *held_notes(found.solved.lowered, task.request, task.where),
            *pin_notes(task.pins),
            *task.true_micro(shape.micro_batch).notes,
            *NOTES,
        )
        least = Least(bound_s, task.request.solver, task.truncated)
        return plan_of(found, task.request, notes, space_of(self.searched), least)


def _within(plan: Plan, bound_s: float) -> Plan:
    """A plan of one batch on one mesh among all shapes."""
    own = plan.bound
    if bound_s >= own.bound_s:
        return plan
    gap = (plan.estimate.step_time_s - bound_s) / bound_s if bound_s > 0 else 0.0
    return replace(plan, bound=Bound(bound_s, gap, "bounded", own.solver, own.truncated))
