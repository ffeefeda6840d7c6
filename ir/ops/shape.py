"""Operators that move or rename elements without arithmetic."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

from ir.ops.elementwise import COPIES, aligned_map
from ir.ops.registry import (
    Engine,
    Needs,
    OpView,
    Resizing,
    enter,
    forms,
    operator,
    primitives,
    show,
    unknown_rule,
    write,
)
from ir.rule import FactorMap, RuleBuilder, ShardingRule, single


def transpose_rule(view: OpView) -> ShardingRule:
    """Result dimension i is operand dimension `perm[i]`."""
    builder = RuleBuilder()
    dims = view.dims(0)
    factors = builder.factors(dims)
    perm = view.ints("perm", tuple(reversed(range(len(dims)))))
    return builder.build([single(factors)], [tuple((factors[p],) for p in perm)])


def reshape_rule(view: OpView) -> ShardingRule:
    """Compound factors where dimensions are merged or cut apart; see `reshape_maps`."""
    if math.prod(view.dims(0)) != math.prod(view.result()):
        raise ValueError(f"the result {list(view.result())} has another number of elements")
    builder = RuleBuilder()
    operand, result = reshape_maps(view.dims(0), view.result(), builder)
    return builder.build([operand, *[None] * (len(view.op.inputs) - 1)], [result])


def reshape_maps(
    source: tuple[int, ...], target: tuple[int, ...], builder: RuleBuilder
) -> tuple[FactorMap, FactorMap]:
    """Factors of both sides of a reshape.

    Dimensions are grouped until their products agree; inside a group the cumulative products of
    both sides are the boundaries of the factors if each divides the next, else only the common
    divisor of the outermost two dimensions is a factor. A dimension of size 1 that one side has
    alone becomes an outermost factor of the neighbour on the other side, so that a batch of one
    can be followed.
    """
    left: list[tuple[int, ...]] = [()] * len(source)
    right: list[tuple[int, ...]] = [()] * len(target)
    if 0 in source or 0 in target:
        return tuple(left), tuple(right)
    i = j = 0
    while i < len(source) or j < len(target):
        i, j, unit = _unit_dims(source, target, i, j, left, right, builder)
        if i >= len(source) or j >= len(target):
            break
        end_i, end_j = _group_end(source, target, i, j)
        _group_factors(source, target, (i, end_i), (j, end_j), left, right, builder)
        if unit:
            shared = builder.factor(1)
            for maps, position in zip((left, right), unit, strict=True):
                maps[position] = (shared, *maps[position])
        i, j = end_i, end_j
    return tuple(left), tuple(right)


def _unit_dims(
    source: tuple[int, ...], target: tuple[int, ...], i: int, j: int,
    left: list[tuple[int, ...]], right: list[tuple[int, ...]], builder: RuleBuilder,
) -> tuple[int, int, tuple[int, ...]]:  # fmt: skip
    """Step over dimensions of size 1; return the two positions that a lone one joins, if any."""
    while i < len(source) and j < len(target) and source[i] == 1 and target[j] == 1:
        left[i] = right[j] = (builder.factor(1),)
        i, j = i + 1, j + 1
    lone: tuple[int, ...] = ()
    first_i, first_j = i, j
    while i < len(source) and source[i] == 1:
        i += 1
    while j < len(target) and target[j] == 1:
        j += 1
    if first_i < i and j < len(target) and i < len(source):
        lone = (first_i, j)
    elif first_j < j and i < len(source) and j < len(target):
        lone = (i, first_j)
    return i, j, lone


def _group_end(source: tuple[int, ...], target: tuple[int, ...], i: int, j: int) -> tuple[int, int]:
    a, b = source[i], target[j]
    i, j = i + 1, j + 1
    while a != b:
        if a < b and i < len(source):
            a, i = a * source[i], i + 1
        elif j < len(target):
            b, j = b * target[j], j + 1
        else:
            return len(source), len(target)
    return i, j


def _group_factors(
    source: tuple[int, ...], target: tuple[int, ...],
    span_i: tuple[int, int], span_j: tuple[int, int],
    left: list[tuple[int, ...]], right: list[tuple[int, ...]], builder: RuleBuilder,
) -> None:  # fmt: skip
    ends_i = [math.prod(source[span_i[0] : k + 1]) for k in range(*span_i)]
    ends_j = [math.prod(target[span_j[0] : k + 1]) for k in range(*span_j)]
    cuts = sorted({1, *ends_i, *ends_j})
    if any(b % a for a, b in pairwise(cuts)):
        common = math.gcd(source[span_i[0]], target[span_j[0]])
        if common > 1:
            left[span_i[0]] = right[span_j[0]] = (builder.factor(common),)
        return
    ids = {(a, b): builder.factor(b // a) for a, b in pairwise(cuts)}
    for maps, span, ends in ((left, span_i, ends_i), (right, span_j, ends_j)):
        start = 1
        for position, end in zip(range(*span), ends, strict=True):
            maps[position] = tuple(f for (a, b), f in ids.items() if start <= a and b <= end)
            start = end


def squeeze_rule(view: OpView) -> ShardingRule:
    """Axes of size 1 go."""
    builder = RuleBuilder()
    axes = set(view.ints("axes"))
    factors = [builder.factor(d, locked=i in axes) for i, d in enumerate(view.dims(0))]
    return builder.build(
        [single(factors)], [tuple((f,) for i, f in enumerate(factors) if i not in axes)]
    )


def unsqueeze_rule(view: OpView) -> ShardingRule:
    """Axes of size 1 come."""
    builder = RuleBuilder()
    factors = builder.factors(view.dims(0))
    axes, rest = set(view.ints("axes")), iter(factors)
    return builder.build(
        [single(factors)],
        [tuple(() if i in axes else (next(rest),) for i in range(len(view.result())))],
    )


def expand_rule(view: OpView) -> ShardingRule:
    """A stretched dimension is a factor of the result alone."""
    builder = RuleBuilder()
    dims, result = view.dims(0), view.result()
    factors = builder.factors(result)
    operand = aligned_map(dims, result, factors)
    builder.uncut.update(set(factors) - {f for dim in operand for f in dim})
    return builder.build([operand, *[None] * (len(view.op.inputs) - 1)], [single(factors)])


def same_dims_rule(view: OpView) -> ShardingRule:
    """Dimensions that all tensors share pass; any that differs somewhere stays whole (slice, pad,
    concat, split, tile).
    """
    builder = RuleBuilder()
    tensors = [t for t in (*view.inputs, *view.outputs) if t is not None]
    rank = len(view.result())
    partial = set(view.ints("axes")) if "axes" in view.op.attributes else set()
    if "axis" in view.op.attributes:
        partial.add(view.int("axis"))
    same = [
        len({t.dims[d] for t in tensors if len(t.dims) == rank}) == 1 and d not in partial
        for d in range(rank)
    ]
    factors = [builder.factor(view.result()[d]) if same[d] else None for d in range(rank)]
    mapping: FactorMap = tuple(() if f is None else (f,) for f in factors)
    operands = [mapping if t is not None and len(t.dims) == rank else None for t in view.inputs]
    return builder.build(operands, [mapping] * len(view.outputs))


def triangle_rule(view: OpView) -> ShardingRule:
    """The two dimensions of each matrix stay whole: which elements go depends on their position."""
    builder = RuleBuilder()
    dims = view.dims(0)
    factors = [builder.factor(d, locked=i >= len(dims) - 2) for i, d in enumerate(dims)]
    return builder.build([single(factors), *[None] * (len(view.op.inputs) - 1)], [single(factors)])


def whole_rule(view: OpView) -> ShardingRule:
    """Small integer work that every device repeats."""
    return ShardingRule(
        sizes=(),
        operands=tuple(None for _ in view.inputs),
        results=tuple(((),) * len(t.dims) for t in view.outputs),
    )


def reverse_sequence_rule(view: OpView) -> ShardingRule:
    """Each sequence has its length; a device turns whole sequences round."""
    builder = RuleBuilder()
    batch, time = view.int("batch_axis", 1), view.int("time_axis", 0)
    factors = [builder.factor(d, locked=i == time) for i, d in enumerate(view.dims(0))]
    return builder.build([single(factors), ((factors[batch],),)], [single(factors)])


def one_hot_rule(view: OpView) -> ShardingRule:
    """Indices pass; of the new dimension a device makes the elements that are its own.

    MindSpore cuts the first dimension of the indices alone, and the new one beside a vector.
    """
    builder = RuleBuilder()
    factors = builder.factors(view.dims(0))
    builder.uncut.update(factors[1:])
    axis = view.int("axis", len(factors))
    new = builder.factor(view.result()[axis])
    builder.uncut.update((new,) if len(factors) > 1 else ())
    result: FactorMap = (*single(factors[:axis]), (new,), *single(factors[axis:]))
    return builder.build([single(factors), *[None] * (len(view.op.inputs) - 1)], [result])


def compress_rule(view: OpView) -> ShardingRule:
    """The chosen axis stays whole, as how much of it is left depends on the data; without an axis
    the elements are chosen from a flat list.
    """
    if "axis" not in view.op.attributes:
        return unknown_rule(view)
    rule = same_dims_rule(view)
    return replace(rule, operands=(rule.operands[0], ((),)))


enter("Split", rule=same_dims_rule, resizing=Resizing.APART)
enter("Slice", rule=same_dims_rule, fusible=True, resizing=Resizing.BOUNDS)
enter("Concat", rule=same_dims_rule, fusible=True, resizing=Resizing.JOINED)
enter("Trilu", rule=triangle_rule, differentiable=(0,), whole_at_any_size=True)
enter("Tile", rule=same_dims_rule, differentiable=(0,), resizing=Resizing.MULTIPLIED)
enter("Pad", rule=same_dims_rule, differentiable=(0,), resizing=Resizing.PADDED)
enter("Expand", rule=expand_rule, differentiable=(0,), broadcasts=True)
enter("Transpose", rule=transpose_rule)


enter("Unsqueeze", rule=unsqueeze_rule, engine=Engine.VIEW, differentiable=(0,))
enter("Squeeze", rule=squeeze_rule, engine=Engine.VIEW, differentiable=(0,))
enter("Reshape", "Flatten", rule=reshape_rule, engine=Engine.VIEW, differentiable=(0,))


enter("NonZero", rule=unknown_rule, differentiable=())
enter("OneHot", rule=one_hot_rule, differentiable=())
enter("Compress", rule=compress_rule, needs=Needs.OTHERS, differentiable=(0,))
enter("ReverseSequence", rule=reverse_sequence_rule, differentiable=(0,))


@operator("Unique", rule=unknown_rule, differentiable=())
def _unique_flops(view: OpView) -> int:
    """A sort."""
    elements = view.graph.tensors[view.op.inputs[0]].elements
    return elements * max(1, elements.bit_length())


enter(
    "Shape",
    "Size",
    "Range",
    "ConstantOfShape",
    "Constant",
    "EyeLike",
    "HannWindow",
    "HammingWindow",
    "BlackmanWindow",
    "MelWeightMatrix",
    rule=whole_rule,
    differentiable=(),
)

RESHAPES = ("Reshape", "Flatten")
UNIT_VIEWS = ("Squeeze", "Unsqueeze")
"""Dimensions of size 1 go or come."""
VIEWS = (*RESHAPES, *UNIT_VIEWS)
"""Other dims for the same elements in the same order."""
CARRIERS = frozenset({*VIEWS, *COPIES, "Expand"})
"""Kinds that hand the numbers of their operand on, none put in another order."""
TAKERS = frozenset({"Slice", "Split", "Transpose"})
"""Kinds that hand some of them on."""
REARRANGED = frozenset({*VIEWS, *COPIES, "Transpose"})
"""Kinds whose result has the elements of their operand, each once."""
MOVES = CARRIERS | REARRANGED
"""Kinds that hand the numbers of their operand on, in whatever order."""

write(
    ReverseSequence="rearranged", Compress="rearranged",
    Transpose="transpose", Expand="expand", Tile="tile", Pad="pad", Trilu="triangle",
    Slice="part", Concat="concat", Split="split", **dict.fromkeys(VIEWS, "reshape"),
)  # fmt: skip
write(
    OneHot="one_hot", NonZero="non_zero", Range="counted", ConstantOfShape="filled",
    EyeLike="unit_matrix", HannWindow="hann", HammingWindow="hamming", BlackmanWindow="blackman",
    MelWeightMatrix="mel_weights",
)  # fmt: skip
primitives(
    "Concat", "Split", "Squeeze", "Tile", "Transpose", Expand="BroadcastTo", Pad="PadV3",
    Slice="StridedSlice", Unsqueeze="ExpandDims",
)  # fmt: skip
forms(Trilu="triangle", OneHot="one_hot")
show(
    BlackmanWindow="(int64 n) => (float[6] y) {y = BlackmanWindow(n)}",
    Compress="(float[4,6] x, bool[4] c) => (float[3,6] y) {y = Compress<axis=0>(x, c)}",
    Concat="(float[2,4,6] x, float[2,4,8] z) => (y) {y = Concat<axis=2>(x, z)}",
    ConstantOfShape="(int64[2] s) => (float[4,6] y) {y = ConstantOfShape(s)}",
    Expand="(float[2,1,6] x) => (y) <int64[3] s = {2, 4, 6}> {y = Expand(x, s)}",
    EyeLike="(float[4,6] x) => (y) {y = EyeLike(x)}",
    HammingWindow="(int64 n) => (float[6] y) {y = HammingWindow(n)}",
    HannWindow="(int64 n) => (float[6] y) {y = HannWindow(n)}",
    NonZero="(float[4,6] x) => (int64[2,12] y) {y = NonZero(x)}",
    OneHot="(int64[2,4] i) => (y) <int64 d = {6}, float[2] v = {0, 1}> {y = OneHot(i, d, v)}",
    Pad="(float[2,4,6] x) => (y) <int64[6] p = {0, 0, 1, 0, 0, 1}> {y = Pad(x, p)}",
    Range="(int64 s, int64 e, int64 d) => (int64[6] y) {y = Range(s, e, d)}",
    Reshape="(float[2,4,24] x) => (y) <int64[4] s = {2, 4, 3, 8}> {y = Reshape(x, s)}",
    ReverseSequence="(float[6,4,8] x, int64[4] n) => (y) {y = ReverseSequence(x, n)}",
    Slice="(float[2,4,6] x) => (y) <int64[1] s = {0}, int64[1] e = {3}, int64[1] a = {2}> {y = "
    "Slice(x, s, e, a)}",
    Split="(float[2,4,6] x) => (y, z) {y, z = Split<axis=2, num_outputs=2>(x)}",
    Squeeze="(float[2,1,6] x) => (y) <int64[1] a = {1}> {y = Squeeze(x, a)}",
    Tile="(float[2,4,6] x) => (y) <int64[3] r = {1, 1, 2}> {y = Tile(x, r)}",
    Transpose="(float[2,4,6] x) => (y) {y = Transpose<perm=[0,2,1]>(x)}",
    Unique="(float[12] x) => (float[6] y) {y = Unique(x)}",
    Unsqueeze="(float[2,6] x) => (y) <int64[1] a = {1}> {y = Unsqueeze(x, a)}",
)  # fmt: skip
