"""A typical node of every kind, as a model of one node: what the catalogue is shown by.

Most kinds treat all elements of their operands alike; their sample follows from ONNX's schema. The
others stand here in ONNX's own text. Sizes differ, so that a rule shows which dimension is which.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from types import MappingProxyType

import onnx
from onnx import parser

MICROSOFT = "com.microsoft"
_DIMS = "[2,4,6]"
_TYPES = ("float", "int64", "int32", "bool", "uint8", "int8")
"""Element types of the operands of a sample, the most usual first."""

_SAMPLES: Mapping[str, str] = MappingProxyType(
    {
        "AffineGrid": "(float[2,2,3] t) => (y) <int64[4] s = {2, 4, 6, 8}> {y = AffineGrid(t, s)}",
        "Attention": "(float[2,8,6,16] q, float[2,4,12,16] k, float[2,4,12,16] v) => (y) "
        "{y = Attention(q, k, v)}",
        "AveragePool": "(float[2,4,6,8] x) => (y) {y = AveragePool<kernel_shape=[2,2]>(x)}",
        "BatchNormalization": "(float[2,4,6,8] x, float[4] s, float[4] b, float[4] m, float[4] v) "
        "=> (y) {y = BatchNormalization(x, s, b, m, v)}",
        "BitCast": "(float[2,4,6] x) => (y) {y = BitCast<to=6>(x)}",
        "BitShift": '(uint8[2,4] x, uint8[2,4] n) => (y) {y = BitShift<direction="LEFT">(x, n)}',
        "BlackmanWindow": "(int64 n) => (float[6] y) {y = BlackmanWindow(n)}",
        "Cast": "(float[2,4,6] x) => (y) {y = Cast<to=10>(x)}",
        "CausalConvWithState": "(float[2,4,6] x, float[4,1,3] w) => (y, s) "
        "{y, s = CausalConvWithState(x, w)}",
        "CenterCropPad": "(float[2,4,6] x) => (y) <int64[3] s = {2, 4, 8}> "
        "{y = CenterCropPad(x, s)}",
        "Clip": "(float[2,4,6] x, float low, float high) => (y) {y = Clip(x, low, high)}",
        "Col2Im": "(float[2,20,12] x) => (y) <int64[2] i = {5, 5}, int64[2] b = {2, 2}> "
        "{y = Col2Im(x, i, b)}",
        "Compress": "(float[4,6] x, bool[4] c) => (float[3,6] y) {y = Compress<axis=0>(x, c)}",
        "Concat": "(float[2,4,6] x, float[2,4,8] z) => (y) {y = Concat<axis=2>(x, z)}",
        "ConstantOfShape": "(int64[2] s) => (float[4,6] y) {y = ConstantOfShape(s)}",
        "Conv": "(float[2,4,6,8] x, float[12,4,3,3] w) => (y) {y = Conv(x, w)}",
        "ConvInteger": "(uint8[2,4,6,8] x, uint8[12,4,3,3] w) => (y) {y = ConvInteger(x, w)}",
        "ConvTranspose": "(float[2,4,6,8] x, float[4,12,3,3] w) => (y) {y = ConvTranspose(x, w)}",
        "CumProd": "(float[2,4,6] x) => (y) <int64 axis = {1}> {y = CumProd(x, axis)}",
        "CumSum": "(float[2,4,6] x) => (y) <int64 axis = {1}> {y = CumSum(x, axis)}",
        "DFT": "(float[2,6,1] x) => (y) <int64 axis = {1}> {y = DFT(x, , axis)}",
        "DeformConv": "(float[2,4,6,8] x, float[12,4,3,3] w, float[2,18,4,6] o) => (y) "
        "{y = DeformConv(x, w, o)}",
        "DepthToSpace": "(float[2,12,6,8] x) => (y) {y = DepthToSpace<blocksize=2>(x)}",
        "DequantizeLinear": "(uint8[2,4,6] x, float s, uint8 z) => (y) "
        "{y = DequantizeLinear(x, s, z)}",
        "Det": "(float[2,4,4] x) => (y) {y = Det(x)}",
        "Einsum": "(float[2,4,6] x, float[2,6,8] z) => (y) "
        '{y = Einsum<equation="bij,bjk->bik">(x, z)}',
        "Expand": "(float[2,1,6] x) => (y) <int64[3] s = {2, 4, 6}> {y = Expand(x, s)}",
        "EyeLike": "(float[4,6] x) => (y) {y = EyeLike(x)}",
        "GRU": "(float[6,2,4] x, float[1,24,4] w, float[1,24,8] r) => (y) "
        "{y = GRU<hidden_size=8>(x, w, r)}",
        "Gather": "(float[12,6] x, int64[2,4] i) => (y) {y = Gather(x, i)}",
        "GatherElements": "(float[2,4] x, int64[2,6] i) => (y) {y = GatherElements<axis=1>(x, i)}",
        "GatherND": "(float[4,6,8] x, int64[2,2] i) => (y) {y = GatherND(x, i)}",
        "Gemm": "(float[4,6] x, float[6,8] w, float[8] b) => (y) {y = Gemm(x, w, b)}",
        "GlobalAveragePool": "(float[2,4,6,8] x) => (y) {y = GlobalAveragePool(x)}",
        "GlobalLpPool": "(float[2,4,6,8] x) => (y) {y = GlobalLpPool(x)}",
        "GlobalMaxPool": "(float[2,4,6,8] x) => (y) {y = GlobalMaxPool(x)}",
        "GridSample": "(float[2,4,6,8] x, float[2,5,7,2] g) => (y) {y = GridSample(x, g)}",
        "GroupNormalization": "(float[2,12,6,8] x, float[12] s, float[12] b) "
        "=> (float[2,12,6,8] y) {y = GroupNormalization<num_groups=4>(x, s, b)}",
        "HammingWindow": "(int64 n) => (float[6] y) {y = HammingWindow(n)}",
        "HannWindow": "(int64 n) => (float[6] y) {y = HannWindow(n)}",
        "InstanceNormalization": "(float[2,4,6,8] x, float[4] s, float[4] b) => (y) "
        "{y = InstanceNormalization(x, s, b)}",
        "LRN": "(float[2,4,6,8] x) => (y) {y = LRN<size=3>(x)}",
        "LSTM": "(float[6,2,4] x, float[1,32,4] w, float[1,32,8] r) => (y) "
        "{y = LSTM<hidden_size=8>(x, w, r)}",
        "LayerNormalization": "(float[2,4,6] x, float[6] s, float[6] b) => (y) "
        "{y = LayerNormalization(x, s, b)}",
        "LinearAttention": "(float[2,6,32] q, float[2,6,32] k, float[2,6,32] v) => (y, s) "
        '{y, s = LinearAttention<q_num_heads=4, kv_num_heads=4, update_rule="linear">(q, k, v)}',
        "LpPool": "(float[2,4,6,8] x) => (y) {y = LpPool<kernel_shape=[2,2]>(x)}",
        "MatMul": "(float[2,4,6] x, float[6,8] w) => (y) {y = MatMul(x, w)}",
        "MatMulInteger": "(uint8[2,4,6] x, uint8[6,8] w) => (y) {y = MatMulInteger(x, w)}",
        "MaxPool": "(float[2,4,6,8] x) => (y) {y = MaxPool<kernel_shape=[2,2]>(x)}",
        "MaxRoiPool": "(float[2,4,6,8] x, float[3,5] r) => (y) "
        "{y = MaxRoiPool<pooled_shape=[2,2]>(x, r)}",
        "MaxUnpool": "(float[2,4,3,4] x, int64[2,4,3,4] i) => (y) "
        "{y = MaxUnpool<kernel_shape=[2,2], strides=[2,2]>(x, i)}",
        "MeanVarianceNormalization": "(float[2,4,6,8] x) => (float[2,4,6,8] y) "
        "{y = MeanVarianceNormalization(x)}",
        "Multinomial": "(float[2,6] x) => (y) {y = Multinomial<sample_size=4>(x)}",
        "NegativeLogLikelihoodLoss": "(float[4,6] x, int64[4] t) => (y) "
        "{y = NegativeLogLikelihoodLoss(x, t)}",
        "NonZero": "(float[4,6] x) => (int64[2,12] y) {y = NonZero(x)}",
        "OneHot": "(int64[2,4] i) => (y) <int64 d = {6}, float[2] v = {0, 1}> "
        "{y = OneHot(i, d, v)}",
        "PRelu": "(float[2,4,6] x, float[4,1] s) => (y) {y = PRelu(x, s)}",
        "Pad": "(float[2,4,6] x) => (y) <int64[6] p = {0, 0, 1, 0, 0, 1}> {y = Pad(x, p)}",
        "QLinearConv": "(uint8[2,4,6,8] x, float xs, uint8 xz, uint8[12,4,3,3] w, float ws, "
        "uint8 wz, float ys, uint8 yz) => (y) {y = QLinearConv(x, xs, xz, w, ws, wz, ys, yz)}",
        "QLinearMatMul": "(uint8[2,4,6] a, float as, uint8 az, uint8[6,8] b, float bs, uint8 bz, "
        "float ys, uint8 yz) => (y) {y = QLinearMatMul(a, as, az, b, bs, bz, ys, yz)}",
        "QuantizeLinear": "(float[2,4,6] x, float s, uint8 z) => (y) {y = QuantizeLinear(x, s, z)}",
        "RMSNormalization": "(float[2,4,6] x, float[6] s) => (y) {y = RMSNormalization(x, s)}",
        "RNN": "(float[6,2,4] x, float[1,8,4] w, float[1,8,8] r) => (y) "
        "{y = RNN<hidden_size=8>(x, w, r)}",
        "RandomNormal": "() => (y) {y = RandomNormal<shape=[4,6]>()}",
        "RandomUniform": "() => (y) {y = RandomUniform<shape=[4,6]>()}",
        "Range": "(int64 s, int64 e, int64 d) => (int64[6] y) {y = Range(s, e, d)}",
        "Reshape": "(float[2,4,24] x) => (y) <int64[4] s = {2, 4, 3, 8}> {y = Reshape(x, s)}",
        "Resize": "(float[2,4,6,8] x) => (y) <int64[4] s = {2, 4, 12, 16}> {y = Resize(x, , , s)}",
        "ReverseSequence": "(float[6,4,8] x, int64[4] n) => (y) {y = ReverseSequence(x, n)}",
        "RoiAlign": "(float[2,4,6,8] x, float[3,4] r, int64[3] b) => (y) "
        "{y = RoiAlign<output_height=2, output_width=2>(x, r, b)}",
        "RotaryEmbedding": "(float[2,4,6,8] x, float[12,4] c, float[12,4] s, int64[2,6] p) => (y) "
        "{y = RotaryEmbedding(x, c, s, p)}",
        "Scatter": "(float[2,4] x, int64[2,6] i, float[2,6] u) => (y) "
        "{y = Scatter<axis=1>(x, i, u)}",
        "STFT": "(float[2,24,1] x, float[8] w) => (y) <int64 f = {4}, int64 n = {8}> "
        "{y = STFT(x, f, w, n)}",
        "ScatterElements": "(float[2,4] x, int64[2,6] i, float[2,6] u) => (y) "
        "{y = ScatterElements<axis=1>(x, i, u)}",
        "ScatterND": "(float[4,6,8] x, int64[2,1] i, float[2,6,8] u) => (y) "
        "{y = ScatterND(x, i, u)}",
        "Slice": "(float[2,4,6] x) => (y) <int64[1] s = {0}, int64[1] e = {3}, int64[1] a = {2}> "
        "{y = Slice(x, s, e, a)}",
        "SoftmaxCrossEntropyLoss": "(float[4,6] x, int64[4] t) => (y) "
        "{y = SoftmaxCrossEntropyLoss(x, t)}",
        "SpaceToDepth": "(float[2,4,6,8] x) => (y) {y = SpaceToDepth<blocksize=2>(x)}",
        "Split": "(float[2,4,6] x) => (y, z) {y, z = Split<axis=2, num_outputs=2>(x)}",
        "Squeeze": "(float[2,1,6] x) => (y) <int64[1] a = {1}> {y = Squeeze(x, a)}",
        "SwiGLU": "(float[2,4,6] x, float[2,4,6] z) => (y) {y = SwiGLU(x, z)}",
        "TensorScatter": "(float[2,4,8,6] x, float[2,4,3,6] u, int64[2] i) => (y) "
        "{y = TensorScatter(x, u, i)}",
        "Tile": "(float[2,4,6] x) => (y) <int64[3] r = {1, 1, 2}> {y = Tile(x, r)}",
        "TopK": "(float[2,4,6] x) => (y, i) <int64[1] k = {3}> {y, i = TopK(x, k)}",
        "Transpose": "(float[2,4,6] x) => (y) {y = Transpose<perm=[0,2,1]>(x)}",
        "Unique": "(float[12] x) => (float[6] y) {y = Unique(x)}",
        "Unsqueeze": "(float[2,6] x) => (y) <int64[1] a = {1}> {y = Unsqueeze(x, a)}",
        "Upsample": "(float[2,4,6,8] x) => (y) <float[4] s = {1, 1, 2, 2}> {y = Upsample(x, s)}",
        "Where": "(bool[2,4,6] c, float[2,4,6] x, float[6] z) => (y) {y = Where(c, x, z)}",
    }
)

_FOREIGN: Mapping[str, str] = MappingProxyType(
    {
        "Attention": "(float[2,6,32] x, float[32,96] w, float[96] b) => (float[2,6,32] y) "
        "{y = com.microsoft.Attention<num_heads=4>(x, w, b)}",
        "BiasGelu": "(float[2,4,6] x, float[6] b) => (float[2,4,6] y) "
        "{y = com.microsoft.BiasGelu(x, b)}",
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
        "FastGelu": "(float[2,4,6] x, float[6] b) => (float[2,4,6] y) "
        "{y = com.microsoft.FastGelu(x, b)}",
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
        "MatMulNBits": "(float[2,4,32] x, uint8[8,1,16] w, float[8] s) => (float[2,4,8] y) "
        "{y = com.microsoft.MatMulNBits<K=32, N=8, bits=4, block_size=32>(x, w, s)}",
        "MoE": "(float[12,8] x, float[12,4] r, float[4,16,8] w, float[4,8,16] v) "
        '=> (float[12,8] y) {y = com.microsoft.MoE<k=2, activation_type="gelu">(x, r, w, , v)}',
        "MultiHeadAttention": "(float[2,6,32] q, float[2,12,32] k, float[2,12,32] v) "
        "=> (float[2,6,32] y) {y = com.microsoft.MultiHeadAttention<num_heads=4>(q, k, v)}",
        "PackedMultiHeadAttention": "(float[12,32] q, float[12,32] k, float[12,32] v, "
        "int32[2,6] t, int32[3] n) => (float[12,32] y) "
        "{y = com.microsoft.PackedMultiHeadAttention<num_heads=4>(q, k, v, , t, n)}",
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
    text = _SAMPLES.get(schema.name) or _from_schema(schema)
    return None if text is None else _model(text, opset)


def foreign_sample(kind: str) -> onnx.ModelProto:
    """A model of one node of ONNX Runtime's domain; by default one that keeps size and type."""
    plain = f"(float{_DIMS} x) => (float{_DIMS} y) {{y = {MICROSOFT}.{kind}(x)}}"
    return _model(_FOREIGN.get(kind, plain), onnx.defs.onnx_opset_version())


def written_samples() -> tuple[str, ...]:
    """Kinds of ONNX whose sample is not guessed."""
    return tuple(_SAMPLES)


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
