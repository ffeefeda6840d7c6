"""What recursive programming takes a primitive for.

Source: MindSpore 2.7.0, `rec_core/rec_parse_graph.h`.
"""

from __future__ import annotations

from enum import StrEnum

from planner.halving.network import DATASET, OUTPUT, Node


class Role(StrEnum):
    """How the search treats a primitive."""

    PRODUCT = "product"
    CONVOLUTION = "convolution"
    POOLING = "pooling"
    BATCH = "batch"
    """Cut along the first dimension that can be."""
    UNKNOWN = "unknown"
    """Never cut."""
    FOLLOWER = "follower"
    """Left out of the search: it takes the cuts of a neighbour."""
    REPEATED = "repeated"
    """A follower without a parallel form, by batch or not at all."""


_SEARCHED = {
    "MatMul": Role.PRODUCT,
    "Conv2D": Role.CONVOLUTION,
    "Conv2DTranspose": Role.CONVOLUTION,
    "MaxPool": Role.POOLING,
    "BatchNorm": Role.BATCH,
    "PReLU": Role.BATCH,
    "UnsortedSegmentSum": Role.BATCH,
    "UnsortedSegmentMax": Role.BATCH,
    "UnsortedSegmentMin": Role.BATCH,
    DATASET: Role.BATCH,
    OUTPUT: Role.BATCH,
}

_FOLLOWERS = frozenset(
    {
        "ACos", "ASin", "Abs", "Acosh", "Add", "AddN", "ApproximateEqual", "Asin", "Asinh",
        "Assign", "AssignAdd", "AssignSub", "Atan", "Atan2", "Atanh", "BatchMatMul",
        "BesselI0", "BesselI0e", "BesselI1", "BesselI1e", "BesselJ0", "BesselJ1", "BiasAdd",
        "Cast", "Ceil", "Cholesky", "Concat", "Cos", "CumSum", "Div", "DivNoNan", "Dropout",
        "DropoutDoMask", "Elu", "Equal", "Erf", "Erfc", "Exp", "ExpandDims", "Expm1",
        "FastGeLU", "FillV2", "FlashAttentionScore", "Flatten", "Floor", "FloorDiv",
        "FloorMod", "Gather", "GatherD", "Gcd", "GeLU", "Greater", "GreaterEqual", "HSigmoid",
        "HSwish", "Hypot", "Igamma", "Igammac", "Inv", "L2Normalize", "LayerNorm", "LeftShift",
        "Less", "LessEqual", "Lgamma", "Log", "Log1p", "LogSoftmax", "LogicalAnd",
        "LogicalNot", "LogicalOr", "MaskedFill", "Maximum", "Minimum", "Mod", "Mul", "Neg",
        "NextAfter", "NotEqual", "OneHot", "OnesLike", "PadV3", "Pow", "ReLU", "ReLU6",
        "RealDiv", "Reciprocal", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum",
        "Reshape", "ReverseV2", "RightShift", "RmsNorm", "Round", "Rsqrt", "ScatterUpdate",
        "Select", "SiLU", "Sigmoid", "Sign", "Sin", "Sinh", "Softmax", "Softplus", "Softsign",
        "Split", "Sqrt", "Square", "Squeeze", "Stack", "StridedSlice", "Sub", "Tan", "Tanh",
        "TensorDot", "Tile", "Transpose", "Trunc", "ZerosLike", "Zeta",
    }
)  # fmt: skip


def role_of(node: Node) -> Role:
    """What the search does with a primitive."""
    if node.kind in _SEARCHED:
        return _SEARCHED[node.kind]
    if node.kind in _FOLLOWERS:
        return Role.FOLLOWER
    return Role.UNKNOWN if node.has_rule else Role.REPEATED
