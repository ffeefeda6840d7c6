"""Problems whose time overlaps: every bound holds, and every answer is judged by its true time."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import TypeVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.overlap import Layers, StepForm
from costmodel.software import GENERIC
from planner.problem import EdgeTable, NodeTable, Overlap, Problem
from planner.reduction.restriction import restricted
from planner.solvers import Budget, solver_by_name
from planner.solvers import overlap as overlap_solver
from planner.solvers.bounding_sums import bounding_sums
from planner.solvers.overlap import best_prices
from tests.planner.problem_faults import validate
from tests.planner.solvers.random_problems import problems

seeds = st.integers(0, 9999)
Table = TypeVar("Table", NodeTable, EdgeTable)


def with_overlap(problem: Problem, seed: int, pieces: int = 1) -> Problem:
    """The problem in which half of all tables load several resources."""
    rng = np.random.default_rng(seed)
    software = replace(GENERIC, host_s=float(rng.choice([0.0, 1.0])))
    form = StepForm(int(rng.integers(1, 3)), int(rng.choice([1, 4])), software=software)

    def loads(table: Table) -> Table:
        own = rng.random((form.loads.count, *table.time_s.shape)) * (rng.random() < 0.5)
        own[0] = table.time_s * rng.random()
        return replace(table, loads=own if own[1:].any() else None)

    nodes = len(problem.node_table_of)
    layer_of = tuple(sorted(int(layer) for layer in rng.integers(0, 3, size=nodes)))
    number = {layer: index for index, layer in enumerate(dict.fromkeys(layer_of))}
    piece_of = tuple(index * pieces // len(number) for index in number.values())
    before = tuple(
        index - 1 if index and piece_of[index - 1] == piece_of[index] else -1
        for index in number.values()
    )
    return replace(
        problem,
        node_tables=tuple(loads(table) for table in problem.node_tables),
        edge_tables=tuple(loads(table) for table in problem.edge_tables),
        overlap=Overlap(form, Layers(before), tuple(number[each] for each in layer_of), piece_of),
    )


def best_of(problem: Problem) -> float:
    every = itertools.product(*map(range, problem.sizes))
    return min((problem.cost_s(c) for c in every if problem.is_feasible(c)), default=math.inf)


@pytest.mark.parametrize("name", ["exhaustive", "portfolio", "dynamic_programming"])
@given(problem=problems(limited=True), seed=seeds, pieces=st.integers(1, 2))
def test_no_bound_is_above_any_choice(name: str, problem: Problem, seed: int, pieces: int) -> None:
    posed = with_overlap(problem, seed, pieces)
    validate(posed)
    best_s, found = best_of(posed), solver_by_name(name).solve(posed, Budget())
    if math.isinf(best_s):
        assert not found.is_answer
        return
    assert found.bound_s <= best_s * (1 + 1e-9)
    if found.is_answer:
        assert found.choice is not None
        assert posed.is_feasible(found.choice)
        assert found.cost_s == posed.cost_s(found.choice) >= best_s * (1 - 1e-9)
    if found.proof == "optimal":
        assert found.cost_s == pytest.approx(best_s)


@given(problem=problems(), seed=seeds)
def test_any_prices_bound_every_choice(problem: Problem, seed: int) -> None:
    posed = with_overlap(problem, seed)
    assert posed.overlap is not None
    rng, form = np.random.default_rng(seed), posed.overlap.form
    shape = (posed.overlap.count, len(form.windows))
    priced = posed.at_prices(list(rng.dirichlet(np.ones(form.resources), size=shape)))
    some = tuple(int(rng.integers(size)) for size in posed.sizes)
    hidden = posed.with_all_hidden()
    least = [sums for sums, _ in bounding_sums(posed, lambda _: some, [some])]
    for choice in itertools.islice(itertools.product(*map(range, posed.sizes)), 50):
        assert priced.cost_s(choice) <= posed.cost_s(choice) * (1 + 1e-9) + 1e-12
        assert hidden.cost_s(choice) <= posed.cost_s(choice) * (1 + 1e-9) + 1e-12
        for sums in least:
            assert sums.cost_s(choice) <= posed.cost_s(choice) * (1 + 1e-9) + 1e-12


@given(problem=problems(), seed=seeds)
def test_fewer_candidates_load_what_they_loaded(problem: Problem, seed: int) -> None:
    posed = with_overlap(problem, seed)
    allowed = [np.arange(size)[-1:] for size in posed.sizes]
    less, last = restricted(posed, allowed), [size - 1 for size in posed.sizes]
    validate(less)
    assert less.cost_s([0] * len(last)) == pytest.approx(posed.cost_s(last))


@given(problem=problems(), seed=seeds)
def test_pieces_take_together_what_the_whole_takes(problem: Problem, seed: int) -> None:
    posed = with_overlap(problem, seed, pieces=2)
    assert posed.overlap is not None
    choice = [0] * len(posed.sizes)
    pieces_s = posed.overlap.pieces_s(posed.loads(choice))
    assert math.fsum(pieces_s) == pytest.approx(posed.cost_s(choice))


def test_two_resources_that_balance_are_mixed_within_a_layer() -> None:
    """Two products, each either in compute or on the links: one of each is twice as fast."""
    form = StepForm(1)
    loads = np.zeros((2, form.loads.count, 2))
    loads[:, form.loads.FORWARD, 0] = 1.0
    # The second layer's links are beside the first one's computation; those of the first, nothing.
    loads[1, form.loads.gather, 1] = loads[0, form.loads.FIXED, 1] = 1.0
    tables = tuple(NodeTable(np.ones(2), loads=own) for own in loads)
    problem = Problem(
        tables, (), (0, 1), ((), ()), (), (), (), 0, math.inf,
        overlap=Overlap(form, Layers((-1, 0)), (0, 1), (0, 0)),
    )  # fmt: skip
    found = solver_by_name("portfolio").solve(problem, Budget())
    assert found.choice == (0, 1)
    assert found.cost_s == found.bound_s == 1.0


@given(problem=problems(), seed=seeds)
def test_the_sums_of_equal_layers_bound_what_is_least(problem: Problem, seed: int) -> None:
    """Each choice is the least of its sum, and layers of a kind have equal prices."""
    posed = with_overlap(problem, seed, pieces=2)
    assert posed.overlap is not None
    best_s = best_of(replace(posed, memory_limit_bytes=math.inf))

    def least(sums: Problem) -> tuple[int, ...]:
        return min(itertools.product(*map(range, sums.sizes)), key=sums.sum_s)

    found = list(bounding_sums(posed, least))
    assert found[0][0].sum_s(found[0][1]) == posed.with_all_hidden().sum_s(found[0][1])
    for sums, choice in found:
        assert sums.overlap is None
        assert sums.sum_s(choice) <= best_s * (1 + 1e-9) + 1e-12


@given(seed=seeds, compute=st.sampled_from([0.5, 1.0, 20.0]))
def test_the_best_prices_are_those_of_the_linear_program(seed: int, compute: float) -> None:
    rng = np.random.default_rng(seed)
    form = StepForm(int(rng.integers(1, 3)), int(rng.choice([1, 4])))
    loads = rng.random((int(rng.integers(1, 4)), form.loads.count))
    loads[:, [form.loads.FORWARD, form.loads.BACKWARD]] *= compute
    height_s, prices = best_prices(form, loads)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(overlap_solver, "_on_the_longest", lambda *_: None)
        program_s, of_program = best_prices(form, loads)
    assert height_s == pytest.approx(program_s, rel=1e-9)
    assert prices == pytest.approx(of_program, abs=1e-12)


def test_where_compute_is_always_longest_no_linear_program_is_solved() -> None:
    form = StepForm(2, 4)
    loads = np.ones((3, form.loads.count))
    loads[:, [form.loads.FORWARD, form.loads.BACKWARD]] = [[5.0, 9.0], [6.0, 8.0], [7.0, 9.0]]
    times = np.array([window.times for window in form.windows])
    found = overlap_solver._on_the_longest(form.windows_s(loads), times, loads[:, 0])
    assert found is not None
    assert found[0] == pytest.approx(form.time_s(loads).min())
    assert np.array_equal(found[1], form.all_on_compute())
