"""How fast the page shows a plan of 6,000 operators: the first view, then redraws while it moves.

    python -m benchmarks.page_speed [plan.json]

Without a file Llama-3-70B is planned for 64 devices first. The browser is Debian's chromium,
headless, without a GPU.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from playwright.sync_api import Page, sync_playwright

from benchmarks.service_load import ended
from tests.system.servers import Server

MODEL = Path(__file__).parents[1] / "tests" / "data" / "models" / "llama3_70b.onnx.gz"
CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
FIRST_VIEW_S = 1.5
LEAST_REDRAWS = {"folded": 50.0, "operators": 5.0, "parts": 5.0}
"""In a second."""
SECONDS = 3.0
TRIES = 3
"""Empty tabs of which the fastest counts: the machine does other things too."""
COUNT = """() => {
  const counts = window.drawn !== undefined;
  window.drawn = [];
  if (counts) return;
  const kind = CanvasRenderingContext2D.prototype;
  const fill = kind.fillRect;
  kind.fillRect = function (...box) {
    if (this.canvas.closest(".drawn")) window.drawn.push(performance.now());
    return fill.apply(this, box);
  };
}"""
"""Notes when the canvas of the graph is drawn anew: redraws, not frames of the browser."""
HAND = """async (seconds) => {
  const canvas = document.querySelector(".drawn canvas");
  const box = canvas.getBoundingClientRect();
  const [x, y] = [box.left + box.width / 2, box.top + box.height / 2];
  const tell = (type, clientX, clientY) => canvas.dispatchEvent(new PointerEvent(
    type, { clientX, clientY, pointerId: 1, bubbles: true, cancelable: true }));
  canvas.setPointerCapture = () => {};
  tell("pointerdown", x, y);
  const begun = performance.now();
  let moves = 0;
  await new Promise((done) => {
    const step = () => {
      const phase = (performance.now() - begun) / 250;
      if (phase > 4 * seconds) return done();
      tell("pointermove", x + 150 * Math.sin(phase), y + 100 * Math.cos(phase));
      const deltaY = Math.floor(phase) % 2 ? -10 : 10;
      if (moves % 8 === 0) canvas.dispatchEvent(new WheelEvent(
        "wheel", { deltaY, clientX: x, clientY: y, bubbles: true, cancelable: true }));
      moves += 1;
      setTimeout(step, 8);
    };
    step();
  });
  tell("pointerup", x, y);
  return moves / seconds;
}"""
"""A hand in the page that drags and zooms, so that its moves do not wait for another process."""


def planned(folder: Path) -> Path:
    """A plan of Llama-3-70B."""
    command = [sys.executable, "-m", "cli", "search", str(MODEL), "--devices", "64",
               "--batch", "64", "-o", str(folder)]  # fmt: skip
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return folder / "plan.json"


@contextmanager
def served(plan: Path) -> Iterator[str]:
    """URL of a server that has the plan, up to the plan's id."""
    with tempfile.TemporaryDirectory(prefix="planner-page-") as folder:
        server = Server(Path(folder), ("--workers", "1"))
        server.start()
        try:
            answer = httpx.post(
                f"{server.url}/v1/plans?name=plan.json", content=plan.read_bytes(), timeout=60
            )
            with httpx.Client(base_url=server.url, timeout=60) as client:
                assert ended(client, answer.json()["job"])["state"] == "done"
            yield f"{server.url}/#/plans/{answer.json()['id']}"
        finally:
            server.stop()


def first_view_s(page: Page, url: str) -> float:
    """Seconds from an empty tab to the folded graph, with summary and figures."""
    begun = time.perf_counter()
    page.goto(f"{url}/graph")
    page.locator(".kpis").wait_for()
    page.locator(".drawn canvas").wait_for()
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return time.perf_counter() - begun


def redraws(page: Page) -> tuple[float, float, float]:
    """Redraws in a second while a hand drags and zooms, milliseconds between 95 % of them, and
    moves of the hand in a second, which they cannot exceed.
    """
    before = page.locator(".canvas").screenshot()
    page.evaluate(COUNT)
    moves_per_s: float = page.evaluate(HAND, SECONDS)
    ends: list[float] = page.evaluate("window.drawn")
    assert page.locator(".canvas").screenshot() != before, "nothing moved"
    gaps = sorted(b - a for a, b in itertools.pairwise(ends))
    return 1000 * len(gaps) / (ends[-1] - ends[0]), gaps[int(0.95 * len(gaps))], moves_per_s


def main() -> int:
    """Measure all, and say whether it is fast enough."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("plan", nargs="?", type=Path)
    given: Path | None = parser.parse_args().plan
    is_good = True
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        plan = given or planned(Path(folder))
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--enable-unsafe-swiftshader"]
        )
        with served(plan) as url:
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            cold = first_view_s(page, url)  # the server has not read the plan
            taken = min(first_view_s(browser.new_page(), url) for _ in range(TRIES))
            is_good &= taken <= FIRST_VIEW_S
            print(
                f"first view: {taken:.2f} s (at most {FIRST_VIEW_S:g}), the very first {cold:.2f} s"
            )
            for level, least in LEAST_REDRAWS.items():
                page.goto(f"{url}/graph?level={level}")
                page.get_by_text("nodes ·").wait_for()
                page.wait_for_timeout(2500)
                told = page.get_by_text("nodes ·").inner_text()
                rate, slow, moves = redraws(page)
                is_good &= rate >= least
                print(
                    f"{level}: {rate:.1f} redraws/s (at least {least:g}), "
                    f"95 % within {slow:.0f} ms, {moves:.0f} moves/s; {told}"
                )
        browser.close()
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
