"""Operators of MindSpore that are none of ONNX, and how they may be cut.

An operator of such a kind keeps MindSpore's name, with `mindspore::` in front. It has no meaning
here, so nothing computes it; its rule says what a strategy may do.

Source: MindSpore 2.7.0, `frontend/parallel/ops_info`: `arithmetic_info.h`, `activation_info.h`,
`inplace_op_info.cc`, `cdist_info.cc`, `scatter_update_info.cc`, `loss_info.cc`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

DOMAIN = "mindspore"
"""Of a primitive that is no kind of the catalogue: it is `mindspore::Name`."""
Dims: TypeAlias = Sequence[int]
RuleText: TypeAlias = Callable[[Sequence[Dims], Sequence[Dims]], str]
"""The rule of an operator with operands and results of these dims."""


def _by_element(operands: Sequence[Dims], results: Sequence[Dims]) -> str:
    """Dimensions are counted from the last; one of size 1 is spread over that of the result."""
    whole = results[0]

    def text(dims: Dims) -> str:
        start = len(whole) - len(dims)
        own = (
            "1" if size == 1 != whole[start + place] else f"d{start + place}"
            for place, size in enumerate(dims)
        )
        return " ".join(own)

    return f"{', '.join(map(text, operands))} -> {', '.join(map(text, results))}"


def _in_place(operands: Sequence[Dims], results: Sequence[Dims]) -> str:
    """Rows are picked, so they stay whole."""
    rest = " ".join(f"d{place}" for place in range(1, len(results[0])))
    return f"rows! {rest}, picked! {rest} -> rows! {rest}" if len(operands) == 2 else ""


def _distances(operands: Sequence[Dims], results: Sequence[Dims]) -> str:
    """Between the rows of two matrices, whose columns stay whole."""
    batch = " ".join(f"b{place}" for place in range(len(results[0]) - 2))
    text = f"{batch} left column!, {batch} right column! -> {batch} left right"
    return text if len(operands) == 2 else ""


def _updated_rows(operands: Sequence[Dims], results: Sequence[Dims]) -> str:
    """A table, the rows that change and what they become: rows and their numbers stay whole."""
    if len(operands) != 3:
        return ""
    rest = " ".join(f"d{place}" for place in range(1, len(results[0])))
    numbers = " ".join(f"i{place}!" for place in range(len(operands[1])))
    return f"rows! {rest}, {numbers}, {numbers} {rest} -> rows! {rest}"


def _cross_entropy(operands: Sequence[Dims], results: Sequence[Dims]) -> str:
    """Logits and probabilities, whose classes stay whole; a loss for each row, and a gradient."""
    if len(operands) != 2:
        return ""
    data = " ".join(f"d{place}" for place in range(len(operands[0]) - 1))
    ends = [f"{data} classes!" if len(r) == len(operands[0]) else _leading(r) for r in results]
    return f"{data} classes!, {data} classes! -> {', '.join(ends)}"


def _leading(dims: Dims) -> str:
    return " ".join(f"d{place}" for place in range(len(dims)))


_BY_ELEMENT = (
    "ApproximateEqual", "Atan2", "BesselI0", "BesselI0e", "BesselI1", "BesselI1e", "BesselJ0",
    "BesselJ1", "Betainc", "Erfinv", "Gcd", "HShrink", "Hypot", "Igamma", "Igammac", "IsClose",
    "LeftShift", "Lgamma", "MulNoNan", "NanToNum", "NextAfter", "Polar", "PopulationCount",
    "RightShift", "SigmoidCrossEntropyWithLogits", "SoftShrink", "Trunc", "TruncateDiv",
    "TruncateMod", "Xdivy", "Xlogy", "Zeta",
)  # fmt: skip
_IN_PLACE = ("InplaceAdd", "InplaceSub", "InplaceUpdate")
_UPDATED_ROWS = (
    "ScatterAdd", "ScatterDiv", "ScatterMax", "ScatterMin", "ScatterMul", "ScatterSub",
    "ScatterUpdate",
)  # fmt: skip
_RULES: Mapping[str, RuleText] = MappingProxyType(
    {
        **dict.fromkeys(_BY_ELEMENT, _by_element),
        **dict.fromkeys(_IN_PLACE, _in_place),
        **dict.fromkeys(_UPDATED_ROWS, _updated_rows),
        "Cdist": _distances,
        "SoftmaxCrossEntropyWithLogits": _cross_entropy,
    }
)


def primitive_of(kind: str) -> str:
    """MindSpore's name of an operator of these kinds; empty for any other.

    >>> primitive_of("mindspore::Hypot"), primitive_of("mindspore::Twist"), primitive_of("Relu")
    ('Hypot', '', '')
    """
    domain, _, name = kind.rpartition("::")
    return name if domain == DOMAIN and name in _RULES else ""


def foreign_rule(kind: str, operands: Sequence[Dims], results: Sequence[Dims]) -> str:
    """The rule of an operator, in the notation of `ir.rule`; empty if none is known.

    >>> foreign_rule("mindspore::Betainc", [(8, 4), (4,), (8, 1)], [(8, 4)])
    'd0 d1, d1, d0 1 -> d0 d1'
    """
    name = primitive_of(kind)
    return _RULES[name](operands, results) if name and results else ""
