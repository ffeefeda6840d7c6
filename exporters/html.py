"""A plan as one page for a browser: the summary, plots and tables. It loads nothing."""

from __future__ import annotations

from collections.abc import Sequence

from exporters.html_plots import Bar, bars, stacked
from exporters.html_text import Markup, escaped, lines, page, paragraph, section, table
from ir.folding import Axes
from ir.plan import NamedLayout, Plan
from ir.plan_stages import tier_names
from report.operators import OperatorGroup, ParameterGroup
from report.plan import PlanReport
from report.plan_tables import (
    baseline_table,
    memory_table,
    operator_table,
    parameter_table,
    quality,
    recomputed_lines,
    stage_table,
    time_table,
    traffic_table,
)
from report.tables import Lines
from topology.units import format_bytes, format_seconds

__all__ = ["to_html"]

_HEAVIEST = 20
_MOST_ROWS = 2000
"""Groups on one page; what is left out is counted."""


def to_html(plan: Plan) -> str:
    """The page."""
    return _Page(plan).markup()


class _Page:
    """The parts of the page, each a plot and the table that a terminal shows too."""

    def __init__(self, plan: Plan) -> None:
        self._plan, self._report = plan, PlanReport(plan)
        self._axes, self._tiers = Axes.of(plan), tier_names(plan)

    def markup(self) -> str:
        report, single = self._report, self._report.plan.pipeline.is_single
        traffic, recomputed = traffic_table(report), recomputed_lines(report, _MOST_ROWS)
        schemes = baseline_table(report.plan.baselines, report.step_s)
        body = "".join(
            (
                self._header(),
                section("Time of one step", *self._time()),
                "" if single else section("Pipeline", *self._stages()),
                section("Peak memory of a device", *self._memory()),
                section(schemes.title, self._schemes(), table(schemes)),
                section(traffic.title, self._traffic(), table(traffic)),
                section("Heaviest operators", self._heaviest(), *self._operators()),
                section("Largest parameters", self._parameters()),
                section(recomputed.title, lines(recomputed)),
                section("Quality", lines(quality(report))),
                section("Notes", lines(Lines("Notes", report.notes))),
            )
        )
        return page(f"{self._plan.graph.name}: plan for {self._plan.devices} devices", body)

    def _header(self) -> Markup:
        report = self._report
        drawn = "".join(
            f'<div class="tile"><b>{escaped(each.text)}</b><span>{escaped(each.label)}</span></div>'
            for each in report.figures
        )
        told = escaped(", ".join(report.about))
        return (
            f"<header><h1>{escaped(self._plan.graph.name)}</h1>\n"
            f'<p class="faint">{told}</p>\n<div class="tiles">{drawn}</div></header>\n'
        )

    def _time(self) -> tuple[Markup, Markup]:
        parts = [Bar(c.label, c.exposed_s) for c in self._report.time]
        shown = table(time_table(self._report), keys=len(parts))
        return stacked(parts, format_seconds), shown

    def _stages(self) -> tuple[Markup, Markup]:
        made = stage_table(self._report)
        return paragraph(f"{made.title}."), table(made)

    def _memory(self) -> tuple[Markup, Markup]:
        estimate = self._report.estimate
        parts = [Bar(cause, nbytes) for cause, nbytes in estimate.memory_by_cause.items()]
        drawn = stacked(parts, format_bytes, limit=estimate.memory_limit_bytes)
        return drawn, table(memory_table(self._report), keys=len(parts))

    def _schemes(self) -> Markup:
        timed = [b for b in self._report.plan.baselines if b.step_time_s is not None]
        own = [Bar("this plan", self._report.step_s)] if timed else []
        others = [Bar(b.name, b.step_time_s or 0.0, 2 if b.fits else 9) for b in timed]
        return bars([*own, *others], format_seconds)

    def _traffic(self) -> Markup:
        colours = {name: i + 2 for i, name in enumerate(self._tiers)}
        return bars(
            [
                Bar(f"{t.tier}: {t.kind.replace('_', '-')}", t.exposed_s, colours.get(t.tier, 0))
                for t in self._report.traffic
            ],
            format_seconds,
        )

    def _heaviest(self) -> Markup:
        heaviest = self._report.operators[:_HEAVIEST]
        own = [Bar(f"{g.label} {g.where}", g.time_s) for g in heaviest if g.time_s > 0]
        return bars(own, format_seconds)

    def _operators(self) -> tuple[Markup, ...]:
        groups = self._report.operators
        shown, more = groups[:_HEAVIEST], groups[_HEAVIEST:_MOST_ROWS]
        found = self._of_operators(shown) + self._key()
        if not more:
            return (found,)
        told = f"<summary>{len(groups) - _HEAVIEST} more groups</summary>"
        return found, f"<details>{told}{self._of_operators(more)}</details>"

    def _of_operators(self, groups: Sequence[OperatorGroup]) -> Markup:
        made = operator_table(self._report, groups, in_full=True)
        drawn = [
            f"{self._layouts(g.example.inputs)}<div class='faint'>&rarr;</div>"
            f"{self._layouts(g.example.outputs)}"
            for g in groups
        ]
        return table(made, last=drawn)

    def _parameters(self) -> Markup:
        groups = self._report.parameters[:_MOST_ROWS]
        return table(parameter_table(self._report, groups), last=list(map(self._of_rest, groups)))

    def _of_rest(self, group: ParameterGroup) -> Markup:
        rest, used = group.example.layout, group.example.used
        both = [rest, *([used] if used not in {None, rest} else [])]
        return self._layouts(both) + ("" if used is not None else "<div>not read</div>")

    def _layouts(self, layouts: Sequence[NamedLayout | None]) -> Markup:
        """A box for each dimension, coloured by the outermost tier that splits it."""
        drawn = "".join(self._layout(x) for x in layouts if x is not None and x.dims)
        return f"<div class='layouts'>{drawn or 'a scalar'}</div>"

    def _layout(self, layout: NamedLayout) -> Markup:
        tiers = {name: tier for name, _, tier in self._axes.mesh}
        boxes = []
        for dim in layout.dims:
            text = self._axes.short(dim)
            colour = f' class="split c{(tiers[dim[0]] + 2) % 10}"' if text != "-" else ""
            boxes.append(f"<i{colour}>{escaped(text)}</i>")
        if layout.partial:
            boxes.append(f'<i class="split c4">+{escaped(self._axes.short(layout.partial))}</i>')
        return f"<span class='layout'>{''.join(boxes)}</span>"

    def _key(self) -> Markup:
        tiers = "".join(
            f'<span class="key c{(i + 2) % 10}"></span>{escaped(name)} &nbsp; '
            for i, name in enumerate(self._tiers)
        )
        return (
            f"<p class='faint'>One box for each dimension; split over {tiers}"
            '<span class="key c4"></span>terms of a sum. A tier stands for all its axes, '
            "<code>all</code> for every axis, <code>-</code> is a dimension that is not split.</p>"
        )
