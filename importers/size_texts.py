"""Sizes that are no numbers yet: expressions of symbols as tracers and exporters write them.

Both SymPy's readable form (`2*s0 + 1`) and its constructors (`Add(Symbol('s0', integer=True),
Integer(1))`) are read; nothing is executed.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, reduce
from types import MappingProxyType

from importers.errors import ModelError, UnboundError

MAX_TEXT = 4000
_MAX_VALUE = 2**62
_MAX_POWER = 8

Number = int | float


def _power(base: Number, exponent: Number) -> Number:
    if not 0 <= exponent <= _MAX_POWER:
        if exponent == -1:
            return 1 / base
        raise ValueError("a power that no size has")
    return base**exponent


_BINARY: Mapping[type[ast.AST], Callable[[Number, Number], Number]] = MappingProxyType(
    {
        ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
        ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Div: operator.truediv,
        ast.Pow: _power,
    }
)  # fmt: skip
_COMPARISONS: Mapping[type[ast.AST], Callable[[Number, Number], bool]] = MappingProxyType(
    {
        ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
        ast.Gt: operator.gt, ast.GtE: operator.ge,
    }
)  # fmt: skip


def _total(function: Callable[[Number, Number], Number]) -> Callable[..., Number]:
    return lambda *numbers: reduce(function, numbers)


_CALLS: Mapping[str, Callable[..., Number]] = MappingProxyType(
    {
        **{kind.__name__: _total(function) for kind, function in _BINARY.items()},
        **{kind.__name__: function for kind, function in _COMPARISONS.items()},
        **{name: f for f in (max, min, abs) for name in (f.__name__, f.__name__.capitalize())},
        "Mul": _total(operator.mul), "PythonMod": operator.mod,
        "Integer": int, "Rational": operator.truediv, "Float": float,
        **dict.fromkeys(("CleanDiv", "PythonFloorDiv"), operator.floordiv),
        **dict.fromkeys(("IntTrueDiv", "FloatTrueDiv"), operator.truediv),
        **dict.fromkeys(("CeilToInt", "ceiling", "Ceil"), lambda v: -(-v // 1)),
        **dict.fromkeys(("FloorToInt", "floor", "TruncToInt", "Floor"), lambda v: v // 1),
        "Equality": operator.eq, **dict.fromkeys(("Ne", "Unequality"), operator.ne),
        "StrictLessThan": operator.lt, **dict.fromkeys(("Le", "LessThan"), operator.le),
        "StrictGreaterThan": operator.gt, **dict.fromkeys(("Ge", "GreaterThan"), operator.ge),
        "ToFloat": float,
    }
)  # fmt: skip
"""Those of Python have the names that its syntax tree gives them."""

FUNCTIONS = frozenset(_CALLS)
"""Names in an expression that are no symbols."""
_FAILURES = (
    ArithmeticError, AttributeError, KeyError, MemoryError, RecursionError, SyntaxError, TypeError,
    ValueError,
)  # fmt: skip


@lru_cache(maxsize=4096)
def symbols_in(text: str) -> frozenset[str]:
    """Symbols of an expression; none where it cannot be read."""
    try:
        return frozenset(_names(_parsed(text)))
    except _FAILURES:
        return frozenset()


def size_of(text: str, bound: Mapping[str, int], where: str) -> int:
    """Value of an expression.

    Raises:
        ModelError: a symbol has no value, or the text is no expression of sizes.
    """
    missing = sorted(symbols_in(text) - bound.keys())
    if missing:
        raise UnboundError(missing, where)
    value = number_of(text, bound)
    if value is None or value != int(value):
        raise ModelError(f"{text[:200]!r} is no size", where, "export with static shapes")
    return int(value)


def number_of(text: str, bound: Mapping[str, int]) -> Number | None:
    """Value of an expression or condition; None where it cannot be told."""
    try:
        value = _evaluated(_parsed(text), bound)
    except _FAILURES:
        return None
    return value if abs(value) <= _MAX_VALUE else None


@lru_cache(maxsize=4096)
def _parsed(text: str) -> ast.AST:
    if len(text) > MAX_TEXT:
        raise ValueError("too long")
    return ast.parse(text.strip(), mode="eval").body


def _names(node: ast.AST) -> set[str]:
    symbol = _symbol(node)
    if symbol:
        return {symbol}
    children: Sequence[ast.AST] = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.Call):
        children = node.args
    return set().union(*(_names(child) for child in children))


def _symbol(node: ast.AST) -> str:
    """The name, if a node is a symbol alone."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Symbol":
        first = node.args[0]
        if isinstance(first, ast.Constant) and isinstance(first.value, str):
            return first.value
    return _dimension(node)


def _dimension(node: ast.AST) -> str:
    """`input.axis` for `L['input'].size()[axis]`, as guards call a size."""
    match node:
        case ast.Subscript(
            value=ast.Call(
                func=ast.Attribute(
                    value=ast.Subscript(
                        value=ast.Name(id="L"), slice=ast.Constant(value=str() as name)
                    ),
                    attr="size",
                ),
                args=[],
            ),
            slice=ast.Constant(value=int() as axis),
        ):
            return f"{name}.{axis}"
        case _:
            return ""


def _evaluated(node: ast.AST, bound: Mapping[str, int]) -> Number:
    symbol = _symbol(node)
    if symbol:
        return bound[symbol]
    match node:
        case ast.Constant(value=int() | float() as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_evaluated(inner, bound)
        case ast.BinOp(left=left, op=op, right=right):
            return _fits(_BINARY[type(op)](_evaluated(left, bound), _evaluated(right, bound)))
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return _COMPARISONS[type(op)](_evaluated(left, bound), _evaluated(right, bound))
        case ast.BoolOp(op=op, values=values):
            every = [bool(_evaluated(v, bound)) for v in values]
            return all(every) if isinstance(op, ast.And) else any(every)
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return _fits(_CALLS[name](*(_evaluated(a, bound) for a in arguments)))
        case _:
            raise ValueError("no size")


def _fits(value: Number) -> Number:
    if abs(value) > _MAX_VALUE:
        raise ValueError("larger than any size")
    return value
