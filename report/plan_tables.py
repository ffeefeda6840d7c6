"""A plan in tables: the same headings, rows and order on a terminal and in HTML."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ir.causes import links_between
from ir.plan import Plan
from ir.plan_estimate import Baseline
from report.operators import (
    OperatorGroup,
    ParameterGroup,
    dims_text,
    operator_facts,
    parameter_facts,
)
from report.plan import PlanReport, TimeCause, faster
from report.tables import Column, Lines, Table, Unit, percent, share
from topology.units import format_bytes, format_count, format_seconds

MOST_STAGES = 16
"""Stages of a table; of more, the first and the last are shown."""


def time_table(report: PlanReport) -> Table:
    """Exposed and hidden seconds of a step by cause."""
    hides = bool(report.estimate.hidden_by_cause)
    rows: list[list[object]] = []
    for each in report.time:
        extra = [each.hidden_s or ""] if hides else []
        part = share(each.exposed_s, report.step_s)
        rows.append([each.label, each.exposed_s, part, *extra, _purposes(report, each)])
    extra = [report.estimate.hidden_s] if hides else []
    rows.append(["step", report.step_s, "100", *extra, report.overlap])
    hidden: list[Column] = [("hidden", Unit.SECONDS)] if hides else []
    columns: list[Column] = ["cause", ("time", Unit.SECONDS), ("%", Unit.SHARE), *hidden, "for"]
    return Table.of("Time", columns, rows, total=len(rows) - 1)


def _purposes(report: PlanReport, each: TimeCause) -> str:
    """What a cause is for; with seconds where these are those of the table, not of one stage."""
    exposed = {name: time_s for name, time_s in each.purposes.items() if time_s > 0}
    if not report.plan.pipeline.is_single or len(each.purposes) < 2 or not exposed:
        return ", ".join(each.purposes)
    return ", ".join(f"{name} {format_seconds(time_s)}" for name, time_s in exposed.items())


def memory_table(report: PlanReport) -> Table:
    """Bytes at the peak by cause, and the limit."""
    estimate = report.estimate
    peak, limit = estimate.peak_memory_bytes, estimate.memory_limit_bytes
    causes = [(c, n, share(n, peak)) for c, n in estimate.memory_by_cause.items()]
    rows: list[Sequence[object]] = [*causes, ("peak", peak, "100")]
    if estimate.communicator_bytes:
        buffers = f"buffers of {format_count(estimate.communicators, 'communicator')}"
        told = f"{buffers}, charged to the runtime reserve first"
        rows.append((told, estimate.communicator_bytes, ""))
    if math.isfinite(limit):
        rows.append((f"limit ({percent(peak, limit)} % of it used)", limit, ""))
    columns = ("cause", ("memory", Unit.BYTES), ("%", Unit.SHARE))
    return Table.of("Peak memory of a device", columns, rows, total=len(causes))


def holder_table(holders: Sequence[tuple[str, str, float]], peak: float) -> Table:
    """Name, cause and bytes of what holds most of a device at the peak."""
    columns = (
        ("operator or tensor", Unit.NAME), "as", ("memory", Unit.BYTES), ("%", Unit.SHARE),
    )  # fmt: skip
    rows = [(*holder, share(holder[-1], peak)) for holder in holders]
    return Table.of("Who holds most at the peak", columns, rows)


def stage_table(report: PlanReport) -> Table:
    """Stages, what each takes for one micro-batch, and what is sent."""
    pipeline = report.plan.pipeline
    count = len(pipeline.stages)
    chunks = pipeline.chunks
    virtual = f" (PP {count // chunks}, VPP {chunks})" if chunks > 1 else ""
    title = (
        f"{format_count(count, 'pipeline stage')}{virtual}, "
        f"{format_count(pipeline.micro_batches, 'micro-batch', 'es')} of {pipeline.micro_batch} "
        f"({pipeline.schedule}); times of one micro-batch"
    )
    number, seconds = Unit.NUMBER, Unit.SECONDS
    columns = (
        ("stage", number), ("operators", number), ("forward", seconds), ("backward", seconds),
        ("once a step", seconds), ("memory", Unit.BYTES), ("in flight", number),
    )  # fmt: skip
    rows = [
        (at, s.end - s.start, s.forward_s, s.backward_s, s.once_s, s.peak_memory_bytes, s.in_flight)
        for at, s in enumerate(pipeline.stages)
        if count <= MOST_STAGES or not MOST_STAGES // 2 <= at < count - MOST_STAGES // 2
    ]
    return Table.of(title, columns, rows, after=tuple(_of_stages(report)))


def _of_stages(report: PlanReport) -> Iterator[str]:
    """What is sent from stage to stage, and how parameters and their states are kept."""
    pipeline = report.plan.pipeline
    if len(pipeline.stages) > MOST_STAGES:
        yield f"and {len(pipeline.stages) - MOST_STAGES} stages between them"
    if pipeline.sends:
        most = max(pipeline.sends, key=lambda send: send.nbytes * send.count)
        yield (
            f"stage transfer over {links_between(most.tier)}: "
            f"{format_count(len(pipeline.sends), 'tensor')}, each at most "
            f"{format_bytes(most.nbytes * most.count)} per step and device, forward and backward"
        )
    blocks = sum(len(stage.blocks) for stage in pipeline.stages)
    if blocks:
        yield f"full recomputation of {format_count(blocks, 'block')} in the backward pass"
    for shared in pipeline.shared:
        stages = " and ".join(map(str, shared.stages))
        yield (
            f"stages {stages} share {shared.tensor}: the reduction of its gradient takes "
            f"{format_seconds(shared.time_s)}, once a step"
        )
    yield report.sharding
    held = sum(1 for tensor in report.plan.parameters if tensor.host_bytes)
    if held:
        yield (
            f"optimizer state of {held} parameters is kept in host memory: at most "
            f"{format_bytes(report.host_bytes)} for each device"
        )


def quality(report: PlanReport) -> Lines:
    """The bound, how far the plan is from it, and the space that it is over."""
    bound, space = report.plan.bound, report.plan.space
    if bound.proof == "optimal":
        told = f"No plan of the space below is faster: proven by {bound.solver}."
    elif math.isfinite(bound.bound_s) and bound.bound_s > 0:
        told = (
            f"No plan of the space below takes less than {format_seconds(bound.bound_s)}: "
            f"this one is at most {report.gap} above ({bound.solver})."
        )
    else:
        told = f"No bound was found ({bound.solver})."
    cut = "The time limit cut the search short: another machine may answer differently."
    meshes = "; ".join(" x ".join(f"{n} {s}" for n, s in mesh) for mesh in space.meshes)
    of = (
        f"Space: dialect {space.dialect}, {space.nodes:,} decisions with {space.candidates:,} "
        f"candidates (at most {space.largest:,} each, {space.left_out:,} left out), "
        f"10^{space.log10_plans:.0f} plans; mesh {meshes}."
    )
    return Lines("Quality", (told, *([cut] if bound.truncated else []), of))


def baseline_table(baselines: Sequence[Baseline], step_s: float | None) -> Table:
    """What known schemes would take, priced by the same model, memory aside."""
    columns = (
        "scheme", ("step", Unit.SECONDS), ("plan is", Unit.NUMBER), ("memory", Unit.BYTES),
        "remark",
    )  # fmt: skip
    rows = [
        (b.name, b.step_time_s, faster(b.step_time_s, step_s) if b.fits else "",
         b.peak_memory_bytes, b.reason)
        for b in baselines
    ]  # fmt: skip
    return Table.of("Compared with", columns, rows)


def traffic_table(report: PlanReport) -> Table:
    """Collectives of a step by tier and kind, with what of them is exposed and hidden."""
    columns = (
        "tier", "kind", ("how often", Unit.NUMBER), ("bytes of a device", Unit.BYTES),
        ("exposed", Unit.SECONDS), ("hidden", Unit.SECONDS),
    )  # fmt: skip
    rows = [
        (t.tier, t.kind.replace("_", "-"), t.count, t.nbytes, t.exposed_s, t.hidden_s)
        for t in report.traffic
    ]
    return Table.of("Collectives by tier", columns, rows)


def operator_table(
    report: PlanReport, groups: Sequence[OperatorGroup], *, in_full: bool = False
) -> Table:
    """Groups of equal operators by their time in a step, with what the rest takes.

    Args:
        report: of the plan.
        groups: those that are shown.
        in_full: whether computation and exposed communication have columns of their own.
    """
    seconds = Unit.SECONDS
    parts: list[Column] = [("compute", seconds), ("exposed", seconds)] if in_full else []
    columns: list[Column] = [
        ("operator", Unit.NAME), ("count", Unit.NUMBER), ("time", seconds), ("%", Unit.SHARE),
        *parts, ("layouts", Unit.CODE),
    ]  # fmt: skip
    whole, rows = report.operators_s, []
    for g in groups:
        own = (g.compute_s, g.communication_s) if in_full else ()
        name = f"{g.label} {g.where}"
        rows.append((name, g.count, g.time_s, share(g.time_s, whole), *own, g.layouts))
    rest, after = report.operators[len(groups) :], []
    if rest:
        part = percent(sum(g.time_s for g in rest), whole)
        count = sum(g.count for g in rest)
        after = [f"and {count} others in {len(rest)} groups, {part} % of the step"]
    return Table.of(
        "Heaviest operators: layouts of operands -> results", columns, rows, after=after
    )


def parameter_table(report: PlanReport, groups: Sequence[ParameterGroup]) -> Table:
    """Groups of equal parameters, with what the rest holds."""
    columns = (
        ("parameter", Unit.NAME), ("count", Unit.NUMBER), ("dims", Unit.CODE),
        ("bytes", Unit.BYTES), ("layouts", Unit.CODE),
    )  # fmt: skip
    rows = [(g.where, g.count, dims_text(g.example.dims), g.nbytes, g.layouts) for g in groups]
    rest, after = report.parameters[len(groups) :], []
    if rest:
        nbytes = format_bytes(sum(g.nbytes for g in rest))
        after = [f"and {sum(g.count for g in rest)} others in {len(rest)} groups, {nbytes}"]
    title = "Largest parameters: layout at rest -> as used, where different"
    return Table.of(title, columns, rows, after=after)


def every_operator(plan: Plan) -> Table:
    """All operators in the plan's order."""
    code, seconds = Unit.CODE, Unit.SECONDS
    columns = (
        ("operator", Unit.NAME), ("place", code), ("kind", code), ("time", seconds),
        ("forward", seconds), ("backward", seconds), ("recompute", seconds), ("exposed", seconds),
        ("held", Unit.BYTES), ("layouts", code),
    )  # fmt: skip
    rows = [
        (op.name, op.scope, op.label, f.time_s, op.compute_s - op.backward_s, op.backward_s,
         op.recompute_s, f.communication_s, f.held_bytes, f.layouts)
        for f in operator_facts(plan) for op in (f.planned,)
    ]  # fmt: skip
    return Table.of("Operators", columns, rows)


def every_parameter(plan: Plan) -> Table:
    """All parameters in the model's order."""
    code, seconds = Unit.CODE, Unit.SECONDS
    columns = (
        ("parameter", Unit.NAME), ("dims", code), ("type", code), ("bytes", Unit.BYTES),
        ("on a device", Unit.BYTES), ("exposed", seconds), ("update", seconds), ("layouts", code),
    )  # fmt: skip
    rows = [
        (f.planned.name, dims_text(f.planned.dims), f.planned.dtype, f.nbytes, f.held_bytes,
         f.communication_s, f.planned.update_s, f.layouts)
        for f in parameter_facts(plan)
    ]  # fmt: skip
    return Table.of("Parameters", columns, rows)


def recomputed_lines(report: PlanReport, most: int) -> Lines:
    """What the backward pass computes again."""
    found = report.recomputed
    lines = [f"{count} x {text}" for text, count in found[:most]]
    if len(found) > most:
        lines.append(f"and {sum(n for _, n in found[most:])} others")
    return Lines("Recomputed in the backward pass, to save memory", tuple(lines))
