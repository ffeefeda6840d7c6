"""Export, import, export: both forms of the strategy checkpoint give the same bytes again."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from exporters.mindspore.checkpoint import check_strategy, strategy_checkpoint
from exporters.mindspore.strategy import read, with_shapes, write
from ir.plan_file import plan_from_json, plan_to_json
from tests.exporters.random_plans import drawn, known_space
from tests.exporters.small_networks import (
    expert_model,
    image_model,
    language_model,
    stored_otherwise,
    tied,
    wide_perceptron,
)

pytestmark = pytest.mark.fast

NETWORKS = [expert_model, image_model, language_model, stored_otherwise, tied, wide_perceptron]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["strategy.ckpt", "strategy.json"])
@pytest.mark.parametrize("make", NETWORKS, ids=lambda f: f.__name__)
def test_export_import_export_gives_the_same_bytes(make: Any, name: str, tmp_path: Path) -> None:
    space = known_space(make, 16)
    seen = 0
    for seed in range(40):
        draw = random.Random(seed)
        plan = space.plan(drawn(draw), draw) if seed else space.best
        if check_strategy(plan):
            continue
        seen += 1
        first, again = tmp_path / name, tmp_path / f"again-{name}"
        checkpoint = strategy_checkpoint(plan)
        write(first, checkpoint)
        found = read(first)
        write(again, found)
        assert first.read_bytes() == again.read_bytes()
        shapes = {each.name: each.tensor_shape or () for each in checkpoint.layouts}
        whole = with_shapes(found, shapes)
        assert set(whole.strategies) == set(checkpoint.strategies)
        assert set(whole.layouts) == set(checkpoint.layouts)
    assert seen >= 3


@pytest.mark.parametrize("make", NETWORKS, ids=lambda f: f.__name__)
def test_a_plan_that_was_a_file_is_exported_alike(make: Any) -> None:
    plan = known_space(make, 8).best
    again = plan_from_json(plan_to_json(plan))
    assert strategy_checkpoint(again) == strategy_checkpoint(plan)
