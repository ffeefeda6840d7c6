"""Whole-number expressions of scripts and configurations, computed with limits."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType

__all__ = ["arithmetic", "operation"]

_MOST = 10**18
_LONGEST = 400
_SIGNS: Mapping[type[ast.operator], Callable[[float, float], float]] = MappingProxyType({
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv, ast.Div: operator.truediv, ast.Mod: operator.mod,
})  # fmt: skip


def arithmetic(text: str) -> int | None:
    """What `$((...))` is; None where it is no arithmetic.

    >>> arithmetic("8*4"), arithmetic("(16 + 2) / 4"), arithmetic("open()")
    (32, 4, None)
    """
    if len(text) > _LONGEST:
        return None
    try:
        tree = ast.parse(text.strip().replace("/", "//"), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    found = _number(tree.body)
    return None if found is None else int(found)


def _number(node: ast.expr) -> float | None:
    if isinstance(node, ast.Constant) and type(node.value) in {int, float}:
        return float(node.value) if isinstance(node.value, float) else int(str(node.value))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _number(node.operand)
        return None if inner is None else -inner
    if isinstance(node, ast.BinOp):
        left, right = _number(node.left), _number(node.right)
        return None if left is None or right is None else operation(node.op, left, right)
    return None


def operation(sign: ast.operator, left: float, right: float) -> float | None:
    """One operation of two numbers; None where it has no result or too large a one."""
    if type(sign) not in _SIGNS or max(abs(left), abs(right)) > _MOST:
        return None
    try:
        found = _SIGNS[type(sign)](left, right)
    except (ZeroDivisionError, OverflowError):
        return None
    return found if abs(found) <= _MOST else None
