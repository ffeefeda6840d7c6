"""Products of matrices."""

from __future__ import annotations

from importers.traced.call import Call
from importers.traced.operations.norms import FIRST_LAYOUTS
from importers.traced.table import spelled


@spelled(
    aten="linear(input, weight, bias)",
    mindir="Dense(input, weight, bias)",
)
def _linear(call: Call) -> None:
    """The weight has a row for each result."""
    value, weight = call.tensor("input"), call.tensor("weight")
    if len(weight.dims) == 1:
        call.answer.matmul(value, weight)
        return
    turned = call.flipped(weight)
    bias = call.optional("bias")
    if bias is None:
        call.answer.matmul(value, turned)
    else:
        call.answer.add(call.matmul(value, turned), bias)


@spelled(
    aten="mm bmm(self, mat2); matmul(self, other as mat2); mv(self, vec as mat2);"
    "dot(self, tensor as mat2)",
    mindir="MatMul(input as self, mat2, transpose_a, transpose_b);"
    "BatchMatMul(x as self, y as mat2, transpose_a, transpose_b);"
    "BatchMatMulExt Mm(input as self, mat2); MatMulExt Dot(input as self, other as mat2);"
    "Mv(input as self, vec as mat2)",
)
def _product(call: Call) -> None:
    """Either operand may stand with its last two dimensions changed."""
    left, right = call.tensor("self"), call.tensor("mat2")
    if call.flag("transpose_a"):
        left = call.flipped(left)
    if call.flag("transpose_b"):
        right = call.flipped(right)
    call.answer.matmul(left, right)


@spelled(
    aten="addmm(self, mat1, mat2, beta, alpha); baddbmm(self, batch1 as mat1, batch2 as mat2,"
    "beta, alpha)",
    mindir="Addmm(input as self, mat1, mat2, beta, alpha);"
    "Baddbmm(input as self, batch1 as mat1, batch2 as mat2, beta, alpha)",
)
def _added(call: Call) -> None:
    """`beta * self + alpha * mat1 @ mat2`."""
    dtype = call.result.dtype
    alpha, beta = call.get("alpha", 1), call.get("beta", 1)
    made = call.matmul(call.tensor("mat1"), call.tensor("mat2"))
    if alpha != 1:
        made = call.mul(made, call.scalar(alpha, dtype))
    if beta == 0:
        call.alias(made)
        return
    bias = call.tensor("self")
    if beta != 1:
        bias = call.mul(bias, call.scalar(beta, dtype))
    call.answer.add(made, bias)


@spelled(mindir="BiasAdd(input_x as self, bias, data_format)")
def _biased(call: Call) -> None:
    """A vector for the channels, the second dimension of what has more than two."""
    value, bias = call.tensor("self"), call.tensor("bias")
    if len(value.dims) > 2 and call.get("data_format", "NCHW") in FIRST_LAYOUTS:
        bias = call.reshape(bias, bias.dims[0], *[1] * (len(value.dims) - 2))
    call.answer.add(value, bias)


@spelled(aten="outer(self, vec2)", mindir="Outer(input as self, vec2)")
def _outer(call: Call) -> None:
    left, right = call.tensor("self"), call.tensor("vec2")
    call.answer.mul(call.unsqueeze(left, 1), right)


@spelled(aten="einsum(equation, tensors, path)", mindir="Einsum(inputs as tensors, equation)")
def _einsum(call: Call) -> None:
    tensors = [t for t in call.tensors("tensors") if t is not None]
    call.emit("Einsum", tensors, equation=call.text("equation", ""))
