"""One plan as text, JSON, HTML and for the page: the same facts in the same order."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from typing import Any

import pytest

from cli.plan_text import plan_parts
from cli.text import page, show
from exporters.html import to_html
from ir.causes import cause_text
from ir.plan import Plan
from ir.plan_estimate import Baseline
from planner.pipeline.pipeline_search import search_pipeline
from planner.requests.plan_json import found
from report.tables import Unit, shown
from service.views.summary import summary_view
from tests.builders import mlp
from tests.plans import tiny_plan
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


def seconds(value: float | None) -> str:
    return shown(value, Unit.SECONDS)


@pytest.mark.parametrize("name", PLANS)
def test_the_step_by_cause_is_the_same_everywhere(name: str) -> None:
    of = plan(name)
    data, view = found(of), summary_view(of)
    rows = [(each["cause"], each["time_s"], each["hidden_s"]) for each in view["time_by_cause"]]
    assert {cause: time_s for cause, time_s, _ in rows if time_s} == {
        cause: time_s for cause, time_s in as_map(data["time_by_cause"]).items() if time_s
    }
    assert {cause: hidden_s for cause, _, hidden_s in rows if hidden_s} == {
        cause: hidden_s for cause, hidden_s in of.estimate.hidden_by_cause.items() if hidden_s
    }
    expected = [
        [cause_text(cause), seconds(time_s), *([seconds(hidden_s)] if hidden_s else [])]
        for cause, time_s, hidden_s in rows
    ]
    for table in (
        text_table(text_of(of), "Time"),
        Tables(to_html(of)).found["Time of one step"][1:],
    ):
        own = [[cell for cell in row if not re.fullmatch(r"[\d.]+|", cell)] for row in table]
        assert [row[: len(want)] for row, want in zip(own, expected, strict=False)] == expected
        assert own[-1][:2] == ["step", seconds(of.estimate.step_time_s)]


@pytest.mark.parametrize("name", PLANS)
def test_memory_by_cause_is_the_same_everywhere(name: str) -> None:
    of = plan(name)
    data, view = found(of), summary_view(of)
    assert data["memory_by_cause"] == view["memory_by_cause"]
    assert data["peak_memory_bytes"] == view["peak_bytes"] == sum(view["memory_by_cause"].values())
    expected = [[cause, format_bytes(n)] for cause, n in view["memory_by_cause"].items()]
    expected.append(["peak", format_bytes(view["peak_bytes"])])
    title = "Peak memory of a device"
    for table in (text_table(text_of(of), title), Tables(to_html(of)).found[title][1:]):
        assert [row[:2] for row in table[: len(expected)]] == expected


@pytest.mark.parametrize("name", PLANS)
def test_the_headline_is_the_same_everywhere(name: str) -> None:
    of = plan(name)
    data, view, text, html = found(of), summary_view(of), text_of(of), to_html(of)
    assert data["step_time_s"] == view["step_s"] == of.estimate.step_time_s
    for key in ("samples_per_s", "tokens_per_s", "tokens_per_s_per_device"):
        assert data[key] == view[key]
    assert data["model_flops_utilisation"] == view["model_flops_utilisation"]
    spelt = [f"{name}={n}" for name, n in as_map(data["degrees"]).items() if n > 1]
    assert set(spelt) <= set(view["degrees"].split(","))
    name, first, *_ = text.split("\n")
    assert name == view["plan_name"]
    assert name in html
    assert format_seconds(view["step_s"]) in first
    assert format_seconds(view["step_s"]) in html
    if view["model_flops_utilisation"]:
        used = f"MFU {100 * view['model_flops_utilisation']:.1f} %"
        assert used in " ".join(text.split())
        assert used in html


@pytest.mark.parametrize("name", PLANS)
def test_schemes_and_the_bound_are_the_same_everywhere(name: str) -> None:
    of = plan(name)
    data, view, text = found(of), summary_view(of), " ".join(text_of(of).split())
    assert data["baselines"] == view["baselines"]
    assert (data["bound_s"], data["gap"]) == (view["bound"]["bound_s"], view["bound"]["gap"])
    page_of = to_html(of)
    expected = [
        [b["name"], seconds(b["step_time_s"]), shown(b["peak_memory_bytes"], Unit.BYTES)]
        for b in view["baselines"]
    ]
    schemes = Tables(page_of).found.get("Compared with", [])[1:]
    assert [[row[0], row[1], row[3]] for row in schemes] == expected
    own = text_table(text_of(of), "Compared with")
    assert [row[:2] for row in own if row[0] in {e[0] for e in expected}] == [
        e[:2] for e in expected
    ]
    quality = re.search(r"No plan of the space[^(]*", text)
    assert quality is not None
    assert quality[0] in " ".join(re.sub("<[^>]*>", " ", page_of).split())
    assert all(note in view["notes"] for note in of.notes)


@pytest.mark.parametrize("name", PLANS)
def test_the_heaviest_operators_are_the_same_everywhere(name: str) -> None:
    of = plan(name)
    groups = summary_view(of)["heaviest"]
    expected = [
        [f"{g['label']} {g['where']}", str(g["count"]), seconds(g["time_s"])] for g in groups
    ]
    own = text_table(text_of(of), "Heaviest operators")
    assert [row[:3] for row in own[: len(expected)]] == expected
    html = Tables(to_html(of)).found["Heaviest operators"][1:]
    assert [row[:3] for row in html[: len(expected)]] == expected
    parts = [[seconds(g["compute_s"]), seconds(g["communication_s"])] for g in groups]
    assert [row[4:6] for row in html[: len(expected)]] == parts


def test_stages_are_the_same_everywhere() -> None:
    of = plan("staged")
    stages = summary_view(of)["pipeline"]["stages"]
    assert list(as_map(found(of)["pipeline"])["stages"]) == list(stages)
    expected = []
    for number, stage in enumerate(stages):
        times = [seconds(stage[key]) for key in ("forward_s", "backward_s", "once_s")]
        held = format_bytes(stage["peak_memory_bytes"])
        counts = str(number), str(stage["end"] - stage["start"])
        expected.append([*counts, *times, held, str(stage["in_flight"])])
    assert Tables(to_html(of)).found["Pipeline"][1:] == expected
    lines = [line.split("  ") for line in text_of(of).split("\n")]
    own = [[cell.strip() for cell in line if cell.strip()] for line in lines]
    assert all(row in own for row in expected)


def as_map(value: object) -> dict[str, Any]:
    assert isinstance(value, dict)
    return value
