"""Steps whose result is known: of constants alone, or of a constant that changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from importers.stablehlo.numbers import numpy_type
from ir.graph import Op
from ir.ops import lookup
from ir.ops.elementwise import COMMUTATIVE, NEUTRAL
from ir.ops.random import DRAWN
from ir.ops.shape import CARRIERS
from ir.semantics import OF_CONSTANTS, elementwise, named, shape
from ir.semantics.call import Call, Semantics

_FOLDED: Mapping[str, Semantics] = MappingProxyType(
    {
        **{
            kind: each
            for kind, each in OF_CONSTANTS.items()
            if kind not in DRAWN
            if not lookup(kind).semantics or kind in named(elementwise, shape)
        },
        "Rsqrt": lambda call: [1 / np.sqrt(call[0])],
    }
)
"""Kinds that are computed: those whose steps have the operands and attributes of the operator."""


def folded(
    kind: str,
    arrays: Sequence[NDArray[Any]],
    dims: tuple[int, ...],
    dtype: str,
    attributes: Mapping[str, Any],
) -> NDArray[Any] | None:
    """The result of a step on constants; None where it is left to be computed later."""
    if kind not in _FOLDED:
        return None
    call = Call(Op("", kind, (), (), dict(attributes)), tuple(arrays), (dims,))
    with np.errstate(all="ignore"):
        made = np.asarray(_FOLDED[kind](call)[0])
        found = np.ascontiguousarray(made.astype(numpy_type(dtype))).reshape(made.shape)
    return found if found.shape == dims else None


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
    if len(inputs) == 2 and kind in NEUTRAL:
        first, second = map(scalar, inputs)
        if second == NEUTRAL[kind]:
            return inputs[0] if fits(inputs[0]) else None
        if kind in COMMUTATIVE and first == NEUTRAL[kind]:
            return inputs[1] if fits(inputs[1]) else None
    if kind in CARRIERS and fits(inputs[0]):
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
