"""Products, also with factors, activations and quantised operands, as products and what is around
them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import onnx

from importers import onnx_foreign_shapes as shapes
from importers.errors import UnsupportedError
from importers.onnx_biases import followed, scaled, scaled_operand
from importers.onnx_foreign import Foreign
from importers.onnx_images import windows
from importers.onnx_node import Converter, NodeContext
from importers.onnx_rewriting import Rewriting, rewritten
from importers.parameters import parametrised
from ir.graph import AttributeValue, Op
from ir.ops import BIAS_ADD, SCALE, Form, lookup

_FLOAT, _INT32 = int(onnx.TensorProto.FLOAT), int(onnx.TensorProto.INT32)
_UINT8 = int(onnx.TensorProto.UINT8)


def gemm(context: NodeContext) -> list[Op]:
    """The product, times `alpha`, plus `beta` times the bias."""
    flags = (("trans_a", "transA"), ("trans_b", "transB"))
    attributes: dict[str, AttributeValue] = {k: 1 for k, flag in flags if context.int(flag, 0)}
    product = context.op("MatMul", context.node.input[:2], attributes)
    ops, beta = scaled(context, product, context.float("alpha", 1.0)), context.float("beta", 1.0)
    if not context.has(2) or not beta:
        return ops
    before, bias = scaled_operand(context, context.node.input[2], beta)
    return [*before, *followed(context, ops, "Add", bias, {})]


def _quantities(context: NodeContext) -> list[Op]:
    """Numbers of a slice or a block need the axis; one number belongs to all elements."""
    attributes = context.kept("block_size", "saturate")
    scale = context.dims(1)
    if any(d > 1 for d in scale) or len(scale) > 1:
        attributes["axis"] = context.axis(1)
    if not attributes.get("block_size", 1):
        attributes.pop("block_size")
    return [context.op(context.node.op_type, context.node.input[:3], attributes)]


def _of_integers(weight: int) -> Converter:
    return lambda context: [
        context.op(context.kind, context.node.input, windows(context, weight=weight))
    ]


def _fused_matmul(work: Rewriting) -> None:
    """Operands may have their first dimension behind those of the batch."""
    names = []
    for index, flag in ((0, "transBatchA"), (1, "transBatchB")):
        name = work.operand(index)
        rank = len(work.dims(name))
        if work.int(flag):
            name = work.transpose(name, *range(1, rank - 1), 0, rank - 1)
        names.append(name)
    pairs = (("trans_a", "transA"), ("trans_b", "transB"))
    flags = {k: 1 for k, flag in pairs if work.int(flag)}
    output, alpha = work.output(0), work.float("alpha", 1.0)
    result = work.dims(output)
    product = work.into(output if alpha == 1.0 else "").op("MatMul", names, result, "", **flags)
    if alpha != 1.0:
        work.into(output).op(SCALE, [product], result, scale=alpha)


_PARAMETERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"LeakyRelu": ("alpha",), "HardSigmoid": ("alpha", "beta")}
)
"""What activations have beside their operand."""


def _is_activation(kind: str) -> bool:
    spelling = lookup(kind).spelling
    return kind in _PARAMETERS or (spelling is not None and spelling.form is Form.ONE)


@parametrised
def _with_activation(context: NodeContext, convert: Converter, key: str = "activation") -> list[Op]:
    """What a converter makes, and the activation that the node names behind it."""
    kind = str(context.attributes.get(key, ""))
    if kind and not _is_activation(kind):
        return context.same()
    ops = convert(context)
    return ops if not kind else _activated(context, ops, kind)


def _activated(context: NodeContext, ops: Sequence[Op], kind: str) -> list[Op]:
    between = context.new_tensor("/linear")
    values = context.attributes.get("activation_params", ())
    given = [float(v) for v in values] if isinstance(values, list | tuple) else []
    for name in ("activation_alpha", "activation_beta"):
        value = context.attributes.get(name)
        given += [float(value)] if isinstance(value, int | float) else []
    known = zip(_PARAMETERS.get(kind, ()), given, strict=False)
    attributes: dict[str, AttributeValue] = dict(known)
    result = context.node.output[0]
    moved = [
        replace(op, outputs=tuple(between if n == result else n for n in op.outputs)) for op in ops
    ]
    name = f"{context.name}/activation"
    return [*moved, Op(name, kind, (between,), (result,), attributes, context.scope)]


def _fused_conv(context: NodeContext) -> list[Op]:
    """A convolution, its bias, and a tensor of its result's dims that is added."""
    product = context.op("Conv", context.node.input[:2], windows(context, weight=1))
    ops = [product]
    if context.has(2):
        ops = followed(context, ops, BIAS_ADD, context.node.input[2], {"axis": 1})
    if not context.has(3):
        return ops
    return followed(context, ops, "Add", context.node.input[3], {}, "sum")


def _gemm_gelu(context: NodeContext) -> list[Op]:
    return _activated(context, gemm(context), "FastGelu")


def _float_product(work: Rewriting, names: Sequence[str], scales: Sequence[str], bias: str) -> None:
    """Product of whole numbers, as floating point, times both scales, plus a bias."""
    result, output = work.dims(work.output(0)), work.output(0)
    found = work.cast(work.op("MatMulInteger", names, result, "int32"), work.dtype_of(output))
    for index, scale in enumerate(scales):
        last = index == len(scales) - 1 and not bias
        found = work.into(output if last else "").mul(found, scale)
    if bias:
        work.into(output).add(found, bias)


def _dynamic_matmul(work: Rewriting) -> None:
    """The left operand is quantised while the model runs."""
    data, code = work.operand(0), work.code(work.output(0))
    dims = work.dims(data)
    left, scale, point = (work.tensor(d, c) for d, c in ((dims, _UINT8), ((), code), ((), _UINT8)))
    work.write("DynamicQuantizeLinear", [data], dims, (), (), outputs=(left, scale, point))
    names = [left, work.operand(1), point, work.operand(3)]
    _float_product(work, names, [scale, work.operand(2)], work.operand(4))


def _integer_to_float(work: Rewriting) -> None:
    """Operands are `a, b, scale, scale, point, point, bias`."""
    names = [work.operand(i) for i in (0, 1, 4, 5)]
    rows = work.operand(2)
    if len(work.dims(rows)) == 1 and work.dims(rows)[0] > 1:
        raise UnsupportedError
    scales = [rows, work.operand(3)]
    _float_product(work, names, scales, work.operand(6))


def _rounded(join: Callable[[Rewriting, str, str], str]) -> Converter:
    """Quantised numbers as floating point, the operator, and its result quantised."""

    def write(work: Rewriting) -> None:
        floats = []
        for index in (0, 3):
            names = [work.operand(index + i) for i in range(3)]
            dims = work.dims(names[0])
            floats.append(work.op("DequantizeLinear", names, dims, work.dtype_of(names[1])))
        found = join(work, *floats)
        names = [found, work.operand(6), work.operand(7)]
        work.into(work.output(0)).op("QuantizeLinear", names)

    return rewritten(write)


def _packed_matmul(work: Rewriting) -> None:
    """Weights of a few bits stay packed; the bias is added behind."""
    work.refuse(4)
    bits, block = work.int("bits", 4), work.int("block_size", 32)
    result, bias = work.dims(work.output(0)), work.operand(5)
    names = [work.operand(i) for i in range(4)]
    product = work.into("" if bias else work.output(0))
    found = product.op("MatMulNBits", names, result, bits=bits, block_size=block)
    if bias:
        work.into(work.output(0)).add(found, bias)


integer_conv = _of_integers(1)
rounded_conv = _of_integers(3)
quantise = dequantise = _quantities
_QUANTISED_PAIR = (
    "(uint8[2,4,6] a, float s, uint8 z, uint8[2,4,6] b, float t, uint8 u, float v, uint8 w) "
    "=> (uint8[2,4,6] y) {y = *(a, s, z, b, t, u, v, w)}"
)
MICROSOFT_PRODUCTS: Mapping[str, Foreign] = MappingProxyType(
    {
        "FusedMatMul": Foreign(
            rewritten(_fused_matmul), shapes.fused_matmul, (1,),
            "(float[2,4,6] x, float[2,8,6] w) => (float[2,4,8] y) "
            "{y = *<transB=1, alpha=0.125>(x, w)}",
        ),
        "TransposeMatMul": Foreign(
            rewritten(_fused_matmul), shapes.fused_matmul, (1,),
            "(float[2,4,6] x, float[2,8,6] w) => (float[2,4,8] y) {y = *<transB=1>(x, w)}",
        ),
        "FusedGemm": Foreign(
            _with_activation(gemm), shapes.gemm, (1, 2),
            "(float[4,6] x, float[6,8] w, float[8] b) => (float[4,8] y) "
            '{y = *<activation="Relu">(x, w, b)}',
        ),
        "GemmFastGelu": Foreign(
            _gemm_gelu, shapes.gemm, (1, 2),
            "(float[2,4,6] x, float[6,8] w, float[8] b) => (float[2,4,8] y) {y = *(x, w, b)}",
        ),
        "FusedConv": Foreign(
            _with_activation(_fused_conv), None, (1, 2),
            "(float[2,4,6,8] x, float[12,4,3,3] w, float[12] b) => (float[2,12,4,6] y) "
            '{y = *<kernel_shape=[3,3], activation="Relu">(x, w, b)}',
        ),
        "QuantizeLinear": Foreign(
            _quantities,
            sample="(float[2,4,6] x, float s, uint8 z) => (uint8[2,4,6] y) {y = *(x, s, z)}",
        ),
        "DequantizeLinear": Foreign(
            _quantities,
            sample="(uint8[2,4,6] x, float s, uint8 z) => (float[2,4,6] y) {y = *(x, s, z)}",
        ),
        "DynamicQuantizeMatMul": Foreign(
            rewritten(_dynamic_matmul), shapes.plain_matmul(0), (),
            "(float[2,4,6] x, uint8[6,8] w, float s, uint8 z) => (float[2,4,8] y) "
            "{y = *(x, w, s, z)}",
        ),
        "MatMulIntegerToFloat": Foreign(
            rewritten(_integer_to_float), shapes.plain_matmul(2), (),
            "(uint8[2,4,6] x, uint8[6,8] w, float s, float t) => (float[2,4,8] y) "
            "{y = *(x, w, s, t)}",
        ),
        "QLinearAdd": Foreign(_rounded(Rewriting.add), shapes.rounded, (), _QUANTISED_PAIR),
        "QLinearMul": Foreign(_rounded(Rewriting.mul), shapes.rounded, (), _QUANTISED_PAIR),
        "MatMulNBits": Foreign(rewritten(_packed_matmul), shapes.packed_matmul),
    }
)  # fmt: skip
