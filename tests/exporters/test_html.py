"""The report: one page that loads nothing and shows names as text."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters.html import to_html
from exporters.html_text import escaped
from ir.plan import Plan
from ir.plan_estimate import Baseline
from tests.plans import tiny_plan

_EMPTY = {"meta"}
_TAGS = {
    "html", "head", "meta", "title", "style", "body", "header", "h1", "h2", "p", "div", "b",
    "span", "section", "table", "thead", "tbody", "tr", "th", "td", "svg", "rect", "line", "text",
    "i", "code", "details", "summary",
}  # fmt: skip


class Page(HTMLParser):
    """Reads a page, and fails where tags do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)
        if tag not in _EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_the_page_tells_what_the_summary_tells(plan: Plan) -> None:
    words = " ".join(Page(to_html(plan)).words)
    for text in (
        "tiny", "3 s", "step time, uncalibrated", "2.67 samples/s", "3 GiB", "limit 4 GiB",
        "all-gather over links between servers", "compute forward", "activations", "layers.*.proj",
        "Recomputed in the backward pass", "a note", "No plan of the space below takes less",
        "1024x1024", "Collectives by tier",
    ):  # fmt: skip
        assert text in words, text


def test_the_page_loads_nothing(plan: Plan) -> None:
    text = to_html(plan)
    page = Page(text)
    assert page.tags <= _TAGS
    assert not page.attributes & {"src", "href", "srcset", "action", "onload", "onclick"}
    assert "url(" not in text
    assert "@import" not in text
    assert re.findall(r"https?:", text) == []
    assert "default-src 'none'" in text


def test_bars_fill_their_plot(plan: Plan) -> None:
    text = to_html(plan)
    bar = text[text.index("Time of one step") :]
    bar = bar[bar.index("<svg") : bar.index("</svg>")]
    widths = [float(w) for w in re.findall(r'width="([\d.]+)"', bar)]
    assert sum(widths) == pytest.approx(1000, abs=len(widths) + 1)


def test_equal_plans_give_equal_pages(plan: Plan) -> None:
    assert to_html(plan) == to_html(tiny_plan())


def test_known_schemes_stand_beside_the_plan(plan: Plan) -> None:
    beside = (
        Baseline("by hand", True, 6.0, 2.0**30),
        Baseline("too large", False, 9.0, 2.0**40, "needs more memory"),
        Baseline("impossible", False, None, None, "does not divide"),
    )
    words = " ".join(Page(to_html(replace(plan, baselines=beside))).words)
    for text in ("2.00 x faster", "needs more memory", "does not divide", "this plan"):
        assert text in words
    assert "Compared with" not in to_html(replace(plan, baselines=()))


@given(st.text(min_size=1, max_size=40))
def test_hostile_names_stay_text(name: str) -> None:
    name = f"</td></svg><script>alert(1)</script>{name}\"'><img src=x>"
    plan = tiny_plan()
    tensor = replace(plan.tensors[0], name=name)
    op = replace(plan.operators[0], name=name, label=name, scope=name)
    text = to_html(
        replace(
            plan,
            graph=replace(plan.graph, name=name),
            tensors=(tensor, *plan.tensors[1:]),
            operators=(op, *plan.operators[1:]),
            notes=(name,),
            cluster={**plan.cluster, "name": name},
        )
    )
    text.encode("utf-8")
    assert Page(text).tags <= _TAGS


def test_what_cannot_be_seen_is_shown() -> None:
    assert escaped("a\u202eb\x00\ud800\n<") == "a\\u202eb\\x00\\ud800\\n&lt;"
