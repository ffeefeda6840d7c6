"""Advice fits, is what the framework can say, and saves what it says."""

from __future__ import annotations

from fractions import Fraction

import pytest

from costmodel.simulation.effects import Effects
from costmodel.simulation.layout_simulation import simulate_layout
from costmodel.simulation.layout_step import Options
from costmodel.simulation.variation import Variation
from costmodel.training.predict import predict
from importers.recipes.reading import recipe_of_texts
from ir.recipes.recipe import Recipe
from ir.recipes.table import framework
from planner.whatif.recipe_advice import (
    Change,
    PricedRun,
    best_changes,
    best_of_all,
    priced_runs,
    warnings,
)
from planner.whatif.recipe_runs import RecipeRun, run_of
from planner.whatif.recipe_targets import expressed, held_degrees

LLAMA = """torchrun --nproc-per-node 8 --nnodes 4 pretrain_gpt.py --num-layers 80 \\
  --hidden-size 8192 \\
  --ffn-hidden-size 28672 --num-attention-heads 64 --group-query-attention \\
  --num-query-groups 8 \\
  --swiglu --vocab-size 128256 --untie-embeddings-and-output-weights --seq-length 8192 \\
  --micro-batch-size 1 --global-batch-size 64 --bf16 --tensor-model-parallel-size 16 \\
  --recompute-granularity full --recompute-method uniform --recompute-num-layers 1
"""


def _priced(text: str, cluster: str = "h100") -> tuple[Recipe, RecipeRun, PricedRun]:
    recipe = recipe_of_texts({"r.sh": text})
    own = run_of(recipe, "", cluster)
    return recipe, own, priced_runs([own.run])[0]


def _simulated(change: PricedRun) -> float:
    found = simulate_layout(change.run, Effects(), Options(1.0), Variation())
    return found.step_s


@pytest.mark.fast
def test_what_an_expert_would_warn_of() -> None:
    recipe, _, priced = _priced(LLAMA)
    found = "\n".join(warnings(priced, recipe.values, recipe.framework))
    for words in (
        "tensor parallel 16 crosses servers of 8 devices",
        "optimizer states are kept whole on each of 2",
        "gradients are not reduced beside the backward pass",
        "sequence parallel is off",
    ):
        assert words in found


def test_recomputation_that_memory_does_not_need_is_told() -> None:
    text = LLAMA.replace("layers 80", "layers 8").replace("parallel-size 16", "parallel-size 8")
    recipe, _, priced = _priced(text)
    found = list(warnings(priced, recipe.values, recipe.framework))
    assert "whole layers are computed again though memory does not need it" in found
    assert not any("crosses servers" in each for each in found)


@pytest.mark.parametrize("tp", [2, 8, 16])
def test_changes_fit_and_save_what_they_say(tp: int) -> None:
    """Each alone, by another way to price it: the simulation."""
    recipe, own, priced = _priced(LLAMA.replace("parallel-size 16", f"parallel-size {tp}"))
    changes = best_changes(priced, own, recipe.framework)
    best = best_of_all(priced, own, recipe.framework)
    assert best is not None
    assert changes or not priced.fits
    for change in (*changes, best):
        _holds(change, own, recipe)
    upper = [each.priced.prediction.upper_s for each in changes]
    assert upper == sorted(upper)
    assert all(best.priced.prediction.upper_s <= each * (1 + 1e-9) for each in upper)
    if priced.fits:
        own_s = priced.prediction.step_s, priced.prediction.upper_s
        for each in (*changes, best):
            new_s = each.priced.prediction.step_s, each.priced.prediction.upper_s
            assert all(new < old for new, old in zip(new_s, own_s, strict=True))
    if priced.fits:
        before = _simulated(priced)
        for change in (*changes, best):
            said = priced.prediction.step_s - change.priced.prediction.step_s
            saved = before - _simulated(change.priced)
            assert abs(saved - said) < 0.02 * before


def _holds(change: Change, own: RecipeRun, recipe: Recipe) -> None:
    assert change.priced.fits
    assert change.priced.run.layout.devices == own.run.layout.devices
    assert change.priced.run.layout.global_batch == own.run.layout.global_batch
    said = expressed(recipe.framework, own, change.priced.run.layout)
    assert not said.refused
    assert not said.lost
    (again,) = predict([change.priced.run])
    assert again.step_s == change.priced.prediction.step_s


def test_a_framework_is_not_told_what_it_has_not() -> None:
    assert held_degrees(framework("accelerate")) == {"pp": 1, "vpp": 1, "ep": 1}
    assert held_degrees(framework("megatron")) == {}
    text = (
        '{"train_batch_size": 128, "train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true}}'
    )
    said = {"devices": Fraction(64), "seq_len": Fraction(4096)}
    recipe = recipe_of_texts({"d.json": text}, said=said)
    own = run_of(recipe, "llama2-7b", "h100")
    (priced,) = priced_runs([own.run])
    best = best_of_all(priced, own, recipe.framework)
    assert best is not None
    assert best.priced.run.layout.pp == 1


def test_what_a_framework_advises_against_is_told_and_not_proposed() -> None:
    text = LLAMA.replace("parallel-size 16", "parallel-size 8") + (
        "  --use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params\n"
    )
    recipe, own, priced = _priced(text.replace("-layers 1\n", "-layers 1 \\\n"))
    found = "\n".join(warnings(priced, recipe.values, recipe.framework))
    assert "advises against Megatron-FSDP with tensor parallel ranks" in found
    best = best_of_all(priced, own, recipe.framework)
    for change in (*best_changes(priced, own, recipe.framework), *([best] if best else [])):
        layout = change.priced.run.layout
        assert layout.zero_stage < 2 or layout.tp == layout.cp == 1
