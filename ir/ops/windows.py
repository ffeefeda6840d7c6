"""Windows over the positions of images: which positions may be cut, and what neighbours send.

Positions may be cut where the windows keep step with the pieces: a result has one position for
each `stride` of the image, or the other way round in a transposed convolution. A window then
reaches as far beyond its piece in front as there is padding, and behind by what is left of it.
Source: MindSpore 2.7.0, `conv2d_info.cc`, CheckHWStrategyBase and InferOverlapSize; 2.10.0 was seen
to take the same strategies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ir.dtypes import dtype_bytes
from ir.ops.registry import OpView
from ir.rule import FactorMap, RuleBuilder, ShardingRule, Window

FIRST = 2
"""Dimensions before the positions: images and channels."""


def reach(view: OpView, kernel: Sequence[int]) -> list[int]:
    """Positions from the first that one window sees to the last."""
    dilations = view.ints("dilations", (1,) * len(kernel))
    return [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]


def positions(
    view: OpView,
    builder: RuleBuilder,
    images: FactorMap,
    kernel: Sequence[int],
    *,
    wider: bool = False,
) -> tuple[FactorMap, FactorMap]:
    """Factors of the positions of the image and of the result; its windows go to the builder.

    A dimension has none where windows do not keep step with the pieces. Where they do, the smaller
    extent is a factor, and the larger one has the stride behind it. MindSpore 2.10.0 cuts none
    where padding makes the windows of a piece end before it does.

    Args:
        view: the operator.
        builder: of its rule.
        images: factors of the dimensions before the positions.
        kernel: extents of the window.
        wider: the result has `stride` positions for each of the image, when transposed.
    """
    data, result, item_bytes = view.dims(0)[FIRST:], view.result()[FIRST:], _item_bytes(view)
    strides, seen = view.ints("strides", (1,) * len(kernel)), reach(view, kernel)
    pads = view.ints("pads") or (0,) * (2 * len(kernel))
    few, many, read = (list[tuple[int, ...]]() for _ in range(3))
    for i, step in enumerate(strides):
        fewer, more = (data[i], result[i]) if wider else (result[i], data[i])
        in_step = fewer * step == more and pads[i] >= 0
        factor = builder.factor(fewer if in_step else data[i], locked=not in_step)
        steps = (builder.factor(step if in_step else 1, locked=True),) if step > 1 else ()
        few.append((factor,) if in_step else ())
        many.append((factor, *steps) if in_step else ())
        read.append((factor, *(() if wider else steps)))
        if in_step:
            edges = _edges(seen[i], step, pads[i], wider=wider)
            place = (1 if wider else step, 0, (), FIRST + i)
            builder.windows.append(Window(factor, *place, *edges, item_bytes))
            builder.uncut.update((factor,) if not wider and 0 < pads[i] > seen[i] - step else ())
    builder.windows = [replace(w, mapping=(*images, *read)) for w in builder.windows]
    return (tuple(few), tuple(many)) if wider else (tuple(many), tuple(few))


def with_whole_positions(rule: ShardingRule) -> ShardingRule:
    """The rule where every position stays on its device, as a zero point of the data needs it."""
    cut = {window.factor for window in rule.windows}

    def whole(mapping: FactorMap | None) -> FactorMap | None:
        return mapping and tuple(() if cut.intersection(dim) else dim for dim in mapping)

    return replace(
        rule,
        operands=tuple(whole(m) for m in rule.operands),
        results=tuple(whole(m) for m in rule.results),
        locked=rule.locked | cut,
        uncut=rule.uncut - rule.locked - cut,
        windows=(),
    )


def _edges(seen: int, step: int, pad: int, *, wider: bool) -> tuple[int, int]:
    """Positions that a piece needs of the pieces before and behind it."""
    if wider:
        return max(0, (seen - 1 - pad) // step), -(-pad // step)
    return pad, max(0, seen - step - pad)


def _item_bytes(view: OpView) -> float:
    tensor = view.inputs[0]
    return dtype_bytes(tensor.dtype) if tensor is not None else 0.0
