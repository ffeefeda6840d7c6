"""What people name of a plan, such as an operator; of an unknown name the closest ones."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from ir.folding import common_scope
from ir.graph import Op
from ir.plan import Plan
from ir.texts import listed
from planner.request import RequestError


def operator_named(plan: Plan, name: str) -> Op:
    """The operator of this name, or the only one of this scope.

    Raises:
        RequestError: there is none, or there are several.
    """
    ops = plan.graph.ops
    prefix = len(common_scope(op.scope for op in ops))
    found = [op for op in ops if op.name == name] or [
        op for op in ops if op.scope and name in {op.scope, op.scope[prefix:]}
    ]
    if len(found) > 1:
        raise RequestError(
            f"{len(found)} operators have the scope {name!r}\n  at:  --op {name}\n"
            f"  fix: name one of {listed([op.name for op in found])}"
        )
    if not found:
        known = (each for op in ops for each in (op.name, op.scope) if each)
        raise unknown_part("operator", "--op", name, known)
    return found[0]


def unknown_part(noun: str, option: str, name: str, known: Iterable[str]) -> RequestError:
    """That a plan has nothing of this name, with the closest of what it has."""
    close = get_close_matches(name, sorted(set(known)), n=3, cutoff=0.5)
    every = "`planner export --format table` names all"
    fix = f"the closest are {listed(close)}" if close else every
    return RequestError(f"the plan has no {noun} {name!r}\n  at:  {option} {name}\n  fix: {fix}")
