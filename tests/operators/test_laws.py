"""Every kind of the catalogue, split in every way that its rule allows, computes the same."""

from __future__ import annotations

import random

import pytest

from ir.ops import catalogue
from tests.operators.examples import EXAMPLES
from tests.operators.laws import Coverage, check_example


@pytest.fixture
def most(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--operator-candidates"))


@pytest.mark.parametrize("kind", sorted(catalogue()))
def test_splitting_changes_neither_results_nor_gradients(kind: str, most: int) -> None:
    assert kind in EXAMPLES, f"no generator of examples for {kind}"
    draw = random.Random(kind)
    split, possible = False, False
    for example in EXAMPLES[kind](draw):
        assert example.op.kind == kind
        coverage = Coverage()
        check_example(example, draw, most, coverage)
        missed = coverage.possible - coverage.split
        possible |= bool(coverage.possible)
        split |= bool(coverage.possible) and not missed
    assert split == possible, f"no example of {kind} had each of its factors split"
