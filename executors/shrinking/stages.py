"""The pipeline of a plan that lost operators, and a step of fewer micro-batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ir.graph import OpGraph
from ir.plan import Pipeline, Plan, PlannedCollective, PlannedOperator, is_once

FEW = 2
"""Micro-batches that show how gradients add up."""


def with_operators(
    pipeline: Pipeline,
    operators: tuple[PlannedOperator, ...],
    graph: OpGraph,
    alias: Mapping[str, str],
) -> Pipeline:
    """The pipeline on the operators that are left.

    Args:
        pipeline: of the plan before.
        operators: that are left.
        graph: that is left.
        alias: tensors that stand for those of operators that are gone.
    """
    counts = [sum(op.stage == s for op in operators) for s in range(len(pipeline.stages))]
    ends = [sum(counts[: s + 1]) for s in range(len(counts))]
    stages = tuple(
        replace(stage, start=end - count, end=end)
        for stage, end, count in zip(pipeline.stages, ends, counts, strict=True)
    )
    sends: dict[tuple[int, str], PlannedCollective] = {}
    for send in pipeline.sends:
        name = alias.get(send.tensor, send.tensor)
        own = range(stages[send.stage].start, stages[send.stage].end)
        readers = [graph.ops[i].name for i in own if name in graph.ops[i].inputs]
        if name in graph.tensors and own:
            reader = next(iter(readers), graph.ops[own[0]].name)
            sends.setdefault((send.stage, name), replace(send, tensor=name, operator=reader))
    return replace(pipeline, stages=stages, sends=tuple(sends.values()))


def with_few_micro_batches(plan: Plan) -> Plan:
    """A step of two micro-batches in place of many; counts that are no multiple stay wrong."""
    pipeline = plan.pipeline
    if pipeline.micro_batches <= FEW:
        return plan
    times = pipeline.micro_batches

    def restricted(item: PlannedCollective) -> PlannedCollective:
        if is_once(item, times) or item.count % times or item.backward % times:
            return item
        count, backward = item.count * FEW // times, item.backward * FEW // times
        share = FEW / times
        return replace(
            item, count=count, backward=backward,
            time_s=item.time_s * share, hidden_s=item.hidden_s * share,
        )  # fmt: skip

    stages = tuple(replace(s, in_flight=min(s.in_flight, FEW)) for s in pipeline.stages)
    sends = tuple(restricted(s) for s in pipeline.sends)
    few = replace(pipeline, micro_batches=FEW, stages=stages, sends=sends)
    return replace(plan, pipeline=few, collectives=tuple(restricted(c) for c in plan.collectives))
