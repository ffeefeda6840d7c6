"""Jobs and uploads on the page, in a real browser."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.system.servers import Server
from tests.system.test_page import CHROMIUM, LONG_MS, browser, drop, opened, serious_faults, server

__all__ = ["browser", "server"]
pytestmark = pytest.mark.skipif(not Path(CHROMIUM).exists(), reason="no chromium")


def test_a_job_that_was_opened_at_submit_shows_state_and_seconds(
    browser: Browser, server: Server
) -> None:
    seen = opened(browser, server)
    page = seen.page
    page.goto("/#/new?model=gpt2&devices=8&batch=32&name=gpt2")
    page.get_by_role("button", name="Search", exact=True).click()
    expect(page.get_by_text("elapsed").locator("..")).not_to_contain_text("–")
    expect(page.get_by_text("queued", exact=True)).to_be_hidden()
    page.get_by_role("link", name="Open the plan").click(timeout=LONG_MS)
    assert not seen.faults


def test_a_refused_upload_says_why_and_leaves_the_picker(browser: Browser, server: Server) -> None:
    seen = opened(browser, server)
    page = seen.page
    page.goto("/#/new")
    page.locator(".drop").wait_for()
    drop(page, "broken.onnx", b"no model")
    expect(page.get_by_role("alert")).to_contain_text("broken.onnx")
    expect(page.get_by_role("button", name="Search", exact=True)).to_be_disabled()
    assert "broken" not in page.get_by_role("combobox", name="or a model").inner_text()
    page.goto("/#/models")
    row = page.get_by_role("row").filter(has_text="broken.onnx")
    expect(row).to_contain_text("refused")
    page.on("dialog", lambda dialog: dialog.accept())
    row.get_by_role("button", name="Delete").click()
    expect(row).to_have_count(0)
    assert not seen.faults


RECIPE = """\
torchrun --nnodes 2 --nproc-per-node 8 pretrain_gpt.py --tensor-model-parallel-size 8 \\
  --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 4096 --swiglu \\
  --ffn-hidden-size 11008 --vocab-size 32000 --micro-batch-size 1 --global-batch-size 64 --bf16
"""


def test_layouts_are_ranked_and_written_and_a_recipe_is_priced(
    browser: Browser, server: Server
) -> None:
    seen = opened(browser, server)
    page = seen.page
    page.goto("/#/layouts?devices=16&batch=64")
    page.get_by_role("button", name="Rank the layouts").click()
    rows = page.get_by_role("row").filter(has=page.get_by_role("button", name="Write the recipe"))
    rows.first.wait_for(timeout=LONG_MS)
    page.get_by_placeholder("Filter").fill("tp=2")
    expect(rows.first).to_contain_text("tp=2")
    with page.expect_download() as kept:
        rows.first.get_by_role("button").click()
    assert "--tensor-model-parallel-size 2" in Path(kept.value.path()).read_text()
    shared = page.url
    page.goto("/#/layouts")
    drop(page, "train.sh", RECIPE.encode())
    expect(page.get_by_text("What would be better")).to_be_visible(timeout=LONG_MS)
    expect(page.get_by_role("row").filter(has_text="the best of all")).to_be_visible()
    with page.expect_download() as kept:
        page.get_by_role("button", name="Save").click()
    assert kept.value.suggested_filename == "train.sh"
    assert not serious_faults(page)
    page.goto(shared)
    rows.first.wait_for(timeout=LONG_MS)
    assert not serious_faults(page)
    assert not seen.faults
