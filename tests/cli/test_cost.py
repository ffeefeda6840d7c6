"""`planner search --cost` from the outside."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Planner = Callable[..., Any]


def test_the_objective_is_printed(mlp: Path, planner: Planner) -> None:
    run = planner("search", mlp, "--devices", 8, "--cost", "mindspore", "--json")
    assert run.code == 0
    objective = json.loads(run.out)["objective"]
    assert objective["cost"] == "mindspore"
    assert objective["value"] >= objective["bound"] > 0
    text = planner("search", mlp, "--devices", 8, "--cost", "mindspore").out
    assert "minimised by --cost mindspore: " in " ".join(text.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--cost", "money"], "unknown cost 'money'"),
        (["--cost", "mindspore", "--target", "jax"], "MindSpore's cost is not defined"),
    ],
)
def test_a_cost_that_cannot_be_is_one_clear_error(
    mlp: Path, planner: Planner, words: list[str], message: str
) -> None:
    run = planner("search", mlp, "--devices", 8, *words)
    assert run.code == 2
    assert message in run.err
    assert "  at:  --cost" in run.err
    assert "  fix: " in run.err
    assert not run.out
