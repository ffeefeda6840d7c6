"""Sharding propagation in MindSpore's order: pin after pin, and what a node follows."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings

from planner.mindspore_searches.propagation import MindsporePropagation
from planner.problem import EdgeTable, Inherited, Problem
from planner.solvers import Budget
from planner.solvers.propagation import Propagation
from tests.planner.solvers.random_problems import problems
from tests.planner.solvers.test_propagation import SAME, problem_of

FIRST, LAST = [0.0, 9.0, 9.0], [9.0, 9.0, 0.0]
FREE, UNLIKE_FIRST = [1.0, 1.0, 1.0], [1.0, 1.0, 0.0]
TENSOR = [0.0, 0.0, 0.0]
CARRIED = EdgeTable(np.where(np.eye(3), 0.0, 1e16))


def chosen(problem: Problem) -> tuple[int, ...] | None:
    return MindsporePropagation().solve(problem, Budget()).choice


def outwards(problem: Problem) -> tuple[int, ...] | None:
    return Propagation().solve(problem, Budget()).choice


def test_the_first_pin_reaches_to_the_next() -> None:
    chain = [(0, 1), (1, 2), (2, 3)]
    problem = problem_of([FIRST, FREE, UNLIKE_FIRST, LAST], chain, [SAME] * 3, pinned=(0, 3))
    assert chosen(problem) == (0, 0, 0, 2)
    assert outwards(problem) == (0, 0, 2, 2)


@pytest.mark.fast
def test_a_node_that_reads_two_waits_for_both() -> None:
    """Node 3 reads both, and what node 2 sends it weighs more, though the pin is nearer."""
    heavy = EdgeTable(3.0 * SAME.time_s)
    vectors = [FIRST, FREE, UNLIKE_FIRST, FREE]
    edges = [(0, 1), (1, 2), (0, 3), (2, 3)]
    unlike = EdgeTable(np.zeros((3, 3)))
    problem = problem_of(vectors, edges, [SAME, unlike, SAME, heavy], pinned=(0,))
    assert chosen(problem) == (0, 0, 2, 2)


def test_what_waits_in_the_end_goes_on_with_what_it_has() -> None:
    """Node 3 reads node 2, which nothing else leads to; then node 2 follows its reader, whatever
    the input sends it.
    """
    sent = EdgeTable(np.array([[0.0, 9.0, 9.0]]))
    edges = [(0, 2), (1, 3), (2, 3)]
    problem = problem_of([[0.0], LAST, FREE, FREE], edges, [sent, SAME, SAME], pinned=(1,))
    assert chosen(problem) == (0, 2, 2, 2)
    assert outwards(problem) == (0, 2, 0, 2)


def test_what_waits_is_left_to_a_pin_before_it() -> None:
    """Node 3 reads the first pin and node 2; the second pin stands before it and leads to both."""
    edges = [(0, 3), (1, 2), (2, 3)]
    heavy = EdgeTable(3.0 * SAME.time_s)
    problem = problem_of([FIRST, LAST, FREE, FREE], edges, [SAME, SAME, heavy], pinned=(0, 1))
    assert chosen(problem) == (0, 2, 2, 2)


def test_only_the_edge_that_leads_counts_but_for_what_is_forbidden() -> None:
    """Going back from node 2, node 1 does not look at what the input sends it; of what is the same
    it takes the last.
    """
    sent = EdgeTable(np.array([[0.0, 9.0, 9.0]]))
    vectors = [[0.0], FREE, LAST]
    problem = problem_of(vectors, [(0, 1), (1, 2)], [sent, SAME], pinned=(2,))
    assert chosen(problem) == (0, 2, 2)
    assert outwards(problem) == (0, 0, 2)
    never = EdgeTable(np.array([[0.0, 0.0, 1e16]]))
    forbidden = problem_of(vectors, [(0, 1), (1, 2)], [never, SAME], pinned=(2,))
    assert chosen(forbidden) == (0, 1, 2)


def test_an_input_of_several_readers_leads_at_last() -> None:
    """Node 1 stands for the input: the pin that reads it does not lead to its other reader."""
    sent, given = EdgeTable(np.array([[0.0, 9.0, 9.0]])), EdgeTable(SAME.time_s[:, 2:])
    vectors = [[0.0], TENSOR, [0.0], FREE, LAST]
    edges, tables = [(0, 1), (1, 2), (1, 3), (3, 4)], [sent, given, SAME, SAME]
    problem = problem_of(vectors, edges, tables, pinned=(2, 4))
    assert chosen(problem) == (0, 0, 0, 2, 2)
    assert chosen(dataclasses.replace(problem, pinned=(2,))) == (0, 0, 0, 0, 0)


def test_a_reshape_regards_its_maker_where_a_reader_leads_to_it() -> None:
    """Node 2 carries the layout of node 1, which cannot have the third."""
    carried = EdgeTable(CARRIED.time_s[:2])
    behind = EdgeTable(np.array([[0.0, 9.0, 5.0], [9.0, 0.0, 4.0], [5.0, 4.0, 0.0]]))
    vectors, edges = [[0.0], FREE[:2], FREE, LAST], [(0, 1), (1, 2), (2, 3)]
    sent = EdgeTable(np.zeros((1, 2)))
    problem = problem_of(vectors, edges, [sent, carried, behind], pinned=(3,))
    assert chosen(problem) == (0, 1, 1, 2)


@pytest.mark.parametrize(("before", "last"), [(CARRIED, 1), (SAME, 2)])
def test_what_reads_a_reshape_is_cut_least(before: EdgeTable, last: int) -> None:
    """Of what is equal on the edge it takes what costs most, the last of these, another operator
    the cheapest.
    """
    sent, equal = EdgeTable(np.zeros((1, 3))), EdgeTable(np.zeros((3, 3)))
    vectors, edges = [[0.0], FIRST, FREE, UNLIKE_FIRST], [(0, 1), (1, 2), (2, 3)]
    problem = problem_of(vectors, edges, [sent, before, equal], pinned=(1,))
    assert chosen(problem) == (0, 0, 0, last)


@pytest.mark.parametrize(("there", "wanted"), [(1, (1, 1)), (0, (0, 0))])
def test_a_layout_of_a_neighbour_is_taken_as_it_is_or_not_at_all(
    there: int, wanted: tuple[int, int]
) -> None:
    """The second candidate of node 1 is the layout of node 0, if that has it: it is no choice."""
    sent = EdgeTable(np.array([[2.0, 1.0], [1.0, 0.0]]))
    first = [9.0, 9.0]
    first[there] = 0.0
    problem = problem_of([first, [1.0, 0.0]], [(0, 1)], [sent], pinned=(0,))
    layout = np.array([0, Inherited.FROM_MAKERS])
    tables = (problem.node_tables[0], dataclasses.replace(problem.node_tables[1], inherited=layout))
    assert chosen(dataclasses.replace(problem, node_tables=tables)) == wanted


def test_what_reads_a_stated_result_waits_for_nothing_and_is_cut_least_or_whole() -> None:
    """Node 2 reads the stated result and what another pin makes."""
    edges, alike = [(0, 2), (1, 2)], EdgeTable(np.array([[0.0, 0.0, 9.0]] * 3))
    vectors = [FIRST, LAST, [2.0, 1.0, 3.0]]
    problem = problem_of(vectors, edges, [alike, SAME], pinned=(0, 1))
    assert chosen(dataclasses.replace(problem, stated=(0,))) == (0, 2, 0)
    never = problem_of(vectors, edges, [EdgeTable(alike.time_s + 1.0), SAME], pinned=(0, 1))
    assert chosen(dataclasses.replace(never, stated=(0,))) == (0, 2, 2)


@given(problem=problems(limited=True))
@settings(max_examples=30, deadline=None)
def test_without_pins_it_is_the_same_as_outwards(problem: Problem) -> None:
    assert chosen(dataclasses.replace(problem, pinned=())) == outwards(
        dataclasses.replace(problem, pinned=())
    )


@pytest.mark.fast
@given(problem=problems(limited=True))
@settings(max_examples=60, deadline=None)
def test_every_node_is_decided_once(problem: Problem) -> None:
    pinned = dataclasses.replace(problem, pinned=(0, len(problem.sizes) - 1))
    found = MindsporePropagation().solve(pinned, Budget())
    assert found.choice is not None
    assert len(found.choice) == len(problem.sizes)
    assert found.bound_s <= found.cost_s or found.proof == "infeasible"
