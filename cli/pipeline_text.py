"""The stages of a plan as text for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

from cli.text import table
from topology.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from ir.plan import Pipeline

MOST_SHOWN = 16
"""Stages of a table; of more, the first and the last are shown."""


def print_pipeline(pipeline: Pipeline, out: Console) -> None:
    """Stages, what each takes for one micro-batch, and what is sent."""
    count = len(pipeline.stages)
    title = (
        f"{count} pipeline stage{'s' * (count > 1)}, {pipeline.micro_batches} micro-batches of "
        f"{pipeline.micro_batch} ({pipeline.schedule}); times of one micro-batch"
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
        out.print(
            f"{len(pipeline.sends)} tensors go from stage to stage over {most.tier} links, each by "
            f"at most {format_bytes(most.nbytes * most.count)} a step and device, both ways"
        )
