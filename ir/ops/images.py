"""Samples of images at computed places, unfolding, Fourier transforms, determinants."""

from __future__ import annotations

import math

from ir.ops.registry import (
    Engine,
    Needs,
    OpView,
    enter,
    forms,
    operator,
    per_operand,
    primitives,
    show,
    unknown_rule,
    write,
)
from ir.rule import FactorMap, InternalCollective, RuleBuilder, ShardingRule, single


def _whole(rank: int) -> FactorMap:
    return ((),) * rank


def global_norm_rule(view: OpView) -> ShardingRule:
    """`n c x... -> n c 1...`: split positions exchange sums of powers."""
    builder = RuleBuilder()
    factors = builder.factors(view.dims(0))
    builder.internal.append(
        InternalCollective(tuple(factors[2:]), tuple(factors[:2]), forward=1, backward=0)
    )
    result = (*single(factors[:2]), *_whole(len(factors) - 2))
    return builder.build([single(factors)], [result])


def grid_sample_rule(view: OpView) -> ShardingRule:
    """`n c x..., n y... 1 -> n c y...`: every place may read any position of its image.

    MindSpore cuts both operands alike, which is right for the images alone.
    """
    builder = RuleBuilder()
    data, grid = view.dims(0), view.dims(1)
    n, c = builder.factor(data[0]), builder.factor(data[1])
    places = single(builder.factors(grid[1:-1]))
    builder.uncut.update({c, *(f for dim in places for f in dim)})
    return builder.build(
        [((n,), (c,), *_whole(len(data) - 2)), ((n,), *places, ())], [((n,), (c,), *places)]
    )


def affine_grid_rule(view: OpView) -> ShardingRule:
    """`n 1 1 -> n 1... 1`: the positions of the image are computed where they are needed."""
    builder = RuleBuilder()
    n = builder.factor(view.dims(0)[0])
    return builder.build([((n,), (), ())], [((n,), *_whole(len(view.result()) - 1))])


def region_rule(view: OpView) -> ShardingRule:
    """`1 c 1 1, r 1, r -> r c 1 1`: a region may lie in any image."""
    builder = RuleBuilder()
    c, r = builder.factor(view.dims(0)[1]), builder.factor(view.dims(1)[0])
    operands: list[FactorMap] = [((), (c,), (), ()), ((r,), ()), ((r,),)]
    return builder.build(operands[: len(view.op.inputs)], [((r,), (c,), (), ())])


def deform_conv_rule(view: OpView) -> ShardingRule:
    """A convolution; groups of offsets are groups of its input channels.

    Operands are data, weight, offset and mask. Channels stay whole where both kinds of groups cut
    them.
    """
    builder = RuleBuilder()
    data, weight = view.dims(0), view.dims(1)
    groups, apart = view.int("group", 1), view.int("offset_group", 1)
    n, both = builder.factor(data[0]), groups > 1 and apart > 1
    g, a = builder.factor(groups, locked=both), builder.factor(apart, locked=both)
    c = builder.factor(data[1] // (groups * apart) if not both else 1)
    o = builder.factor(weight[0] // groups, locked=both)
    group, part = ((g,) if groups > 1 else ()), ((a,) if apart > 1 else ())
    offsets = [
        ((n,), (*part, builder.factor(t.dims[1] // apart, locked=True)), (), ())
        for t in view.inputs[2:]
        if t is not None
    ]
    if both:
        whole: FactorMap = ((n,), (), (), ())
        return builder.build([whole, _whole(4), *[whole] * len(offsets)], [whole])
    return builder.build(
        [((n,), (*group, *part, c), (), ()), ((*group, o), (*part, c), (), ()), *offsets],
        [((n,), (*group, o), (), ())],
    )


def fold_rule(view: OpView) -> ShardingRule:
    """`n (c k!) 1 -> n c 1...`: the windows of one channel stay together."""
    builder = RuleBuilder()
    n, c = builder.factors(view.result()[:2])
    k = builder.factor(view.dims(0)[1] // view.result()[1], locked=True)
    return builder.build([((n,), (c, k), ())], [((n,), (c,), *_whole(len(view.result()) - 2))])


def matrices_rule(view: OpView) -> ShardingRule:
    """`b... 1 1 -> b...`: matrices stay whole."""
    builder = RuleBuilder()
    batch = single(builder.factors(view.dims(0)[:-2]))
    return builder.build([(*batch, (), ())], [batch])


def transform_rule(view: OpView) -> ShardingRule:
    """Everything passes but the transformed axis and the parts of complex numbers."""
    builder = RuleBuilder()
    dims, axis = view.dims(0), view.int("axis")
    both: FactorMap = tuple(
        () if i in (axis, len(dims) - 1) else (builder.factor(d),) for i, d in enumerate(dims)
    )
    return builder.build([both], [both])


def frames_rule(view: OpView) -> ShardingRule:
    """`n 1 1, 1 -> n 1 1 1`: frames overlap, signals are split."""
    builder = RuleBuilder()
    n = builder.factor(view.dims(0)[0])
    window = [None if t is None else _whole(1) for t in view.inputs[1:]]
    return builder.build([((n,), (), ()), *window], [((n,), (), (), ())])


def _operand_elements(view: OpView) -> int:
    return view.graph.tensors[view.op.inputs[0]].elements


enter("GlobalLpPool", rule=global_norm_rule, needs=Needs.OPERANDS_AND_RESULT, flops=per_operand(3))


def max_unpool_rule(view: OpView) -> ShardingRule:
    """Places are counted in the whole tensor: all of it stays on one device."""
    return unknown_rule(view)


enter(
    "MaxUnpool", rule=max_unpool_rule, needs=Needs.OTHERS, differentiable=(0,), flops=per_operand(1)
)


@operator("GridSample", rule=grid_sample_rule, needs=Needs.OPERANDS)
def _grid_sample_flops(view: OpView) -> int:
    """A product and a sum for each neighbour: 4 of them along a dimension where it is cubic."""
    taps = {"nearest": 1, "cubic": 4}.get(str(view.op.attributes.get("mode", "linear")), 2)
    return 2 * view.outputs[0].elements * math.prod([taps] * (len(view.dims(0)) - 2))


@operator("AffineGrid", rule=affine_grid_rule)
def _affine_grid_flops(view: OpView) -> int:
    return 2 * view.outputs[0].elements * view.dims(0)[-1]


@operator("RoiAlign", rule=region_rule, needs=Needs.OPERANDS, differentiable=(0,))
def _region_flops(view: OpView) -> int:
    """Four neighbours of each sample; two samples a side where the operator does not say."""
    return 8 * view.outputs[0].elements * (view.int("sampling_ratio") or 2) ** 2


@operator("MaxRoiPool", rule=region_rule, needs=Needs.OPERANDS_AND_RESULT, differentiable=(0,))
def _region_maximum_flops(view: OpView) -> int:
    return view.dims(1)[0] * view.dims(0)[1] * math.prod(view.dims(0)[2:])


@operator(
    "DeformConv",
    rule=deform_conv_rule,
    engine=Engine.CONVOLUTION,
    needs=Needs.OPERANDS,
    parameter_operands=(1,),
    bias_operand=3,
)
def _deform_conv_flops(view: OpView) -> int:
    """As a convolution, and four neighbours of each element that it reads."""
    kernel = math.prod(view.dims(1)[2:])
    samples = view.dims(0)[0] * view.dims(0)[1] * kernel * math.prod(view.result()[2:])
    return 8 * samples + 2 * view.outputs[0].elements * math.prod(view.dims(1)[1:])


enter("Col2Im", rule=fold_rule, flops=per_operand(1))


@operator("Det", rule=matrices_rule, needs=Needs.OPERANDS_AND_RESULT)
def _det_flops(view: OpView) -> int:
    """Elimination: two thirds of the cube of the size."""
    return 2 * _operand_elements(view) * view.dims(0)[-1] // 3


@operator("DFT", rule=transform_rule)
def _dft_flops(view: OpView) -> int:
    """Five operations for each element and halving, as is usual for the fast transform."""
    length = max(view.dims(0)[view.int("axis")], 2)
    return 5 * view.outputs[0].elements * math.ceil(math.log2(length))


@operator("STFT", rule=frames_rule, needs=Needs.OTHERS)
def _stft_flops(view: OpView) -> int:
    length = max(view.int("frame_length", 2), 2)
    return 5 * view.outputs[0].elements * math.ceil(math.log2(length))


primitives(GridSample="GridSampler2D", RoiAlign="ROIAlign")
write(
    GridSample="grid_sample", AffineGrid="affine_grid", RoiAlign="roi_align",
    MaxRoiPool="max_roi_pool", DeformConv="deform_conv", Det="determinant", DFT="dft", STFT="stft",
    MaxUnpool="max_unpool", Col2Im="col_to_image", GlobalLpPool="global_norm",
)  # fmt: skip
forms(GridSample="samples", RoiAlign="regions")
show(
    AffineGrid="(float[2,2,3] t) => (y) <int64[4] s = {2, 4, 6, 8}> {y = AffineGrid(t, s)}",
    Col2Im="(float[2,20,12] x) => (y) <int64[2] i = {5, 5}, int64[2] b = {2, 2}> {y = Col2Im(x, "
    "i, b)}",
    DFT="(float[2,6,1] x) => (y) <int64 axis = {1}> {y = DFT(x, , axis)}",
    DeformConv="(float[2,4,6,8] x, float[12,4,3,3] w, float[2,18,4,6] o) => (y) {y = "
    "DeformConv(x, w, o)}",
    Det="(float[2,4,4] x) => (y) {y = Det(x)}",
    GlobalLpPool="(float[2,4,6,8] x) => (y) {y = GlobalLpPool(x)}",
    GridSample="(float[2,4,6,8] x, float[2,5,7,2] g) => (y) {y = GridSample(x, g)}",
    MaxRoiPool="(float[2,4,6,8] x, float[3,5] r) => (y) {y = MaxRoiPool<pooled_shape=[2,2]>(x, "
    "r)}",
    MaxUnpool="(float[2,4,3,4] x, int64[2,4,3,4] i) => (y) {y = MaxUnpool<kernel_shape=[2,2], "
    "strides=[2,2]>(x, i)}",
    RoiAlign="(float[2,4,6,8] x, float[3,4] r, int64[3] b) => (y) {y = "
    "RoiAlign<output_height=2, output_width=2>(x, r, b)}",
    STFT="(float[2,24,1] x, float[8] w) => (y) <int64 f = {4}, int64 n = {8}> {y = STFT(x, f, "
    "w, n)}",
)  # fmt: skip
