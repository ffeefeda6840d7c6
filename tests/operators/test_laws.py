"""Every kind of the catalogue, split in every way that its rule allows, computes the same."""

from __future__ import annotations

import importlib
import math
import random

import pytest

from executors.device_algorithms import DEVICE_ALGORITHMS
from executors.semantics import SEMANTICS
from executors.semantics.normalisations import OverStatistics
from ir.ops import catalogue
from ir.rule import check_rule
from ir.semantics import named
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


@pytest.mark.fast
def test_every_function_that_an_entry_names_is_there() -> None:
    told = {kind for kind, entry in catalogue().items() if entry.semantics}
    assert told <= set(SEMANTICS)
    for kind in told:
        assert not isinstance(SEMANTICS[kind], OverStatistics) or kind in DEVICE_ALGORITHMS


@pytest.mark.fast
@pytest.mark.parametrize(
    "name",
    ["dtensor.kernels_attention", "dtensor.kernels_images", "dtensor.kernels_shape", "xla.kinds"],
)
def test_a_kernel_of_a_library_bears_the_name_that_an_entry_gives_it(name: str) -> None:
    pytest.importorskip("torch" if name.startswith("dtensor") else "jax")
    module = importlib.import_module(f"executors.{name}")
    written = {
        n for n, each in vars(module).items() if getattr(each, "__module__", "") == module.__name__
    }
    kernels = {each.__name__ for each in named(module).values()}
    assert kernels == {n for n in written if not n.startswith("_")}


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
