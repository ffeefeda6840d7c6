"""Quantised numbers: from and to floating point, and products of whole numbers.

Sums of products are exact in 32 bits, so that they may be terms on several devices; an operator
that rounds its result completes them inside.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from ir.ops.contraction import matmul_flops, matmul_rule
from ir.ops.convolution import conv_flops, conv_rule
from ir.ops.registry import Engine, Needs, OpView, enter, operator, per_result, show, write
from ir.ops.windows import with_whole_positions
from ir.rule import FactorMap, InternalCollective, RuleBuilder, ShardingRule, single


def scale_rule(view: OpView) -> ShardingRule:
    """Elements pass; a scale and a zero point belong to all of them, to a slice or to a block."""
    builder = RuleBuilder()
    dims, scale = view.dims(0), view.dims(1)
    axis, block = view.int("axis"), view.int("block_size")
    factors = builder.factors(dims)
    data: list[tuple[int, ...]] = [(f,) for f in factors]
    if math.prod(scale) == 1:
        other: FactorMap = ((),) * len(scale)
    elif not block:
        other = (data[axis],)
    else:
        own = list(data)
        data[axis], own[axis] = _blocks(builder, factors[axis], block)
        other = tuple(own)
    others = [
        None if t is None else ((),) * len(t.dims) if t.elements == 1 else other
        for t in view.inputs[1:]
    ]
    return builder.build([tuple(data), *others], [tuple(data)])


def _blocks(builder: RuleBuilder, factor: int, block: int) -> tuple[tuple[int, ...], ...]:
    """Factors of a dimension, and of the numbers that belong to its blocks.

    Where the last block is short, one device has all of them.
    """
    size = builder.sizes[factor]
    if size % block:
        builder.locked.add(factor)
        return (factor,), (builder.factor(-(-size // block), locked=True),)
    builder.sizes[factor] = size // block
    return (factor, builder.factor(block, locked=True)), (factor,)


def dynamic_rule(view: OpView) -> ShardingRule:
    """Elements pass; the smallest and the largest of all of them are exchanged."""
    builder = RuleBuilder()
    factors = builder.factors(view.dims(0))
    builder.internal.append(InternalCollective(tuple(factors), (), forward=2, backward=0))
    return builder.build([single(factors)], [single(factors), (), ()][: len(view.outputs)])


def integer_matmul_rule(view: OpView) -> ShardingRule:
    """A product; zero points belong to a matrix, to rows of the left or columns of the right."""
    rule = matmul_rule(view)
    points = [
        quantity_map(view, 2 + side, side, rule.operands[side], -2 if side == 0 else -1)
        for side in range(len(view.op.inputs) - 2)
    ]
    return replace(rule, operands=(*rule.operands, *points))


def quantity_map(
    view: OpView, index: int, data: int, mapping: FactorMap | None, place: int
) -> FactorMap | None:
    """Map of a scale or zero point of operand `data`; one in a vector belongs to dimension
    `place`.
    """
    if not view.has(index) or mapping is None:
        return None
    own, dims = view.dims(index), view.dims(data)
    if math.prod(own) == 1:
        return ((),) * len(own)
    if len(own) == 1:
        return (mapping[place],)
    return tuple(
        m if d > 1 and d == whole else () for d, whole, m in zip(own, dims, mapping, strict=True)
    )


def rounded_matmul_rule(view: OpView) -> ShardingRule:
    """`a, scale, point, b, scale, point, scale, point`: the sum is completed, then rounded."""
    plain = matmul_rule(_product_of(view, 0, 3))
    left, right, result = plain.operands[0], plain.operands[1], plain.results[0]
    a = [quantity_map(view, i, 0, left, -2) for i in (1, 2)]
    b = [quantity_map(view, i, 3, right, -1) for i in (4, 5)]
    end = [_result_quantity(view, i, result) for i in (6, 7)]
    return _completed(replace(plain, operands=(left, *a, right, *b, *end)), (left, right), result)


def _result_quantity(view: OpView, index: int, result: FactorMap | None) -> FactorMap | None:
    if not view.has(index) or result is None:
        return None
    own, dims = view.dims(index), view.result()
    pairs = zip(own, dims[len(dims) - len(own) :], result[len(dims) - len(own) :], strict=True)
    return tuple(m if d > 1 and d == whole else () for d, whole, m in pairs)


def _completed(
    rule: ShardingRule, operands: Sequence[FactorMap | None], result: FactorMap | None
) -> ShardingRule:
    """The rule with its sums completed inside."""
    own = {f for dim in result or () for f in dim}
    summed = {f for m in operands for dim in m or () for f in dim} - own
    message = tuple(sorted(own))
    internal = tuple(InternalCollective((f,), message, backward=0) for f in sorted(summed))
    return replace(rule, internal=internal)


def _product_of(view: OpView, left: int, right: int) -> OpView:
    """The operator with two of its operands alone."""
    names = (view.op.inputs[left], view.op.inputs[right])
    return OpView(replace(view.op, inputs=names), view.graph)


def integer_conv_rule(view: OpView) -> ShardingRule:
    """A convolution; a zero point belongs to all weights or to a channel of the result."""
    rule = with_whole_positions(conv_rule(view))
    weight = rule.operands[1]
    points = [quantity_map(view, 2, 0, rule.operands[0], 1), quantity_map(view, 3, 1, weight, 0)]
    return replace(rule, operands=(*rule.operands, *points[: len(view.op.inputs) - 2]))


def rounded_conv_rule(view: OpView) -> ShardingRule:
    """`x, scale, point, w, scale, point, scale, point, bias`: the sum is completed, then
    rounded.
    """
    plain = with_whole_positions(conv_rule(_product_of(view, 0, 3)))
    data, weight, result = plain.operands[0], plain.operands[1], plain.results[0]
    if data is None or weight is None or result is None:
        raise ValueError("a convolution without data or weight")
    count, space = len(plain.sizes), view.result()[2:]
    places = tuple(range(count, count + len(space)))
    w = [quantity_map(view, i, 3, weight, 0) for i in (4, 5)]
    others = [None if not view.has(i) else ((),) * len(view.dims(i)) for i in (1, 2, 6, 7)]
    bias: list[FactorMap | None] = [(weight[0],)] if view.has(8) else []
    result = (*result[:2], *single(places))
    rule = replace(
        plain,
        sizes=(*plain.sizes, *space),
        locked=plain.locked | set(places),
        operands=(data, *others[:2], weight, *w, *others[2:], *bias),
        results=(result,),
        order=(*plain.order, *places),
    )
    return _completed(rule, (data, weight), result)


# Quotient, rounding, shift and clipping.
enter("QuantizeLinear", rule=scale_rule, differentiable=(), fusible=True, flops=per_result(4))


enter(
    "DequantizeLinear",
    rule=scale_rule,
    needs=Needs.OTHERS,
    differentiable=(1,),
    fusible=True,
    flops=per_result(2),
)


# Two comparisons, then as any quantisation.
enter("DynamicQuantizeLinear", rule=dynamic_rule, differentiable=(), flops=per_result(6))


enter(
    "MatMulInteger",
    rule=integer_matmul_rule,
    engine=Engine.MATRIX,
    differentiable=(),
    parameter_operands=(1,),
    flops=matmul_flops,
)


@operator(
    "QLinearMatMul",
    rule=rounded_matmul_rule,
    engine=Engine.MATRIX,
    differentiable=(),
    parameter_operands=(3,),
)
def _rounded_matmul_flops(view: OpView) -> int:
    return matmul_flops(_product_of(view, 0, 3)) + 4 * view.outputs[0].elements


enter(
    "ConvInteger",
    rule=integer_conv_rule,
    engine=Engine.CONVOLUTION,
    differentiable=(),
    parameter_operands=(1,),
    flops=conv_flops,
)


@operator(
    "QLinearConv",
    rule=rounded_conv_rule,
    engine=Engine.CONVOLUTION,
    differentiable=(),
    parameter_operands=(3, 8),
)
def _rounded_conv_flops(view: OpView) -> int:
    return conv_flops(_product_of(view, 0, 3)) + 4 * view.outputs[0].elements


def packed_matmul_rule(view: OpView) -> ShardingRule:
    """`b... m (k q!), n k 1, (n k), n z! -> b... m n`: blocks of `q` weights stay together.

    Zero points are packed: where there are some, blocks stay on one device.
    """
    builder = RuleBuilder()
    data, packed, block = view.dims(0), view.dims(1), view.int("block_size", 32)
    lead = builder.factors(data[:-1])
    n, short = builder.factor(packed[0]), bool(data[-1] % block)
    k = builder.factor(packed[1], locked=short or view.has(3))
    inner = builder.factor(data[-1] if short else block, locked=True)
    scales: FactorMap = ((n,), (k,)) if len(view.dims(2)) == 2 else ((n, k),)
    points: list[FactorMap | None] = []
    if view.has(3):
        rest = builder.factor(math.prod(view.dims(3)) // packed[0], locked=True)
        points = [((n,), (rest,)) if len(view.dims(3)) == 2 else ((n, rest),)]
    return builder.build(
        [
            (*single(lead), (inner,) if short else (k, inner)),
            ((n,), (k,), ()),
            scales,
            *points,
        ],
        [(*single(lead), (n,))],
    )


@operator(
    "MatMulNBits",
    rule=packed_matmul_rule,
    engine=Engine.MATRIX,
    needs=Needs.OTHERS,
    differentiable=(0,),
)
def _packed_matmul_flops(view: OpView) -> int:
    """The product, and a shift, a difference and a factor for each weight."""
    inner = view.dims(0)[-1]
    return 2 * view.outputs[0].elements * inner + 3 * view.dims(1)[0] * inner


write(
    QuantizeLinear="quantise", DequantizeLinear="dequantise",
    DynamicQuantizeLinear="dynamic_quantise", MatMulInteger="integer_matmul",
    MatMulNBits="packed_matmul", ConvInteger="integer_conv", QLinearMatMul="rounded_matmul",
    QLinearConv="rounded_conv",
)  # fmt: skip
show(
    ConvInteger="(uint8[2,4,6,8] x, uint8[12,4,3,3] w) => (y) {y = ConvInteger(x, w)}",
    DequantizeLinear="(uint8[2,4,6] x, float s, uint8 z) => (y) {y = DequantizeLinear(x, s, z)}",
    MatMulInteger="(uint8[2,4,6] x, uint8[6,8] w) => (y) {y = MatMulInteger(x, w)}",
    MatMulNBits="(float[2,4,32] x, uint8[8,1,16] w, float[8] s) => (float[2,4,8] y) {y = "
    "com.microsoft.MatMulNBits<K=32, N=8, bits=4, block_size=32>(x, w, s)}",
    QLinearConv="(uint8[2,4,6,8] x, float xs, uint8 xz, uint8[12,4,3,3] w, float ws, uint8 wz, "
    "float ys, uint8 yz) => (y) {y = QLinearConv(x, xs, xz, w, ws, wz, ys, yz)}",
    QLinearMatMul="(uint8[2,4,6] a, float as, uint8 az, uint8[6,8] b, float bs, uint8 bz, float "
    "ys, uint8 yz) => (y) {y = QLinearMatMul(a, as, az, b, bs, bz, ys, yz)}",
    QuantizeLinear="(float[2,4,6] x, float s, uint8 z) => (y) {y = QuantizeLinear(x, s, z)}",
)  # fmt: skip
