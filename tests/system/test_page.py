"""The page in a real browser, on a real server: from a dropped model to an exported strategy.

Screenshots are kept in build/screenshots.
"""

from __future__ import annotations

import gzip
import json
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from exporters.mindspore.strategy import read as read_strategy
from ir.plan_file import plan_from_json, plan_to_json
from planner.pipeline.pipeline_search import search_pipeline
from planner.request import SearchRequest
from tests.builders import mlp
from tests.system.servers import Server
from topology.catalogue import named_cluster

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "tests" / "data" / "models" / "gpt2_small.onnx.gz"
AXE = Path(__file__).parent / "axe.min.js"
SCREENSHOTS = ROOT / "build" / "screenshots"
CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
LONG_MS = 600_000
"""What a page may take on a loaded machine."""
SIZES = {1440: 900, 390: 844}
NODE = """() => {
  const canvas = document.querySelector(".drawn canvas");
  const box = canvas.getBoundingClientRect();
  for (let y = box.top; y < box.bottom; y += 5)
    for (let x = box.left; x < box.right; x += 5) {
      const told = { clientX: x, clientY: y, bubbles: true };
      canvas.dispatchEvent(new PointerEvent("pointermove", told));
      if (canvas.style.cursor === "pointer") return [x, y];
    }
  throw new Error("no node on the canvas");
}"""
"""A place on the screen where the hand is shown that a click would choose something."""
CANDIDATES = "Candidates, the chosen one first"
VIEWS = ("overview", "graph", "operators", "timeline", "memory", "cluster", "whatif", "export")

pytestmark = pytest.mark.skipif(not Path(CHROMIUM).exists(), reason="no chromium")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = Server(tmp_path_factory.mktemp("page"), ("--workers", "1"))
    made.start()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--enable-unsafe-swiftshader"]
        )
        yield found
        found.close()


@dataclass
class Seen:
    """A page, and what its console said."""

    page: Page
    faults: list[str] = field(default_factory=list)

    def listen(self) -> Seen:
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("console", lambda m: self.faults.append(m.text) if m.type == "error" else None)
        return self


def opened(browser: Browser, server: Server, width: int = 1440, theme: str = "light") -> Seen:
    context = browser.new_context(
        viewport={"width": width, "height": SIZES[width]},
        color_scheme="dark" if theme == "dark" else "light",
        base_url=server.url,
        accept_downloads=True,
    )
    context.set_default_timeout(LONG_MS)
    expect.set_options(timeout=LONG_MS)
    return Seen(context.new_page()).listen()


def drop(page: Page, name: str, content: bytes) -> None:
    """Drop a file onto the place for models, as the browser does when a hand lets go of it."""
    page.evaluate(
        """([name, numbers]) => {
          const transfer = new DataTransfer();
          transfer.items.add(new File([new Uint8Array(numbers)], name));
          const place = document.querySelector(".drop");
          for (const type of ["dragover", "drop"])
            place.dispatchEvent(new DragEvent(type,
              { dataTransfer: transfer, bubbles: true, cancelable: true }));
        }""",
        [name, list(content)],
    )


def search(page: Page, batch: int) -> str:
    """Drop the model, search on 16 cards, and open the plan; returns its id."""
    page.goto("/#/new")
    drop(page, "gpt2_small.onnx", gzip.decompress(MODEL.read_bytes()))
    expect(page.get_by_role("status").filter(has_text="gpt2_small")).to_be_visible()
    page.get_by_role("spinbutton", name=re.compile("^devices")).fill("16")
    page.get_by_role("spinbutton", name=re.compile("^batch")).fill(str(batch))
    page.get_by_role("button", name="Search", exact=True).click()
    expect(page.get_by_role("log")).to_contain_text("devices", timeout=LONG_MS)
    page.get_by_role("link", name="Open the plan").click(timeout=LONG_MS)
    expect(page.get_by_role("heading", level=1)).to_have_text("gpt2_small")
    return page.url.rpartition("/plans/")[2].partition("/")[0]


@pytest.fixture(scope="module")
def plans(browser: Browser, server: Server) -> tuple[str, str]:
    """Two plans of one model."""
    seen = opened(browser, server)
    found = search(seen.page, 64), search(seen.page, 128)
    assert not seen.faults
    seen.page.context.close()
    return found


def test_progress_shows_cost_and_bound(browser: Browser, server: Server) -> None:
    seen = opened(browser, server)
    page = seen.page
    search(page, 32)
    page.go_back()
    expect(page.get_by_text("done", exact=True)).to_be_visible()
    expect(page.get_by_role("log")).to_contain_text("devices")
    kpis = page.locator(".kpis")
    expect(kpis).to_contain_text("step")
    expect(kpis).not_to_contain_text("–")
    page.go_forward()
    expect(page.get_by_text("step time, uncalibrated")).to_be_visible()
    assert not seen.faults


def test_an_operator_says_why(browser: Browser, server: Server, plans: tuple[str, str]) -> None:
    seen = opened(browser, server)
    page = seen.page
    page.goto(f"/#/plans/{plans[0]}")
    page.get_by_role("region", name="Heaviest operators: ").get_by_role("link").first.click()
    expect(page.get_by_role("heading", name=CANDIDATES)).to_be_visible(timeout=LONG_MS)
    expect(page.get_by_text("rest as planned").first).to_be_visible()
    page.locator("details").first.click()
    page.get_by_role("application").focus()
    before = page.url
    page.keyboard.press("ArrowDown")
    page.wait_for_url(lambda url: url != before)
    page.keyboard.press("Escape")
    expect(page.get_by_role("heading", name=CANDIDATES)).to_be_hidden()
    assert not seen.faults


def test_a_click_on_a_node_chooses_it(
    browser: Browser, server: Server, plans: tuple[str, str]
) -> None:
    seen = opened(browser, server)
    page = seen.page
    page.goto(f"/#/plans/{plans[0]}/graph")
    canvas = page.locator(".drawn canvas")
    canvas.wait_for()
    page.mouse.click(*page.evaluate(NODE))
    page.wait_for_url(lambda url: "op=" in url or "open=" in url)
    page.goto(f"/#/plans/{plans[0]}/graph")
    page.get_by_role("searchbox").fill("linear")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Why", exact=True)).to_be_visible()
    assert "op=" in page.url
    assert not seen.faults


def test_the_graph_is_dragged_zoomed_and_shown_whole_again(
    browser: Browser, server: Server, plans: tuple[str, str]
) -> None:
    seen = opened(browser, server)
    page = seen.page
    page.goto(f"/#/plans/{plans[0]}/graph")
    canvas = page.locator(".drawn canvas")
    canvas.wait_for()
    page.wait_for_timeout(500)
    pictures = [canvas.screenshot()]
    box = canvas.bounding_box()
    assert box is not None
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(*middle)
    page.mouse.down()
    page.mouse.move(middle[0] + 120, middle[1] + 60, steps=4)
    page.mouse.up()
    assert "op=" not in page.url, "a drag is no click"
    page.mouse.move(box["x"] + 3, box["y"] + 3)
    page.wait_for_timeout(500)
    pictures.append(canvas.screenshot())
    page.mouse.move(*middle)
    page.mouse.wheel(0, -100)
    page.mouse.move(box["x"] + 3, box["y"] + 3)
    page.wait_for_timeout(500)
    pictures.append(canvas.screenshot())
    assert len(set(pictures)) == 3
    page.get_by_role("application").focus()
    page.keyboard.press("0")
    page.wait_for_timeout(500)
    page.evaluate("document.activeElement.blur()")
    assert canvas.screenshot() == pictures[0]
    assert not seen.faults


def test_the_timeline_is_drawn_and_zooms(
    browser: Browser, server: Server, plans: tuple[str, str]
) -> None:
    seen = opened(browser, server)
    page = seen.page
    page.goto(f"/#/plans/{plans[0]}/timeline")
    chart = page.get_by_role("img", name="Streams of a device").locator("canvas").first
    chart.wait_for()
    page.wait_for_timeout(300)
    whole = chart.screenshot()
    box = chart.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 60)
    page.mouse.wheel(0, -600)
    page.wait_for_timeout(500)
    assert chart.screenshot() != whole
    assert not seen.faults


def test_a_slider_simulates_anew(browser: Browser, server: Server, plans: tuple[str, str]) -> None:
    seen = opened(browser, server)
    page = seen.page
    page.goto(f"/#/plans/{plans[0]}/whatif")
    row = page.get_by_role("row", name="step, simulated")
    expect(row).to_contain_text("1.000")
    slider = page.get_by_role("slider", name="devices")
    expect(slider).to_be_enabled()
    slider.press("ArrowRight")
    expect(page.locator("output[for='slider-devices']")).to_have_text("32")
    expect(row).not_to_contain_text("1.000", timeout=LONG_MS)
    again = opened(browser, server)
    again.page.goto(page.url)
    expect(again.page.locator("output[for='slider-devices']")).to_have_text("32")
    assert not seen.faults + again.faults


def test_two_plans_are_compared(browser: Browser, server: Server, plans: tuple[str, str]) -> None:
    seen = opened(browser, server)
    page = seen.page
    page.goto("/#/plans")
    for each in plans:
        page.get_by_role("row").filter(has=page.locator(f"a[href*='{each}']")).get_by_role(
            "checkbox"
        ).check()
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("row", name=re.compile("^step ")).first).to_have_class("total")
    expect(page.get_by_role("row", name="batch")).to_contain_text("128")
    assert not seen.faults


def test_exports_are_read_back(
    browser: Browser, server: Server, plans: tuple[str, str], tmp_path: Path
) -> None:
    seen = opened(browser, server)
    page = seen.page
    page.goto(f"/#/plans/{plans[0]}/export")
    saved = {}
    for name in ("plan", "mindspore"):
        with page.expect_download(timeout=LONG_MS) as download:
            page.get_by_role("button", name=f"Save {name}", exact=True).click()
        saved[name] = tmp_path / download.value.suggested_filename
        download.value.save_as(saved[name])
    plan = plan_from_json(saved["plan"].read_text(encoding="utf-8"))
    assert plan.devices == 16
    assert read_strategy(saved["mindspore"]).strategies
    assert not seen.faults


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", list(SIZES))
def test_every_view_is_accessible_and_fits(
    browser: Browser, server: Server, plans: tuple[str, str], width: int, theme: str
) -> None:
    seen = opened(browser, server, width, theme)
    page = seen.page
    hashes = [f"plans/{plans[0]}/{view}" for view in VIEWS]
    hashes += [
        "plans",
        "new",
        "layouts",
        "jobs",
        "models",
        "clusters",
        "sweep",
        f"compare/{'/'.join(plans)}",
    ]
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    found = []
    for each in hashes:
        page.goto(f"/#/{each}")
        expect(page.get_by_text("Loading …")).to_have_count(0, timeout=LONG_MS)
        page.wait_for_timeout(400)
        name = each.replace(plans[0], "a").replace(plans[1], "b").replace("/", "-")
        page.screenshot(path=SCREENSHOTS / f"{name}-{width}-{theme}.png")
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, f"{each} is {wide} pixels wide"
        found += [f"{each}: {fault}" for fault in serious_faults(page)]
    assert not found, "\n".join(found)
    assert not seen.faults


def serious_faults(page: Page) -> list[str]:
    """What axe finds that keeps people out."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    answer = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    return [
        f"{each['id']} ({each['impact']}): {each['nodes'][0]['html'][:200]}"
        for each in answer["violations"]
        if each["impact"] in {"serious", "critical"}
    ]


def test_the_page_speaks_chinese(browser: Browser, server: Server, plans: tuple[str, str]) -> None:
    seen = opened(browser, server)
    page = seen.page
    page.goto(f"/#/plans/{plans[0]}")
    page.get_by_role("button", name="中文").click()
    expect(page.get_by_role("heading", name="单步时间构成")).to_be_visible()
    assert page.locator("html").get_attribute("lang") == "zh-CN"
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    notes = page.get_by_role("region", name="说明").or_(page.locator("section", has_text="说明"))
    expect(notes.get_by_text("矩阵乘的速率").first).to_be_visible()
    page.screenshot(path=SCREENSHOTS / "chinese-1440-light.png")
    page.reload()
    expect(page.get_by_role("heading", name="单步时间构成")).to_be_visible()
    assert not seen.faults


def test_what_the_service_refuses_is_said_in_chinese(browser: Browser, server: Server) -> None:
    seen = opened(browser, server)
    page = seen.page
    page.add_init_script("localStorage.setItem('planner.language', 'zh')")
    page.goto("/#/new?model=gpt2&devices=12")
    page.get_by_role("button", name="搜索", exact=True).click()
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("MindSpore 不能在 12 个设备上运行")
    expect(alert).to_contain_text("位置：--devices 12")
    expect(alert).to_contain_text("办法：请用 1、2、4 或 8 的倍数")
    assert not [fault for fault in seen.faults if "422" not in fault]


def test_a_plan_with_stages_is_seen_and_asked(browser: Browser, server: Server) -> None:
    seen = opened(browser, server)
    page = seen.page
    request = SearchRequest(global_batch=256, pipeline="2", micro_batch="32", interleave="1")
    plan = search_pipeline(mlp(4), named_cluster("atlas-800t-a2", 8), request)
    plan_id = uploaded(page, "plans", "staged.json", plan_to_json(plan))
    page.goto(f"/#/plans/{plan_id}/memory")
    expect(page.get_by_role("img", name="Memory over the simulated step")).to_be_visible()
    page.get_by_role("group", name="Stages").get_by_role("button").last.click()
    assert "part=1" in page.url
    page.goto(f"/#/plans/{plan_id}/whatif")
    row = page.get_by_role("row", name="step, simulated")
    expect(row).to_contain_text("1.000")
    slider = page.get_by_role("slider", name="global batch")
    expect(slider).to_be_enabled()
    slider.press("ArrowRight")
    expect(page.locator("output[for='slider-batch']")).to_have_text("512")
    expect(row).not_to_contain_text("1.000")
    page.goto(f"/#/plans/{plan_id}/graph?op={plan.operators[0].name}")
    expect(page.get_by_text("Stage 0 of 2")).to_be_visible()
    assert not seen.faults


def test_a_machine_of_a_file_is_drawn(browser: Browser, server: Server) -> None:
    seen = opened(browser, server)
    page = seen.page
    text = files("data").joinpath("clusters/dgx-h100.yaml").read_bytes()
    page.goto("/#/clusters")
    page.locator(".drop").wait_for()
    drop(page, "own.yaml", text)
    expect(page.get_by_role("heading", name="own.yaml")).to_be_visible()
    expect(page.get_by_role("img", name="Picture of the machine")).to_contain_text("nvlink")
    page.get_by_role("link", name="Plan for this machine").click()
    expect(page.get_by_role("combobox", name="cluster")).to_have_value(re.compile("^c_"))
    assert not seen.faults


MARKUP = "<img src=x onerror=alert(1)>"


def test_markup_in_names_is_text(browser: Browser, server: Server, plans: tuple[str, str]) -> None:
    seen = opened(browser, server)
    page = seen.page
    page.on("dialog", lambda _: seen.faults.append("a dialog"))
    text = page.request.get(f"/v1/plans/{plans[0]}").text()
    record = json.loads(text)
    name = record["operators"][-2]["name"]
    changed = text.replace(json.dumps(name), json.dumps(MARKUP))
    plan = plan_from_json(with_digest(changed))
    assert any(op.name == MARKUP for op in plan.operators)
    plan_id = uploaded(page, "plans", "markup.json", with_digest(changed))
    page.goto(f"/#/plans/{plan_id}/operators?find=onerror")
    expect(page.get_by_text(MARKUP).first).to_be_visible(timeout=LONG_MS)
    for each in ("graph?op=" + "%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E", "timeline", "memory"):
        page.goto(f"/#/plans/{plan_id}/{each}")
        page.wait_for_timeout(800)
    assert page.locator("img[src='x']").count() == 0
    assert not [fault for fault in seen.faults if "422" not in fault]


def uploaded(page: Page, kind: str, name: str, text: str) -> str:
    """Upload a file, and wait until it is read; its id."""
    answer = page.request.post(
        f"/v1/{kind}?name={name}",
        data=text.encode(),
        headers={"content-type": "application/octet-stream"},
    )
    item_id: str = answer.json()["id"]
    job, until_s = answer.json()["job"], time.monotonic() + LONG_MS / 1000
    while page.request.get(f"/v1/jobs/{job}").json()["state"] != "done":
        assert time.monotonic() < until_s
        page.wait_for_timeout(200)
    return item_id


def with_digest(text: str) -> str:
    """A changed plan with the hash that its graph now has."""
    from ir.graph import record_digest  # noqa: PLC0415

    record = json.loads(text)
    record["digest"] = record_digest(record["graph"])
    return json.dumps(record)


def test_scripts_from_elsewhere_are_refused(browser: Browser, server: Server) -> None:
    seen = opened(browser, server)
    answer = seen.page.goto("/")
    assert answer is not None
    policy = answer.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "'self'" in policy
    assert "<script>" not in answer.text()
    seen.page.goto("/#/plans")
    ran = seen.page.evaluate(
        """() => { const s = document.createElement("script"); s.textContent = "window.ran = 1";
        document.body.append(s); return window.ran ?? 0; }"""
    )
    assert ran == 0
