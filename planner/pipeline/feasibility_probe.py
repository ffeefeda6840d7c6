"""Whether anything fits, found soon: a proof that nothing does, or a plan near the fastest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from costmodel.redistribution import UNREACHABLE_S
from ir.plan_estimate import Estimate
from planner.constraints.pinning import first_meshes
from planner.lowering.lowered import Lowered
from planner.pipeline.batch_search import FINER_MESH_WORK, ORDER_WORK, BatchSearch, Outcome
from planner.pipeline.infeasibility import check_states
from planner.pipeline.one_batch import PreparedModel
from planner.pipeline.plan_builder import PlanBuilder
from planner.pipeline.preparation import dialect_for
from planner.pipeline.solved import Group
from planner.problem import Problem
from planner.request import SearchRequest
from planner.solvers import Budget
from planner.solvers.least_peak import LeastPeak, is_narrow, least_peak
from planner.solvers.limits import limits_as_memory
from planner.solvers.relaxation import elimination_work
from topology.cluster import Cluster
from topology.mesh import Mesh

NEAR = 0.01
"""Relative gap with which an answer is left as it is."""
NARROW = ("dynamic_programming",)
"""Solvers that are asked one after the other until an answer fits, where elimination is quick."""
WIDE = ("recursive_bisection", "portfolio")
"""The same where it is not."""
FINER_SAVES = 0.1
"""Share of the least peak that a finer mesh is thought to save at most."""


class FeasibilityProbe(BatchSearch):
    """A request that is tried within one amount of memory after the other.

    Memory is taken to bind: computing again is on offer from the start, and the least peak of all
    plans is looked for before any time. It mostly tells that nothing fits; else the fastest plan is
    sought on the first mesh with one that fits, until it is near.
    """

    def __init__(self, ready: PreparedModel, cluster: Cluster, request: SearchRequest) -> None:
        """Take a request apart.

        Args:
            ready: the model, made ready for this request.
            cluster: the machine.
            request: what is asked, at the cost of time.

        Raises:
            RequestError: the request does not fit the model or the machine.
            InfeasibleError: the states alone are too large.
        """
        dialect = dialect_for(request, cluster.devices)
        check_states(ready.liveness.graph, cluster, request)
        super().__init__(ready.liveness, cluster, dialect, request, lambda _: None)
        self.enough = NEAR
        self.limit_bytes = request.memory_limit_bytes or float(cluster.usable_memory_bytes)
        self.meshes = first_meshes(self._meshes, dialect, cluster)
        self._asked = ""
        """The solver."""
        self._known: dict[Mesh, Lowered] = {}
        self._least: LeastPeak | None = None

    def fits(self) -> bool:
        """Whether something fits within the limit of the request."""
        for lowered, least in self._open(self.limit_bytes):
            if self._is_answer(lowered, least) or self._solved(lowered) is not None:
                return True
        return False

    def estimate(self, limit_bytes: float | None = None) -> Estimate | None:
        """Of a plan near the fastest one within a limit; None if none was found.

        Args:
            limit_bytes: per device; None takes that of the request.
        """
        for lowered, _ in self._open(limit_bytes or self.limit_bytes):
            found = self._solved(lowered)
            if found is not None:
                return PlanBuilder(lowered, found.solution.choice or ()).estimate()
        return None

    def least(self) -> LeastPeak:
        """The least peak on the first mesh, whatever the limit."""
        if self._least is None:
            lowered = self._at(self.meshes[0], self.limit_bytes)
            self._least = least_peak(lowered.problem, self._budget)
        return self._least

    @property
    def _budget(self) -> Budget:
        request = self.request
        return Budget(request.effort, self.deadline.solver_s, request.seed, request.threads)

    def _open(self, limit_bytes: float) -> Iterator[tuple[Lowered, LeastPeak]]:
        """Meshes on which something may fit, the first one first."""
        proven = True
        for mesh in self.meshes:
            if self.deadline.is_over:
                return
            lowered = self._at(mesh, limit_bytes)
            posed = limits_as_memory(self.soft.restricted(lowered, lowered.problem))
            least = self._least_of(posed, mesh, limit_bytes)
            if posed.fits(least.bound_bytes):
                proven = False
                yield lowered, least
            if not self._tries_finer(posed, least):
                break
        coarse = self.dialect.coarser_mesh(self.cluster)
        if not proven and coarse is not None and self._keeps_pins(coarse):
            lowered = self._at(coarse, limit_bytes)
            yield lowered, least_peak(lowered.problem, self._budget, limit_bytes)

    def _least_of(self, posed: Problem, mesh: Mesh, limit_bytes: float) -> LeastPeak:
        """What is known of the least peak on a mesh, enough to hold it against a limit."""
        known = self._least
        if known is None or mesh != self.meshes[0] or self.request.max_changes is not None:
            return least_peak(posed, self._budget, limit_bytes)
        return known

    def _tries_finer(self, problem: Problem, least: LeastPeak) -> bool:
        """Whether finer meshes may do, on a problem for which a search takes them too."""
        if len(self.meshes) == 1 or not problem.fits(least.bound_bytes * (1 - FINER_SAVES)):
            return False
        work = ORDER_WORK if self.dialect.cut_counts else FINER_MESH_WORK
        return elimination_work(problem) <= work * self.request.effort

    def _at(self, mesh: Mesh, limit_bytes: float) -> Lowered:
        if mesh not in self._known:
            setting = self._setting(mesh)
            setting = replace(setting, recompute=bool(self.liveness.derived))
            self._known[mesh] = self._lower(setting)
        known = self._known[mesh]
        return replace(
            known,
            problem=replace(known.problem, memory_limit_bytes=limit_bytes),
            setting=replace(known.setting, memory_limit_bytes=limit_bytes),
        )

    def _is_answer(self, lowered: Lowered, least: LeastPeak) -> bool:
        """Whether the choice of the least peak is a plan that fits."""
        if not self.soft.restricted(lowered, lowered.problem).is_feasible(least.choice):
            return False
        if lowered.problem.cost_s(least.choice) >= UNREACHABLE_S:
            return False
        return Group(lowered, least.choice).fits

    def _solved(self, lowered: Lowered) -> Outcome | None:
        """An answer within the limit, if one is found that can be carried out."""
        limit = lowered.problem.memory_limit_bytes
        for solver in NARROW if is_narrow(lowered.problem, self._budget) else WIDE:
            self._asked = solver
            found = self._within_buffers(Outcome(lowered, self._solve(lowered, limit)))
            if found.fits and found.solution.cost_s < UNREACHABLE_S:
                return found
            if self.interrupted:
                raise KeyboardInterrupt
        return None

    def _limited(self, free: Outcome, limit_bytes: float | None = None) -> Outcome:
        limit = limit_bytes or free.lowered.problem.memory_limit_bytes
        return Outcome(free.lowered, self._solve(free.lowered, limit))

    def _solver(self) -> str:
        return self._asked
