"""The operator of a plan that a command names."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from cli.errors import UserError
from ir.folding import common_scope
from ir.graph import Op
from ir.plan import Plan

_MOST_CLOSE = 5


def named_operator(plan: Plan, name: str) -> Op:
    """The operator of this name, or the only one of this scope.

    Raises:
        UserError: there is none, or several.
    """
    prefix = common_scope(op.scope for op in plan.graph.ops)
    for match in (
        [op for op in plan.graph.ops if op.name == name],
        [op for op in plan.graph.ops if op.scope and name in {op.scope, op.scope[len(prefix) :]}],
    ):
        if len(match) == 1:
            return match[0]
        if match:
            raise UserError(
                f"{len(match)} operators have the scope {name!r}",
                f"--op {name}",
                f"name one of {_some([op.name for op in match], 12)}",
            )
    known = dict.fromkeys(n for op in plan.graph.ops for n in (op.name, op.scope) if n)
    close = get_close_matches(name, known, n=_MOST_CLOSE, cutoff=0.5)
    fix = f"did you mean {_some(close)}?" if close else "`planner export --format table` names all"
    raise UserError(f"the plan has no operator {name!r}", f"--op {name}", fix)


def _some(names: Sequence[str], most: int = _MOST_CLOSE) -> str:
    shown = ", ".join(repr(n) for n in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")
