"""One graph of one operator for every kind that MindSpore can be told a strategy of.

Sizes divide by 16 where an operator may be cut, so that every strategy for 16 devices is whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ir.graph import AttributeValue, Op, OpGraph, Role, Tensor

Dims = tuple[int, ...]

UNARY = (
    "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cast", "Ceil", "Cos", "Cosh", "Elu",
    "Erf", "Exp", "FastGelu", "Floor", "Gelu", "HardSigmoid", "Log", "Mish", "Neg",
    "Reciprocal", "Relu", "Round", "Selu", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign",
    "Sqrt", "Swish", "Tan", "Tanh",
)  # fmt: skip
BINARY = (
    "Add", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Min", "Mod",
    "Mul", "Pow", "Sub",
)  # fmt: skip
CUBE = (16, 32, 64)


def one(
    kind: str,
    operands: Sequence[Dims],
    results: Sequence[Dims],
    dtypes: Sequence[str] = (),
    weights: Sequence[int] = (),
    **attributes: AttributeValue,
) -> OpGraph:
    """A graph of one operator.

    Args:
        kind: its kind.
        operands: dims of each operand.
        results: dims of each result.
        dtypes: of the first operands; what is left has float32.
        weights: operands that are trainable parameters.
        attributes: of the operator.
    """
    types = [*dtypes, *["float32"] * (len(operands) - len(dtypes))]
    tensors = {
        f"x{i}": Tensor(f"x{i}", dims, types[i], Role.PARAMETER if i in weights else Role.INPUT)
        for i, dims in enumerate(operands)
    }
    tensors |= {
        f"y{i}": Tensor(f"y{i}", d, "float32", Role.ACTIVATION) for i, d in enumerate(results)
    }
    ins, outs = (tuple(n for n in tensors if n[0] == letter) for letter in "xy")
    op = Op("op", kind, ins, outs, attributes)
    inputs = tuple(n for n in ins if tensors[n].role is Role.INPUT)
    return OpGraph(kind, tensors, (op,), inputs, outs)


def examples() -> Iterator[OpGraph]:
    """All of them."""
    for kind in UNARY:
        yield one(kind, [CUBE], [CUBE])
    yield from _broadcasting()
    yield from _logical()
    yield from _products()
    yield from _images()
    yield from _normalisations()
    yield from _statistics()
    yield from _lookups()
    yield from _moves()


def _broadcasting() -> Iterator[OpGraph]:
    for kind in BINARY:
        yield one(kind, [CUBE, CUBE], [CUBE])
    for other in ((64,), (1, 64), (16, 1, 64), (16, 32, 1), (32, 1)):
        yield one("Add", [CUBE, other], [CUBE])
        yield one("Mul", [other, CUBE], [CUBE])
    yield one("Sub", [(16, 1, 64), (1, 32, 64)], [CUBE])
    yield one("Sum", [CUBE, CUBE, CUBE], [CUBE])
    yield one("Where", [CUBE, CUBE, CUBE], [CUBE], ["bool"])
    yield one("Add", [CUBE, ()], [CUBE])
    yield one("Relu", [(48, 96)], [(48, 96)])  # divides by what is no power of two
    yield one("BiasAdd", [(16, 32), (32,)], [(16, 32)], weights=(1,), axis=1)
    yield one("BiasAdd", [(16, 32, 8, 8), (32,)], [(16, 32, 8, 8)], weights=(1,), axis=1)
    yield one("PRelu", [(16, 32, 8, 8), (32, 1, 1)], [(16, 32, 8, 8)], weights=(1,))
    yield one("Dropout", [CUBE], [CUBE])


def _logical() -> Iterator[OpGraph]:
    for kind in ("And", "Or"):
        yield one(kind, [CUBE, CUBE], [CUBE], ["bool", "bool"])
    for kind in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        yield one(kind, [CUBE, CUBE], [CUBE], ["int32", "int32"])
    yield one("Not", [CUBE], [CUBE], ["bool"])
    yield one("BitwiseNot", [CUBE], [CUBE], ["int16"])
    for direction in ("LEFT", "RIGHT"):
        yield one("BitShift", [CUBE, CUBE], [CUBE], ["int32", "int32"], direction=direction)


def _products() -> Iterator[OpGraph]:
    for a, b in ((0, 0), (0, 1), (1, 0), (1, 1)):
        left, right = ((64, 32) if a else (32, 64)), ((16, 64) if b else (64, 16))
        yield one("MatMul", [left, right], [(32, 16)], weights=(1,), trans_a=a, trans_b=b)
        deep = [(16, *left), (16, *right)]
        yield one("MatMul", deep, [(16, 32, 16)], trans_a=a, trans_b=b)
    yield one("MatMul", [(16, 32, 64), (64, 16)], [(16, 32, 16)], weights=(1,))
    yield one("MatMul", [(16, 8, 32, 64), (16, 8, 64, 16)], [(16, 8, 32, 16)])
    yield one("MatMul", [(16, 1, 32, 64), (8, 64, 16)], [(16, 8, 32, 16)])
    yield one("ExpertMatMul", [(16, 32, 64, 1), (16, 16, 64)], [(16, 32, 16, 1)], weights=(1,))
    yield one(
        "ExpertMatMul", [(16, 32, 1, 64), (16, 64, 16)], [(16, 32, 1, 16)], weights=(1,), row=1
    )


def _images() -> Iterator[OpGraph]:
    image = (16, 16, 16, 16)
    for kernel, group in ((3, 1), (1, 1), (3, 16), (3, 2)):
        weight, pad = (32, 16 // group, kernel, kernel), (kernel // 2,) * 4
        yield one(
            "Conv", [image, weight], [(16, 32, 16, 16)], weights=(1,), kernel_shape=(kernel,) * 2,
            strides=(1, 1), dilations=(1, 1), pads=pad, group=group,
        )  # fmt: skip
    yield one(
        "Conv", [(*image, 16), (32, 16, 3, 3, 3)], [(16, 32, 16, 16, 16)], weights=(1,),
        kernel_shape=(3,) * 3, strides=(1,) * 3, dilations=(1,) * 3, pads=(1,) * 6,
    )  # fmt: skip
    yield one(
        "ConvTranspose", [image, (16, 32, 2, 2)], [(16, 32, 32, 32)], weights=(1,),
        kernel_shape=(2, 2), strides=(2, 2), dilations=(1, 1), pads=(0,) * 4,
    )  # fmt: skip
    for kind in ("MaxPool", "AveragePool"):
        yield one(
            kind, [image], [(16, 16, 8, 8)], kernel_shape=(2, 2), strides=(2, 2), pads=(0,) * 4
        )
    yield one("BatchNormalization", [image, *[(16,)] * 4], [image], weights=(1, 2))
    yield one("BatchNormalization", [(16, 32), *[(32,)] * 4], [(16, 32)], weights=(1, 2))
    yield one("GridSample", [image, (16, 16, 16, 2)], [image])
    yield one("RoiAlign", [image, (32, 4), (32,)], [(32, 16, 2, 2)], ["float32", "float32"])


def _normalisations() -> Iterator[OpGraph]:
    yield one("LayerNormalization", [CUBE, (64,), (64,)], [CUBE], weights=(1, 2), axis=2)
    both = [CUBE, (32, 64), (32, 64)]
    yield one("LayerNormalization", both, [CUBE], weights=(1, 2), axis=1)
    for kind in ("RMSNormalization", "SimplifiedLayerNormalization"):
        yield one(kind, [CUBE, (64,)], [CUBE], weights=(1,), axis=2)
    yield one("GroupNormalization", [(16, 32, 8, 8), (32,), (32,)], [(16, 32, 8, 8)],
              weights=(1, 2), num_groups=4)  # fmt: skip
    yield one("LpNormalization", [CUBE], [CUBE], axis=1, p=2)


def _statistics() -> Iterator[OpGraph]:
    for kind in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"):
        yield one(kind, [CUBE], [(16, 64)], axes=(1,))
        yield one(kind, [CUBE], [(1, 32, 1)], axes=(0, 2))
    yield one("ReduceSum", [CUBE], [()], axes=(0, 1, 2))
    for axis in (1, 2):
        yield one("Softmax", [CUBE], [CUBE], axis=axis)
    yield one("LogSoftmax", [CUBE], [CUBE], axis=2)
    for kind in ("ArgMax", "ArgMin"):
        yield one(kind, [CUBE], [(16, 64)], axis=1)
    yield one("TopK", [CUBE], [(16, 32, 4), (16, 32, 4)], axis=2)
    for kind in ("CumSum", "CumProd"):
        yield one(kind, [CUBE], [CUBE], axis=1)


def _lookups() -> Iterator[OpGraph]:
    index = ["float32", "int32"]
    yield one("Gather", [(64, 32), (16, 16)], [(16, 16, 32)], index, weights=(0,), axis=0)
    yield one("Gather", [(64, 32), (32,)], [(32, 32)], index, weights=(0,), axis=0)
    yield one("Gather", [(64, 32), (32,)], [(64, 32)], index, weights=(0,), axis=1)
    yield one("Gather", [(64,), (16, 16)], [(16, 16)], index, weights=(0,), axis=0)
    yield one("Gather", [(64, 32, 16), (16,)], [(16, 32, 16)], index, axis=0)
    yield one("Gather", [(64, 32, 16), (16,)], [(64, 16, 16)], index, axis=1)
    yield one("GatherElements", [CUBE, CUBE], [CUBE], index, axis=1)
    yield one("GatherND", [(16, 32, 64), (16, 16, 1)], [(16, 16, 32, 64)], index, batch_dims=0)
    yield one("GatherND", [(16, 32, 64), (32, 2)], [(32, 64)], index, batch_dims=0)
    yield one("Gather", [(64, 32), ()], [(32,)], index, weights=(0,), axis=0)
    for reduction in ("none", "add", "mul", "max", "min"):
        updates = [(32, 64), (16, 1), (16, 64)]
        yield one("ScatterND", updates, [(32, 64)], index, reduction=reduction)
    yield one("OneHot", [(64,), (2,)], [(64, 32)], ["int32"], axis=1)
    yield one("OneHot", [(64,), (2,)], [(32, 64)], ["int32"], axis=0)
    yield one("OneHot", [(32, 16), (2,)], [(32, 16, 64)], ["int32"], axis=2)


def _moves() -> Iterator[OpGraph]:
    yield one("Transpose", [CUBE], [(64, 16, 32)], perm=(2, 0, 1))
    yield one("Transpose", [(16, 32)], [(32, 16)], perm=(1, 0))
    yield one("Expand", [(16, 1, 64)], [CUBE])
    yield one("Expand", [(32, 64)], [CUBE])
    yield one("Tile", [CUBE], [(16, 64, 64)])
    yield one("Pad", [CUBE], [(16, 32, 67)], axes=(2,), pads=(1, 2), mode="constant")
    yield one("Pad", [CUBE], [(16, 36, 64)], axes=(1,), pads=(2, 2), mode="constant")
    yield one("Slice", [CUBE], [(16, 16, 64)], axes=(1,), slice_axes=(1,), starts=(0,), ends=(16,),
              steps=(1,))  # fmt: skip
    yield one("Concat", [CUBE, (16, 16, 64)], [(16, 48, 64)], axis=1)
    yield one("Split", [CUBE], [(16, 32, 32), (16, 32, 32)], axis=2)
    yield one("Split", [CUBE], [(16, 16, 64), (16, 16, 64)], axis=1)
    yield one("Squeeze", [(16, 1, 32, 1)], [(16, 32)], axes=(1, 3))
    yield one("Unsqueeze", [(16, 32)], [(16, 1, 32)], axes=(1,))
    yield one("Trilu", [CUBE], [CUBE], upper=0)
    yield one("Trilu", [CUBE], [CUBE], upper=1)
    yield one("Identity", [CUBE], [CUBE])
