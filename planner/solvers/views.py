"""Views of a wide graph: which nodes are fixed, and how the others are then eliminated."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from planner.problem import FloatArray
from planner.solvers.buckets import Plan, conditioning_set, make_plan
from planner.solvers.elimination import Numbers, Program, compile_program
from planner.solvers.ledger import Ledger

LARGEST_BUCKET = 1 << 25
"""Entries of a bucket of the views: 2^20 to 2^22 entries in the message that it leaves."""
LARGEST_WORK = 1 << 27
"""Entries that one pass over a view may visit: about 0.2 s."""
FREE_WORK = 1 << 29
"""The same for views other than the first, which are used less often."""
SMALLEST_BUCKET = 1 << 12
"""A bucket is not made smaller than this, whatever the work."""
MAX_PRUNED = 12
"""Fixed nodes that are tried one by one whether they need to be fixed."""
MAX_VIEWS = 6
"""Views that fix other nodes than the first one does."""


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """A set of nodes to fix, and the order in which the others are eliminated."""

    fixed: frozenset[int]
    plan: Plan
    edges: tuple[int, ...]
    """Edges with a fixed end."""


def make_view(ledger: Ledger, fixed: frozenset[int]) -> View:
    """Plan the elimination of all other nodes."""
    problem = ledger.problem
    touching = tuple(edge for edge, (u, v) in enumerate(problem.edges) if u in fixed or v in fixed)
    return View(fixed, make_plan(problem.sizes, problem.edges, fixed), touching)


def conditioned(
    numbers: Numbers, view: View, edges: Sequence[tuple[int, int]], given: Sequence[int]
) -> tuple[Numbers, float]:
    """Turn the edges of fixed nodes into vectors of their neighbours.

    Args:
        numbers: vectors and matrices of all nodes and edges.
        view: what is fixed.
        edges: ends of each edge.
        given: choice of each node; only that of fixed nodes is used.

    Returns:
        Numbers of the rest, and the cost of and between the fixed nodes.
    """
    constants = [float(numbers.vectors[numbers.vector_of[n]][given[n]]) for n in view.fixed]
    terms: dict[int, list[tuple[int, int, int]]] = {}
    for edge in view.edges:
        (u, v), matrix = edges[edge], numbers.matrix_of[edge]
        if u in view.fixed and v in view.fixed:
            constants.append(float(numbers.matrices[matrix][given[u], given[v]]))
        elif u in view.fixed:
            terms.setdefault(v, []).append((matrix, 0, given[u]))
        else:
            terms.setdefault(u, []).append((matrix, 1, given[v]))
    vectors, vector_of = _with_terms(numbers, terms)
    return Numbers(vectors, numbers.matrices, vector_of, numbers.matrix_of), math.fsum(constants)


def _with_terms(
    numbers: Numbers, terms: Mapping[int, Sequence[tuple[int, int, int]]]
) -> tuple[list[FloatArray], list[int]]:
    vectors, vector_of = list(numbers.vectors), list(numbers.vector_of)
    known: dict[tuple[object, ...], int] = {}
    for node, added in terms.items():
        key = (vector_of[node], *added)
        if key not in known:
            known[key] = len(vectors)
            total = vectors[vector_of[node]]
            for matrix, axis, index in added:
                total = total + numbers.matrices[matrix].take(index, axis=axis)
            vectors.append(total)
        vector_of[node] = known[key]
    return vectors, vector_of


def bound_plan(ledger: Ledger, bucket: int, work: int) -> Plan:
    """The largest mini-buckets, up to `bucket` entries, that the work allows."""
    problem = ledger.problem
    while True:
        plan = make_plan(problem.sizes, problem.edges, largest_table=bucket)
        program = compile_program(plan, problem.node_table_of, problem.edge_table_of)
        if program.work <= work or bucket <= SMALLEST_BUCKET:
            return plan
        bucket //= 4


def first_view(ledger: Ledger, largest_bucket: int) -> tuple[View, tuple[int, ...]]:
    """A view, and which of the nodes that it fixes are to be freed in another one each."""
    problem = ledger.problem
    bucket = largest_bucket
    while True:
        hubs = conditioning_set(problem.sizes, problem.edges, bucket)
        first = make_view(ledger, _needed(ledger, hubs, bucket))
        if bucket <= SMALLEST_BUCKET or _program(ledger, first).work <= LARGEST_WORK:
            break
        bucket //= 4
    others = [hub for hub in hubs if hub in first.fixed][:MAX_VIEWS]
    return first, () if len(first.fixed) > MAX_PRUNED else tuple(others)


def view_with_free(ledger: Ledger, first: View, hub: int, largest_bucket: int) -> View:
    """Free one node that the first view fixes; fix others in its place only if it must be."""
    problem, bucket = ledger.problem, largest_bucket
    view = make_view(ledger, first.fixed - {hub})
    while bucket > SMALLEST_BUCKET and (
        view.plan.largest > bucket or _program(ledger, view).work > FREE_WORK
    ):
        others = conditioning_set(problem.sizes, problem.edges, bucket, frozenset({hub}))
        view = make_view(ledger, frozenset(others))
        bucket //= 4
    return view


def _needed(ledger: Ledger, hubs: Sequence[int], bucket: int) -> frozenset[int]:
    """Release the nodes that were fixed early and turn out not to matter."""
    problem, fixed = ledger.problem, frozenset(hubs)
    if len(hubs) > MAX_PRUNED:
        return fixed
    for hub in reversed(hubs):
        fewer = fixed - {hub}
        plan = make_plan(problem.sizes, problem.edges, fewer, give_up_above=bucket)
        if plan.largest <= bucket:
            fixed = fewer
    return fixed


def _program(ledger: Ledger, view: View) -> Program:
    """What one pass does, for some choice of the fixed nodes."""
    numbers = ledger.numbers()
    given = [0] * len(ledger.problem.node_table_of)
    rest, _ = conditioned(numbers, view, ledger.problem.edges, given)
    return compile_program(view.plan, rest.vector_of, rest.matrix_of)
