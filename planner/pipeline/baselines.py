"""What an engineer would do by hand, priced as points of the same problem.

Each baseline restricts the candidates of every node to what its scheme says and leaves the rest to
the solver, without a memory limit: what it takes is then `Problem.cost_s` of its choice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ir.batch import BatchError, batch_dims
from ir.graph import OpGraph
from ir.plan_estimate import Baseline
from planner.constraints.schemes import InexpressibleError, Scheme, choice_of
from planner.lowering.lowered import Lowered
from planner.pipeline.solved import Group
from planner.solvers import Solution
from topology.units import format_memory


def schemes(lowered: Lowered) -> tuple[Scheme, ...]:
    """Data parallelism, the same with sharded weights, and tensor parallelism in the server."""
    axes = lowered.setting.mesh.axes
    every = tuple(range(len(axes)))
    outer = tuple(a for a in every if axes[a].tier == 0 and len({x.tier for x in axes}) > 1)
    inner = tuple(a for a in every if a not in outer)
    return (
        Scheme("data parallel", every, (), shard_weights=False),
        Scheme("sharded data parallel", every, (), shard_weights=True),
        Scheme("tensor parallel in the server", outer, inner, shard_weights=False),
    )


def batch_places(graph: OpGraph) -> Mapping[str, int] | str:
    """Dimension that holds the batch, by tensor; or why the batch cannot be followed."""
    try:
        return batch_dims(graph)
    except BatchError as error:
        return str(error).splitlines()[0]


def baselines(
    lowered: Lowered, where: Mapping[str, int] | str | None = None
) -> tuple[tuple[Baseline, tuple[int, ...] | None], ...]:
    """Every baseline with its choice, None where it cannot be expressed.

    Args:
        lowered: the problem.
        where: `batch_places` of its graph, if they are known.
    """
    where = batch_places(lowered.liveness.graph) if where is None else where
    if isinstance(where, str):
        return tuple((Baseline(s.name, False, None, None, where), None) for s in schemes(lowered))
    return tuple(_priced(lowered, scheme, where) for scheme in schemes(lowered))


def _priced(
    lowered: Lowered, scheme: Scheme, where: Mapping[str, int]
) -> tuple[Baseline, tuple[int, ...] | None]:
    try:
        choice = choice_of(lowered, scheme, where)
    except InexpressibleError as error:
        return Baseline(scheme.name, False, None, None, str(error)), None
    problem = lowered.problem
    excess = Group(lowered, choice).buffer_excess_bytes()
    step_s, peak = problem.cost_s(choice), problem.peak_bytes(choice) + excess
    fits = problem.fits(peak)
    limit = format_memory(problem.memory_limit_bytes)
    reason = "" if fits else f"needs {format_memory(peak)} of {limit} per device"
    return Baseline(scheme.name, fits, step_s, peak, reason), choice


def with_baselines(
    lowered: Lowered, solution: Solution, where: Mapping[str, int] | str
) -> tuple[Solution, tuple[Baseline, ...]]:
    """The answer and the baselines; a baseline that fits and is faster becomes the answer."""
    priced = baselines(lowered, where)
    for baseline, choice in priced:
        cost_s, peak = baseline.step_time_s, baseline.peak_memory_bytes
        if choice is None or cost_s is None or peak is None or not baseline.fits:
            continue
        fits = solution.choice is not None and lowered.problem.fits(solution.peak_bytes)
        if not fits or cost_s < solution.cost_s:
            solution = replace(
                solution, choice=choice, cost_s=cost_s, peak_bytes=peak, proof="bounded"
            )
    return solution, tuple(baseline for baseline, _ in priced)
