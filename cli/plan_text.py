"""A plan as text for people."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from cli.pipeline_text import print_pipeline, print_sharding
from cli.text import fitted, percent, table
from ir.causes import cause_text
from ir.dtypes import dtype_bytes
from ir.folding import Axes, operator_groups, parameter_groups, recomputed_groups
from ir.normalise import main_dtype
from ir.plan_enums import Cause
from ir.plan_name import plan_name
from ir.plan_stages import mesh_text, overlap_text, split_text
from ir.published import expected_text, published_note
from ir.throughput import rates_of
from topology.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from ir.plan import Baseline, Plan, PlannedTensor
    from planner.request import InfeasibleError

HEAVIEST = 12
"""Rows of a table of groups; what is left out is counted."""
COMPUTE = (Cause.COMPUTE_FORWARD, Cause.COMPUTE_BACKWARD, Cause.RECOMPUTE, Cause.UPDATE)
LEGEND = """\
In layouts a tier stands for all its axes and `all` for every axis; `-` is a whole dimension,
`+card` terms of a sum over the cards."""


def print_plan(
    plan: Plan,
    files: Sequence[Path],
    out: Console,
    *,
    first: Sequence[str] = (),
    losses: Sequence[str] = (),
) -> None:
    """The whole summary.

    Args:
        plan: what was decided.
        files: what was written.
        out: where to print.
        first: what else belongs to the first lines.
        losses: what the strategy files cannot say, a sentence each.
    """
    _headline(plan, first, out)
    _times(plan, out)
    if not plan.pipeline.is_single:
        print_pipeline(plan.pipeline, out)
        print_sharding(plan, out)
    _memory(plan, out)
    _quality(plan, out)
    print_baselines(plan.baselines, plan.estimate.step_time_s, out)
    _operators(plan, out)
    _parameters(plan, out)
    _recomputed(plan, out)
    _notes(plan, out)
    if files:
        out.print(Text("\nWritten", style="bold"))
    for path in files:
        out.print(str(path), soft_wrap=True)
    for loss in losses:
        out.print(f"- {loss}")


def _headline(plan: Plan, first: Sequence[str], out: Console) -> None:
    request, cluster, graph = plan.request, plan.cluster, plan.graph
    chip = cluster.get("chip")
    chip_name = chip.get("name") if isinstance(chip, Mapping) else "device"
    training = bool(request.get("training"))
    step_s = plan.estimate.step_time_s
    out.print(Text(plan_name(plan), style="bold"))
    what = "one training step" if training else "one forward pass"
    expected = expected_text(plan.estimate)
    certainty = f", by published runs {expected}" if expected else " (uncalibrated)"
    out.print(Text(f"{graph.name}: {what} in {format_seconds(step_s)}{certainty}", style="bold"))
    out.print("  " + ", ".join(rates_of(plan).words))
    out.print(f"  {_memory_text(plan)}; {_gap_text(plan)}")
    for line in first:
        out.print(f"  {line}")
    facts = [f"batch {plan.batch}"] if plan.batch else []
    facts += [main_dtype(graph), *([str(request.get("optimizer"))] if training else [])]
    out.print("  " + ", ".join(facts))
    if split := split_text(plan):
        out.print(f"  {split}")
    place = f"{plan.devices} x {chip_name} ({cluster.get('name')})"
    stages = len(plan.pipeline.stages)
    mesh = f"{stages} stages of mesh" if stages > 1 else "mesh"
    out.print(f"  {place}, for {request.get('target')}, {mesh} {mesh_text(plan)}")
    plain = next((b for b in plan.baselines if b.step_time_s is not None), None)
    if plain is not None and plain.step_time_s is not None:
        ratio = plain.step_time_s / step_s
        if plain.fits:
            out.print(f"  {_faster(ratio, than=f'than {plain.name}', alike=f'as {plain.name}')}")
        else:
            taken = f"{plain.name} would take {ratio:.2f} x the time"
            out.print(f"  {taken}, but does not fit into memory")


def _memory_text(plan: Plan) -> str:
    """Peak of a device and its limit."""
    estimate = plan.estimate
    peak, limit = format_bytes(estimate.peak_memory_bytes), estimate.memory_limit_bytes
    return f"peak memory {peak}" + (f" of {format_bytes(limit)}" if math.isfinite(limit) else "")


def _gap_text(plan: Plan) -> str:
    """How far the plan may be from the fastest one."""
    bound = plan.bound
    if bound.proof == "optimal":
        return "proven optimal"
    if math.isfinite(bound.bound_s) and bound.bound_s > 0:
        return f"at most {100 * bound.gap:.2g} % above the lower bound"
    return "no lower bound"


def _faster(ratio: float, than: str = "", alike: str = "") -> str:
    """How much faster; a ratio that rounds to one is as fast."""
    text = f"{ratio:.2f}"
    words = f"as fast {alike}" if text == "1.00" else f"{text} x faster {than}"
    return words.rstrip()


def _times(plan: Plan, out: Console) -> None:
    total = plan.estimate.step_time_s
    rows = plan.estimate.time_by_cause
    causes = _collective_causes(plan)
    hidden = plan.estimate.hidden_by_cause
    columns = ["cause", "time", "%", *(["hidden"] if hidden else []), "for"]
    made = table("Time", columns, right=tuple(range(1, len(columns) - 1)))
    order: list[str] = [k for k in COMPUTE if k in rows]
    others = (k for k in {**rows, **hidden} if k not in COMPUTE)
    order += sorted(others, key=lambda k: (-rows.get(k, 0.0), -hidden.get(k, 0.0)))
    for key in order:
        share = percent(rows.get(key, 0.0), total)
        beside = [format_seconds(hidden[key]) if key in hidden else ""] if hidden else []
        seconds = format_seconds(rows[key]) if key in rows else "0 s"
        made.add_row(cause_text(key), seconds, share, *beside, causes.get(key, ""))
    beside = [format_seconds(plan.estimate.hidden_s)] if hidden else []
    made.add_row("step", format_seconds(total), "100", *beside, overlap_text(plan), style="bold")
    out.print(made)


def _collective_causes(plan: Plan) -> dict[str, str]:
    """What the time of each kind and tier is spent for, largest first."""
    times: dict[str, dict[str, float]] = {}
    for item in plan.collectives:
        row = times.setdefault(f"{item.kind} in {item.tier}", {})
        row[item.cause] = row.get(item.cause, 0.0) + item.exposed_s
    if not plan.pipeline.is_single:
        # The times of the table are those of one stage.
        return {key: ", ".join(row) for key, row in times.items()}
    return {key: _by_time(row) for key, row in times.items()}


def _by_time(times: Mapping[str, float]) -> str:
    if len(times) == 1:
        return next(iter(times))
    ordered = sorted(((k, v) for k, v in times.items() if v > 0), key=lambda kv: -kv[1])
    return ", ".join(f"{k} {format_seconds(v)}" for k, v in ordered) or next(iter(times))


def _memory(plan: Plan, out: Console) -> None:
    estimate = plan.estimate
    peak, limit = estimate.peak_memory_bytes, estimate.memory_limit_bytes
    made = table("Peak memory of a device", ["cause", "memory", "%"], right=(1, 2))
    for cause, nbytes in estimate.memory_by_cause.items():
        made.add_row(cause, format_bytes(nbytes), percent(nbytes, peak))
    made.add_row("peak", format_bytes(peak), "100", style="bold")
    if estimate.communicator_bytes:
        buffers = format_bytes(estimate.communicator_bytes)
        text = f"buffers of {estimate.communicators} communicators, in the reserve first"
        made.add_row(text, buffers, "")
    if math.isfinite(limit):
        made.add_row(f"limit ({percent(peak, limit)} % of it used)", format_bytes(limit), "")
    out.print(made)


def _quality(plan: Plan, out: Console) -> None:
    bound, space = plan.bound, plan.space
    out.print(Text("\nQuality", style="bold"))
    if bound.proof == "optimal":
        out.print(f"No plan of the space below is faster: proven by {bound.solver}.")
    elif math.isfinite(bound.bound_s) and bound.bound_s > 0:
        out.print(
            f"No plan of the space below takes less than {format_seconds(bound.bound_s)}: "
            f"this one is at most {100 * bound.gap:.2g} % above ({bound.solver})."
        )
    else:
        out.print(f"No bound was found ({bound.solver}).")
    if bound.truncated:
        out.print("The time limit cut the search short: another machine may answer differently.")
    meshes = "; ".join(" x ".join(f"{n} {s}" for n, s in mesh) for mesh in space.meshes)
    out.print(
        f"Space: dialect {space.dialect}, {space.nodes:,} decisions with {space.candidates:,} "
        f"candidates (at most {space.largest:,} each, {space.left_out:,} left out), "
        f"10^{space.log10_plans:.0f} plans; mesh {meshes}."
    )


def print_baselines(baselines: Sequence[Baseline], step_s: float | None, out: Console) -> None:
    """What known schemes would take, priced by the same model, memory aside."""
    if not baselines:
        return
    made = table("Beside it", ["scheme", "step", "plan is", "memory", "remark"], right=(1, 2, 3))
    for item in baselines:
        time_s, peak = item.step_time_s, item.peak_memory_bytes
        faster = _faster(time_s / step_s) if time_s and step_s else ""
        made.add_row(
            item.name,
            "-" if time_s is None else format_seconds(time_s),
            faster if item.fits else "",
            "-" if peak is None else format_bytes(peak),
            item.reason,
        )
    out.print(made)


def _operators(plan: Plan, out: Console) -> None:
    axes = Axes.of(plan)
    groups = operator_groups(plan.operators)
    total = sum(g.compute_s for g in groups)
    title = "Heaviest operators: layouts of operands -> results"
    columns = ["operator", "count", "compute", "%", "layouts"]
    made = table(title, columns, right=(1, 2, 3))
    for group in groups[:HEAVIEST]:
        op = group.example
        made.add_row(
            fitted(f"{group.label} {group.where}", out),
            str(group.count),
            format_seconds(group.compute_s),
            percent(group.compute_s, total),
            f"{axes.layouts(op.inputs)} -> {axes.layouts(op.outputs) or 'a scalar'}",
        )
    out.print(made)
    rest = groups[HEAVIEST:]
    if rest:
        share = percent(sum(g.compute_s for g in rest), total)
        count = sum(g.count for g in rest)
        out.print(f"and {count} others in {len(rest)} groups, {share} % of the computation")
    out.print(Text(LEGEND, style="dim"))


def _parameters(plan: Plan, out: Console) -> None:
    axes = Axes.of(plan)
    groups = parameter_groups(plan)
    if not groups:
        return
    columns = ["parameter", "count", "dims", "bytes", "layouts"]
    title = "Largest parameters: layout at rest -> as used, if another"
    made = table(title, columns, right=(1, 3))
    for group in groups[:HEAVIEST]:
        tensor = group.example
        made.add_row(
            fitted(group.where, out),
            str(group.count),
            "x".join(str(d) for d in tensor.dims) or "1",
            format_bytes(group.elements * dtype_bytes(tensor.dtype)),
            _from_rest_to_use(tensor, axes),
        )
    out.print(made)
    rest = groups[HEAVIEST:]
    if rest:
        nbytes = sum(g.elements * dtype_bytes(g.example.dtype) for g in rest)
        count = sum(g.count for g in rest)
        out.print(f"and {count} others in {len(rest)} groups, {format_bytes(nbytes)}")


def _from_rest_to_use(tensor: PlannedTensor, axes: Axes) -> str:
    rest = axes.layout(tensor.layout)
    used = "not read" if tensor.used is None else axes.layout(tensor.used)
    return rest if used == rest else f"{rest} -> {used}"


def _recomputed(plan: Plan, out: Console) -> None:
    groups = recomputed_groups(plan)
    if not groups:
        return
    out.print(Text("\nComputed again in the backward pass, to save memory", style="bold"))
    for text, count in groups[:HEAVIEST]:
        out.print(f"{count} x {text}")
    if len(groups) > HEAVIEST:
        out.print(f"and {sum(n for _, n in groups[HEAVIEST:])} others")


def _notes(plan: Plan, out: Console) -> None:
    out.print(Text("\nNotes", style="bold"))
    for note in (*plan.notes, published_note(plan.estimate)):
        out.print(f"- {note}")


def print_infeasible(error: InfeasibleError, out: Console) -> None:
    """Why nothing fits, and what would make it fit."""
    print_refusal(error, out)
    print_remedies(error, out)


def print_refusal(error: InfeasibleError, out: Console) -> None:
    """Why nothing fits."""
    prefix = "" if error.what.startswith("no plan ") else "no plan fits: "
    out.print(prefix + error.what)
    needed, available = format_bytes(error.needed_bytes), format_bytes(error.available_bytes)
    out.print(f"  needed on each device {needed}, available {available}")
    if error.contributors:
        out.print("  largest contributors on each device:")
    for cause, nbytes in list(error.contributors.items())[:HEAVIEST]:
        out.print(f"    {cause}: {format_bytes(nbytes)}")


def print_remedies(error: InfeasibleError, out: Console) -> None:
    """What would make it fit, and what known schemes would take."""
    if error.interrupted:
        out.print("  interrupted: not everything was tried that could make it fit")
    if error.out_of_time:
        out.print("  the time limit ended the look for what would make it fit: raise --time-limit")
    if error.remedies:
        out.print("  what would make it fit:")
    for remedy in error.remedies:
        out.print(f"    {remedy}")
    print_baselines(error.baselines, None, out)
