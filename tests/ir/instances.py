"""Small instances of every kind of the catalogue, with numbers."""

from __future__ import annotations

import numpy as np

from ir.graph import AttributeValue
from tests.ir.chains import chains
from tests.ir.instance import Instance, broadcast_dims, flags, real, whole
from tests.ir.shards import Array


def pointwise(kind: str, *operands: Array, **attributes: AttributeValue) -> Instance:
    dims = broadcast_dims(*(o.shape for o in operands))
    return Instance(kind, operands, (dims,), attributes)


_UNARY = (
    "Relu", "Sigmoid", "Tanh", "Exp", "Sqrt", "Reciprocal", "Gelu", "HardSwish", "HardSigmoid",
    "Elu", "Selu", "LeakyRelu", "Softplus", "Softsign", "Erf", "Log", "Abs", "Cos", "Sin", "Clip",
    "Swish", "Mish", "Celu", "ThresholdedRelu", "Tan", "Atan", "Sinh", "Cosh", "Asin", "Acos",
    "Asinh", "Atanh", "FastGelu", "QuickGelu", "Neg", "Identity", "Cast", "Dropout", "IsNaN",
    "IsInf", "Sign", "Floor", "Ceil", "Round",
)  # fmt: skip


def elementwise() -> list[Instance]:
    found = [pointwise(kind, real(2, 6, 4)) for kind in _UNARY]
    found.append(pointwise("Acosh", real(2, 4, low=1.1, high=3.0)))
    for kind in ("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "BiasGelu"):
        found.append(pointwise(kind, real(2, 4, 6), real(2, 4, 6)))
        found.append(pointwise(kind, real(2, 4, 6), real(6)))
        found.append(pointwise(kind, real(2, 1, 6), real(4, 1)))
    found += [pointwise(k, real(2, 4), real(4), real(2, 1)) for k in ("Sum", "Mean", "Max", "Min")]
    found += [pointwise(k, flags(2, 4), flags(4)) for k in ("And", "Or", "Xor")]
    found += [
        pointwise(k, whole(2, 4, high=3), whole(2, 4, high=3))
        for k in ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual")
    ]
    found += [
        pointwise(k, whole(2, 4, high=9), whole(4, high=9))
        for k in ("BitwiseAnd", "BitwiseOr", "BitwiseXor")
    ]
    shifts = whole(2, 4, high=3).astype(np.uint8)
    found += [
        pointwise("FastGelu", real(2, 4, 6), real(6)),
        pointwise("Not", flags(2, 4)),
        pointwise("BitwiseNot", whole(2, 4, high=9)),
        pointwise("BitShift", whole(2, 4, high=9).astype(np.uint8), shifts, direction="LEFT"),
        pointwise("Mod", whole(2, 4, high=9), whole(2, 4, high=4) + 1),
        pointwise("PRelu", real(2, 4, 6) - 0.5, real(4, 1)),
        pointwise("Where", flags(2, 4), real(2, 4), real(4)),
        pointwise("Where", flags(2, 1), real(4), real(1, 1)),
        Instance("CastLike", (real(2, 4), real(6, 8)), ((2, 4),)),
        Instance("BiasAdd", (real(2, 4, 6), real(4)), ((2, 4, 6),), {"axis": 1}),
        Instance("BiasAdd", (real(2, 6), real(6)), ((2, 6),), {"axis": 1}),
    ]
    return found


def products() -> list[Instance]:
    def matmul(a: Array, b: Array, dims: tuple[int, ...], **flags: AttributeValue) -> Instance:
        return Instance("MatMul", (a, b), (dims,), flags)

    def einsum(equation: str, *operands: Array) -> Instance:
        dims = np.einsum(equation, *operands).shape
        return Instance("Einsum", operands, (dims,), {"equation": equation})

    return [
        matmul(real(4, 6), real(6, 2), (4, 2)),
        matmul(real(6, 4), real(6, 2), (4, 2), trans_a=1),
        matmul(real(4, 6), real(2, 6), (4, 2), trans_b=1),
        matmul(real(2, 6, 4), real(2, 2, 6), (2, 4, 2), trans_a=1, trans_b=1),
        matmul(real(2, 4, 6), real(6, 2), (2, 4, 2)),
        matmul(real(2, 1, 4, 6), real(8, 6, 2), (2, 8, 4, 2)),
        matmul(real(6), real(6, 2), (2,)),
        matmul(real(4, 6), real(6), (4,)),
        matmul(real(2, 4, 6), real(6), (2, 4)),
        matmul(real(6), real(6), ()),
        einsum("ij,jk->ik", real(2, 4), real(4, 6)),
        einsum("ij,jk", real(2, 4), real(4, 6)),
        einsum("ba,bc", real(4, 2), real(4, 6)),
        einsum("...ij,...jk->...ik", real(2, 2, 4), real(4, 6)),
        einsum("b...i,...i->b...", real(2, 4, 6), real(4, 6)),
        einsum("...i,i", real(2, 4, 6), real(6)),
        einsum("bi,bj->bij", real(2, 4), real(1, 6)),
        einsum("ii->i", real(4, 4)),
        einsum("ij->", real(2, 4)),
        einsum("bij,bjk,bk->bi", real(2, 4, 6), real(2, 6, 2), real(2, 2)),
    ]


def convolutions() -> list[Instance]:
    plain: dict[str, AttributeValue] = {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1)}
    window: dict[str, AttributeValue] = {"kernel_shape": (2, 2), "strides": (2, 2)}
    image = real(2, 4, 4, 4)
    return [
        Instance("Conv", (image, real(6, 4, 3, 3)), ((2, 6, 4, 4),), plain),
        Instance("Conv", (image, real(8, 2, 3, 3)), ((2, 8, 4, 4),), {**plain, "group": 2}),
        Instance("Conv", (image, real(4, 1, 3, 3)), ((2, 4, 4, 4),), {**plain, "group": 4}),
        Instance("Conv", (real(2, 4, 6), real(2, 4, 3)), ((2, 2, 4),), {"kernel_shape": (3,)}),
        Instance("ConvTranspose", (image, real(4, 6, 2, 2)), ((2, 6, 8, 8),), window),
        Instance(
            "ConvTranspose", (image, real(4, 2, 2, 2)), ((2, 4, 8, 8),), {**window, "group": 2}
        ),
        *[Instance(k, (image,), ((2, 4, 2, 2),), window) for k in ("MaxPool", "AveragePool")],
        Instance("MaxPool", (image,), ((2, 4, 2, 2), (2, 4, 2, 2)), window),
        Instance("LpPool", (image,), ((2, 4, 2, 2),), {**window, "p": 2}),
        *[Instance(k, (image,), ((2, 4, 1, 1),)) for k in ("GlobalAveragePool", "GlobalMaxPool")],
        *[Instance(k, (image,), ((2, 4, 8, 8),)) for k in ("Resize", "Upsample")],
    ]


def statistics() -> list[Instance]:
    x = real(2, 4, 6)
    reductions = (
        "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceProd",
        "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare",
    )  # fmt: skip
    found: list[Instance] = []
    for kind in reductions:
        found.append(Instance(kind, (x,), ((2, 6),), {"axes": (1,)}))
        found.append(Instance(kind, (x,), ((2, 1, 1),), {"axes": (1, 2)}))
        found.append(Instance(kind, (x,), ((),), {"axes": (0, 1, 2)}))
    for kind in ("Softmax", "LogSoftmax"):
        found += [Instance(kind, (x,), ((2, 4, 6),), {"axis": axis}) for axis in (0, 1, 2)]
        found.append(Instance(kind, (x,), ((2, 4, 6),), {"axis": 1, "to_end": 1}))
    found += [
        Instance("Hardmax", (x,), ((2, 4, 6),), {"axis": 1}),
        Instance("ArgMax", (x,), ((2, 1, 6),), {"axis": 1}),
        Instance("ArgMin", (x,), ((2, 6),), {"axis": 1, "keepdims": 0}),
        Instance("TopK", (x,), ((2, 2, 6), (2, 2, 6)), {"axis": 1}),
        Instance("TopK", (x,), ((2, 4, 6), (2, 4, 6)), {"axis": 1}),
        Instance("CumSum", (x,), ((2, 4, 6),), {"axis": 1}),
        Instance("Loss", (x,), ((),)),
        Instance("Loss", (real(4),), ((),)),
        Instance("Output", (x,), ()),
    ]
    return found


def normalisations() -> list[Instance]:
    x, image = real(2, 4, 6), real(2, 4, 2, 2)
    found = [
        Instance(kind, operands, ((2, 4, 6),), {"axis": axis})
        for kind in ("RMSNormalization", "SimplifiedLayerNormalization", "LayerNormalization")
        for operands, axis in (
            ((x, real(6)), 2),
            ((x, real(4, 6)), 1),
            ((x, real(1, 6)), 1),
        )
    ]
    found += [
        Instance("LayerNormalization", (x, real(6), real(6)), ((2, 4, 6),), {"axis": 2}),
        Instance("LayerNormalization", (x, real(6), None), ((2, 4, 6),), {"axis": 2}),
        Instance(
            "LayerNormalization",
            (x, real(6), real(6)),
            ((2, 4, 6), (2, 4, 1), (2, 4, 1)),
            {"axis": 2},
        ),
        Instance(
            "BatchNormalization", (image, real(4), real(4), real(4), real(4)), ((2, 4, 2, 2),)
        ),
        Instance("InstanceNormalization", (image, real(4), real(4)), ((2, 4, 2, 2),)),
        Instance(
            "GroupNormalization", (image, real(4), real(4)), ((2, 4, 2, 2),), {"num_groups": 2}
        ),
        Instance("LRN", (image,), ((2, 4, 2, 2),), {"size": 3}),
    ]
    return found


def views() -> list[Instance]:
    x = real(2, 4, 6)
    reshapes = [
        (4, 2, 6), (2, 24), (8, 6), (48,), (2, 2, 2, 6), (2, 2, 2, 3, 2), (1, 2, 4, 6),
        (2, 4, 1, 6), (2, 12, 2), (4, 12), (16, 3),
    ]  # fmt: skip
    return [
        Instance("Transpose", (x,), ((6, 2, 4),), {"perm": (2, 0, 1)}),
        Instance("Transpose", (x,), ((6, 4, 2),)),
        *[Instance("Reshape", (x,), (dims,)) for dims in reshapes],
        Instance("Reshape", (real(1, 4, 6),), ((4, 6),)),
        Instance("Reshape", (real(4, 6),), ((6, 4),)),
        Instance("Reshape", (real(2, 0),), ((0, 4),)),
        Instance("Flatten", (x,), ((2, 24),), {"axis": 1}),
        Instance("Flatten", (x,), ((8, 6),), {"axis": 2}),
        Instance("Squeeze", (real(2, 1, 4, 1),), ((2, 4),), {"axes": (1, 3)}),
        Instance("Unsqueeze", (x,), ((1, 2, 4, 1, 6),), {"axes": (0, 3)}),
        Instance("Expand", (real(2, 1, 6),), ((2, 4, 6),)),
        Instance("Expand", (real(6),), ((2, 4, 6),)),
    ]


def moves() -> list[Instance]:
    x = real(2, 4, 6)

    def slices(dims: tuple[int, ...], axis: int, start: int, end: int, step: int) -> Instance:
        bounds: dict[str, AttributeValue] = {
            "axes": (axis,), "slice_axes": (axis,), "starts": (start,), "ends": (end,),
            "steps": (step,),
        }  # fmt: skip
        return Instance("Slice", (x,), (dims,), bounds)

    return [
        Instance("Tile", (x,), ((2, 8, 6),)),
        Instance("Pad", (x,), ((2, 6, 6),), {"axes": (1,), "pads": (0, 1, 0, 0, 1, 0)}),
        Instance("Pad", (x,), ((2, 4, 6),), {"axes": (1,), "pads": (0, 1, 0, 0, -1, 0)}),
        Instance("Trilu", (real(2, 4, 4),), ((2, 4, 4),)),
        slices((2, 2, 6), 1, 1, 3, 1),
        slices((2, 4, 6), 1, 3, -10, -1),
        slices((2, 4, 3), 2, 0, 6, 2),
        Instance("Concat", (x, real(2, 2, 6)), ((2, 6, 6),), {"axis": 1}),
        Instance("Concat", (x, x), ((2, 8, 6),), {"axis": 1}),
        Instance("Split", (x,), ((2, 2, 6), (2, 2, 6)), {"axis": 1}),
        Instance("Split", (x,), ((2, 1, 6), (2, 3, 6)), {"axis": 1}),
        *[
            Instance(kind, (np.array([2, 4]),), ((2, 4),))
            for kind in ("Shape", "Size", "Range", "ConstantOfShape", "EyeLike")
        ],
        Instance("Constant", (), ((2, 4),)),
    ]


def lookups() -> list[Instance]:
    table, square = real(4, 6), real(4, 4, 6)
    rows = np.arange(4)
    pairs = np.stack([rows, np.array([1, 3, 0, 2])], axis=-1)
    own: dict[str, AttributeValue] = {"identity_coordinates": (0, 0)}
    return [
        Instance("Gather", (table, whole(2, 4, high=4)), ((2, 4, 6),), {"axis": 0}),
        Instance("Gather", (table, whole(2, high=4) - 4), ((2, 6),), {"axis": 0}),
        Instance("Gather", (square, whole(2, high=4)), ((4, 2, 6),), {"axis": 1}),
        Instance("Gather", (square, np.array(1)), ((4, 4),), {"axis": 2}),
        Instance("GatherND", (square, whole(2, 1, high=4)), ((2, 4, 6),)),
        Instance("GatherND", (square, whole(2, 2, high=4)), ((2, 6),)),
        Instance("GatherND", (square, whole(4, 2, 1, high=4)), ((4, 2, 6),), {"batch_dims": 1}),
        Instance("GatherND", (square, pairs), ((4, 6),), own),
        Instance("GatherElements", (table, whole(4, 2, high=6)), ((4, 2),), {"axis": 1}),
        Instance("GatherElements", (table, whole(2, 6, high=6)), ((2, 6),), {"axis": 1}),
        Instance(
            "ScatterElements",
            (table, np.tile([[0, 3]], (4, 1)), real(4, 2)),
            ((4, 6),),
            {"axis": 1},
        ),
        Instance(
            "TensorScatter",
            (square, real(4, 2, 6), np.array([0, 2, 1, 1])),
            ((4, 4, 6),),
            {"axis": 1},
        ),
        Instance("ScatterND", (square, np.array([[0], [2]]), real(2, 4, 6)), ((4, 4, 6),)),
    ]


def attention() -> list[Instance]:
    def heads(q: int, k: int, rows: int = 4) -> tuple[Array, Array, Array]:
        return real(2, q, rows, 2), real(2, k, 6, 2), real(2, k, 6, 4)

    flat: dict[str, AttributeValue] = {"q_num_heads": 4, "kv_num_heads": 2}
    past = (None, real(2, 2, 2, 2), real(2, 2, 2, 4))
    return [
        Instance("Attention", heads(4, 4), ((2, 4, 4, 4),)),
        Instance("Attention", heads(4, 2), ((2, 4, 4, 4),)),
        Instance("Attention", heads(4, 2), ((2, 4, 4, 4),), {"is_causal": 1}),
        Instance("Attention", (*heads(4, 2), real(4, 6)), ((2, 4, 4, 4),)),
        Instance("Attention", (*heads(4, 2), real(2, 1, 4, 6)), ((2, 4, 4, 4),)),
        Instance("Attention", (*heads(4, 2), real(2, 4, 1, 6)), ((2, 4, 4, 4),)),
        Instance("Attention", (real(2, 4, 8), real(2, 6, 4), real(2, 6, 8)), ((2, 4, 16),), flat),
        Instance(
            "Attention",
            (*heads(4, 2), *past),
            ((2, 4, 4, 4), (2, 2, 8, 2), (2, 2, 8, 4)),
            note="with past",
        ),
    ]


def experts() -> list[Instance]:
    """Every half of the tokens uses every expert equally, as the rules assume."""
    routing = np.array([[0], [1], [2], [3], [3], [2], [1], [0]])
    return [
        Instance("Dispatch", (real(8, 1, 6), routing), ((4, 2, 1, 6),)),
        Instance("Combine", (real(4, 2, 1, 6), routing), ((8, 1, 6),)),
        Instance("ExpertMatMul", (real(4, 2, 6, 1), real(4, 8, 6)), ((4, 2, 8, 1),)),
        Instance("ExpertMatMul", (real(4, 2, 1, 6), real(4, 6, 8)), ((4, 2, 1, 8),), {"row": 1}),
    ]


INSTANCES: tuple[Instance, ...] = tuple(
    instance
    for family in (
        elementwise, products, convolutions, statistics, normalisations, views, moves, lookups,
        attention, experts, chains,
    )
    for instance in family()
)  # fmt: skip
