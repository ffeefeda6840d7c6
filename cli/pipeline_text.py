"""The stages of a plan as text for people."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rich.console import Console

from cli.text import table
from ir.causes import links_between
from topology.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from ir.plan import Pipeline, Plan

MOST_SHOWN = 16
"""Stages of a table; of more, the first and the last are shown."""


def print_pipeline(pipeline: Pipeline, out: Console) -> None:
    """Stages, what each takes for one micro-batch, and what is sent."""
    count = len(pipeline.stages)
    turns = f", {pipeline.chunks} taking turns on each part" if pipeline.chunks > 1 else ""
    title = (
        f"{count} pipeline stage{'s' * (count > 1)}{turns}, {pipeline.micro_batches} micro-batches "
        f"of {pipeline.micro_batch} ({pipeline.schedule}); times of one micro-batch"
    )
    columns = ["stage", "operators", "forward", "backward", "once a step", "memory", "kept"]
    made = table(title, columns, right=(0, 1, 2, 3, 4, 5, 6))
    for number, stage in enumerate(pipeline.stages):
        if count > MOST_SHOWN and MOST_SHOWN // 2 <= number < count - MOST_SHOWN // 2:
            continue
        made.add_row(
            str(number),
            str(stage.end - stage.start),
            format_seconds(stage.forward_s),
            format_seconds(stage.backward_s),
            format_seconds(stage.once_s),
            format_bytes(stage.peak_memory_bytes),
            str(stage.in_flight),
        )
    out.print(made)
    if count > MOST_SHOWN:
        out.print(f"and {count - MOST_SHOWN} stages between them")
    if pipeline.sends:
        most = max(pipeline.sends, key=lambda send: send.nbytes * send.count)
        largest = format_bytes(most.nbytes * most.count)
        out.print(
            f"{len(pipeline.sends)} tensors go from stage to stage over "
            f"{links_between(most.tier)}, each by at most {largest} a step and device, both ways"
        )
    blocks = sum(len(stage.blocks) for stage in pipeline.stages)
    if blocks:
        out.print(f"{blocks} blocks are computed again as a whole in the backward pass")
    for shared in pipeline.shared:
        stages = " and ".join(map(str, shared.stages))
        out.print(
            f"stages {stages} hold {shared.tensor}; once a step they add up its gradient in "
            f"{format_seconds(shared.time_s)}"
        )


def print_sharding(plan: Plan, out: Console) -> None:
    """How far parameters of a plan with micro-batches are shared out over their copies."""
    counts = Counter(tensor.zero for tensor in plan.parameters)
    shown = ", ".join(f"{count} at stage {level}" for level, count in sorted(counts.items()))
    out.print(f"ZeRO: of {sum(counts.values())} parameters {shown}")
    held = [tensor.host_bytes for tensor in plan.parameters if tensor.host_bytes]
    if held:
        most = max(_host_bytes(plan))
        out.print(
            f"optimizer state of {len(held)} parameters rests in the memory of the host: at most "
            f"{format_bytes(most)} for each device"
        )


def _host_bytes(plan: Plan) -> list[float]:
    """What each part of the machine keeps in the memory of its host, for each of its devices."""
    found = [0.0] * plan.pipeline.parts
    for tensor in plan.parameters:
        found[tensor.stage % len(found)] += tensor.host_bytes
    return found
