"""A crawler reads all views of plans in a real browser: each number is that of the report."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page

from ir.plan import Plan
from ir.plan_file import read_plan
from planner.repricing.binding_tiers import tier_times
from report.plan import PlanReport
from service.client import Planner
from service.views.groups import MOST_NODES
from tests.system.servers import Server
from tests.system.test_page import CHROMIUM, ROOT, VIEWS, browser, opened, server

__all__ = ["browser", "server"]
pytestmark = pytest.mark.skipif(not Path(CHROMIUM).exists(), reason="no chromium")
MODELS = ROOT / "tests" / "data" / "models"
ASKED = {
    "gpt2_small": ("--devices", "8", "--batch", "16"),
    "gpt2_xl": ("--devices", "16", "--batch", "32", "--memory", "20GiB"),
    "resnet50": ("--devices", "8", "--batch", "64"),
    "mobilenet_v3_large": ("--devices", "16", "--batch", "64", "--target", "torch"),
    "vit_large": ("--devices", "16", "--batch", "64", "--cluster", "dgx-h100", "--target", "jax"),
    "bert_large": ("--devices", "16", "--global-batch", "64", "--pipeline", "2"),
    "llama3_8b_decode_kv": ("--devices", "8", "--phase", "infer", "--target", "jax"),
    "mixtral_8x7b": ("--devices", "32", "--batch", "32"),
    "sd15_unet": ("--devices", "16", "--batch", "32"),
    "deepfm_criteo": ("--devices", "8", "--batch", "1024"),
}
"""Transformers, convolutions, stages, experts, a U-Net, a recommender, training and inference."""
FACTS = """() => [...document.querySelectorAll("main data[data-fact]")]
    .map((each) => [each.dataset.fact, Number(each.value)])"""


@pytest.fixture(scope="module", params=ASKED)
def planned(
    request: pytest.FixtureRequest, server: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Plan]]:
    """A plan of a real model, at the service too."""
    name = str(request.param)
    folder = tmp_path_factory.mktemp(name)
    model = MODELS / f"{name}.onnx.gz"
    command = [sys.executable, "-m", "cli", "search", str(model), *ASKED[name], "-o", str(folder)]
    subprocess.run(command, check=True, cwd=ROOT, capture_output=True)
    with Planner(server.url) as service:
        yield (
            service.upload_plan(folder / "plan.json"),
            read_plan(folder / "plan.json", staged=True),
        )


def told(page: Page, path: str) -> list[tuple[str, float]]:
    """The facts of a view, which says something and no fault."""
    page.goto("about:blank")
    page.goto(path)
    page.wait_for_selector("main .panel, main .canvas")
    page.wait_for_load_state("networkidle")
    assert page.locator("main [role=alert]").count() == 0, page.locator("main").inner_text()
    assert len(page.locator("main").inner_text()) > 200
    found: list[tuple[str, float]] = page.evaluate(FACTS)
    return found


def test_every_number_of_every_view_is_that_of_the_report(
    browser: Browser, server: Server, planned: tuple[str, Plan]
) -> None:
    plan_id, plan = planned
    report = PlanReport(plan)
    wanted = {
        "step_s": report.step_s,
        "peak_bytes": report.estimate.peak_memory_bytes,
        "limit_bytes": report.estimate.memory_limit_bytes,
        "samples_per_s": report.rates.samples_per_s or 0.0,
        "gap": plan.bound.gap if math.isfinite(plan.bound.gap) else 0.0,
        **{f"held_up_s.{name}": tier.exposed_s for name, tier in tier_times(plan).items()},
    }
    seen = opened(browser, server)
    found = {view: told(seen.page, f"/#/plans/{plan_id}/{view}") for view in VIEWS}
    wrong = [
        (view, key, value)
        for view, facts in found.items()
        for key, value in facts
        if value != pytest.approx(wanted[key], rel=1e-9)
    ]
    assert not wrong
    for key in ("step_s", "peak_bytes", "limit_bytes", "samples_per_s"):
        assert sum(key in dict(facts) for facts in found.values()) >= 2
    assert len(dict(found["cluster"])) > 3
    assert not seen.faults
    seen.page.context.close()


def test_the_graph_begins_with_few_nodes_that_all_have_names(
    server: Server, planned: tuple[str, Plan]
) -> None:

    view = httpx.get(f"{server.url}/v1/plans/{planned[0]}/views/graph", timeout=60).json()
    nodes = view["nodes"]
    assert 0 < view["count"] <= MOST_NODES
    assert all(nodes["labels"][label] for label in nodes["label"])
    assert sum(nodes["count"]) == len(planned[1].operators)
