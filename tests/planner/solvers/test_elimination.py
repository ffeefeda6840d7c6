from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.problem import Problem
from planner.solvers import elimination
from planner.solvers.elimination import compile_program, run_program
from planner.solvers.elimination_order import conditioning_set, make_plan
from planner.solvers.ledger import Ledger, Numbers, Prices
from tests.planner.solvers.random_problems import problems


def value(problem: Problem, numbers: Numbers, largest_table: float = math.inf) -> float:
    plan = make_plan(problem.sizes, problem.edges, largest_table=largest_table)
    program = compile_program(plan, numbers.vector_of, numbers.matrix_of)
    return run_program(program, numbers).value


def unshared(numbers: Numbers) -> Numbers:
    """The same numbers, in which no two tables are the same object."""
    return Numbers(
        [numbers.vectors[i] for i in numbers.vector_of],
        [numbers.matrices[i] for i in numbers.matrix_of],
        range(len(numbers.vector_of)),
        range(len(numbers.matrix_of)),
    )


@given(problems())
def test_looking_up_equal_eliminations_does_not_change_the_value(problem: Problem) -> None:
    numbers = Ledger(problem).numbers()
    assert value(problem, numbers) == value(problem, unshared(numbers))


def test_equal_branches_are_eliminated_once() -> None:
    layers, leaves = 80, 5
    sizes, edges = [6] * layers, [(i, i + 1) for i in range(layers - 1)]
    for layer in range(layers):
        for _ in range(leaves):
            edges.append((layer, len(sizes)))
            sizes.append(4)
    plan = make_plan(sizes, edges)
    vector_of = [0] * layers + list(range(1, leaves + 1)) * layers
    matrix_of = [0] * (layers - 1) + list(range(1, leaves + 1)) * layers
    program = compile_program(plan, vector_of, matrix_of)
    assert len(program.operations) == leaves + layers


@given(problems(), st.integers(1, 40))
def test_mini_buckets_give_a_lower_bound(problem: Problem, largest_table: int) -> None:
    numbers = Ledger(problem).numbers()
    exact = value(problem, numbers)
    assert value(problem, numbers, largest_table) <= exact + 1e-9


@given(problems(), st.integers(4, 60))
def test_once_the_conditioning_set_is_fixed_no_table_is_too_large(
    problem: Problem, largest_table: int
) -> None:
    fixed = conditioning_set(problem.sizes, problem.edges, largest_table)
    assert make_plan(problem.sizes, problem.edges, frozenset(fixed)).largest <= largest_table


@given(st.integers(0, 2**32 - 1), st.integers(1, 64))
def test_sums_in_blocks_equal_sums_at_once(seed: int, block: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = tuple(int(i) for i in rng.integers(1, 6, size=4))
    choices = [(0,), (0, 1), (0, 1, 2), (0, 2, 3), (1, 3), (0, 1, 2, 3)]
    chosen = [axes for axes in choices if rng.random() < 0.6] + [(0, 1, 2, 3)]
    tables = [(axes, rng.random([sizes[i] for i in axes])) for axes in chosen]
    total = np.zeros(sizes)
    for axes, array in tables:
        total = total + array.reshape([sizes[i] if i in axes else 1 for i in range(4)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(elimination, "BLOCK_ENTRIES", block)
        first = elimination.minimum_over_first(tables, (0, 1, 2, 3), sizes)
        rest = elimination.minimum_over_rest(tables, (0, 1, 2, 3), sizes)
    np.testing.assert_allclose(first, total.min(axis=0))
    np.testing.assert_allclose(rest, total.min(axis=(1, 2, 3)))


@pytest.mark.fast
@given(st.integers(0, 2**32 - 1), st.permutations([1, 2, 3]), st.integers(1, 2))
def test_the_compiled_product_gives_the_same_bits(seed: int, order: list[int], count: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = tuple(int(i) for i in rng.integers(2, 6, size=4))
    sides = (0, *sorted(order[:count])), (0, *sorted(order[count:]))
    tables = [(axes, rng.random([sizes[i] for i in axes])) for axes in sides]
    found = []
    for visited in (-1, 1 << 40):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(elimination, "BLOCK_ENTRIES", 1)
            patch.setattr(elimination, "COMPILED_FROM", visited)
            patch.setattr(elimination, "_COMPILED", elimination._Compiled())
            found.append(elimination.minimum_over_first(tables, (0, 1, 2, 3), sizes))
    assert found[0].tobytes() == found[1].tobytes()
    assert found[0].shape == sizes[1:]


@given(problems(), st.integers(0, 2**32 - 1))
def test_priced_tables_add_the_price_of_the_memory_in_use(problem: Problem, seed: int) -> None:
    rng = np.random.default_rng(seed)
    ledger = Ledger(problem)
    prices = rng.random(problem.time_points) * (rng.random(problem.time_points) < 0.7)
    numbers = ledger.numbers(Prices(prices))
    choice = [int(rng.integers(0, size)) for size in problem.sizes]
    vectors = [numbers.vectors[i][c] for i, c in zip(numbers.vector_of, choice, strict=True)]
    matrices = [
        numbers.matrices[i][choice[u], choice[v]]
        for i, (u, v) in zip(numbers.matrix_of, problem.edges, strict=True)
    ]
    expected = problem.cost_s(choice) + float(prices @ problem.memory_profile(choice))
    assert math.fsum(itertools.chain(vectors, matrices)) == pytest.approx(expected)


@given(problems(), st.integers(0, 2**32 - 1))
def test_the_ledger_agrees_with_the_problem(problem: Problem, seed: int) -> None:
    rng = np.random.default_rng(seed)
    choice = [int(rng.integers(0, size)) for size in problem.sizes]
    np.testing.assert_array_equal(Ledger(problem).profile(choice), problem.memory_profile(choice))
