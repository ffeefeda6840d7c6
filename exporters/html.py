"""A plan as one page for a browser: the summary, plots and tables. It loads nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from exporters.html_plots import Part, bars, stacked
from exporters.html_text import STYLE, Markup, escaped, paragraph, section, table
from ir.causes import cause_text
from ir.dtypes import dtype_bytes
from ir.folding import Axes, operator_groups, parameter_groups, recomputed_groups
from ir.normalise import main_dtype
from ir.plan import NamedLayout, Plan, PlannedTensor
from ir.plan_degrees import degrees_of
from ir.plan_enums import Cause
from ir.plan_stages import mesh_text, overlap_text, split_text, tier_names
from ir.published import expected_text, published_note
from ir.throughput import rates_of
from topology.units import format_bytes, format_seconds

__all__ = ["to_html"]

_HEAVIEST = 20
_MOST_ROWS = 2000
"""Groups on one page; what is left out is counted."""
_COMPUTE = (Cause.COMPUTE_FORWARD, Cause.COMPUTE_BACKWARD, Cause.RECOMPUTE, Cause.UPDATE)
_PLAN = "this plan"


def to_html(plan: Plan) -> str:
    """The page."""
    body = "".join(
        (
            _header(plan),
            section("Time of one step", _time(plan)),
            section("Pipeline", _pipeline(plan)),
            section("Peak memory of a device", _memory(plan)),
            section("Beside it", _baselines(plan)),
            section("Collectives by tier", _collectives(plan)),
            section("Heaviest operators", _operators(plan)),
            section("Largest parameters", _parameters(plan)),
            section("Computed again in the backward pass", _recomputed(plan)),
            section("Quality", *_quality(plan)),
            section("Notes", *(paragraph(note) for note in _notes(plan))),
        )
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escaped(plan.graph.name)}: plan for {plan.devices} devices</title>\n"
        f"<style>\n{STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
    )


def _header(plan: Plan) -> Markup:
    graph, estimate, request = plan.graph, plan.estimate, plan.request
    chip = plan.cluster.get("chip")
    chip_name = chip.get("name") if isinstance(chip, Mapping) else "device"
    what = "training step" if request.get("training") else "forward pass"
    facts = [
        f"one {what}",
        *([split_text(plan) or f"batch {plan.batch}"] if plan.batch else []),
        main_dtype(graph),
        f"{plan.devices} x {chip_name} ({plan.cluster.get('name')})",
        f"for {request.get('target')}",
        f"mesh {mesh_text(plan)}",
        f"most products and attention {degrees_of(plan)}",
    ]
    step_s, peak = estimate.step_time_s, estimate.peak_memory_bytes
    expected = expected_text(estimate)
    certainty = f"by published runs {expected}" if expected else "uncalibrated"
    tiles = [(format_seconds(step_s), f"step time, {certainty}")]
    rates = rates_of(plan).words
    if rates:
        tiles.append((rates[0], ", ".join(("throughput", *rates[1:]))))
    limit = estimate.memory_limit_bytes
    used = f", {100 * peak / limit:.1f} % of the limit" if math.isfinite(limit) else ""
    tiles.append((format_bytes(peak), f"peak memory{used}"))
    tiles.append((_gap(plan), "above the proven bound"))
    shown = "".join(
        f'<div class="tile"><b>{escaped(value)}</b><span>{escaped(name)}</span></div>'
        for value, name in tiles
    )
    return (
        f"<header><h1>{escaped(graph.name)}</h1>\n{paragraph(', '.join(facts), 'faint')}\n"
        f'<div class="tiles">{shown}</div></header>\n'
    )


def _gap(plan: Plan) -> str:
    if plan.bound.proof == "optimal":
        return "0 %"
    return f"{100 * plan.bound.gap:.2g} %" if math.isfinite(plan.bound.gap) else "unknown"


def _time(plan: Plan) -> Markup:
    rows = plan.estimate.time_by_cause
    reasons: dict[str, list[str]] = {}
    for item in plan.collectives:
        found = reasons.setdefault(f"{item.kind} in {item.tier}", [])
        if item.cause not in found:
            found.append(item.cause)
    order: list[str] = [k for k in _COMPUTE if k in rows]
    order += sorted((k for k in rows if k not in _COMPUTE), key=lambda k: (-rows[k], k))
    parts = [Part(cause_text(k), rows[k], ", ".join(reasons.get(k, ()))) for k in order]
    drawn = stacked(parts, format_seconds)
    return drawn and drawn + paragraph(f"{overlap_text(plan).capitalize()}.", "faint")


def _memory(plan: Plan) -> Markup:
    estimate = plan.estimate
    parts = [Part(k, v) for k, v in estimate.memory_by_cause.items()]
    return stacked(parts, format_bytes, limit=estimate.memory_limit_bytes)


def _pipeline(plan: Plan) -> Markup:
    """What every stage does, and what goes over the cut before it."""
    pipeline = plan.pipeline
    if pipeline.is_single:
        return ""
    sent = {s: [each for each in pipeline.sends if each.stage == s]
            for s in range(len(pipeline.stages))}  # fmt: skip
    rows = [
        tuple(
            escaped(text)
            for text in (
                str(number),
                f"{stage.end - stage.start}",
                format_seconds(stage.forward_s),
                format_seconds(stage.backward_s),
                format_seconds(stage.once_s),
                format_bytes(stage.peak_memory_bytes),
                str(stage.in_flight),
                ", ".join(each.tensor for each in sent[number]),
                format_bytes(sum(each.nbytes for each in sent[number])),
            )
        )
        for number, stage in enumerate(pipeline.stages)
    ]
    columns = [
        "stage", "operators", "forward", "backward", "once in a step", "memory", "on the way",
        "receives", "by each device",
    ]  # fmt: skip
    words = f"{pipeline.micro_batches} micro-batches of {pipeline.micro_batch}, {pipeline.schedule}"
    return paragraph(words) + table(columns, rows, right=(0, 1, 2, 3, 4, 5, 6, 8))


def _baselines(plan: Plan) -> Markup:
    if not plan.baselines:
        return ""
    step_s = plan.estimate.step_time_s
    timed = [b for b in plan.baselines if b.step_time_s is not None]
    plot = bars(
        [
            Part(_PLAN, step_s, _PLAN),
            *(Part(b.name, b.step_time_s or 0.0, "fits" if b.fits else "other") for b in timed),
        ],
        format_seconds,
        {_PLAN: 0, "fits": 2, "other": 9},
    )
    rows = [
        (
            escaped(b.name),
            escaped(format_seconds(b.step_time_s)) if b.step_time_s is not None else "-",
            f"{b.step_time_s / step_s:.2f} x faster" if b.fits and b.step_time_s else "-",
            escaped(format_bytes(b.peak_memory_bytes)) if b.peak_memory_bytes is not None else "-",
            escaped(b.reason),
        )
        for b in plan.baselines
    ]
    columns = ["scheme", "step", "plan is", "memory", "remark"]
    return plot + table(columns, rows, right=(1, 2, 3))


def _collectives(plan: Plan) -> Markup:
    """Time and bytes of each kind over each tier, outermost tier first."""
    found: dict[tuple[str, str], tuple[float, float, int]] = {}
    for item in plan.collectives:
        time_s, nbytes, count = found.get((item.tier, item.kind), (0.0, 0.0, 0))
        total = nbytes + item.nbytes * item.count
        found[item.tier, item.kind] = (time_s + item.time_s, total, count + item.count)
    order = {name: i for i, name in enumerate(tier_names(plan))}
    ordered = sorted(found.items(), key=lambda kv: (order.get(kv[0][0], 99), -kv[1][0], kv[0]))
    parts = [Part(f"{t}: {k.replace('_', '-')}", v[0], t) for (t, k), v in ordered]
    rows = [
        (
            escaped(tier),
            escaped(kind.replace("_", "-")),
            str(count),
            escaped(format_bytes(nbytes)),
            escaped(format_seconds(time_s)),
        )
        for (tier, kind), (time_s, nbytes, count) in ordered
    ]
    colours = {name: i + 2 for name, i in order.items()}
    columns = ["tier", "kind", "how often", "bytes of a device", "time"]
    if not parts:
        return ""
    return bars(parts, format_seconds, colours) + table(columns, rows, right=(2, 3, 4))


def _operators(plan: Plan) -> Markup:
    axes, groups = Axes.of(plan), operator_groups(plan.operators)
    total = sum(g.compute_s for g in groups)

    def rows(start: int, end: int) -> Iterator[Sequence[Markup]]:
        for group in groups[start:end]:
            op = group.example
            operands, results = _layouts(op.inputs, axes), _layouts(op.outputs, axes)
            yield (
                f"{escaped(group.label)} <span class='faint'>{escaped(group.where)}</span>",
                str(group.count),
                escaped(format_seconds(group.compute_s)),
                f"{100 * group.compute_s / total:.1f} %" if total > 0 else "-",
                f"{operands}<div class='faint'>&rarr;</div>{results}",
            )

    columns = ["operator", "count", "compute", "share", "layouts of operands and results"]
    plot = bars(
        [Part(f"{g.label} {g.where}", g.compute_s) for g in groups[:_HEAVIEST] if g.compute_s > 0],
        format_seconds,
        {},
    )
    shown = plot + table(columns, rows(0, _HEAVIEST), right=(1, 2, 3)) + _key(plan)
    if len(groups) > _HEAVIEST:
        rest = table(columns, rows(_HEAVIEST, _MOST_ROWS), right=(1, 2, 3))
        shown += (
            f"<details><summary>{len(groups) - _HEAVIEST} more groups</summary>{rest}</details>"
        )
    return shown


def _layouts(layouts: Sequence[NamedLayout | None], axes: Axes) -> Markup:
    """A box for each dimension, coloured by the outermost tier that splits it."""
    drawn = "".join(_layout(x, axes) for x in layouts if x is not None and x.dims)
    return f"<div class='layouts'>{drawn or 'a scalar'}</div>"


def _layout(layout: NamedLayout, axes: Axes) -> Markup:
    tiers = {name: tier for name, _, tier in axes.mesh}
    boxes = []
    for dim in layout.dims:
        text = axes.short(dim)
        colour = f' class="split c{(tiers[dim[0]] + 2) % 10}"' if text != "-" else ""
        boxes.append(f"<i{colour}>{escaped(text)}</i>")
    if layout.partial:
        boxes.append(f'<i class="split c4">+{escaped(axes.short(layout.partial))}</i>')
    return f"<span class='layout'>{''.join(boxes)}</span>"


def _key(plan: Plan) -> Markup:
    tiers = "".join(
        f'<span class="key c{(i + 2) % 10}"></span>{escaped(name)} &nbsp; '
        for i, name in enumerate(tier_names(plan))
    )
    return (
        f"<p class='faint'>One box for each dimension; split over {tiers}"
        '<span class="key c4"></span>terms of a sum. A tier stands for all its axes, '
        "<code>all</code> for every axis, <code>-</code> is a whole dimension.</p>"
    )


def _parameters(plan: Plan) -> Markup:
    axes, groups = Axes.of(plan), parameter_groups(plan)
    rows = [
        (
            escaped(group.where),
            str(group.count),
            "x".join(str(d) for d in group.example.dims) or "1",
            escaped(format_bytes(group.elements * dtype_bytes(group.example.dtype))),
            _rest_and_use(group.example, axes),
        )
        for group in groups[:_MOST_ROWS]
    ]
    columns = ["parameter", "count", "dims", "bytes", "layout at rest, and as used if another"]
    return table(columns, rows, right=(1, 3)) if rows else ""


def _rest_and_use(tensor: PlannedTensor, axes: Axes) -> Markup:
    both = [tensor.layout, *([tensor.used] if tensor.used not in {None, tensor.layout} else [])]
    return _layouts(both, axes) + ("" if tensor.used is not None else "<div>not read</div>")


def _recomputed(plan: Plan) -> Markup:
    groups = recomputed_groups(plan)
    rows = [(str(count), escaped(text)) for text, count in groups[:_MOST_ROWS]]
    return table(["count", "tensor"], rows, right=(0,)) if rows else ""


def _quality(plan: Plan) -> Iterator[Markup]:
    bound, space = plan.bound, plan.space
    if bound.proof == "optimal":
        yield paragraph(f"No plan of the space is faster: proven by {bound.solver}.")
    elif math.isfinite(bound.bound_s) and bound.bound_s > 0:
        yield paragraph(f"No plan of the space takes less than {format_seconds(bound.bound_s)}.")
    if bound.truncated:
        yield paragraph("The time limit cut the search short.")
    meshes = "; ".join(" x ".join(f"{n} {s}" for n, s in mesh) for mesh in space.meshes)
    yield paragraph(
        f"Space: dialect {space.dialect}, {space.nodes:,} decisions with {space.candidates:,} "
        f"candidates, {space.left_out:,} left out, 10^{space.log10_plans:.0f} plans; mesh {meshes}."
    )


def _notes(plan: Plan) -> Iterator[str]:
    yield from plan.notes
    yield published_note(plan.estimate)
