"""Every kind of the catalogue, split in every way that its rule allows, computes the same."""

from __future__ import annotations

import math
import random

import pytest

from ir.ops import catalogue
from ir.rule import check_rule
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


@pytest.mark.fast(every=True)
@pytest.mark.parametrize("kind", sorted(EXAMPLES))
def test_the_first_example_computes_the_same_in_one_way_of_splitting(kind: str) -> None:
    draw = random.Random(kind)
    check_example(next(EXAMPLES[kind](draw)), draw, 1, Coverage())


@pytest.mark.parametrize("kind", sorted(EXAMPLES))
def test_a_rule_fits_the_tensors_of_its_operator(kind: str) -> None:
    for example in EXAMPLES[kind](random.Random(kind)):
        rule, view = example.rule, example.view
        operands = [None if t is None else t.dims for t in view.inputs]
        results = [t.dims for t in view.outputs]
        check_rule(rule, operands, results)
        assert sorted(rule.order) in ([], list(range(len(rule.sizes))))
        maps = zip((*rule.operands, *rule.results), (*operands, *results), strict=True)
        for mapping, dims in maps:
            for factors, dim in zip(mapping or (), dims if mapping and dims else (), strict=True):
                size = math.prod(rule.sizes[f] for f in factors)
                assert not factors or dim % size == 0, str(example)
                assert not factors or dim == size or kind == "Reshape", str(example)
