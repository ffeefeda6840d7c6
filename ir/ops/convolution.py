"""Convolutions, pooling and resizing. Images, channels and groups may be split, and positions where
neighbours can send each other their edges (`ir.ops.windows`).

Windows are told by `kernel_shape`, `strides`, `dilations`, `pads` and the dims of the result:
the importer turns `auto_pad` and `output_shape` into pads, and what reaches beyond them is absent.
"""

from __future__ import annotations

import math

from ir.ops.registry import (
    CountFunction,
    Engine,
    Needs,
    OpView,
    Resizing,
    enter,
    forms,
    operator,
    per_operand,
    per_result,
    primitives,
    show,
    write,
)
from ir.ops.windows import FIRST, positions
from ir.rule import FactorMap, RuleBuilder, ShardingRule


def conv_rule(view: OpView) -> ShardingRule:
    """`n (g c) x..., (g o) c k... -> n (g o) y...` for `group` = g.

    MindSpore keeps the last of three dimensions of positions whole.
    """
    return _conv_rule(view, transposed=False)


def transposed_conv_rule(view: OpView) -> ShardingRule:
    """`n (g c) x..., (g c) o k... -> n (g o) y...`."""
    return _conv_rule(view, transposed=True)


def _conv_rule(view: OpView, *, transposed: bool) -> ShardingRule:
    builder = RuleBuilder()
    data, weight = view.dims(0), view.dims(1)
    groups = view.int("group", 1)
    n, g = builder.factor(data[0]), builder.factor(groups)
    sizes = (weight[1], weight[0] // groups)
    c, o = builder.factors(sizes[::-1] if transposed else sizes)
    group = (g,) if groups > 1 else ()
    builder.uncut.update((g, c, o) if groups > 1 else ())
    space, made = positions(view, builder, ((n,), (*group, c)), weight[2:], wider=transposed)
    builder.uncut.update(space[-1] if len(space) > 2 and not transposed else ())
    first, second = (c, o) if transposed else (o, c)
    return builder.build(
        [((n,), (*group, c), *space), ((*group, first), (second,), *((),) * (len(weight) - 2))],
        [((n,), (*group, o), *made)],
        order=(n, g, c, *range(o + 1, len(builder.sizes)), o),
    )


def pool_rule(view: OpView) -> ShardingRule:
    """`n c x... -> n c y...`; MindSpore cuts positions only where windows need no edges.

    The second result of a MaxPool counts positions in the whole tensor: it needs all of it.
    """
    builder = RuleBuilder()
    data, kernel = view.dims(0), view.ints("kernel_shape")
    if len(view.outputs) > 1:
        whole: FactorMap = tuple((builder.factor(d, locked=True),) for d in data[:2])
        whole = (*whole, *((),) * (len(data) - 2))
        return builder.build([whole], [whole] * len(view.outputs))
    images: FactorMap = tuple((f,) for f in builder.factors(data[:2]))
    space, made = positions(view, builder, images, kernel)
    for window in builder.windows:
        builder.uncut.update(space[window.dim - FIRST] if window.before or window.after else ())
    return builder.build([(*images, *space)], [(*images, *made)])


def image_rule(view: OpView) -> ShardingRule:
    """Images and channels pass; every position stays on its device."""
    builder = RuleBuilder()
    data = view.dims(0)
    images: FactorMap = tuple((f,) for f in builder.factors(data[:2]))
    operand = (*images, *((),) * (len(data) - 2))
    return builder.build([operand], [operand])


def global_pool_rule(view: OpView) -> ShardingRule:
    """`n c x... -> n c 1...`: split positions leave a partial sum over a known count."""
    builder = RuleBuilder()
    factors = builder.factors(view.dims(0))
    operand: FactorMap = tuple((f,) for f in factors)
    return builder.build([operand], [(operand[0], operand[1], *((),) * (len(factors) - 2))])


def resize_rule(view: OpView) -> ShardingRule:
    """Dimensions that are not resized pass, the others stay whole.

    A scale, or a region that is cropped, may move elements of a dimension that keeps its size.
    """
    builder = RuleBuilder()
    data, result, rank = view.dims(0), view.result(), len(view.dims(0))
    scales = _numbers(view, "scales", (1.0,) * rank)
    region = _numbers(view, "roi", (0.0,) * rank + (1.0,) * rank)
    both: FactorMap = tuple(
        (builder.factor(size),)
        if size == result[i] and scales[i] == 1 and (region[i], region[rank + i]) == (0, 1)
        else ()
        for i, size in enumerate(data)
    )
    return builder.build([both, *[None] * (len(view.op.inputs) - 1)], [both])


def _numbers(view: OpView, key: str, default: tuple[float, ...]) -> tuple[float, ...]:
    value = view.op.attributes.get(key, default)
    if not isinstance(value, tuple) or len(value) != len(default):
        raise TypeError(f"attribute {key} of {view.op.name} is {value!r}")
    return tuple(float(v) for v in value)


@operator(
    "Conv", rule=conv_rule, engine=Engine.CONVOLUTION, needs=Needs.OTHERS, parameter_operands=(1,),
    bias_operand=2, resizing=Resizing.KERNEL,
)  # fmt: skip
def conv_flops(view: OpView) -> int:
    """One multiply and one add for each result element, input channel of its group and kernel
    position.
    """
    return 2 * view.outputs[0].elements * math.prod(view.dims(1)[1:])


@operator(
    "ConvTranspose", rule=transposed_conv_rule, engine=Engine.CONVOLUTION, needs=Needs.OTHERS,
    parameter_operands=(1,), bias_operand=2, resizing=Resizing.TRANSPOSED,
)  # fmt: skip
def transposed_conv_flops(view: OpView) -> int:
    """As a convolution, counted from the operand."""
    return 2 * view.graph.tensors[view.op.inputs[0]].elements * math.prod(view.dims(1)[1:])


def _per_window(count: int) -> CountFunction:
    """So many FLOPs for each element of the window of each result."""
    return lambda view: (
        count * view.outputs[0].elements * math.prod(view.ints("kernel_shape", (1,)))
    )


enter(
    "MaxPool", rule=pool_rule, needs=Needs.OPERANDS_AND_RESULT, whole_at_any_size=True,
    flops=_per_window(1), resizing=Resizing.WINDOWS,
)  # fmt: skip
enter(
    "LpPool", rule=pool_rule, needs=Needs.OPERANDS_AND_RESULT, flops=_per_window(2),
    resizing=Resizing.WINDOWS,
)  # fmt: skip
enter("AveragePool", rule=pool_rule, flops=_per_window(1), resizing=Resizing.WINDOWS)
enter("GlobalAveragePool", rule=global_pool_rule, flops=per_operand(1))
enter(
    "GlobalMaxPool", rule=image_rule, needs=Needs.OPERANDS_AND_RESULT, flops=per_operand(1),
    resizing=Resizing.POSITIONS,
)  # fmt: skip
enter(
    "Resize", "Upsample", rule=resize_rule, differentiable=(0,), flops=per_result(4),
    resizing=Resizing.RESIZED,
)  # fmt: skip

POOLS = ("MaxPool", "AveragePool", "LpPool")
"""Over windows of the image."""
RESIZINGS = ("Resize", "Upsample")

primitives("MaxPool", AveragePool="AvgPool")
write(
    Conv="conv", ConvTranspose="conv_transpose", MaxPool="max_pool", AveragePool="average_pool",
    LpPool="lp_pool", GlobalAveragePool="global_average", GlobalMaxPool="global_max",
    **dict.fromkeys(RESIZINGS, "resize"),
)  # fmt: skip
forms(
    Conv="convolution", ConvTranspose="transposed_convolution", MaxPool="pool", AveragePool="pool"
)
show(
    AveragePool="(float[2,4,6,8] x) => (y) {y = AveragePool<kernel_shape=[2,2]>(x)}",
    Conv="(float[2,4,6,8] x, float[12,4,3,3] w) => (y) {y = Conv(x, w)}",
    ConvTranspose="(float[2,4,6,8] x, float[4,12,3,3] w) => (y) {y = ConvTranspose(x, w)}",
    GlobalAveragePool="(float[2,4,6,8] x) => (y) {y = GlobalAveragePool(x)}",
    GlobalMaxPool="(float[2,4,6,8] x) => (y) {y = GlobalMaxPool(x)}",
    LpPool="(float[2,4,6,8] x) => (y) {y = LpPool<kernel_shape=[2,2]>(x)}",
    MaxPool="(float[2,4,6,8] x) => (y) {y = MaxPool<kernel_shape=[2,2]>(x)}",
    Resize="(float[2,4,6,8] x) => (y) <int64[4] s = {2, 4, 12, 16}> {y = Resize(x, , , s)}",
    Upsample="(float[2,4,6,8] x) => (y) <float[4] s = {1, 1, 2, 2}> {y = Upsample(x, s)}",
)  # fmt: skip
