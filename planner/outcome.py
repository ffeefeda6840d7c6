"""What a search on one mesh found, and how the best of it becomes a plan."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from costmodel.operators import chip_constants
from ir.plan import Baseline, Bound, Objective, Plan
from planner.baselines import baselines
from planner.evidence import Evidence, space_of
from planner.lowered import Lowered
from planner.preparation import input_notes
from planner.request import SearchRequest
from planner.solvers import Solution
from topology.mesh import Mesh


@dataclass(frozen=True, slots=True)
class Outcome:
    """The answer on one mesh."""

    lowered: Lowered
    solution: Solution

    @property
    def fits(self) -> bool:
        chosen = self.solution.choice is not None
        return chosen and self.lowered.problem.fits(self.solution.peak_bytes)

    @property
    def gap(self) -> float:
        """Relative distance of the cost from the bound; infinite while nothing fits."""
        return gap_of(self.solution) if self.fits else math.inf

    @property
    def rank(self) -> tuple[bool, float]:
        return not self.fits, self.solution.cost_s if self.fits else self.solution.peak_bytes


def gap_of(solution: Solution) -> float:
    """Relative distance of the cost from the bound; infinite without one."""
    return solution.cost_s / solution.bound_s - 1 if solution.bound_s > 0 else math.inf


def fits_beside_buffers(lowered: Lowered, solution: Solution) -> bool:
    """Whether an answer fits beside the buffers of its communication groups."""
    excess = Evidence(lowered, solution.choice or ()).buffer_excess_bytes()
    return lowered.problem.fits(solution.peak_bytes + excess)


def objective_of(cost: str, solution: Solution, outcomes: list[Outcome]) -> Objective:
    """What was minimised at a cost other than time, with its bound."""
    bound = min(solution.cost_s, *(o.solution.bound_s for o in outcomes))
    return Objective(cost, solution.cost_s, bound, solution.proof)


def with_objective(plan: Plan, objective: Objective) -> Plan:
    """The plan, with a note on what was minimised."""
    least = "the least" if objective.proof == "optimal" else f"at least {objective.bound:.6g}"
    value = f"{objective.value:.6g} ({least} of the space)"
    note = f"minimised by --cost {objective.cost}: {value}; times and bounds are the planner's"
    return replace(plan, objective=objective, notes=(note, *plan.notes))


def beside_baselines(
    best: Outcome, batch: Mapping[str, int] | str
) -> tuple[Outcome, tuple[Baseline, ...]]:
    """The answer and the baselines; a baseline that fits and is faster becomes the answer."""
    priced = baselines(best.lowered, batch)
    for baseline, choice in priced:
        cost_s, peak = baseline.step_time_s, baseline.peak_memory_bytes
        if choice is None or cost_s is None or peak is None or not baseline.fits:
            continue
        if not best.fits or cost_s < best.solution.cost_s:
            better = replace(
                best.solution, choice=choice, cost_s=cost_s, peak_bytes=peak, proof="bounded"
            )
            best = replace(best, solution=better)
    return best, tuple(baseline for baseline, _ in priced)


def _order_notes(mesh: Mesh) -> tuple[str, ...]:
    """That ranks are placed otherwise than devices are numbered, if they are."""
    order = mesh.rank_order()
    if order == tuple(range(mesh.size)):
        return ()
    first = ", ".join(map(str, order[:8])) + (", ..." if mesh.size > 8 else "")
    return (f"ranks are placed on devices {first}: the job needs the rank table of this order",)


def shape_of(mesh: Mesh) -> str:
    """A mesh in words."""
    return " x ".join(str(a) for a in mesh.axes)


def plan_of(
    best: Outcome,
    outcomes: list[Outcome],
    request: SearchRequest,
    notes: list[str],
    beside: tuple[Baseline, ...],
) -> Plan:
    """The plan of the best answer.

    Args:
        best: the answer.
        outcomes: of all meshes, whose bounds hold together.
        request: what was asked.
        notes: on how the model was read.
        beside: baselines on the same mesh.
    """
    lowered, solution = best.lowered, best.solution
    graph, setting = lowered.liveness.graph, lowered.setting
    evidence = Evidence(lowered, solution.choice or ())
    collectives = evidence.collectives()
    estimate = evidence.estimate(collectives)
    bound_s = min(estimate.step_time_s, *(o.solution.bound_s for o in outcomes))
    gap = (estimate.step_time_s - bound_s) / bound_s if bound_s > 0 else 0.0
    truncated = any(o.solution.truncated for o in (best, *outcomes))
    return Plan(
        graph=graph,
        digest=graph.digest(),
        cluster=setting.cluster.to_dict(),
        mesh=tuple((a.name, a.size, a.tier) for a in setting.mesh.axes),
        rank_order=setting.mesh.rank_order(),
        request=request.to_dict(),
        operators=evidence.operators(),
        tensors=evidence.tensors(),
        recomputed=evidence.recomputed(),
        collectives=collectives,
        estimate=estimate,
        memory_bytes=evidence.memory_bytes(collectives),
        space=space_of([o.lowered for o in outcomes]),
        bound=Bound(bound_s, gap, solution.proof, request.solver, truncated),
        baselines=beside,
        notes=(
            *notes,
            *input_notes(graph, setting.mesh, setting.input_layouts),
            *_order_notes(setting.mesh),
            f"rates of matrix products: {chip_constants(setting.cluster.chip).basis}",
        ),
    )
