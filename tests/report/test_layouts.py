"""One answer of ranked layouts as text, JSON and HTML: the same facts in the same order."""

from __future__ import annotations

import io
import json
import re
from functools import cache

import pytest

from cli.text import page, show
from exporters.html_text import table
from importers.sizes import configuration
from planner.requests.options.simulations import RankingOptions
from planner.requests.plan_json import dumps
from planner.whatif.layout_ranking import ranked
from report.layouts import GIB, LayoutsReport
from tests.report.test_four_ways import Tables, text_table

pytestmark = pytest.mark.fast

MODEL = "llama2-7b"


@cache
def told(devices: int) -> LayoutsReport:
    asked = RankingOptions(devices=devices, batch=64, cluster="h100", top=4)
    return ranked(asked, configuration(MODEL), MODEL).report()


def test_layouts_are_the_same_everywhere() -> None:
    found = told(8)
    record = json.loads(dumps(found.record(["all.csv"])))
    stream = io.StringIO()
    with page(stream) as out:
        show(found.parts(), out)
    text = stream.getvalue()
    html = Tables(f"<h2>Layouts</h2>{table(found.table())}").found["Layouts"][1:]
    assert text_table(text, "Fastest layouts")[: len(html)] == html
    assert len(html) == len(record["best"]) == 4
    for row, own in zip(html, record["best"], strict=True):
        step, interval, upper, rate, each, used, gib, layout = row
        assert float(step) == pytest.approx(own["step_s"], rel=1e-3)
        low_s, high_s = map(float, interval.split(" to "))
        assert (low_s, high_s) == pytest.approx((own["low_s"], own["high_s"]), rel=1e-3)
        assert float(upper.rstrip("*")) == pytest.approx(own["upper_s"], rel=1e-3)
        assert upper.endswith("*") == bool(own["unmeasured"])
        assert float(rate.replace(",", "")) == pytest.approx(own["tokens_per_s"], rel=1e-3)
        assert float(each.replace(",", "")) == pytest.approx(
            own["tokens_per_s_per_device"], rel=1e-3
        )
        assert float(used.removesuffix(" %")) / 100 == pytest.approx(
            own["model_flops_utilisation"], abs=1e-3
        )
        assert float(gib) == pytest.approx(own["memory_bytes"] / GIB, abs=0.06)
        assert own["layout"].startswith(layout)
    counts = re.match(r"(\S+): ([\d,]+) layouts on ([\d,]+) x (\S+), ([\d,]+) fit", text)
    assert counts is not None
    assert counts.groups() == (
        record["model"], f"{record['layouts']:,}", f"{record['devices']:,}", record["machine"],
        f"{record['fitting']:,}",
    )  # fmt: skip
    assert record["files"] == ["all.csv"]
