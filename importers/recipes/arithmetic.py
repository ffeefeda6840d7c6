"""Whole-number expressions of scripts and configurations, computed with limits."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

__all__ = ["arithmetic", "operation"]

_MOST = 10**18
_MOST_POWER = 64
_LONGEST = 400
_SIGNS: Mapping[type[ast.operator], Callable[[float, float], float]] = MappingProxyType({
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv, ast.Div: operator.truediv, ast.Mod: operator.mod,
    ast.Pow: operator.pow,
})  # fmt: skip
_COMPARED: Mapping[type[ast.cmpop], Callable[[float, float], bool]] = MappingProxyType({
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
})  # fmt: skip


def arithmetic(text: str) -> int | None:
    """What `$((...))` is; None where it is no arithmetic.

    >>> arithmetic("8*4"), arithmetic("(16 + 2) / 4"), arithmetic("open()")
    (32, 4, None)
    >>> arithmetic("(8 > 1) ? 4 : 2"), arithmetic("3 > 4 || 2 == 2")
    (4, 1)
    """
    if len(text) > _LONGEST:
        return None
    chosen = re.fullmatch(r"([^?:]+)\?([^?:]+):(.+)", text.strip(), re.DOTALL)
    if chosen:
        condition = arithmetic(chosen.group(1))
        if condition is None:
            return None
        return arithmetic(chosen.group(2 if condition else 3))
    plain = re.sub(r"!(?!=)", " not ", text.strip().replace("/", "//"))
    plain = plain.replace("&&", " and ").replace("||", " or ")
    plain = re.sub(r"(?<![\w.])0+(?=[0-9])", "", plain)
    try:
        tree = ast.parse(plain, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    found = _number(tree.body)
    return None if found is None else int(found)


def _number(node: ast.expr) -> float | None:
    if isinstance(node, ast.Constant) and type(node.value) in {int, float}:
        return float(node.value) if isinstance(node.value, float) else int(str(node.value))
    if isinstance(node, ast.UnaryOp):
        inner = _number(node.operand)
        if inner is None or not isinstance(node.op, ast.USub | ast.Not):
            return None
        return -inner if isinstance(node.op, ast.USub) else int(not inner)
    if isinstance(node, ast.BinOp):
        left, right = _number(node.left), _number(node.right)
        return None if left is None or right is None else operation(node.op, left, right)
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARED:
        left, right = _number(node.left), _number(node.comparators[0])
        known = left is not None and right is not None
        return int(_COMPARED[type(node.ops[0])](left or 0, right or 0)) if known else None
    if isinstance(node, ast.BoolOp):
        parts = [_number(each) for each in node.values]
        holds = all if isinstance(node.op, ast.And) else any
        return None if None in parts else int(holds(parts))
    return None


def operation(sign: ast.operator, left: float, right: float) -> float | None:
    """One operation of two numbers; None where it has no result or too large a one."""
    if type(sign) not in _SIGNS or max(abs(left), abs(right)) > _MOST:
        return None
    if isinstance(sign, ast.Pow) and right not in range(_MOST_POWER):
        return None
    try:
        found = _SIGNS[type(sign)](left, right)
    except (ZeroDivisionError, OverflowError):
        return None
    return found if abs(found) <= _MOST else None
