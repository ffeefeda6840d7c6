"""A sweep as text for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console

from cli.text import show
from cli.whatif_progress import span
from planner.whatif.analysis import Deadline, bill, planned, rate_of
from planner.whatif.axes import Place, shown
from planner.whatif.goodput import Aftermath
from planner.whatif.report import Around, Report
from planner.whatif.shapes import Shapes
from planner.whatif.sweep import Point
from report.tables import Table, numbers

MOST_ROWS = 40
"""Points of which each has a row; of more, the front stands for all."""
MOST_CHANGES = 12
GIB, GB = 2.0**30, 1e9


def print_report(report: Report, files: Sequence[Path], out: Console) -> None:
    """Print what a person wants to know of a sweep."""
    fine = planned(report.points)
    out.print(
        f"{report.model}: {len(report.points)} points, {report.searches} searches "
        f"({report.known} known before), {len(fine)} with a plan"
    )
    if report.best is None:
        _print_reasons(report, out)
        return
    _print_point("most work per second", report.best, report, out)
    title = "No other plan beats these in time, devices, memory, price; better machines cost"
    parts = [_scaling(report), _points(title, report.front[:MOST_ROWS], report), _changes(report)]
    if len(report.points) <= MOST_ROWS:
        parts.insert(0, _points("Points", report.points, report))
    show(parts, out)
    for lines in _more(report):
        out.print()
        for line in lines:
            out.print(line)
    if files:
        out.print("\n" + "\n".join(f"wrote {path}" for path in files))


def _more(report: Report) -> Iterator[list[str]]:
    if report.deadline is not None:
        yield list(_deadline_lines(report.deadline, _unit(report)))
    if report.around is not None:
        yield list(_around_lines(report.around))
    if report.shapes is not None:
        yield list(_mix_lines(report.shapes, report))
    if report.aftermath is not None:
        yield list(_aftermath_lines(report.aftermath, _unit(report)))


def _print_reasons(report: Report, out: Console) -> None:
    """Why no point has a plan."""
    reasons = dict.fromkeys(p.result.message for p in report.points)
    out.print("no point has a plan:")
    for reason in list(reasons)[:MOST_CHANGES]:
        out.print(f"  {reason}")


def _print_point(title: str, point: Point, report: Report, out: Console) -> None:
    result = point.result
    rate = f"{rate_of(point):,.4g} {_unit(report)}/s"
    used = f", MFU {100 * result.utilisation:.1f} % of {result.peak}" if result.utilisation else ""
    out.print(f"{title}: {point.place}")
    out.print(f"  {rate}{used}, step {result.step_s:.4g} s, {result.outline}")


def _points(title: str, points: Sequence[Point], report: Report) -> Table:
    rows = []
    for point in points:
        result, at = point.result, _at(point.place, report)
        gib = f"{result.peak_bytes / GIB:.1f}" if result.peak_bytes < float("inf") else "-"
        if not result.is_planned:
            rows.append((at, "-", "-", gib, "-", f"{result.status}: {result.message}"))
            continue
        hour = bill(report.prices, result.chip, point.devices, 3600.0).step_price
        price = "-" if hour is None else f"{hour:,.0f}"
        step, rate = f"{result.step_s:.4g}", f"{rate_of(point):,.4g}"
        rows.append((at, step, rate, gib, price, result.outline))
    columns = ("point", *numbers("step s", f"{_unit(report)}/s", "GiB", "price/h"), "plan")
    return Table.of(title, columns, rows)


def _scaling(report: Report) -> Table:
    curves = [curve for curve in report.curves if len(curve.points) > 1]
    rows = [
        (_at(curve.place, report), p.devices, f"{p.rate:,.4g}", f"{p.speedup:.2f}",
         f"{100 * p.efficiency:.1f}")
        for curve in curves[:MOST_CHANGES]
        for p in curve.points
    ]  # fmt: skip
    more = len(curves) - MOST_CHANGES
    after = [f"... and {more} more curves: --json or --csv has all"] if more > 0 else []
    columns = ("at", *numbers("devices", f"{_unit(report)}/s", "speed-up", "efficiency %"))
    return Table.of("Scaling", columns, rows, after=after)


def _changes(report: Report) -> Table:
    rows = [
        (f"{c.axis} {shown(c.before)} and {shown(c.after)}", _at(c.place, report), *c.plans)
        for c in report.changes[:MOST_CHANGES]
    ]
    more = len(report.changes) - MOST_CHANGES
    after = [f"... and {more} more: --json has all"] if more > 0 else []
    return Table.of("Where the plan changes", ("between", "at", "from", "to"), rows, after=after)


def _deadline_lines(found: Deadline, unit: str) -> Iterator[str]:
    wanted = f"{found.tokens:.3g} {unit} in {found.days:g} days"
    if found.point is not None:
        yield f"{wanted}: {found.point.devices} devices ({found.point.place})"
        yield f"  done in {found.takes_days:.1f} days, {found.point.result.outline}"
        return
    yield f"{wanted}: no point does it, the fastest takes {found.takes_days:.1f} days"
    if found.needed_devices is not None:
        yield f"  it would take {found.needed_devices} devices or more"


def _around_lines(found: Around) -> Iterator[str]:
    yield f"Around the best point (step {found.step_s:.4g} s as estimated)"
    for each in found.responses:
        yield (
            f"  1 % more {each.parameter}: step {each.kept:+.3f} %, "
            f"with the best plan for it {each.replanned:+.3f} %"
        )
    yield f"  memory: {100 * found.memory_left:.1f} % of a device is left"
    worst = max(found.worlds, key=lambda world: world.regret)
    factors = ", ".join(f"{name} {factor:.3g}" for name, factor in worst.factors.items())
    yield (
        f"  costs wrong by {100 * found.share:g} %: the plan loses {100 * worst.regret:.2f} % "
        f"at most against the best one there ({factors})"
    )


def _mix_lines(found: Shapes, report: Report) -> Iterator[str]:
    yield (
        f"A mix of {len(found.sizes)} sizes: {found.ideal_s:.4g} s a step if each had its own plan"
    )
    single = found.best[0]
    for each in found.best:
        own = "; ".join(
            f"that of {_at(found.sizes[i], report)} ({found.outlines[i]})" for i in each.plans
        )
        if each.expected_s == float("inf"):
            yield "  no single plan serves all sizes"
            continue
        switch = ""
        if len(each.plans) > 1:
            steps = each.worth_after(single)
            switch = f", {each.switch_s:.3g} s to switch, worth it from {steps:,.0f} steps on"
        plans = f"{len(each.plans)} plans" if len(each.plans) > 1 else "1 plan"
        yield f"  {plans}: {each.expected_s:.4g} s{switch}: {own}"
    for number, size in enumerate(found.sizes):
        lost = [row for row in found.step_s if row[number] == float("inf")]
        if lost:
            yield (
                f"  {len(lost)} of {len(found.sizes)} plans do not serve {_at(size, report)}: "
                "they do not split it, or need more memory"
            )


def _aftermath_lines(found: Aftermath, unit: str) -> Iterator[str]:
    good = found.goodput
    yield "When devices fail"
    yield (
        f"  a failure every {span(good.mtbf_s)}; a checkpoint of {good.checkpoint_s:.3g} s every "
        f"{span(good.interval_s)} (Young: {span(good.young_s)})"
    )
    yield (
        f"  useful: {100 * good.running:.2f} % while all servers are there, which is "
        f"{100 * good.available:.3f} % of the time"
    )
    yield f"  expected {found.useful_rate:,.4g} {unit}/s of {found.rate:,.4g}"
    left = found.fallback
    if left is None:
        yield "  without one server: no plan"
        return
    yield (
        f"  without one server: {left.devices} devices, {left.rate:,.4g} {unit}/s, {left.outline}; "
        f"{left.moved_bytes / GB:,.1f} GB move in {left.move_s:.3g} s, "
        f"{left.lost_bytes / GB:,.1f} GB come from the checkpoint"
    )


def _at(place: Place, report: Report) -> str:
    """A point by what is varied; what all points share stands in the command."""
    varied = {axis.name for axis in report.axes if len(axis.values) > 1}
    return str(Place(tuple(pair for pair in place.values if pair[0] in varied))) or "all"


def _unit(report: Report) -> str:
    return "tokens" if any(p.result.tokens for p in report.points) else "samples"
