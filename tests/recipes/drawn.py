"""Layouts drawn at random from all that a model can have on some devices."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from costmodel.training.records import TrainingRun
from importers.sizes import configuration
from ir.recipes.table import framework
from planner.requests.conventional_layouts import run_of_layout
from planner.requests.options.simulations import LayoutOptions
from planner.whatif.layouts import COLUMNS, layout_of_row, rows_of, shares_of, with_share
from planner.whatif.recipe_runs import RecipeRun
from planner.whatif.recipe_targets import held_degrees

MODELS = (
    "llama3-8b", "llama3-70b", "llama3.1-405b", "gpt3-175b", "mixtral-8x7b", "mixtral-8x22b",
    "deepseek-v3", "deepseek-v2-lite", "qwen3-235b-a22b", "qwen3-8b", "gemma-7b", "gpt2-xl",
)  # fmt: skip
MACHINES = {"mindspeed": "atlas-800t-a2", "mindformers": "atlas-800t-a2", "maxtext": "tpu-v5p"}
_DEVICES, _BATCH = 64, 128


@cache
def _job(model: str, machine: str) -> TrainingRun:
    text = f"batch={_BATCH},seq=4096,micro=1,mtp=0"
    options = LayoutOptions(layout=text, cluster=machine)
    return run_of_layout(options, configuration(model), model)


def drawn(name: str, model: str, count: int, seed: int = 0) -> Iterator[RecipeRun]:
    """Runs of a model in a framework's software, each in another layout."""
    job = _job(model, MACHINES.get(name, "h100"))
    own = replace(job, profile=framework(name).profile, flags=frozenset())
    rows = _rows(name, model, MACHINES.get(name, "h100"))
    chosen = random.Random(f"{name} {model} {seed}")
    for row in chosen.sample(range(len(rows)), count):
        columns = rows[row]
        shares = shares_of(job, columns)
        if columns[-2] and shares and chosen.random() < 0.5:
            columns = with_share(columns, chosen.choice(shares))
        layout = layout_of_row(columns, own)
        yield RecipeRun(replace(own, layout=layout), frozenset(), frozenset(), ())


@cache
def _rows(name: str, model: str, machine: str) -> NDArray[np.float64]:
    """The layouts of degrees that a framework has."""
    rows = rows_of(_job(model, machine), _DEVICES, {})
    for degree, value in held_degrees(framework(name)).items():
        rows = rows[rows[:, COLUMNS.index(degree)] == value]
    return rows
