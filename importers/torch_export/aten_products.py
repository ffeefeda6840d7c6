"""Products and attention."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from importers.errors import UnsupportedError
from importers.parameters import parametrised
from importers.traced.call import Call, Converter
from ir.graph import Tensor


def flipped(call: Call, value: Tensor) -> Tensor:
    """A matrix with its last two dimensions changed."""
    rank = len(value.dims)
    perm = [*range(rank - 2), rank - 1, rank - 2]
    return call.step("Transpose", [value], tuple(value.dims[p] for p in perm), perm=perm)


def _linear(call: Call) -> None:
    """The weight has a row for each result."""
    value, weight = call.tensor("input"), call.tensor("weight")
    if len(weight.dims) == 1:
        call.emit("MatMul", [value, weight])
        return
    turned = flipped(call, weight)
    bias = call.optional("bias")
    if bias is None:
        call.emit("MatMul", [value, turned])
    else:
        product = call.step("MatMul", [value, turned], call.result.dims)
        call.emit("Add", [product, bias])


def _product(left: str, right: str) -> Converter:
    return lambda c: c.emit("MatMul", [c.tensor(left), c.tensor(right)])


@parametrised
def _added(call: Call, left: str, right: str) -> None:
    """`beta * self + alpha * left @ right`."""
    dtype, dims = call.result.dtype, call.result.dims
    alpha, beta = call.get("alpha", 1), call.get("beta", 1)
    made = call.step("MatMul", [call.tensor(left), call.tensor(right)], dims)
    if alpha != 1:
        made = call.step("Mul", [made, call.scalar(alpha, dtype)])
    if beta == 0:
        call.alias(made)
        return
    bias = call.tensor("self")
    if beta != 1:
        bias = call.step("Mul", [bias, call.scalar(beta, dtype)])
    call.emit("Add", [made, bias])


def _outer(call: Call) -> None:
    left, right = call.tensor("self"), call.tensor("vec2")
    column = call.step("Unsqueeze", [left, call.shape([1])], (*left.dims, 1))
    call.emit("Mul", [column, right])


def _einsum(call: Call) -> None:
    tensors = [t for t in call.tensors("tensors") if t is not None]
    call.emit("Einsum", tensors, equation=call.text("equation", ""))


def _attention(call: Call) -> None:
    """Queries, keys and values as batch, heads, rows, width; fewer dimensions get more."""
    query, key, value = (call.tensor(n) for n in ("query", "key", "value"))
    mask = call.optional("attn_mask") or call.optional("attn_bias")
    if not 2 < len(query.dims) <= 4 or len({len(t.dims) for t in (query, key, value)}) > 1:
        raise UnsupportedError(call.target)
    if len(query.dims) == 3:
        query, key, value = (_unsqueezed(call, t, 1) for t in (query, key, value))
        mask = _unsqueezed(call, mask, 1) if mask is not None and len(mask.dims) == 3 else mask
    inputs = [query, key, value, mask]
    causal = int(call.flag("is_causal"))
    attributes: dict[str, Any] = {"is_causal": causal} if causal else {}
    if call.has("scale"):
        attributes["scale"] = call.float("scale", 1.0)
    result = call.result
    if len(result.dims) == 4:
        call.emit("Attention", inputs, count=1, **attributes)
        return
    dims = (result.dims[0], 1, *result.dims[1:])
    wide = call.step("Attention", inputs, dims, **attributes)
    call.emit("Squeeze", [wide, call.shape([1])], count=1)


def _unsqueezed(call: Call, value: Tensor, axis: int) -> Tensor:
    dims = (*value.dims[:axis], 1, *value.dims[axis:])
    return call.step("Unsqueeze", [value, call.shape([axis])], dims)


PRODUCTS: Mapping[str, Converter] = MappingProxyType(
    {
        "linear(input, weight, bias)": _linear,
        "mm(self, mat2)": _product("self", "mat2"),
        "bmm(self, mat2)": _product("self", "mat2"),
        "matmul(self, other)": _product("self", "other"),
        "mv(self, vec)": _product("self", "vec"),
        "dot(self, tensor)": _product("self", "tensor"),
        "addmm(self, mat1, mat2, beta, alpha)": _added("mat1", "mat2"),
        "baddbmm(self, batch1, batch2, beta, alpha)": _added("batch1", "batch2"),
        "outer(self, vec2)": _outer,
        "einsum(equation, tensors, path)": _einsum,
        "scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale, "
        "enable_gqa)": _attention,
        "_scaled_dot_product_flash_attention_for_cpu(query, key, value, dropout_p, is_causal, "
        "attn_mask, scale)": _attention,
        "_scaled_dot_product_flash_attention(query, key, value, dropout_p, is_causal, "
        "return_debug_mask, scale)": _attention,
        "_scaled_dot_product_efficient_attention(query, key, value, attn_bias, compute_log_sumexp, "
        "dropout_p, is_causal, scale)": _attention,
        "_scaled_dot_product_cudnn_attention(query, key, value, attn_bias, compute_log_sumexp, "
        "dropout_p, is_causal, return_debug_mask, scale)": _attention,
    }
)
