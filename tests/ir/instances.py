"""Small instances of every kind of the catalogue, with numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ir.graph import AttributeValue, Op, OpGraph, Tensor
from ir.ops import OpView
from tests.ir.shards import Array


@dataclass(frozen=True, slots=True)
class Instance:
    """One operator with its operands; `dims` are those of its results."""

    kind: str
    operands: tuple[Array | None, ...]
    dims: tuple[tuple[int, ...], ...]
    attributes: dict[str, AttributeValue] = field(default_factory=dict)
    parts: tuple[Op, ...] = ()
    inner: dict[str, tuple[int, ...]] = field(default_factory=dict)
    note: str = ""

    def __str__(self) -> str:
        shapes = ",".join("-" if a is None else "x".join(map(str, a.shape)) for a in self.operands)
        marks = ",".join(f"{k}={v}" for k, v in sorted(self.attributes.items()))
        return " ".join(t for t in (self.kind, self.note, shapes, marks) if t)

    def view(self) -> OpView:
        inputs = tuple("" if a is None else f"x{i}" for i, a in enumerate(self.operands))
        outputs = tuple(f"y{i}" for i in range(len(self.dims)))
        tensors = {
            n: Tensor(n, tuple(a.shape), str(a.dtype))
            for n, a in zip(inputs, self.operands, strict=True)
            if a is not None
        }
        tensors |= {n: Tensor(n, d, "float32") for n, d in zip(outputs, self.dims, strict=True)}
        tensors |= {n: Tensor(n, d, "float32") for n, d in self.inner.items()}
        op = Op("op", self.kind, inputs, outputs, self.attributes, "", self.parts)
        return OpView(op, OpGraph("g", tensors, (op,), inputs, outputs))


_RANDOM = np.random.default_rng(0)


def real(*dims: int, low: float = 0.1, high: float = 0.9) -> Array:
    """Random numbers in a range where every function of the catalogue is defined."""
    return _RANDOM.uniform(low, high, dims).astype(np.float32)


def whole(*dims: int, high: int) -> Array:
    return _RANDOM.integers(0, high, dims)


def _number(value: float) -> Array:
    return np.asarray(value, np.float32)


def flags(*dims: int) -> Array:
    return _RANDOM.integers(0, 2, dims).astype(bool)


def _broadcast(*shapes: Sequence[int]) -> tuple[int, ...]:
    return tuple(np.broadcast_shapes(*(tuple(s) for s in shapes)))


def pointwise(kind: str, *operands: Array, **attributes: AttributeValue) -> Instance:
    dims = _broadcast(*(o.shape for o in operands))
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


def moves() -> list[Instance]:
    x = real(2, 4, 6)

    def slices(dims: tuple[int, ...], axis: int, start: int, end: int, step: int) -> Instance:
        bounds: dict[str, AttributeValue] = {
            "axes": (axis,), "slice_axes": (axis,), "starts": (start,), "ends": (end,),
            "steps": (step,),
        }  # fmt: skip
        return Instance("Slice", (x,), (dims,), bounds)

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


class Chain:
    """Builds a fused chain: the last tensor made is its result."""

    def __init__(self, note: str, **operands: Array) -> None:
        self.note, self.operands = note, operands
        self.dims = {n: tuple(a.shape) for n, a in operands.items()}
        self.parts: list[Op] = []

    def add(
        self, kind: str, *names: str, dims: tuple[int, ...] | None = None, **more: AttributeValue
    ) -> str:
        result = f"t{len(self.parts)}"
        self.dims[result] = dims if dims is not None else _broadcast(*(self.dims[n] for n in names))
        self.parts.append(Op(f"p{len(self.parts)}", kind, names, (result,), more))
        return result

    def instance(self) -> Instance:
        renamed = {n: f"x{i}" for i, n in enumerate(self.operands)}
        renamed[self.parts[-1].outputs[0]] = "y0"
        parts = tuple(
            Op(
                p.name,
                p.kind,
                tuple(renamed.get(n, n) for n in p.inputs),
                tuple(renamed.get(n, n) for n in p.outputs),
                p.attributes,
            )
            for p in self.parts
        )
        result = self.dims[self.parts[-1].outputs[0]]
        inner = {n: d for n, d in self.dims.items() if n not in renamed}
        return Instance(
            "Fused", tuple(self.operands.values()), (result,), {}, parts, inner, self.note
        )


def _rms_norm() -> Instance:
    chain = Chain("rms", x=real(2, 4, 6), scale=real(6), two=_number(2.0), eps=_number(1e-3))
    mean = chain.add("ReduceMean", chain.add("Pow", "x", "two"), dims=(2, 4, 1), axes=(2,))
    root = chain.add("Sqrt", chain.add("Add", mean, "eps"))
    chain.add("Mul", chain.add("Div", "x", root), "scale")
    return chain.instance()


def _rotary() -> Instance:
    chain = Chain("rotary", x=real(2, 4, 6, 4), cos=real(6, 4), sin=real(6, 4))
    half: dict[str, AttributeValue] = {"axes": (3,), "slice_axes": (3,), "steps": (1,)}
    low = chain.add("Slice", "x", dims=(2, 4, 6, 2), starts=(0,), ends=(2,), **half)
    high = chain.add("Slice", "x", dims=(2, 4, 6, 2), starts=(2,), ends=(4,), **half)
    turned = chain.add("Concat", chain.add("Neg", high), low, dims=(2, 4, 6, 4), axis=3)
    chain.add("Add", chain.add("Mul", "x", "cos"), chain.add("Mul", turned, "sin"))
    return chain.instance()


def _gated() -> Instance:
    chain = Chain("gated", gate=real(2, 4, 6), up=real(2, 4, 6))
    chain.add("Mul", chain.add("Mul", "gate", chain.add("Sigmoid", "gate")), "up")
    return chain.instance()


def _row_meets_column() -> Instance:
    """A vector of sums added to itself as a row and as a column: neither may be split."""
    chain = Chain("row meets column", x=real(4, 6), y=real(4, 1))
    rows = chain.add("ReduceSum", "x", dims=(4,), axes=(1,))
    total = chain.add("Add", "y", chain.add("ReduceSum", "x", dims=(4, 1), axes=(1,)))
    chain.add("Add", rows, total, dims=(4, 4))
    return chain.instance()


def _ends_in_a_sum() -> Instance:
    chain = Chain("ends in a sum", x=real(2, 4, 6), y=real(4, 6))
    chain.add("ReduceSum", chain.add("Mul", "x", "y"), dims=(2, 6), axes=(1,))
    return chain.instance()


def _sum_of_a_broadcast() -> Instance:
    chain = Chain("sum of a broadcast", x=real(2, 1, 6), y=real(4, 6), z=real(2, 4, 6))
    total = chain.add("ReduceSum", chain.add("Add", "x", "y"), dims=(2, 4, 1), axes=(2,))
    chain.add("Div", "z", total)
    return chain.instance()


def _summed_twice() -> Instance:
    """Rows divided by their sum, and summed again: complete inside once, so complete at the end."""
    chain = Chain("summed twice", x=real(2, 4, 6))
    total = chain.add("ReduceSum", "x", dims=(2, 4, 1), axes=(2,))
    share = chain.add("Div", "x", total)
    chain.add("ReduceSum", chain.add("Mul", share, share), dims=(2, 4), axes=(2,))
    return chain.instance()


def fused() -> list[Instance]:
    makers: tuple[Callable[[], Instance], ...] = (
        _rms_norm, _rotary, _gated, _row_meets_column, _ends_in_a_sum, _sum_of_a_broadcast,
        _summed_twice,
    )  # fmt: skip
    return [make() for make in makers]


INSTANCES: tuple[Instance, ...] = tuple(
    instance
    for family in (
        elementwise, products, convolutions, statistics, normalisations, moves, lookups, attention,
        experts, fused,
    )
    for instance in family()
)  # fmt: skip
