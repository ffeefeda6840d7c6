"""What differs between two plans, folded by pattern."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from ir.folding import Axes, common_scope, folded
from ir.normalise import main_dtype
from ir.plan import Pipeline, Plan, PlannedOperator, PlannedTensor
from ir.plan_stages import mesh_text
from report.comparison import Amount, Change, Difference, Fact
from report.operators import rest_and_use
from report.plan import PlanReport

_T = TypeVar("_T")


def difference(first: Plan, second: Plan) -> Difference:
    """Two plans compared, operators and parameters by name."""
    operators = _paired(first.operators, second.operators, lambda op: op.name)
    parameters = _paired(first.parameters, second.parameters, lambda t: t.name)
    pairs = len(operators) + len(parameters)
    sizes = [len(p.operators) + len(p.parameters) for p in (first, second)]
    return Difference(
        facts=tuple(
            Fact(name, a, b)
            for (name, a), (_, b) in zip(_facts(first), _facts(second), strict=True)
            if a != b
        ),
        step_time_s=Amount("step", first.estimate.step_time_s, second.estimate.step_time_s),
        time_by_cause=_amounts(first.estimate.time_by_cause, second.estimate.time_by_cause),
        peak_memory_bytes=Amount(
            "peak", first.estimate.peak_memory_bytes, second.estimate.peak_memory_bytes
        ),
        memory_by_cause=_amounts(first.estimate.memory_by_cause, second.estimate.memory_by_cause),
        operators=_operator_changes(operators, first, second),
        parameters=_parameter_changes(parameters, first, second),
        only_first=sizes[0] - pairs,
        only_second=sizes[1] - pairs,
        shared=pairs,
    )


def _facts(plan: Plan) -> Iterator[tuple[str, str]]:
    """What a plan is about, in the same order for every plan."""
    report, request = PlanReport(plan), plan.request
    yield "model", plan.graph.name
    yield "graph", plan.digest[:12]
    yield "batch", str(plan.batch)
    yield "element type", main_dtype(plan.graph)
    yield "devices", str(plan.devices)
    yield "cluster", str(plan.cluster.get("name"))
    yield "chip", report.chip or "-"
    yield "target", str(request.get("target"))
    yield "phase", "train" if report.trains else "infer"
    yield "optimizer", str(request.get("optimizer"))
    yield "mesh", mesh_text(plan)
    yield "degrees", str(report.degrees)
    yield from _pipeline_facts(plan.pipeline)
    yield "rank order", str(list(plan.rank_order)) if _reordered(plan) else "as numbered"
    yield "proof", plan.bound.proof
    yield "recomputed tensors", str(len(plan.recomputed))


def _pipeline_facts(pipeline: Pipeline) -> Iterator[tuple[str, str]]:
    counts = "/".join(str(stage.end - stage.start) for stage in pipeline.stages)
    yield "pipeline stages", str(len(pipeline.stages))
    yield "micro-batches", str(pipeline.micro_batches)
    yield "schedule", pipeline.schedule
    yield "operators of the stages", "all" if pipeline.is_single else counts


def _reordered(plan: Plan) -> bool:
    return plan.rank_order != tuple(range(plan.devices))


def _amounts(first: Mapping[str, float], second: Mapping[str, float]) -> tuple[Amount, ...]:
    names = dict.fromkeys((*first, *second))
    return tuple(Amount(n, first.get(n, 0.0), second.get(n, 0.0)) for n in names)


def _paired(
    first: Iterable[_T], second: Iterable[_T], name: Callable[[_T], str]
) -> list[tuple[_T, _T]]:
    known = {name(each): each for each in second}
    return [(each, known[name(each)]) for each in first if name(each) in known]


def _operator_changes(
    pairs: Iterable[tuple[PlannedOperator, PlannedOperator]], first: Plan, second: Plan
) -> tuple[Change, ...]:
    prefix = common_scope(op.scope for op in first.operators)
    axes = Axes.of(first), Axes.of(second)
    changes = []
    for a, b in pairs:
        before, after = _around(a, axes[0]), _around(b, axes[1])
        if before != after:
            where = folded(a.scope or a.name).removeprefix(prefix)
            changes.append(Change(f"{a.label} {where}", 1, a.compute_s, before, after))
    return _folded(changes)


def _around(op: PlannedOperator, axes: Axes) -> str:
    return f"{axes.layouts(op.inputs)} -> {axes.layouts(op.outputs) or 'a scalar'}"


def _parameter_changes(
    pairs: Iterable[tuple[PlannedTensor, PlannedTensor]], first: Plan, second: Plan
) -> tuple[Change, ...]:
    scopes = [op.scope for op in first.operators]
    prefix = common_scope([*scopes, *(t.name for t in first.parameters)])
    axes = Axes.of(first), Axes.of(second)
    changes = []
    for a, b in pairs:
        before, after = rest_and_use(a, axes[0]), rest_and_use(b, axes[1])
        if before != after:
            changes.append(Change(folded(a.name).removeprefix(prefix), 1, 0.0, before, after))
    return _folded(changes)


def _folded(changes: Iterable[Change]) -> tuple[Change, ...]:
    """Equal changes as one, the heaviest first."""
    groups: dict[tuple[str, str, str], list[Change]] = {}
    for each in changes:
        groups.setdefault((each.name, each.first, each.second), []).append(each)
    merged = [
        Change(name, len(members), sum(m.compute_s for m in members), before, after)
        for (name, before, after), members in groups.items()
    ]
    return tuple(sorted(merged, key=lambda c: (-c.compute_s, -c.count, c.name)))
