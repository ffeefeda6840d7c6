"""Steps whose result is known: of constants alone, or of a constant that changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from importers.stablehlo.numbers import numpy_type

_FOLDED: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Max": np.maximum,
        "Min": np.minimum, "Neg": np.negative, "Sqrt": np.sqrt, "Exp": np.exp, "Log": np.log,
        "Abs": np.abs, "And": np.logical_and, "Or": np.logical_or, "Not": np.logical_not,
        "Xor": np.logical_xor, "Less": np.less, "LessOrEqual": np.less_equal,
        "Greater": np.greater, "GreaterOrEqual": np.greater_equal, "Equal": np.equal,
        "Where": np.where, "Floor": np.floor, "Pow": np.power, "Reciprocal": np.reciprocal,
        "Rsqrt": lambda x: 1 / np.sqrt(x), "Identity": np.asarray, "Cast": np.asarray,
    }
)  # fmt: skip


def folded(
    kind: str,
    arrays: Sequence[NDArray[Any]],
    dims: tuple[int, ...],
    dtype: str,
    attributes: Mapping[str, Any],
) -> NDArray[Any] | None:
    """The result of a step on constants; None where it is left to be computed later."""
    made: Any
    with np.errstate(all="ignore"):
        if kind == "Reshape":
            made = arrays[0].reshape(dims)
        elif kind == "Transpose":
            made = arrays[0].transpose(attributes["perm"])
        elif kind == "Expand":
            made = np.broadcast_to(arrays[0], dims)
        elif kind == "Slice":
            made = arrays[0][_slices(arrays[0].ndim, attributes)]
        elif kind == "Div":
            made = _quotient(*arrays)
        elif kind in _FOLDED:
            made = _FOLDED[kind](*arrays)
        else:
            return None
        wanted = numpy_type(dtype)
        found = np.ascontiguousarray(np.asarray(made).astype(wanted)).reshape(np.shape(made))
    return found if found.shape == dims else None


def _slices(rank: int, attributes: Mapping[str, Any]) -> tuple[slice, ...]:
    found = [slice(None)] * rank
    keys = ("axes", "starts", "ends", "steps")
    for axis, start, end, step in zip(*(attributes[k] for k in keys), strict=True):
        found[axis] = slice(start, end if end >= 0 else None, step)
    return tuple(found)


def _quotient(left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers are divided towards zero."""
    if left.dtype.kind not in "iu":
        return np.asarray(left / right)
    safe = np.where(right == 0, 1, right)
    return np.asarray(np.trunc(left / safe).astype(left.dtype))


_RIGHT = MappingProxyType({"Add": 0.0, "Sub": 0.0, "Mul": 1.0, "Div": 1.0})
_EITHER = MappingProxyType(
    {
        "Add": 0.0, "Mul": 1.0, "And": 1.0, "Or": 0.0, "Max": float("-inf"), "Min": float("inf"),
    }
)  # fmt: skip


def simplified(
    kind: str,
    inputs: Sequence[str],
    scalar: Callable[[str], float | None],
    fits: Callable[[str], bool],
) -> str | None:
    """The tensor that a step would only copy.

    Args:
        kind: of the step.
        inputs: its operands.
        scalar: the number that a constant has throughout.
        fits: whether a tensor has the dims and the type of the result.
    """
    if kind == "Where":
        return _chosen(inputs, scalar, fits)
    if len(inputs) == 2 and kind in _RIGHT and scalar(inputs[1]) == _RIGHT[kind]:
        return inputs[0] if fits(inputs[0]) else None
    if len(inputs) == 2 and kind in _EITHER and scalar(inputs[0]) == _EITHER[kind]:
        return inputs[1] if fits(inputs[1]) else None
    if len(inputs) == 2 and kind in _EITHER and scalar(inputs[1]) == _EITHER[kind]:
        return inputs[0] if fits(inputs[0]) else None
    if kind in {"Reshape", "Expand", "Cast", "Identity"} and fits(inputs[0]):
        return inputs[0]
    return None


def _chosen(
    inputs: Sequence[str], scalar: Callable[[str], float | None], fits: Callable[[str], bool]
) -> str | None:
    """A choice between true and false is the condition; one that is known is made."""
    condition, yes, no = inputs
    known = scalar(condition)
    if known is not None:
        taken = yes if known else no
        return taken if fits(taken) else None
    pair = (scalar(yes), scalar(no))
    if pair == (1.0, 0.0) and fits(condition):
        return condition
    return None
