"""Out then in gives the same layout; what a framework cannot say is refused or named."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from costmodel.training.records import Recompute
from exporters.recipes.writing import recipe_files
from importers.recipes.reading import recipe_of_texts
from ir.recipes.table import framework, framework_names
from planner.whatif.recipe_purchases import purchases
from planner.whatif.recipe_runs import RecipeRun, in_layout, quantities_of, run_of
from planner.whatif.recipe_targets import expressed
from tests.recipes.drawn import MODELS, drawn

EACH = 17
"""Layouts of each of twelve models: 204 for every framework."""
WHOLE = ("megatron", "megatron-bridge")
"""What says all that a layout is."""


@pytest.mark.parametrize("name", framework_names())
def test_out_then_in_gives_the_same_layout(name: str) -> None:
    """The files of 200 layouts, read, are the layouts that the framework runs from them."""
    seen = sum(comes_back(name, model, own) for model in MODELS for own in drawn(name, model, EACH))
    assert seen > 100


@pytest.mark.fast
@pytest.mark.parametrize("name", framework_names())
def test_a_few_layouts_come_back(name: str) -> None:
    for model in ("llama3-8b", "mixtral-8x7b"):
        assert sum(comes_back(name, model, own) for own in drawn(name, model, 3))


def comes_back(name: str, model: str, own: RecipeRun) -> bool:
    """Whether a framework can say a layout; then its files say just that."""
    found = framework(name)
    said = expressed(found, own, own.run.layout)
    if said.refused:
        return False
    wanted = in_layout(own, own.run.layout)
    assert (wanted.layout != said.run.layout) == bool(said.lost)
    files = recipe_files(found, quantities_of(said.run), ("one line",))
    recipe = recipe_of_texts(files, asked=name)
    assert not recipe.quantities.contradictions
    assert not recipe.unread
    read = run_of(recipe, model, own.run.machine).run
    assert read.layout == said.run.layout
    assert read.precision == own.run.precision
    return True


@pytest.mark.parametrize("name", WHOLE)
def test_megatron_says_every_layout(name: str) -> None:
    """But recomputation of other numbers of layers than equally many of every chunk."""
    for model in MODELS:
        for own in drawn(name, model, EACH, seed=1):
            said = expressed(framework(name), own, own.run.layout)
            assert not said.refused
            if own.run.layout.recompute_share in {0.0, 1.0}:
                assert not said.lost


@pytest.mark.parametrize("name", framework_names())
def test_what_is_run_from_a_recipe_is_said_whole(name: str) -> None:
    """The layout that a framework makes of settings is one that it can say."""
    for model in MODELS[:4]:
        for own in drawn(name, model, 4, seed=2):
            first = expressed(framework(name), own, own.run.layout)
            if not first.refused:
                again = expressed(framework(name), own, first.run.layout)
                assert (again.run.layout, again.lost) == (first.run.layout, ())


SIZELESS = {"torchtitan", "torchtitan-0.3", "deepspeed", "accelerate"}
"""Frameworks whose files leave the model's sizes to code."""


@pytest.mark.parametrize("name", sorted(set(framework_names()) - SIZELESS))
@pytest.mark.parametrize("model", MODELS)
def test_sizes_of_a_model_come_back(name: str, model: str) -> None:
    """Without another word of the model, its sizes are in the files."""
    (own,) = drawn(name, model, 1)
    plain_layout = replace(
        own.run.layout, pp=1, vpp=1, tp=1, cp=1, ep=1, etp=0, dp=64, micro_batch=1, zero_stage=0,
        zero_group=0, recompute=Recompute.NONE, recompute_share=1.0,
    )  # fmt: skip
    run = in_layout(own, plain_layout)
    files = recipe_files(framework(name), quantities_of(run))
    read = run_of(recipe_of_texts(files, asked=name), "", run.machine).run.model
    for size in ("hidden", "layers", "heads", "vocab", "experts", "experts_per_token"):
        assert getattr(read, size) == getattr(run.model, size), size
    assert (read.ffn if not read.experts else read.expert_ffn) == (
        run.model.ffn if not run.model.experts else run.model.expert_ffn
    )


def test_every_value_of_a_table_is_read_as_it_is_written() -> None:
    """Each case of each entry, alone."""
    for name in framework_names():
        for entry in (each for each in framework(name).entries if each.settings):
            for case in (each for each in entry.cases if not each.reads):
                written = entry.write(case.value)
                assert written is not None
                stated = {n: v for n, v in written.items() if v is not None}
                first = next(c.value for c in entry.cases if c.settings == written)
                assert not stated or entry.read(stated)[0] == first


@pytest.mark.parametrize("model", ["mixtral-8x7b", "deepseek-v3", "llama3-8b"])
def test_axes_of_maxtext_are_all_its_devices(model: str) -> None:
    """The mesh of MaxText has the product of its axes, experts among them, as devices."""
    found = framework("maxtext")
    for own in drawn("maxtext", model, 20, seed=3):
        said = expressed(found, own, own.run.layout)
        if said.refused:
            continue
        settings = found.written(quantities_of(said.run))[0]
        axes = [
            number for name, number in settings.items()
            if name.endswith("_parallelism") and isinstance(number, int) and number > 0
        ]  # fmt: skip
        assert math.prod(axes) == said.run.layout.devices


@pytest.mark.fast
def test_types_that_no_setting_says_are_named_with_a_price() -> None:
    """DeepSpeed has no setting for products in 8 bits, nor MindFormers."""
    (own,) = drawn("deepspeed", "llama3-8b", 1)
    eight = replace(own, run=replace(own.run, precision="fp8"))
    said = expressed(framework("deepspeed"), eight, eight.run.layout)
    assert said.unsaid["precision"] == ("fp8", "fp32")
    lines = list(purchases(eight, eight.run.layout, said))
    assert any("no setting says precision fp8" in line and " s, " in line for line in lines)
    assert not expressed(framework("megatron"), eight, eight.run.layout).unsaid


@pytest.mark.fast
def test_overlap_of_experts_is_written_only_where_megatron_takes_it() -> None:
    """Not with full recomputation, nor in stages of one chunk, and never without a dispatcher."""
    found, seen = framework("megatron"), set()
    for own in drawn("megatron", "qwen3-235b-a22b", 40, seed=4):
        overlapped = replace(own, extras=own.extras | {"ep-overlap"})
        layout = own.run.layout
        settings = found.written(quantities_of(in_layout(overlapped, layout)))[0]
        written = settings.get("overlap-moe-expert-parallel-comm", False)
        again = layout.recompute is Recompute.FULL
        takes = layout.ep > 1 and not again and (layout.pp == 1 or layout.vpp > 1)
        assert written == takes
        assert (settings.get("moe-token-dispatcher-type") == "alltoall") == takes
        if layout.ep > 1 and not takes:
            assert "ep_overlap" in expressed(found, overlapped, layout).unsaid
        seen.add(takes)
    assert seen == {True, False}


@pytest.mark.parametrize("name", WHOLE)
def test_uneven_stages_name_the_mtp_layer(name: str) -> None:
    """Megatron refuses a layout of stages that lacks it; read again it is the same layout."""
    (own,) = drawn(name, "deepseek-v3", 1)
    with_mtp = replace(own, run=replace(own.run, model=replace(own.run.model, further=1)))
    layout = replace(
        own.run.layout, pp=16, vpp=1, tp=1, cp=1, ep=4, etp=0, dp=4, micro_batch=1, zero_stage=1,
        zero_group=0, recompute=Recompute.NONE, recompute_share=1.0, sequence_parallel=False,
        stage_layers=(),
    )  # fmt: skip
    run = in_layout(with_mtp, layout)
    settings = framework(name).written(quantities_of(run))[0]
    (text,) = (value for at, value in settings.items() if "parallel_layout" in at.replace("-", "_"))
    assert str(text).endswith("mL")
    recipe = recipe_of_texts(recipe_files(framework(name), quantities_of(run)), asked=name)
    assert run_of(recipe, "", run.machine).run.layout == run.layout
