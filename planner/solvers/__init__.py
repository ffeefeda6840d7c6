"""Solvers: one file each behind one protocol, loaded when first asked for."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import cast

from planner.problem import Problem
from planner.reduction.restriction import IndexArray, original_choice, restricted
from planner.solvers.contract import (
    Budget,
    ProblemTooLargeError,
    Progress,
    Proof,
    Solution,
    Solver,
)
from planner.solvers.limits import WithinLimits
from planner.solvers.overlap import WithOverlap

__all__ = [
    "AS_GENERATED",
    "ONE_BY_ONE",
    "RECURSIVE",
    "SOLVERS",
    "WITHOUT_POSITIONS",
    "Budget",
    "ProblemTooLargeError",
    "Progress",
    "Proof",
    "Solution",
    "Solver",
    "best_among",
    "solver_by_name",
]

SOLVERS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "portfolio": ("planner.solvers.portfolio", "Portfolio"),
        "dynamic_programming": ("planner.solvers.dynamic_programming", "DynamicProgramming"),
        "ilp": ("planner.solvers.portfolio", "IntegerProgramming"),
        "local_search": ("planner.solvers.local_search", "LocalSearch"),
        "lagrangian": ("planner.solvers.local_search", "Lagrangian"),
        "recursive_bisection": ("planner.solvers.recursive_bisection", "RecursiveBisection"),
        "propagation": ("planner.solvers.propagation", "Propagation"),
        "mindspore_propagation": (
            "planner.mindspore_searches.propagation",
            "MindsporePropagation",
        ),
        "mindspore_elimination": (
            "planner.mindspore_searches.elimination",
            "MindsporeElimination",
        ),
        "exhaustive": ("planner.solvers.exhaustive", "Exhaustive"),
    }
)
"""Module and class of each solver, the default first. A module is imported on demand."""
RECURSIVE = "recursive_programming"
"""Solves no problem: what it chooses is held as pins, and the rest is solved."""
ONE_BY_ONE = "mindspore_propagation"
"""Goes from operator to operator: none is fused, positions may be cut, cuts of results spread."""
AS_GENERATED = frozenset({ONE_BY_ONE, "mindspore_elimination"})
"""Solvers that repeat a search of the target's framework, and choose from what that draws up."""
WITHOUT_POSITIONS = frozenset({"dynamic_programming", "mindspore_elimination"})
"""Solvers to which that draws up no cuts along positions, at its own cost."""


def solver_by_name(name: str) -> Solver:
    """Solver of that name.

    Raises:
        ValueError: nothing has that name; the message lists the names and the closest one.
    """
    if name not in SOLVERS:
        close = difflib.get_close_matches(name, SOLVERS, n=1, cutoff=0.4)
        hint = f"; did you mean '{close[0]}'?" if close else ""
        raise ValueError(f"there is no solver '{name}'{hint}\n  known: {', '.join(SOLVERS)}")
    module, attribute = SOLVERS[name]
    found = cast("Solver", getattr(importlib.import_module(module), attribute)())
    return WithOverlap(WithinLimits(found))


def best_among(
    problem: Problem,
    allowed: Sequence[IndexArray],
    solver: str = "dynamic_programming",
    budget: Budget | None = None,
) -> Solution:
    """The best choice among some candidates of every node; it is one of the whole problem.

    Args:
        problem: with all candidates.
        allowed: those of each node, at least one.
        solver: by its name.
        budget: of the solver; that of effort 1 by default.
    """
    found = solver_by_name(solver).solve(restricted(problem, allowed), budget or Budget(), None)
    if found.choice is None:
        return found
    return replace(found, choice=original_choice(allowed, found.choice))
