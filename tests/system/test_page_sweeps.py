"""Sweeps, the first plan and a range of the timeline on the page, in a real browser."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, expect

from tests.system.servers import Server
from tests.system.test_page import CHROMIUM, LONG_MS, browser, opened, serious_faults, server

__all__ = ["browser", "server"]
pytestmark = pytest.mark.skipif(not Path(CHROMIUM).exists(), reason="no chromium")

PRICES = "currency: CNY\ndevices:\n  ascend_910b3:\n    hour: {value: 12.5}\n"


def test_a_sample_plan_is_there_at_once(browser: Browser, server: Server) -> None:
    seen = opened(browser, server)
    page = seen.page
    page.goto("/#/plans")
    page.get_by_role("button", name="Look at a sample plan").click()
    expect(page.get_by_role("heading", name="gpt2")).to_be_visible()
    expect(page.get_by_role("heading", name="Heaviest operators: ")).to_be_visible()
    assert httpx.get(f"{server.url}/v1/jobs", timeout=60).json() == []
    plan = page.url.rpartition("/plans/")[2].partition("/")[0]
    assert not seen.faults
    page.context.close()
    assert httpx.delete(f"{server.url}/v1/plans/{plan}", timeout=60).status_code == 204


def test_the_first_plan_is_one_click_away_and_its_timeline_tells_a_range(
    browser: Browser, server: Server
) -> None:
    seen = opened(browser, server)
    page = seen.page
    page.goto("/#/plans")
    page.get_by_role("button", name="Try GPT-2 on 8 cards").click()
    expect(page.get_by_role("heading", name="Heaviest operators: ")).to_be_visible(timeout=LONG_MS)
    plan = page.url.rpartition("/plans/")[2].partition("/")[0]
    line = httpx.get(f"{server.url}/v1/plans/{plan}/views/timeline", timeout=60).json()
    page.goto(f"/#/plans/{plan}/timeline")
    chart = page.get_by_role("img", name="Streams of a device").locator("canvas").first
    chart.wait_for()
    page.get_by_role("button", name="Select a range").click()
    box = chart.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 300, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 500, box["y"] + 80, steps=8)
    page.mouse.up()
    panel = page.get_by_role("heading", name=re.compile("The selected range"))
    expect(panel).to_be_visible()
    assert not serious_faults(page)
    page.goto(f"/#/plans/{plan}/timeline?from=0&to={line['step_time_s']}")
    expect(panel).to_contain_text("0 s –")
    table = page.locator("section").filter(has=panel).get_by_role("table")
    shares = [
        float(text.removesuffix(" %"))
        for text in table.locator("td:nth-child(4)").all_inner_texts()
    ]
    own = sum(
        end - start
        for start, end in zip(line["bars"]["start_s"], line["bars"]["end_s"], strict=True)
    )
    assert sum(shares) == pytest.approx(100 * own / line["step_time_s"], abs=0.06 * len(shares))
    assert not seen.faults


def test_a_sweep_is_asked_drawn_priced_kept_and_shared(browser: Browser, server: Server) -> None:
    seen = opened(browser, server)
    page = seen.page
    page.goto("/#/sweep")
    page.get_by_role("combobox", name="or a model that is there already").select_option("gpt2")
    page.get_by_role("textbox", name=re.compile("^devices")).fill("4, 8")
    page.get_by_role("textbox", name=re.compile("^batch")).fill("32:64:2")
    page.get_by_role("textbox", name=re.compile("^bandwidth")).fill("0.5, 1")
    expect(page.get_by_text("searches at most: 8")).to_be_visible()
    page.get_by_text("Money, energy and a deadline").click()
    page.get_by_role("textbox", name=re.compile("^prices")).fill(PRICES)
    page.get_by_role("textbox", name=re.compile("^tokens of the run")).fill("1e10")
    page.get_by_role("spinbutton", name=re.compile("^days")).fill("3")
    assert not serious_faults(page)
    page.get_by_role("button", name="Begin").click()
    expect(page.get_by_role("heading", name="Pareto front")).to_be_visible(timeout=LONG_MS)
    job = page.url.rpartition("/")[2].partition("?")[0]
    found = httpx.get(f"{server.url}/v1/jobs/{job}", timeout=60).json()["result"]
    rows = page.get_by_role("region", name="Points").get_by_role("row")
    assert rows.count() == 1 + len(found["points"]) == 9
    cheapest = page.get_by_text("cheapest: price of a million tokens").locator("..")
    expect(cheapest).to_contain_text("CNY")
    expect(page.get_by_text("done in")).to_be_visible()
    page.get_by_role("group", name="over").get_by_role("button", name="bandwidth").click()
    page.get_by_role("combobox", name="up", exact=True).select_option("energy")
    with page.expect_download() as kept:
        page.get_by_role("button", name="Save the table (CSV)").click()
    table = list(csv.DictReader(io.StringIO(Path(kept.value.path()).read_text())))
    assert [float(row["step_s"]) for row in table] == [point["step_s"] for point in found["points"]]
    assert not serious_faults(page)
    shared = opened(browser, server, 390, "dark")
    shared.page.goto(page.url)
    over = shared.page.get_by_role("group", name="over")
    expect(shared.page.get_by_role("combobox", name="up", exact=True)).to_have_value("energy")
    expect(over.get_by_role("button", name="bandwidth")).to_have_attribute("aria-pressed", "true")
    assert shared.page.evaluate("document.documentElement.scrollWidth") <= 390
    assert not serious_faults(shared.page)
    assert not seen.faults + shared.faults
