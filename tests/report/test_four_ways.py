"""One plan as text, JSON, HTML and for the page: the same facts in the same order."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from html import escape, unescape
from html.parser import HTMLParser
from typing import Any

import pytest

from cli.plan_text import plan_parts
from cli.text import page, show
from exporters.html import to_html
from ir.causes import cause_text
from ir.json_text import finite
from ir.plan import Plan
from ir.plan_estimate import Baseline
from planner.pipeline.pipeline_search import search_pipeline
from planner.repricing.other_circumstances import Factors
from planner.requests.plan_json import found
from service.views.cluster import cluster_view, mesh_view
from service.views.comparison import comparison_view
from service.views.memory import memory_view
from service.views.operator import operator_view
from service.views.summary import summary_view
from service.views.table import table_view
from service.views.timeline import timeline_view
from service.views.whatif import whatif_view
from service.views.why import explanation_view, glance_view, why_view
from tests.builders import mlp
from tests.plans import tiny_plan
from tests.service_views.chinese import untold
from tests.service_views.plans_of import FAST, plan_of
from topology.catalogue import named_cluster
from topology.units import format_bytes, format_seconds

pytestmark = pytest.mark.fast

Rows = list[list[str]]
PLANS = ("hidden", "searched", "staged")
SCHEMES = (
    Baseline("by hand", True, 6.0, 2.0**30),
    Baseline("too large", False, 9.0, 2.0**40, "needs more memory"),
    Baseline("impossible", False, None, None, "does not divide"),
)


@cache
def plan(name: str) -> Plan:
    if name == "searched":
        return plan_of("attention")
    if name == "staged":
        request = replace(FAST, global_batch=256, pipeline="2", micro_batch="64")
        return search_pipeline(mlp(4), named_cluster("atlas-800t-a2", 8), request)
    tiny = tiny_plan()
    first, second, *rest = tiny.collectives
    estimate = replace(
        tiny.estimate,
        hidden_by_cause={"all_reduce in card": 0.25, "reduce_scatter in server": 0.125},
    )
    collectives = (replace(first, hidden_s=0.25, time_s=0.75), second, *rest)
    return replace(tiny, estimate=estimate, collectives=collectives, baselines=SCHEMES)


def text_of(of: Plan) -> str:
    stream = io.StringIO()
    with page(stream) as out:
        show(plan_parts(of, []), out)
    return stream.getvalue()


def text_table(text: str, title: str) -> Rows:
    """The cells of a table of the summary, without lines that go on with the row above."""
    table = text.partition(f"\n{title}")[2].partition("\n")[2].partition("\n\n")[0]
    rows = [line for line in table.split("\n")[1:] if not line.startswith(" " * 20)]
    return [re.split(r" {2,}", line.strip()) for line in rows]


class Tables(HTMLParser):
    """The cells of every table of a page, by the heading above it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: dict[str, Rows] = {}
        self._into: str | None = None
        self._title = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "h2":
            self._title, self._into = "", "title"
        elif tag == "tr":
            self.found.setdefault(self._title, []).append([])
        elif tag in {"td", "th"}:
            self.found[self._title][-1].append("")
            self._into = "cell"

    def handle_endtag(self, tag: str) -> None:
        if tag in {"h2", "td", "th"}:
            self._into = None

    def handle_data(self, data: str) -> None:
        if self._into == "title":
            self._title += data
        elif self._into == "cell":
            self.found[self._title][-1][-1] += data


def of_page(of: Plan, name: str) -> Rows:
    """The cells of a table of the page."""
    rows: Rows = summary_view(of)["report"][name]["rows"]
    return rows


def whole(row: list[str]) -> list[str]:
    """Without the cells that a terminal leaves empty."""
    return [cell for cell in row if cell]


@pytest.mark.parametrize("name", PLANS)
def test_the_step_by_cause_is_the_same_everywhere(name: str) -> None:
    of = plan(name)
    causes, hidden = as_map(found(of)["time_by_cause"]), of.estimate.hidden_by_cause
    html, shown_rows = Tables(to_html(of)).found["Time of one step"][1:], of_page(of, "time")
    keys = {cause_text(cause): cause for cause in {**causes, **hidden}}
    for label, exposed, _, *rest in shown_rows[:-1]:
        cause = keys.pop(label)
        assert exposed == format_seconds(causes.get(cause, 0.0))
        if hidden:
            assert rest[0] == (format_seconds(hidden[cause]) if hidden.get(cause) else "")
    assert not keys
    assert shown_rows[-1][:2] == ["step", format_seconds(of.estimate.step_time_s)]
    assert html == shown_rows
    text = text_table(text_of(of), "Time")
    assert [row[:2] for row in text] == [row[:2] for row in shown_rows]


@pytest.mark.parametrize("name", PLANS)
def test_memory_by_cause_is_the_same_everywhere(name: str) -> None:
    of, title = plan(name), "Peak memory of a device"
    data, shown_rows = found(of), of_page(plan(name), "memory")
    causes = as_map(data["memory_by_cause"])
    assert data["peak_memory_bytes"] == sum(causes.values())
    expected = [[cause, format_bytes(n)] for cause, n in causes.items()]
    expected.append(["peak", format_bytes(of.estimate.peak_memory_bytes)])
    assert [row[:2] for row in shown_rows[: len(expected)]] == expected
    assert Tables(to_html(of)).found[title][1:] == shown_rows
    assert text_table(text_of(of), title) == list(map(whole, shown_rows))


@pytest.mark.parametrize("name", PLANS)
def test_the_headline_is_the_same_everywhere(name: str) -> None:
    of = plan(name)
    data, view, text, html = found(of), summary_view(of), text_of(of), to_html(of)
    assert {key: view[key] for key in data} == finite(data)
    first, second, *_ = text.split("\n")
    assert first == view["plan_name"]
    assert first in html
    assert format_seconds(of.estimate.step_time_s) in second
    assert format_seconds(of.estimate.step_time_s) in html
    if view["model_flops_utilisation"]:
        used = f"MFU {100 * view['model_flops_utilisation']:.1f} %"
        assert used in " ".join(text.split())
        assert used in html
    assert all(figure["text"] in html and figure["label"] in html for figure in view["figures"])
    assert escape(", ".join(view["about"])) in html


@pytest.mark.parametrize("name", PLANS)
def test_schemes_and_the_bound_are_the_same_everywhere(name: str) -> None:
    of = plan(name)
    report, text = summary_view(of)["report"], " ".join(text_of(of).split())
    html = to_html(of)
    rows = report["schemes"]["rows"]
    assert Tables(html).found.get("Compared with", [[]])[1:] == rows
    assert [row[0] for row in rows] == [scheme.name for scheme in of.baselines]
    own = text_table(text_of(of), "Compared with")
    names = {row[0] for row in rows}
    assert [row[:2] for row in own if row[0] in names] == [row[:2] for row in rows]
    bare = " ".join(re.sub("<[^>]*>", " ", html).split())
    for line in (*report["quality"]["lines"], *report["notes"]["lines"]):
        assert line in text
        assert line in unescape(bare)


@pytest.mark.parametrize("name", PLANS)
def test_the_heaviest_operators_are_the_same_everywhere(name: str) -> None:
    of = plan(name)
    rows = of_page(of, "operators")
    own = text_table(text_of(of), "Heaviest operators")
    assert [row[:3] for row in own[: len(rows)]] == [row[:3] for row in rows]
    html = Tables(to_html(of)).found["Heaviest operators"][1:]
    assert [row[:6] for row in html[: len(rows)]] == [row[:6] for row in rows]


def test_stages_are_the_same_everywhere() -> None:
    of = plan("staged")
    rows, stages = of_page(of, "stages"), of.pipeline.stages
    assert [row[2] for row in rows] == [format_seconds(stage.forward_s) for stage in stages]
    assert Tables(to_html(of)).found["Pipeline"][1:] == rows
    lines = [line.split("  ") for line in text_of(of).split("\n")]
    own = [[cell.strip() for cell in line if cell.strip()] for line in lines]
    assert all(row in own for row in rows)


def reports(of: Plan) -> Iterator[dict[str, Any]]:
    """Every part of the report that the page shows of a plan."""
    name, other = of.operators[0].name, plan_of("attention", 8)
    yield from summary_view(of)["report"].values()
    for table in table_view(of).values():
        columns = [(heading, unit) for heading, unit, _ in table["columns"]]
        yield {"title": table["title"], "columns": columns, "rows": []}
    memory = memory_view(of)
    yield from (*memory["report"].values(), memory["holders"])
    yield from (cluster_view(of)["report"], mesh_view(of)["report"])
    yield whatif_view(of, Factors(batch=2 * of.batch))["report"]
    for view in (
        timeline_view(of), operator_view(of, name), glance_view(of, name), why_view(of, name),
        explanation_view(of), comparison_view(of, other), comparison_view(of, of),
    ):  # fmt: skip
        yield from view["report"]


@pytest.mark.parametrize("name", ["searched", "staged"])
def test_the_page_has_chinese_of_every_word_of_the_report(name: str) -> None:
    found = list(reports(plan(name)))
    titles = {part["title"] for part in found}
    assert titles > {"Time", "Quality", "Memory at the peak", "Communication groups", "Operands"}
    view = summary_view(plan(name))
    phrases = [each for each in view["about"][1:] if " " in each]
    found.append({"title": "", "lines": [*phrases, *headlines(view)]})
    assert not [text for part in found for text in untold(part)]


def headlines(view: dict[str, Any]) -> Iterator[str]:
    for figure in view["figures"]:
        yield from (figure["text"], figure["label"])


def as_map(value: object) -> dict[str, Any]:
    assert isinstance(value, dict)
    return value
