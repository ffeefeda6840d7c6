"""A sweep as it is told: the values that JSON has of it, in sentences and tables.

What a service searches reads like what is searched here: both are the same values.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from report.tables import Lines, Part, Table, numbers

MOST_ROWS = 40
"""Points of which each has a row; of more, the front stands for all."""
MOST_CHANGES = 12
GB = 1e9
Values: TypeAlias = Mapping[str, Any]


def parts(found: Values, peak: str = "") -> Iterator[Part]:
    """What a person wants to know of a sweep.

    Args:
        found: as JSON has it.
        peak: of one device of the best point, such as `989 TFLOP/s bf16`.
    """
    told = _Told(found)
    fine = sum(point["status"] == "ok" for point in told.points)
    first = (
        f"{found['model']}: {len(told.points)} points, {found['searches']} searches "
        f"({found['known']} cached), {fine} with a plan"
    )
    if found["best"] is None:
        reasons = dict.fromkeys(point["message"] or "" for point in told.points)
        lines = [f"  {reason}" for reason in list(reasons)[:MOST_CHANGES]]
        yield Lines("", (first, "no point has a plan:", *lines))
        return
    yield Lines("", (first, *told.best(peak)))
    if len(told.points) <= MOST_ROWS:
        yield told.table("Points", told.points)
    yield told.scaling()
    front = [told.points[number] for number in found["pareto"][:MOST_ROWS]]
    title = "Pareto front of time, devices, memory and price"
    yield told.table(title, front)
    yield told.changes()
    for name, lines_of in (
        ("deadline", told.deadline), ("around", told.around), ("mix", told.mix),
        ("failures", told.failures),
    ):  # fmt: skip
        if name in found:
            yield Lines("", ("", *lines_of(found[name])))


def span(seconds: float) -> str:
    """A time as people say it.

    >>> span(59.2), span(600), span(9000)
    ('1 min', '10 min', '2.5 h')
    """
    if seconds < 45:
        return f"{max(1, round(seconds))} s"
    if seconds < 5400:
        return f"{max(1, round(seconds / 60))} min"
    return f"{seconds / 3600:.1f} h"


def _between(point: Values) -> str:
    """The interval of a step; `-` where no published run is like it."""
    if not point.get("upper_s"):
        return "-"
    return f"{point['low_s']:.4g} to {point['high_s']:.4g}"


def _written(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


class _Told:
    """The values of a sweep with what all of them share: axes, and the unit of work."""

    def __init__(self, found: Values) -> None:
        self._found, self.points = found, found["points"]
        self._varied = [name for name, values in found["axes"].items() if len(values) > 1]
        has_tokens = any(point.get("tokens_per_s") for point in self.points)
        self._unit = "tokens" if has_tokens else "samples"
        self._has_upper = any(point.get("upper_s") for point in self.points)

    def _place(self, values: Values, names: Container[str]) -> str:
        return ", ".join(f"{k} {_written(v)}" for k, v in values.items() if k in names)

    def _at(self, values: Values) -> str:
        """A point by what is varied; what all points share stands in the command."""
        return self._place(values, self._varied) or "all"

    def _rate(self, point: Values) -> str:
        return f"{point[f'{self._unit}_per_s']:,.4g}"

    def best(self, peak: str) -> Iterator[str]:
        """The point that gets most done in a second."""
        point = self.points[self._found["best"]]
        of, used = f" of {peak}" if peak else "", point["utilisation"]
        mfu = f", MFU {100 * used:.1f} %{of}" if used else ""
        by = " (75th percentile)" if self._found.get("rank") == "robust" and self._has_upper else ""
        yield f"highest throughput{by}: {self._place(point, list(self._found['axes']))}"
        rate = f"{self._rate(point)} {self._unit}/s"
        yield f"  {rate}{mfu}, step {point['step_s']:.4g} s, {point['plan']}"
        if point.get("upper_s"):
            yield (
                f"  90 % of comparable published runs: {_between(point)} s; 75th percentile "
                f"{point['upper_s']:.4g} s"
            )

    def _evidence(self, point: Values) -> tuple[str, ...]:
        """Cells of what published runs say; none where no point has any."""
        if not self._has_upper:
            return ()
        upper = point.get("upper_s")
        return _between(point), f"{upper:.4g}" if upper else "-"

    def table(self, title: str, points: Sequence[Values]) -> Table:
        rows: list[tuple[str, ...]] = []
        currency = next((p["currency"] for p in self.points if p.get("currency")), "price")
        priced = any(point["price_per_step"] is not None for point in self.points)
        for point in points:
            gib = "-" if point["peak_gib"] is None else f"{point['peak_gib']:.1f}"
            if point["status"] != "ok":
                why = f"{point['status']}: {point['message'] or ''}"
                none = ("-",) * len(self._evidence(point))
                unpriced = ("-",) * priced
                rows.append((self._at(point), "-", *none, "-", gib, *unpriced, why))
                continue
            price, step_s = point["price_per_step"], point["step_s"]
            hour = ("-" if price is None else f"{price * 3600 / step_s:,.0f}",) * priced
            step = (f"{step_s:.4g}", *self._evidence(point))
            rows.append((self._at(point), *step, self._rate(point), gib, *hour, point["plan"]))
        evidence = ("90 % interval", "upper") if self._has_upper else ()
        names = ("step s", *evidence, f"{self._unit}/s", "GiB")
        names += (f"{currency}/h",) * priced
        columns = ("point", *numbers(*names), "plan")
        return Table.of(title, columns, rows)

    def scaling(self) -> Table:
        """Work per second over devices."""
        curves = [curve for curve in self._found["scaling"] if len(curve["points"]) > 1]
        rows = [
            (self._at(curve["at"]), p["devices"], f"{p['rate']:,.4g}", f"{p['speedup']:.2f}",
             f"{100 * p['efficiency']:.1f}")
            for curve in curves[:MOST_CHANGES]
            for p in curve["points"]
        ]  # fmt: skip
        more = len(curves) - MOST_CHANGES
        after = [f"... and {more} more curves: --json or --csv has all"] if more > 0 else []
        columns = ("at", *numbers("devices", f"{self._unit}/s", "speed-up", "efficiency %"))
        return Table.of("Scaling", columns, rows, after=after)

    def changes(self) -> Table:
        """Neighbours with different plans."""
        found = self._found["changes"]
        rows = [
            (f"{c['axis']} {_written(c['before'])} and {_written(c['after'])}",
             self._at(c["place"]), *c["plans"])
            for c in found[:MOST_CHANGES]
        ]  # fmt: skip
        more = len(found) - MOST_CHANGES
        after = [f"... and {more} more: --json has all"] if more > 0 else []
        columns = ("between", "at", "from", "to")
        return Table.of("Where the plan changes", columns, rows, after=after)

    def deadline(self, found: Values) -> Iterator[str]:
        """What finishes in time."""
        wanted = f"{found['tokens']:.3g} {self._unit} in {found['days']:g} days"
        if found["point"] is None:
            days = found["takes_days"]
            yield f"{wanted}: no point does it, the fastest takes {days:.1f} days"
            if found["needed_devices"] is not None:
                yield f"  it would take {found['needed_devices']} devices or more"
            return
        point = self.points[found["point"]]
        place = self._place(point, self._found["axes"])
        yield f"{wanted}: {point['devices']} devices ({place})"
        yield f"  done in {found['takes_days']:.1f} days, {point['plan']}"

    def around(self, found: Values) -> Iterator[str]:
        """How the step answers to the machine, and what wrong costs would cost."""
        yield f"Sensitivity at the best point (estimated step {found['step_s']:.4g} s)"
        for each in found["responses"]:
            yield (
                f"  1 % more {each['parameter']}: step {each['kept']:+.3f} %, "
                f"with the best plan for it {each['replanned']:+.3f} %"
            )
        yield f"  memory: {100 * found['memory_left']:.1f} % of a device is left"
        worst = max(found["worlds"], key=lambda world: float(world["regret"]))
        factors = ", ".join(f"{name} {factor:.3g}" for name, factor in worst["factors"].items())
        lost = f"{100 * worst['regret']:.2f} %"
        yield (
            f"  costs wrong by {100 * found['share']:g} %: the plan loses {lost} "
            f"at most against the best one there ({factors})"
        )

    def mix(self, found: Values) -> Iterator[str]:
        """Plans for a mix of sizes."""
        sizes, outlines = found["sizes"], found["plans"]
        ideal = f"{found['ideal_s']:.4g} s a step if each had its own plan"
        yield f"A mix of {len(sizes)} sizes: {ideal}"
        for each in found["best"]:
            own = "; ".join(f"that of {self._at(sizes[i])} ({outlines[i]})" for i in each["plans"])
            if each["expected_s"] is None:
                yield "  no single plan serves all sizes"
                continue
            switch, count = "", len(each["plans"])
            if count > 1:
                steps = each["worth_after_steps"]
                worth = "inf" if steps is None else f"{steps:,.0f}"
                switch = f", {each['switch_s']:.3g} s to switch, worth it from {worth} steps on"
            plans = f"{count} plans" if count > 1 else "1 plan"
            yield f"  {plans}: {each['expected_s']:.4g} s{switch}: {own}"
        for number, size in enumerate(sizes):
            lost = sum(row[number] is None for row in found["step_s"])
            if lost:
                yield (
                    f"  {lost} of {len(sizes)} plans do not serve {self._at(size)}: "
                    "they do not split it, or need more memory"
                )

    def failures(self, found: Values) -> Iterator[str]:
        """What is left of the work when devices fail."""
        every, interval, young = (span(found[f"{k}_s"]) for k in ("mtbf", "interval", "young"))
        yield "When devices fail"
        yield (
            f"  a failure every {every}; a checkpoint of {found['checkpoint_s']:.3g} s every "
            f"{interval} (Young: {young})"
        )
        yield (
            f"  useful: {100 * found['running']:.2f} % while all servers are there, which is "
            f"{100 * found['available']:.3f} % of the time"
        )
        yield f"  expected {found['useful_rate']:,.4g} {self._unit}/s of {found['rate']:,.4g}"
        left = found["fallback"]
        if left is None:
            yield "  without one server: no plan"
            return
        moved, lost = (f"{left[key] / GB:,.1f} GB" for key in ("moved_bytes", "lost_bytes"))
        yield (
            f"  without one server: {left['devices']} devices, {left['rate']:,.4g} {self._unit}/s, "
            f"{left['outline']}; {moved} move in {left['move_s']:.3g} s, "
            f"{lost} come from the checkpoint"
        )
