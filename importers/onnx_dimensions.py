"""Sizes that exporters write as text: names, and arithmetic on them."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

import onnx

from importers.errors import ModelError
from importers.onnx_checks import MAX_DIM

_OPERATIONS: Mapping[type[ast.AST], Callable[[int, int], int]] = MappingProxyType(
    {
        ast.Add: operator.add,
        ast.Sub: operator.sub,
        ast.Mult: operator.mul,
        ast.FloorDiv: operator.floordiv,
        ast.Mod: operator.mod,
    }
)
_CHOICES: Mapping[str, Callable[[Iterable[int]], int]] = MappingProxyType(
    {"Max": max, "max": max, "Min": min, "min": min}
)
_MAX_TEXT = 1000


def evaluate_dimension(text: str, bound: Mapping[str, int]) -> int | None:
    """Value of an exporter's dimension such as `"seq*batch + 1"`; None if a name in it is not
    bound.

    >>> evaluate_dimension("seq*batch + 1", {"seq": 8, "batch": 2})
    17
    """
    if text in bound:
        return bound[text]
    if len(text) > _MAX_TEXT:
        return None
    try:
        return _evaluate(ast.parse(text, mode="eval").body, bound)
    except (SyntaxError, ValueError, KeyError, ZeroDivisionError, RecursionError, MemoryError):
        return None


def _evaluate(node: ast.AST, bound: Mapping[str, int]) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name):
        return bound[node.id]
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        return _OPERATIONS[type(node.op)](_evaluate(node.left, bound), _evaluate(node.right, bound))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CHOICES:
        return _CHOICES[node.func.id](_evaluate(a, bound) for a in node.args)
    raise ValueError("not a dimension")


def dimension_names(text: str) -> set[str]:
    """Names that `--bind` may give a value to fix a dimension.

    >>> sorted(dimension_names("seq*batch + 1"))
    ['batch', 'seq']
    """
    return set(re.findall(r"[A-Za-z_]\w*", text)) - set(_CHOICES) or {text}


def dimension_text(dim: onnx.TensorShapeProto.Dimension, tensor: str, axis: int) -> str:
    """Name of a dimension without a number; an anonymous one is called after its tensor."""
    return dim.dim_param or f"{tensor}.{axis}"


def unbound_dimension(texts: Iterable[str], missing: str, where: str) -> ModelError:
    """The error for a dimension that nobody gave a value, with the flag that mends it.

    Args:
        texts: all dimensions of the tensor that have no value.
        missing: the first of them.
        where: the tensor.
    """
    names = sorted(set().union(*[_bindable(t) for t in (missing, *texts)]))
    return ModelError(
        f"dimension {missing!r} has no value",
        where,
        f"give it one: --bind {','.join(f'{n}=…' for n in names)}",
    )


def _bindable(text: str) -> set[str]:
    return {text} if "." in text else dimension_names(text)


def check_bindings(model: onnx.ModelProto, bound: Mapping[str, int]) -> None:
    """Raise `ModelError` for a binding of a dimension that the model lacks, or to no size."""
    names: set[str] = set()
    for value in (*model.graph.input, *model.graph.value_info, *model.graph.output):
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if not dim.HasField("dim_value"):
                text = dimension_text(dim, value.name, axis)
                names |= {text} | _bindable(text)
    shown = sorted(n for n in names if n.isidentifier()) or sorted(names)
    for name, size in bound.items():
        if name not in names:
            raise ModelError(
                f"the model has no dynamic dimension {name!r}",
                "--bind",
                f"its dynamic dimensions are {', '.join(shown[:20])}"
                if names
                else "all its dimensions are fixed; leave --bind out",
            )
        if not 0 < size <= MAX_DIM:
            raise ModelError(
                f"dimension {name!r} is bound to {size}",
                "--bind",
                f"bind it to a number from 1 to {MAX_DIM}",
            )
