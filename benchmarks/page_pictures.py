"""The pictures of docs/page.md, drawn anew: three searches, then the page in a browser.

    python -m benchmarks.page_pictures [folder] [--only MODEL]

They are written to docs/page, or to the folder. The browser is Debian's chromium, headless. The
time limit of a search is long, so that a slow machine draws the same plans.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from benchmarks.page_speed import CHROMIUM, served

ROOT = Path(__file__).parents[1]
MODELS = ROOT / "tests" / "data" / "models"
WIDTH = 1280
SETTLED_MS = 3000
"""Until charts are drawn and numbers have come."""


@dataclass(frozen=True, slots=True)
class Picture:
    """One view of a plan, as high as its window."""

    name: str
    view: str
    height: int
    wanted: str
    """What stands there when the view is complete."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A search, and the pictures of its plan."""

    model: str
    options: tuple[str, ...]
    pictures: tuple[Picture, ...]


GPT2 = Planned(
    "gpt2_small",
    ("--devices", "16", "--batch", "64"),
    (
        Picture("overview", "overview", 1240, ".kpis"),
        Picture("why", "graph?op=node_linear", 900, ".side h3:has-text('Candidates')"),
        Picture("whatif", "whatif?bw.card=2", 800, ".w8 table"),
        Picture("cluster", "cluster", 900, "canvas, svg"),
    ),
)
STAGES = Planned(
    "llama3_8b_op24",
    ("--devices", "16", "--batch", "64", "--pipeline", "2"),
    (Picture("stages", "memory", 1010, "canvas"),),
)
LARGE = Planned(
    "llama3_70b",
    ("--devices", "64", "--batch", "64", "--pipeline", "off"),
    (Picture("timeline", "timeline", 720, "canvas"),),
)


def draw(planned: Planned, page: Page, folder: Path) -> None:
    """Search, serve the plan, and take its pictures."""
    with tempfile.TemporaryDirectory(prefix="planner-pictures-") as work:
        model = MODELS / f"{planned.model}.onnx.gz"
        command = [sys.executable, "-m", "cli", "search", str(model), *planned.options,
                   "--time-limit", "1800", "-o", work]  # fmt: skip
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        with served(Path(work) / "plan.json") as url:
            page.goto(f"{url}/overview")
            first = (
                page.get_by_role("region", name="Heaviest operators: ").get_by_role("link").first
            )
            heaviest = str(first.get_attribute("href")).rpartition("op=")[2]
            for each in planned.pictures:
                page.set_viewport_size({"width": WIDTH, "height": each.height})
                page.goto(f"{url}/{each.view.format(heaviest=heaviest)}")
                page.locator(each.wanted).first.wait_for()
                page.wait_for_timeout(SETTLED_MS)
                page.screenshot(path=folder / f"{each.name}.png")


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "docs" / "page")
    parser.add_argument("--only", metavar="MODEL", help="the pictures of one model")
    asked = parser.parse_args(arguments)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.set_default_timeout(600_000)
        for planned in (GPT2, STAGES, LARGE):
            if asked.only in {None, planned.model}:
                draw(planned, page, asked.folder)
        browser.close()


if __name__ == "__main__":
    main()
