"""What a plan asks that `executors.torch.parallelize` does otherwise, each with its price."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from ir.graph import OpGraph
from ir.plan import Plan
from ir.plan_stages import has_equal_stages
from topology.units import format_memory, format_seconds

__all__ = ["SCHEDULES", "ApplyError", "differences", "refuse"]

SCHEDULES: Mapping[str, str] = MappingProxyType(
    {"1f1b": "Schedule1F1B", "gpipe": "ScheduleGPipe", "interleaved": "ScheduleInterleaved1F1B"}
)
"""Of plans, and their classes in `torch.distributed.pipelining`."""


class ApplyError(ValueError):
    """A plan that cannot be applied; the message says what, where and how to mend it."""


def refuse(plan: Plan) -> None:
    """Raise `ApplyError` for a plan that torch cannot run at all."""
    if len(plan.pipeline.stages) > 1:
        _refuse_stages(plan)
    if plan.graph.is_training_step:
        raise ApplyError(
            "the plan is of a traced training step, whose backward pass is in the graph\n"
            "  at:  plan.json: graph\n  fix: plan the forward pass; torch derives the other one"
        )


def _refuse_stages(plan: Plan) -> None:
    pipeline = plan.pipeline
    if str(pipeline.schedule) not in SCHEDULES:
        raise ApplyError(
            f"torch's schedules are {', '.join(SCHEDULES)}; the plan has {pipeline.schedule}\n"
            "  at:  plan.json: pipeline.schedule\n  fix: search for stages with `planner search`"
        )
    if not has_equal_stages(plan):
        raise ApplyError(
            "stages have different numbers of devices; torch sends from rank to rank\n"
            "  at:  plan.json: pipeline.stages\n  fix: search with --stage-meshes equal"
        )


def differences(plan: Plan) -> tuple[str, ...]:
    """What torch does otherwise than the plan, a sentence each with seconds or bytes.

    Args:
        plan: the plan.
    """
    return (
        *_memory(plan),
        *_micro_batches(plan),
        *_placement(plan),
        *_semantics(plan.graph),
    )


def _memory(plan: Plan) -> Iterator[str]:
    on_host = sum(p.host_bytes for p in plan.parameters)
    if on_host:
        yield f"{format_memory(on_host)} of optimizer state stay on the device, not on its host"


def _micro_batches(plan: Plan) -> Iterator[str]:
    count = plan.pipeline.micro_batches
    if count > 1 and len(plan.pipeline.stages) == 1:
        sync_s = plan.pipeline.stages[0].sync_s
        yield (
            f"the loop runs {count} micro-batches of {plan.pipeline.micro_batch} before it "
            "updates; what is reduced behind the last of them travels beside no computation: "
            f"up to {format_seconds(sync_s)} more"
        )


def _placement(plan: Plan) -> Iterator[str]:
    if plan.rank_order != tuple(range(len(plan.rank_order))):
        yield (
            "rank r runs on the r-th device that torchrun is given; the plan puts rank 0, 1, ... "
            f"on devices {', '.join(map(str, plan.rank_order[:8]))}...: list hosts in that order"
        )


def _semantics(graph: OpGraph) -> Iterator[str]:
    kinds = [op.kind for op in graph.ops] + [p.kind for op in graph.ops for p in op.parts]
    if "Dropout" in kinds:
        yield f"{kinds.count('Dropout')} dropouts drop nothing"
    if "BatchNormalization" in kinds:
        yield "running statistics of batch normalisation are not updated"
