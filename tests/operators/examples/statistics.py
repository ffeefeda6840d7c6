"""Examples of reductions, softmax, sorting, scanning and losses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

import numpy as np

from executors.placement import Array
from ir.graph import AttributeValue
from tests.operators.example import Draw, Example, Maker, example, floats, whole_numbers
from tests.operators.examples.normalisations import NORMALISATIONS


def _reduction(kind: str) -> Maker:
    """One axis and several, kept and removed, all; of positive numbers, as a logarithm needs."""

    def make(draw: Draw) -> Iterator[Example]:
        low = 0.2 if "Log" in kind else -2.0
        for dims, axes in (
            ((4, 6), (1,)),
            ((3, 8, 4), (1,)),
            ((6, 2, 4), (0, 2)),
            ((4, 3, 8, 2), (1, 2, 3)),
            ((2, 4, 2, 3, 4), (0, 3)),
            ((8,), (0,)),
            ((4, 6), (0, 1)),
        ):
            x = floats(draw, *dims, low=low)
            kept = tuple(1 if i in axes else d for i, d in enumerate(dims))
            left = tuple(d for i, d in enumerate(dims) if i not in axes)
            yield example(kind, [x], [kept], axes=axes)
            yield example(kind, [x], [left], axes=axes)
        if kind in {"ReduceMax", "ReduceMin"}:
            ties = np.round(floats(draw, 8, 6))
            yield example(kind, [ties], [(8,)], axes=(1,))
            yield example(kind, [ties], [()], axes=(0, 1))

    return make


def _softmax(kind: str) -> Maker:
    def make(draw: Draw) -> Iterator[Example]:
        for dims, axis in (((8,), 0), ((4, 6), 1), ((6, 4, 3), 0), ((2, 3, 4, 8), 2)):
            yield example(kind, [floats(draw, *dims)], [dims], axis=axis)
        yield example(kind, [floats(draw, 4, 6, 8)], [(4, 6, 8)], axis=1, to_end=1)

    return make


def _arg(kind: str) -> Maker:
    def make(draw: Draw) -> Iterator[Example]:
        ties = np.round(floats(draw, 4, 3, 8))
        yield example(kind, [ties], [(4, 1, 8)], ["int64"], axis=1)
        yield example(kind, [ties], [(4, 3)], ["int64"], axis=2, select_last_index=1)
        yield example(kind, [floats(draw, 6, 4, 2, 2)], [(4, 2, 2)], ["int64"], axis=0)
        yield example(kind, [floats(draw, 2, 4, 6)], [(2, 6)], ["int64"], axis=1, keepdims=0)

    return make


def _top_k(draw: Draw) -> Iterator[Example]:
    types = ["float64", "int64"]
    x = floats(draw, 4, 6, 8)
    yield example("TopK", [x], [(4, 2, 8)] * 2, types, axis=1)
    yield example("TopK", [np.round(x)], [(4, 6, 3)] * 2, types, axis=2, largest=0)
    yield example("TopK", [x], [(4, 6, 8)] * 2, types, axis=0)
    yield example("TopK", [floats(draw, 3, 8)], [(3, 1)], types, axis=1)


def _scan(kind: str) -> Maker:
    def make(draw: Draw) -> Iterator[Example]:
        x = floats(draw, 4, 3, 8)
        for axis, exclusive, reverse in ((1, 0, 0), (0, 0, 1), (2, 1, 0), (1, 1, 1)):
            marks = {"exclusive": exclusive, "reverse": reverse}
            yield example(kind, [x], [x.shape], axis=axis).having(marks)
        yield example(kind, [floats(draw, 3)], [(3,)], axis=0)

    return make


def _loss(kind: str) -> Maker:
    """Every way to reduce, with and without weights and rows that do not count."""

    def make(draw: Draw) -> Iterator[Example]:
        softmax = kind == "SoftmaxCrossEntropyLoss"
        for dims in ((4, 6), (2, 3, 4, 2)):
            rows = (dims[0], *dims[2:])
            x, targets = floats(draw, *dims), whole_numbers(draw, *rows, below=dims[1])
            for reduction in ("none", "mean", "sum") if len(dims) < 3 else ("mean",):
                loss = rows if reduction == "none" else ()
                for operands, marks in _weightings(draw, targets, dims[1]):
                    given = [x, *operands]
                    for results in ([loss], [loss, dims])[: 1 + softmax]:
                        yield example(kind, given, results, reduction=reduction).having(marks)

    return make


def _weightings(
    draw: Draw, targets: Array, classes: int
) -> Iterator[tuple[list[Array], dict[str, AttributeValue]]]:
    weight = floats(draw, classes, low=0.5)
    outside = targets.copy()
    outside.reshape(-1)[0] = -100
    yield [targets], {}
    yield [outside], {"ignore_index": -100}
    yield [targets, weight], {}
    yield [targets, weight], {"ignore_index": 1}


STATISTICS: Mapping[str, Maker] = MappingProxyType(
    {
        **NORMALISATIONS,
        **{
            kind: _reduction(kind)
            for kind in (
                "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2",
                "ReduceProd", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare",
            )
        },
        **{kind: _softmax(kind) for kind in ("Softmax", "LogSoftmax", "Hardmax")},
        **{kind: _arg(kind) for kind in ("ArgMax", "ArgMin")},
        "TopK": _top_k,
        **{kind: _scan(kind) for kind in ("CumSum", "CumProd")},
        **{k: _loss(k) for k in ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")},
    }
)  # fmt: skip
