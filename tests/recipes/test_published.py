"""Recipes that frameworks publish are read without a parallel setting that is not understood."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import pytest

from importers.recipes.reading import recipe_of_texts
from ir.recipes.quantities import plain
from ir.recipes.table import readable_names
from planner.whatif.recipe_advice import priced_runs
from planner.whatif.recipe_runs import run_of
from tests.recipes.page import PAGE, recipes_page
from tests.recipes.published import Published, published

RECIPES = published()


@pytest.mark.fast
@pytest.mark.parametrize("one", RECIPES, ids=lambda one: one.name)
def test_a_recipe_amounts_to_what_its_framework_makes_of_it(one: Published) -> None:
    found = recipe_of_texts(one.files(), asked=one.framework)
    values = {name: plain(value) for name, value in found.values.items()}
    assert {name: values.get(name) for name in one.amounts_to} == dict(one.amounts_to)
    assert not found.unread
    assert len(found.quantities.contradictions) == one.contradicts


def test_the_framework_is_known_by_its_settings() -> None:
    for one in RECIPES:
        assert recipe_of_texts(one.files()).framework.name == one.framework, one.name


def test_sixty_recipes_of_every_framework() -> None:
    counts = Counter(one.framework for one in RECIPES)
    assert len(RECIPES) >= 60
    assert set(counts) == set(readable_names())


def test_a_recipe_that_contradicts_itself_is_told_so() -> None:
    """96 layers on 8 x 16 devices are started with one server of 8 devices."""
    (one,) = (each for each in RECIPES if each.name == "mlm_gpt3_175b")
    found = recipe_of_texts(one.files())
    (text,) = found.quantities.contradictions
    assert "devices 8 is not tp 8 x cp 1 x pp 16 x dp" in text


def test_the_page_has_every_setting() -> None:
    assert PAGE.read_text(encoding="utf-8") == recipes_page(), "run `make docs`"


@pytest.mark.parametrize(
    ("name", "devices", "tflops"), [("v5e_128b", 256, 110.0), ("v5e_128b", 1024, 108.0)]
)
def test_a_recipe_is_as_fast_as_its_framework_says(name: str, devices: int, tflops: float) -> None:
    """Model FLOP/s that MaxText's page of results has (README at 254262440)."""
    (one,) = (each for each in RECIPES if each.name == name)
    recipe = recipe_of_texts(one.files(), said={"devices": Fraction(devices)})
    (priced,) = priced_runs([run_of(recipe, "", "tpu-v5e").run])
    reached = priced.rates.utilisation * priced.rates.load.peak_flops
    assert reached / 1e12 == pytest.approx(tflops, rel=0.05)
