"""The search of a batch that is computed as one, on one mesh after the other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ir.dialects import Dialect
from planner.constraints.pinning import first_meshes, meshes_for, pinned
from planner.constraints.pins import held_pins, result_pins, scatters
from planner.constraints.scattered import with_results
from planner.constraints.soft import SoftConstraints
from planner.constraints.token_cuts import ruled_out, without
from planner.lowering.liveness import Liveness
from planner.lowering.lower import lower
from planner.lowering.lowered import Lowered, Setting
from planner.lowering.optimizer_states import StateOptions
from planner.lowering.pricing import TIME, LoweringCache
from planner.pipeline.objectives import (
    completed,
    same_splits,
)
from planner.pipeline.preparation import input_layouts
from planner.pipeline.search_state import Report
from planner.pipeline.solved import BUFFER_ROUNDS, Group
from planner.reduction.restriction import offered
from planner.request import Deadline, RequestError, SearchRequest
from planner.solvers import Budget, ProblemTooLargeError, Solution, solver_by_name
from planner.solvers.relaxation import elimination_work
from topology.cluster import Cluster
from topology.mesh import Mesh
from topology.units import format_memory

FINER_MESH_WORK = 1_000_000
"""Finer meshes are tried where eliminating the first one visits at most so many table entries, per
unit of effort; on two axes more they visit some sixty times as many."""
ORDER_WORK = 100_000_000
"""The same for other orders of ranks: a handful, each solved as fast as the first."""
PROMISED = 0.01
"""Share of a step that ZeRO or micro-batches must save to be tried beside a batch as one with all
states on every replica."""
WIDE_GAP = 0.01
"""Gap above which a coarser mesh is tried too."""
FREE = "without a memory limit"
"""Begins the progress of a search whose answer need not fit."""
WORTHWHILE = 1e-3
"""Relative gain without a memory limit that makes a finer mesh worth solving within it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The answer on one mesh."""

    lowered: Lowered
    solution: Solution
    free_s: float = math.inf
    """The bound with memory enough, if memory is short."""

    @property
    def choice(self) -> tuple[int, ...]:
        return self.solution.choice or ()

    @property
    def fits(self) -> bool:
        chosen = self.solution.choice is not None
        return chosen and self.lowered.problem.fits(self.solution.peak_bytes)

    @property
    def gap(self) -> float:
        """Relative distance of the cost from the bound; infinite without one."""
        return (
            self.solution.cost_s / bound - 1 if (bound := self.solution.bound_s) > 0 else math.inf
        )

    @property
    def rank(self) -> tuple[bool, float]:
        return not self.fits, self.solution.cost_s if self.fits else self.solution.peak_bytes

    @property
    def buffer_excess_bytes(self) -> int:
        """Buffers of its communication groups beyond the cluster's reserve."""
        return Group(self.lowered, self.choice).buffer_excess_bytes()


class BatchSearch:
    """The search on one mesh after the other."""

    def __init__(
        self,
        liveness: Liveness,
        cluster: Cluster,
        dialect: Dialect,
        request: SearchRequest,
        report: Report,
    ) -> None:
        self.liveness, self.cluster, self.dialect = liveness, cluster, dialect
        self.request, self.report, self.cost = request, report, request.cost
        self.ruled_out = ruled_out(request, liveness.graph)
        self.pins = held_pins(liveness.graph, request, cluster.devices)
        scattered = scatters(request)
        self.results = result_pins(liveness.graph, request.pins) if scattered else {}
        self.soft = SoftConstraints.of(liveness.graph, request)
        self.deadline = Deadline.after(request.time_limit_s)
        self.coarse: Outcome | None = None
        self.interrupted, self.aside = False, ""
        self.enough = 0.0
        self.states: StateOptions | None = None

    def outcomes(self) -> list[Outcome]:
        """Best plans on the mesh of the machine's tiers and on the best finer mesh, if any is.

        Where the first mesh is too fine to be solved well even without a memory limit, and a limit
        binds, a coarser one comes before it: the harder problem would be solved worse still.
        Finer meshes are tried on problems small enough, and the fastest without a memory limit is
        kept if it gains.
        """
        first, *finer = first_meshes(self._meshes, self.dialect, self.cluster)
        lead = self._unlimited(first)
        if not lead.fits and lead.gap > WIDE_GAP:
            coarse = self._on_coarser_mesh()
            if coarse is not None and coarse.fits:
                return [coarse]
        kept = [lead]
        if self.interrupted:
            finer = []
        work = ORDER_WORK if self.dialect.cut_counts else FINER_MESH_WORK
        if elimination_work(lead.lowered.problem) <= work * self.request.effort:
            tried = [self._unlimited(mesh) for mesh in finer]
            target_s = lead.solution.cost_s * (1 - WORTHWHILE)
            fastest = min(tried, key=lambda o: o.solution.cost_s, default=lead)
            kept += [fastest] if fastest.solution.cost_s < target_s else []
        out: list[Outcome] = []
        for outcome in kept:
            beaten = any(o.fits and o.solution.cost_s <= outcome.solution.bound_s for o in out)
            found = outcome if outcome.fits or beaten else self._limited(outcome)
            out.append(self._within_buffers(found))
        return self._or_coarser(out)

    def _meshes(self, meshes: Sequence[Mesh]) -> tuple[Mesh, ...]:
        """Those on which everything pinned can be kept."""
        fitting = meshes_for(self.liveness.graph, self.pins, self.dialect, meshes)
        return self.ruled_out.meshes(self.soft.meshes(fitting))

    def _keeps_pins(self, mesh: Mesh) -> bool:
        try:
            return bool(self._meshes([mesh]))
        except RequestError:
            return False

    def _lower(self, setting: Setting, basis: LoweringCache | None = None) -> Lowered:
        held = pinned(lower(self.liveness, setting, basis), self.pins)
        found = self.soft.narrowed(with_results(held, self.results))
        return without(found, self.ruled_out)

    def _or_coarser(self, found: list[Outcome]) -> list[Outcome]:
        """On a graph too wide to be solved well, the answer on fewer axes if it is better."""
        best = min(found, key=lambda o: o.rank)
        if (best.fits and best.gap <= WIDE_GAP) or best.solution.proof == "infeasible":
            return found
        if self.interrupted and best.fits:
            return found
        coarse = self._on_coarser_mesh()
        return [coarse] if coarse is not None and coarse.rank < best.rank else found

    def _on_coarser_mesh(self) -> Outcome | None:
        mesh = self.dialect.coarser_mesh(self.cluster)
        if self.coarse is None and mesh is not None and self._keeps_pins(mesh):
            free = self._unlimited(mesh)
            self.coarse = self._within_buffers(free if free.fits else self._limited(free))
        return self.coarse

    def _setting(self, mesh: Mesh) -> Setting:
        limit = self.request.memory_limit_bytes or float(self.cluster.usable_memory_bytes)
        return Setting(
            self.cluster,
            mesh,
            self.dialect,
            self.request.training,
            self.request.optimizer,
            input_layouts(self.liveness.graph, mesh, self.dialect, self.request),
            limit,
            cost=self.cost,
            held=frozenset(pin.op.name for pin in self.pins),
            overlap=self.request.overlap == "auto",
            software=self.request.software_on(self.cluster.chip),
            states=self.states,
        )

    def _unlimited(self, mesh: Mesh, basis: LoweringCache | None = None) -> Outcome:
        """Without a memory limit the answer is exact, and often fits."""
        lowered = self._lower(self._setting(mesh), basis)
        sizes = lowered.problem.sizes
        self.report(f"mesh {mesh}: {len(sizes)} nodes, {sum(sizes)} candidates")
        found = Outcome(lowered, self._solve(lowered, math.inf))
        if found.fits:
            self.aside = "it fits"
            self._progress(self.aside, found.solution.cost_s, found.solution.bound_s)
        return found

    def _within_buffers(self, outcome: Outcome) -> Outcome:
        """The answer beside the buffers of its own communication groups; where it does not fit
        beside them they count in its peak.
        """
        limit = outcome.lowered.problem.memory_limit_bytes
        for left in reversed(range(BUFFER_ROUNDS + 1)):
            excess = outcome.buffer_excess_bytes
            peak = outcome.solution.peak_bytes + excess
            if not outcome.fits or outcome.lowered.problem.fits(peak):
                break
            if not left:
                return replace(outcome, solution=replace(outcome.solution, peak_bytes=peak))
            outcome = self._limited(outcome, limit - excess)
        return outcome

    def _limited(self, free: Outcome, limit_bytes: float | None = None) -> Outcome:
        """Within memory, with the choice to compute saved tensors again.

        That choice only costs time: it is offered when memory binds, not before.
        """
        setting, lowered = free.lowered.setting, free.lowered
        needed, limit = free.solution.peak_bytes, limit_bytes or setting.memory_limit_bytes
        self.report(
            f"mesh {setting.mesh}: the fastest plan needs {format_memory(needed)} "
            f"of {format_memory(limit)}"
        )
        if self.liveness.derived:
            lowered = self._lower(replace(setting, recompute=True), lowered.basis)
        tight = self._solve(lowered, limit)
        bound_s = max(tight.bound_s, free.solution.bound_s)
        free_s = min(free.free_s, free.solution.bound_s)
        return Outcome(lowered, replace(tight, bound_s=bound_s), free_s)

    def in_parts(self, found: Outcome) -> tuple[Outcome, float]:
        """The answer on the same mesh with optimizer states in parts (ZeRO 1 and 2), if it fits
        and is worth it; else what was found, and what they promise with memory enough. What memory
        limits is left to the search of micro-batches. Then seconds that no step takes less than.
        """
        self.report("the same with ZeRO")
        self.states = StateOptions(self.request.zero)
        free = self._unlimited(found.lowered.setting.mesh, found.lowered.basis)
        best = self._within_buffers(free) if free.fits else free
        faster = best.solution.cost_s < found.solution.cost_s * (1 - PROMISED)
        if best.fits and (faster or not found.fits):
            return best, free.solution.bound_s
        short = math.inf if free.fits else free.solution.bound_s
        return replace(found, free_s=min(found.free_s, short)), free.solution.bound_s

    def in_time(self, found: Outcome) -> tuple[Outcome, list[Outcome]]:
        """What was found at another cost, in seconds, and the fastest plans beside it.

        What that cost does not decide, such as layouts at rest, is chosen for the least time.
        """
        self.report("the same in seconds, and the fastest plan for comparison")
        self.cost, self.coarse = TIME, None
        lowered = self._lower(replace(found.lowered.setting, cost=TIME))
        problem, choice = lowered.problem, found.choice
        allowed = offered(problem, same_splits(lowered, lowered, choice))
        kept = replace(
            found.solution, cost_s=problem.cost_s(choice), peak_bytes=problem.peak_bytes(choice)
        )
        limits = (math.inf, problem.memory_limit_bytes)
        better = [Outcome(lowered, completed(problem, allowed, limit)) for limit in limits]
        fine = [
            o.solution
            for o in better
            if o.choice and problem.fits(o.solution.peak_bytes + o.buffer_excess_bytes)
        ]
        best = min((*fine, kept), key=lambda s: s.cost_s)
        solution = replace(best, proof="bounded", truncated=found.solution.truncated)
        return Outcome(lowered, solution), self.outcomes()

    def _solve(self, lowered: Lowered, limit_bytes: float) -> Solution:
        problem = replace(lowered.problem, memory_limit_bytes=limit_bytes)
        problem = self.soft.restricted(lowered, problem)
        request, left_s = self.request, self.deadline.solver_s
        budget = Budget(request.effort, left_s, request.seed, request.threads, self.enough)
        self.aside = FREE if limit_bytes > lowered.problem.memory_limit_bytes else ""
        try:
            found = solver_by_name(request.solver).solve(problem, budget, self._progress)
        except ProblemTooLargeError as error:
            raise RequestError(
                f"{error}\n  at:  --solver {request.solver}\n  fix: leave --solver out"
            ) from error
        if found.interrupted:
            self.report("interrupted: ending with what is quick to find")
            self.deadline, self.interrupted = Deadline.after(0.0), True
        return found

    def _progress(self, stage: str, cost_s: float, bound_s: float) -> None:
        unit = " s" if self.cost == TIME else ""
        best = f"best {cost_s:.6g}{unit}" if math.isfinite(cost_s) else "nothing that fits yet"
        bound = f", bound {bound_s:.6g}{unit}" if math.isfinite(bound_s) else ""
        self.report(f"{self.aside or stage}: {best}{bound}")
