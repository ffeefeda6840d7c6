"""A typical node of every kind, as a model of one node: what the catalogue is shown by.

Most kinds treat all elements of their operands alike; their sample follows from ONNX's schema.
Others have theirs beside their entry in the catalogue; here are kinds that the catalogue lacks.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from types import MappingProxyType

import onnx
from onnx import parser

from ir.ops import lookup

MICROSOFT = "com.microsoft"
_DIMS = "[2,4,6]"
_TYPES = ("float", "int64", "int32", "bool", "uint8", "int8")
"""Element types of the operands of a sample, the most usual first."""

_SAMPLES: Mapping[str, str] = MappingProxyType(
    {
        "CenterCropPad": "(float[2,4,6] x) => (y) <int64[3] s = {2, 4, 8}> "
        "{y = CenterCropPad(x, s)}",
        "DepthToSpace": "(float[2,12,6,8] x) => (y) {y = DepthToSpace<blocksize=2>(x)}",
        "Gemm": "(float[4,6] x, float[6,8] w, float[8] b) => (y) {y = Gemm(x, w, b)}",
        "Scatter": "(float[2,4] x, int64[2,6] i, float[2,6] u) => (y) "
        "{y = Scatter<axis=1>(x, i, u)}",
        "SpaceToDepth": "(float[2,4,6,8] x) => (y) {y = SpaceToDepth<blocksize=2>(x)}",
        "SwiGLU": "(float[2,4,6] x, float[2,4,6] z) => (y) {y = SwiGLU(x, z)}",
    }
)

_FOREIGN: Mapping[str, str] = MappingProxyType(
    {
        "Attention": "(float[2,6,32] x, float[32,96] w, float[96] b) => (float[2,6,32] y) "
        "{y = com.microsoft.Attention<num_heads=4>(x, w, b)}",
        "BiasSoftmax": "(float[2,4,6,8] x, float[2,1,6,8] b) => (float[2,4,6,8] y) "
        "{y = com.microsoft.BiasSoftmax<axis=3, is_inner_broadcast=0>(x, b)}",
        "DecoderMaskedMultiHeadAttention": "(float[2,1,32] q, float[2,1,32] k, float[2,1,32] v) "
        "=> (float[2,1,32] y) "
        "{y = com.microsoft.DecoderMaskedMultiHeadAttention<num_heads=4>(q, k, v)}",
        "DequantizeLinear": "(uint8[2,4,6] x, float s, uint8 z) => (float[2,4,6] y) "
        "{y = com.microsoft.DequantizeLinear(x, s, z)}",
        "DynamicQuantizeMatMul": "(float[2,4,6] x, uint8[6,8] w, float s, uint8 z) "
        "=> (float[2,4,8] y) {y = com.microsoft.DynamicQuantizeMatMul(x, w, s, z)}",
        "EmbedLayerNormalization": "(int32[2,6] i, int32[2,6] g, float[20,8] w, float[6,8] p, "
        "float[2,8] t, float[8] s, float[8] b) => (float[2,6,8] y) "
        "{y = com.microsoft.EmbedLayerNormalization(i, g, w, p, t, s, b)}",
        "FusedConv": "(float[2,4,6,8] x, float[12,4,3,3] w, float[12] b) => (float[2,12,4,6] y) "
        '{y = com.microsoft.FusedConv<kernel_shape=[3,3], activation="Relu">(x, w, b)}',
        "FusedGemm": "(float[4,6] x, float[6,8] w, float[8] b) => (float[4,8] y) "
        '{y = com.microsoft.FusedGemm<activation="Relu">(x, w, b)}',
        "FusedMatMul": "(float[2,4,6] x, float[2,8,6] w) => (float[2,4,8] y) "
        "{y = com.microsoft.FusedMatMul<transB=1, alpha=0.125>(x, w)}",
        "GemmFastGelu": "(float[2,4,6] x, float[6,8] w, float[8] b) => (float[2,4,8] y) "
        "{y = com.microsoft.GemmFastGelu(x, w, b)}",
        "GroupNorm": "(float[2,6,8,4] x, float[4] s, float[4] b) => (float[2,6,8,4] y) "
        "{y = com.microsoft.GroupNorm<groups=2, activation=1>(x, s, b)}",
        "GroupQueryAttention": "(float[2,6,32] q, float[2,6,16] k, float[2,6,16] v, "
        "float[2,2,4,8] pk, float[2,2,4,8] pv, int32[2] n, int32 t) => (float[2,6,32] y) "
        "{y = com.microsoft.GroupQueryAttention<num_heads=4, kv_num_heads=2>"
        "(q, k, v, pk, pv, n, t)}",
        "MatMulIntegerToFloat": "(uint8[2,4,6] x, uint8[6,8] w, float s, float t) "
        "=> (float[2,4,8] y) {y = com.microsoft.MatMulIntegerToFloat(x, w, s, t)}",
        "MoE": "(float[12,8] x, float[12,4] r, float[4,16,8] w, float[4,8,16] v) "
        '=> (float[12,8] y) {y = com.microsoft.MoE<k=2, activation_type="gelu">(x, r, w, , v)}',
        "MultiHeadAttention": "(float[2,6,32] q, float[2,12,32] k, float[2,12,32] v) "
        "=> (float[2,6,32] y) {y = com.microsoft.MultiHeadAttention<num_heads=4>(q, k, v)}",
        "QLinearAdd": "(uint8[2,4,6] a, float s, uint8 z, uint8[2,4,6] b, float t, uint8 u, "
        "float v, uint8 w) => (uint8[2,4,6] y) "
        "{y = com.microsoft.QLinearAdd(a, s, z, b, t, u, v, w)}",
        "QLinearMul": "(uint8[2,4,6] a, float s, uint8 z, uint8[2,4,6] b, float t, uint8 u, "
        "float v, uint8 w) => (uint8[2,4,6] y) "
        "{y = com.microsoft.QLinearMul(a, s, z, b, t, u, v, w)}",
        "QMoE": "(float[12,8] x, float[12,4] r, uint8[4,16,4] w, float[4,16] s, uint8[4,8,8] v, "
        "float[4,8] t) => (float[12,8] y) "
        '{y = com.microsoft.QMoE<k=2, activation_type="gelu">(x, r, w, s, , v, t)}',
        "QuantizeLinear": "(float[2,4,6] x, float s, uint8 z) => (uint8[2,4,6] y) "
        "{y = com.microsoft.QuantizeLinear(x, s, z)}",
        "RotaryEmbedding": "(float[2,4,6,8] x, int64[2,6] p, float[12,4] c, float[12,4] s) "
        "=> (float[2,4,6,8] y) {y = com.microsoft.RotaryEmbedding(x, p, c, s)}",
        "SkipGroupNorm": "(float[2,6,8,4] x, float[4] s, float[4] b, float[2,6,8,4] z) "
        "=> (float[2,6,8,4] y) {y = com.microsoft.SkipGroupNorm<groups=2, activation=1>"
        "(x, s, b, z)}",
        "SkipLayerNormalization": "(float[2,4,6] x, float[2,4,6] z, float[6] s, float[6] b) "
        "=> (float[2,4,6] y) {y = com.microsoft.SkipLayerNormalization(x, z, s, b)}",
        "SkipSimplifiedLayerNormalization": "(float[2,4,6] x, float[2,4,6] z, float[6] s) "
        "=> (float[2,4,6] y) {y = com.microsoft.SkipSimplifiedLayerNormalization(x, z, s)}",
        "TransposeMatMul": "(float[2,4,6] x, float[2,8,6] w) => (float[2,4,8] y) "
        "{y = com.microsoft.TransposeMatMul<transB=1>(x, w)}",
    }
)


def sample(schema: onnx.defs.OpSchema, opset: int) -> onnx.ModelProto | None:
    """A model of one node of a kind of ONNX; None where its operands cannot be guessed."""
    text = _SAMPLES.get(schema.name) or lookup(schema.name).sample or _from_schema(schema)
    return None if text is None else _model(text, opset)


def foreign_sample(kind: str) -> onnx.ModelProto:
    """A model of one node of ONNX Runtime's domain; by default one that keeps size and type."""
    plain = f"(float{_DIMS} x) => (float{_DIMS} y) {{y = {MICROSOFT}.{kind}(x)}}"
    text = _FOREIGN.get(kind) or lookup(kind).sample or plain
    return _model(text, onnx.defs.onnx_opset_version())


def _model(text: str, opset: int) -> onnx.ModelProto:
    header = f'<ir_version: 10, opset_import: ["": {opset}, "{MICROSOFT}": 1]>'
    return parser.parse_model(f"{header} sample {text}")


def _from_schema(schema: onnx.defs.OpSchema) -> str | None:
    """All required operands of one size, of the first type that each takes."""
    if any(attribute.required for attribute in schema.attributes.values()):
        return None
    option = onnx.defs.OpSchema.FormalParameterOption
    types: list[str | None] = []
    for operand in schema.inputs:
        count = {option.Single: 1, option.Variadic: 2}.get(operand.option, 0)
        types += [_element_type(operand.types)] * count
    if not types or None in types:
        return None
    operands = ", ".join(f"{each}{_DIMS} x{i}" for i, each in enumerate(types))
    names = [f"x{i}" for i in range(len(types))]
    results = ", ".join(f"y{i}" for i in range(schema.min_output))
    stored = ""
    if any(operand.name == "axes" for operand in schema.inputs):
        names.append("axes")
        stored = "<int64[1] axes = {1}> "
    body = f"{results} = {schema.name}({', '.join(names)})"
    return f"({operands}) => ({results}) {stored}{{{body}}}"


def _element_type(allowed: AbstractSet[str]) -> str | None:
    return next((each for each in _TYPES if f"tensor({each})" in allowed), None)
