"""Calls of single primitives with operands, for `write_mindir`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import mint, nn, ops
from mindspore.ops.auto_generate import gen_ops_prim as generated

from tests.mindspore_package import mindir_functions as small

Case = tuple[str, Callable[..., Any], tuple[Any, ...]]
_RANDOM = np.random.default_rng(7)


def numbers(*shape: int, low: float = -2.0, high: float = 2.0) -> ms.Tensor:
    """Floating numbers of which no two are equal."""
    return ms.Tensor(_RANDOM.uniform(low, high, shape).astype(np.float32))


def whole(*shape: int, below: int = 5, dtype: Any = np.int32) -> ms.Tensor:
    return ms.Tensor(_RANDOM.integers(0, below, shape).astype(dtype))


def flags(*shape: int) -> ms.Tensor:
    return ms.Tensor(_RANDOM.integers(0, 2, shape).astype(bool))


def _primitive(name: str) -> Any:
    return getattr(ops, name, None) or getattr(generated, name)


UNARY = (
    "Abs", "Asinh", "Atan", "Ceil", "Cos", "Cosh", "Erf", "Exp", "Expm1", "FastGeLU", "Floor",
    "GeLU", "HSigmoid", "HSwish", "IsFinite", "IsNan", "LogSoftmax", "Mish", "Neg", "ReLU", "ReLU6",
    "Reciprocal", "Rint", "Round", "SeLU", "Sigmoid", "Sign", "SiLU", "Sin", "Sinh", "Softplus",
    "Softsign", "Square", "Tan", "Tanh", "Elu", "Inv", "IsInf",
)  # fmt: skip
POSITIVE = ("Log", "Log1p", "Rsqrt", "Sqrt", "Acosh")
FRACTION = ("ACos", "Asin", "Atanh")
BINARY = (
    "Add", "Sub", "Mul", "Div", "RealDiv", "FloorDiv", "FloorMod", "Mod", "Maximum", "Minimum",
    "Equal", "NotEqual", "Greater", "GreaterEqual", "Less", "LessEqual", "SquaredDifference",
    "DivNoNan",
)  # fmt: skip


def cases() -> Iterator[Case]:
    """All of them; each is exported as a network of its own."""
    for name in UNARY:
        yield name, _primitive(name)(), (numbers(3, 4),)
    for name in POSITIVE:
        yield name, _primitive(name)(), (numbers(3, 4, low=1.1, high=3.0),)
    for name in FRACTION:
        yield name, _primitive(name)(), (numbers(3, 4, low=-0.9, high=0.9),)
    for name in BINARY:
        yield name, _primitive(name)(), (numbers(3, 4), numbers(4, low=0.5))
    yield "scalars", small.scalars, (numbers(3, 4),)
    yield from _logical()
    yield from _products()
    yield from _moves()
    yield from _lookups()
    yield from _reductions()
    yield from _norms()
    yield from _images()
    yield from _backward()


def _logical() -> Iterator[Case]:
    for name in ("LogicalAnd", "LogicalOr", "LogicalXor"):
        yield name, _primitive(name)(), (flags(3, 4), flags(3, 4))
    yield "LogicalNot", ops.LogicalNot(), (flags(3, 4),)
    for name in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        yield name, _primitive(name)(), (whole(3, 4), whole(3, 4))
    yield "Select", ops.Select(), (flags(3, 4), numbers(3, 4), numbers(3, 4))
    yield "MaskedFill", small.maskedfill, (numbers(3, 4), flags(3, 4))
    yield "clamp", small.clamp, (numbers(3, 4),)
    yield "lerp", ops.lerp, (numbers(3, 4), numbers(3, 4), numbers(3, 4))
    yield "addcmul", small.addcmul, (
        numbers(3, 4), numbers(3, 4), numbers(3, 4))  # fmt: skip
    yield "gelus", small.gelus, (numbers(3, 4),)
    yield "newer", small.newer, (numbers(2, 3, 4),)
    yield "AddN", small.addn, (numbers(3, 4), numbers(3, 4))
    yield "PReLU", ops.PReLU(), (numbers(2, 3, 4), numbers(3))
    yield "Pow", ops.Pow(), (numbers(3, 4, low=0.5), numbers(3, 4))
    yield "Cast", small.cast, (numbers(3, 4),)
    yield "glu", small.glu, (numbers(3, 4),)


def _products() -> Iterator[Case]:
    for a in (False, True):
        for b in (False, True):
            left, right = ((5, 3) if a else (3, 5)), ((4, 5) if b else (5, 4))
            yield f"MatMul {a} {b}", ops.MatMul(a, b), (numbers(*left), numbers(*right))
            yield f"BatchMatMul {a} {b}", ops.BatchMatMul(a, b), (
                numbers(2, *left), numbers(2, *right))  # fmt: skip
    yield "BiasAdd", ops.BiasAdd(), (numbers(2, 3), numbers(3))
    yield "BiasAdd channels", ops.BiasAdd(), (numbers(2, 3, 4, 4), numbers(3))
    yield "matmul", ops.matmul, (numbers(2, 3, 5), numbers(5, 4))
    yield "Dense", nn.Dense(5, 4), (numbers(2, 3, 5),)
    yield "mint.linear", mint.nn.functional.linear, (numbers(3, 5), numbers(4, 5), numbers(4))
    heads = [numbers(2, 4, 6, 8) for _ in range(3)]
    yield "FlashAttentionScore", small.attention, (*heads, flags(6, 6))
    yield "FlashAttentionScore merged", small.merged_attention, tuple(
        numbers(2, 6, 32) for _ in range(3))  # fmt: skip
    yield "outer", ops.outer, (numbers(3), numbers(4))
    yield "addmm", ops.addmm, (numbers(3, 4), numbers(3, 5), numbers(5, 4))


def _moves() -> Iterator[Case]:
    x = numbers(2, 3, 4)
    yield "Reshape", small.reshape, (x,)
    yield "Transpose", small.transpose, (x,)
    yield "swapaxes", small.swapaxes, (x,)
    yield "ExpandDims", small.expanddims, (x,)
    yield "Squeeze", small.squeeze, (numbers(2, 1, 3, 1),)
    yield "Squeeze axis", ops.Squeeze(1), (numbers(2, 1, 3, 1),)
    yield "BroadcastTo", small.broadcastto, (numbers(2, 3),)
    yield "Tile", small.tile, (x,)
    yield "repeat_interleave", small.repeat_interleave, (x,)
    yield "Concat", small.concat, (numbers(2, 3), numbers(2, 4))
    yield "Stack", small.stack, (numbers(2, 3), numbers(2, 3))
    yield "Unstack", small.unstack, (x,)
    yield "Split", small.split, (x,)
    yield "Split sizes", small.split_sizes, (x,)
    yield "chunk", small.chunk, (x,)
    yield "Slice", small.part, (x,)
    yield "slicing", small.slicing, (x,)
    yield "backwards", small.backwards, (x,)
    yield "narrow", small.narrow, (x,)
    yield "Pad", ops.Pad(((1, 0), (2, 1))), (numbers(2, 3),)
    yield "pad", small.pad, (x,)
    yield "reflect", small.reflect, (x,)
    yield "flip", small.flip, (x,)
    yield "roll", small.roll, (x,)
    yield "tril", small.tril, (x,)
    yield "triu", small.triu, (x,)
    yield "Flatten", ops.Flatten(), (x,)
    yield "flatten", small.flatten, (x,)
    yield "filled", small.filled, (
        numbers(3, 4),)  # fmt: skip
    yield "full_like", small.full_like, (x,)
    yield "range", small.counted, (x,)


def _lookups() -> Iterator[Case]:
    x, table = numbers(2, 3, 4), numbers(7, 4)
    yield "Gather", small.gather, (table, whole(2, 3))
    yield "Gather axis", small.gather_axis, (x, whole(5, below=3))
    yield "Embedding", nn.Embedding(7, 4), (whole(2, 3),)
    yield "GatherD", small.gatherd, (x, whole(2, 2, 4, below=3))
    yield "GatherNd", ops.GatherNd(), (x, whole(5, 2, below=2))
    yield "index_select", small.index_select, (x, whole(2, below=3))
    yield "TensorScatterUpdate", ops.TensorScatterUpdate(), (
        table, ms.Tensor([[1], [3]], ms.int32), numbers(2, 4))  # fmt: skip
    yield "TensorScatterAdd", ops.TensorScatterAdd(), (table, whole(3, 1), numbers(3, 4))
    yield "ScatterNd", small.scatternd, (whole(3, 1), numbers(3, 4))
    yield "TensorScatterElements", small.tensorscatterelements, (
        numbers(2, 3), ms.Tensor([[2, 0], [1, 2]], ms.int32), numbers(2, 2))  # fmt: skip
    yield "one_hot", small.one_hot, (whole(2, 3),)
    yield "OneHot axis", small.onehot_axis, (whole(3),)  # fmt: skip


def _reductions() -> Iterator[Case]:
    x = numbers(2, 3, 4)
    for name in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"):
        yield f"{name} keep", _over(_primitive(name)(keep_dims=True), (1,)), (x,)
        yield f"{name} some", _over(_primitive(name)(), (0, 2)), (x,)
        yield f"{name} all", _over(_primitive(name)(), ()), (x,)
    for name in ("ReduceAll", "ReduceAny"):
        yield name, _over(_primitive(name)(), 1), (flags(2, 3),)
    yield "method sum", small.method_sum, (x,)
    yield "Softmax", ops.Softmax(1), (x,)
    yield "LogSoftmax", ops.LogSoftmax(-1), (x,)
    yield "logsumexp", small.logsumexp, (x,)
    yield "Argmax", ops.Argmax(1), (x,)
    yield "Argmin", ops.Argmin(1), (x,)
    yield "ArgMaxWithValue", ops.ArgMaxWithValue(1, True), (x,)
    yield "ArgMinWithValue", ops.ArgMinWithValue(1), (x,)
    yield "TopK", small.topk, (x,)
    yield "Sort", ops.Sort(1, True), (x,)
    yield "CumSum", small.cumsum, (x,)
    yield "CumSum reverse", _over(ops.CumSum(True, True), 1), (x,)
    yield "CumProd", _over(ops.CumProd(), 1), (x,)
    yield "L2Normalize", ops.L2Normalize(1), (x,)
    yield "LpNorm", ops.LpNorm(axis=1, p=2), (x,)
    yield "std", small.std, (x,)
    yield "var", small.var, (x,)


def _over(primitive: Any, axis: Any) -> Callable[[Any], Any]:
    return lambda x: primitive(x, axis)


def _norms() -> Iterator[Case]:
    x, image = numbers(2, 3, 8), numbers(2, 4, 5, 5)
    yield "LayerNorm", nn.LayerNorm((8,), epsilon=1e-5), (x,)
    yield "LayerNorm two", nn.LayerNorm((3, 8), begin_norm_axis=1, begin_params_axis=1), (x,)
    yield "layer and rms", small.extended, (x, numbers(8), numbers(8), numbers(2, 3, 8))
    yield "RmsNorm", ops.RmsNorm(1e-5), (x, numbers(8))
    yield "BatchNorm2d", nn.BatchNorm2d(4).set_train(mode=False), (image,)
    yield "GroupNorm", nn.GroupNorm(2, 4), (image,)
    logits, classes = numbers(6, 5), whole(6)
    yield "cross_entropy", small.cross_entropy, (logits, classes)
    yield "NLLLoss", small.nllloss, (logits, classes)
    yield "sparse", ops.SparseSoftmaxCrossEntropyWithLogits(), (logits, classes)
    soft = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    yield "SoftmaxCrossEntropyWithLogits", soft, (logits, classes)
    yield "MSELoss", nn.MSELoss(), (numbers(3, 4), numbers(3, 4))
    yield "L1Loss", nn.L1Loss(), (numbers(3, 4), numbers(3, 4))
    yield "Dropout", nn.Dropout(p=0.4).set_train(mode=False), (x,)


def _images() -> Iterator[Case]:
    image = numbers(2, 4, 7, 8)
    for mode in ("same", "valid"):
        for stride in (1, 2):
            cell = nn.Conv2d(4, 6, 3, stride, pad_mode=mode, weight_init="normal")
            yield f"Conv2d {mode} {stride}", cell, (image,)
    cell = nn.Conv2d(4, 6, (3, 1), 2, pad_mode="pad", padding=(1, 2, 0, 1), dilation=(2, 1),
                     has_bias=True, weight_init="normal")  # fmt: skip
    yield "Conv2d pad", cell, (image,)
    yield "Conv2d groups", nn.Conv2d(4, 4, 3, group=4, weight_init="normal"), (image,)
    for mode in ("same", "valid"):
        cell = nn.Conv2dTranspose(4, 3, 3, 2, pad_mode=mode, weight_init="normal")
        yield f"Conv2dTranspose {mode}", cell, (image,)
    cell = nn.Conv2dTranspose(4, 3, 3, 2, pad_mode="pad", padding=1, weight_init="normal")
    yield "Conv2dTranspose pad", cell, (image,)
    for name in ("MaxPool", "AvgPool"):
        for mode in ("same", "valid"):
            yield f"{name} {mode}", _primitive(name)(3, 2, mode), (image,)
    yield "AdaptiveAvgPool2D", ops.AdaptiveAvgPool2D((1, 1)), (image,)
    yield "MaxPool2d pad", nn.MaxPool2d(3, 2, pad_mode="pad", padding=1), (image,)
    yield "AvgPool2d pad", nn.AvgPool2d(3, 2, pad_mode="pad", padding=1), (image,)
    yield "bilinear", small.bilinear, (image,)
    yield "bilinear corners", small.bilinear_corners, (image,)  # fmt: skip
    yield "nearest", small.nearest, (image,)
    for mode, padding in (("bilinear", "zeros"), ("nearest", "border"), ("bilinear", "reflection")):
        grid = numbers(2, 3, 5, 2, low=-1.2, high=1.2)
        yield f"GridSampler2D {padding}", _primitive("GridSampler2D")(mode, padding), (image, grid)
    regions = ms.Tensor([[0, 1, 1, 5, 4], [1, 0, 2, 6, 6]], ms.float32)
    yield "ROIAlign", ops.ROIAlign(2, 2, 0.5, 2), (image, regions)
    yield "DepthToSpace", ops.DepthToSpace(2), (numbers(1, 8, 2, 3),)
    yield "SpaceToDepth", ops.SpaceToDepth(2), (numbers(1, 2, 4, 6),)
    yield "PixelShuffle", small.pixelshuffle, (numbers(1, 8, 2, 3),)


def _backward() -> Iterator[Case]:
    gradient, x = numbers(3, 4), numbers(3, 4)
    for name in ("ReluGrad", "SiLUGrad"):
        yield name, _primitive(name)(), (gradient, x)
    yield "BiasAddGrad", _primitive("BiasAddGrad")(), (numbers(2, 3, 4, 4),)
    yield "GeLUGrad", _primitive("GeLUGrad")(), (gradient, x, ops.gelu(x, approximate="tanh"))
    yield "SigmoidGrad", _primitive("SigmoidGrad")(), (ops.sigmoid(x), gradient)
    yield "TanhGrad", _primitive("TanhGrad")(), (ops.tanh(x), gradient)
    yield "LogSoftmaxGrad", _primitive("LogSoftmaxGrad")(-1), (ops.log_softmax(x, -1), gradient)
    yield "trained", small.gradients, (numbers(3, 4), numbers(4, 5), numbers(5))
