"""Products of matrices, and attention."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from importers.errors import UnsupportedError
from importers.torch_export.aten import aten
from importers.torch_export.aten_products import flipped
from importers.traced.call import Call, Converter


def _product(call: Call) -> None:
    """Either operand may stand with its last two dimensions changed."""
    left, right = call.tensor("self"), call.tensor("mat2")
    if call.flag("transpose_a"):
        left = flipped(call, left)
    if call.flag("transpose_b"):
        right = flipped(call, right)
    call.emit("MatMul", [left, right])


def _biased(call: Call) -> None:
    """A vector for the channels, the second dimension of what has more than two."""
    value, bias = call.tensor("self"), call.tensor("bias")
    form = call.get("data_format", "NCHW")
    if len(value.dims) > 2 and form in {"NCHW", "NCDHW", 0, 3}:
        shape = (bias.dims[0], *[1] * (len(value.dims) - 2))
        bias = call.step("Reshape", [bias, call.shape(shape)], shape)
    call.emit("Add", [value, bias])


_LAYOUTS = {0: "BSH", 1: "BNSD", 2: "SBH", 3: "BSND", 4: "TND"}
"""`FASInputLayoutMode`."""
_CAUSAL, _CAUSAL_END = 2, 3
"""Of `sparse_mode`: rows see those before them, counted from the first or from the last."""


def _attention(call: Call) -> None:
    """Queries, keys and values as batch, heads, rows, width; or with the heads merged."""
    query, key, value = (call.tensor(n) for n in ("query", "key", "value"))
    form = call.get("input_layout", "BSH")
    layout = _LAYOUTS.get(form, "") if isinstance(form, int) else str(form)
    unusual = ("real_shift", "drop_mask", "padding_mask", "prefix")
    if layout not in {"BSH", "BNSD"} or any(call.has(n) for n in unusual):
        raise UnsupportedError(call.target)
    if call.wants(0) or call.wants(1) or call.wants(2) or call.float("keep_prob", 1.0) != 1.0:
        raise UnsupportedError(call.target)
    heads = call.int("head_num", 1)
    attributes: dict[str, Any] = {"scale": call.float("scale_value", 1.0)}
    mask, sparse = call.optional("attn_mask"), call.int("sparse_mode", 0)
    rows = 1 if layout == "BSH" else 2
    if sparse == _CAUSAL or (sparse == _CAUSAL_END and query.dims[rows] == key.dims[rows]):
        attributes["is_causal"], mask = 1, None
    elif sparse not in {0, 1}:
        raise UnsupportedError(call.target)
    elif mask is not None:
        mask = call.step("Not", [call.cast(mask, "bool")])  # what is marked is hidden
    if layout == "BSH":
        width = query.dims[-1] // heads
        attributes |= {"q_num_heads": heads, "kv_num_heads": max(1, key.dims[-1] // width)}
    result = call.results[3]
    if result is None:
        raise call.fault("it makes no tensor")
    call.made[3] = result
    call.write("Attention", [query, key, value, mask], [result], **attributes)


_MATRICES = "self, y as mat2, transpose_a, transpose_b"

PRODUCTS: Mapping[str, Converter] = MappingProxyType(
    {
        "MatMul(input as self, mat2, transpose_a, transpose_b)": _product,
        f"BatchMatMul(x as {_MATRICES})": _product,
        "BatchMatMulExt(input as self, mat2)": aten("bmm"),
        "MatMulExt(input as self, other)": aten("matmul"),
        "Mm(input as self, mat2)": aten("mm"),
        "Mv(input as self, vec)": aten("mv"),
        "Dot(input as self, other as tensor)": aten("dot"),
        "Outer(input as self, vec2)": aten("outer"),
        "Dense(input, weight, bias)": aten("linear"),
        "Addmm(input as self, mat1, mat2, beta, alpha)": aten("addmm"),
        "Baddbmm(input as self, batch1, batch2, beta, alpha)": aten("baddbmm"),
        "Einsum(inputs as tensors, equation)": aten("einsum"),
        "BiasAdd(input_x as self, bias, data_format)": _biased,
        "FlashAttentionScore(query, key, value, real_shift, drop_mask, padding_mask, attn_mask, "
        "prefix, actual_seq_qlen, actual_seq_kvlen, head_num, keep_prob, scale_value, pre_tokens, "
        "next_tokens, inner_precise, input_layout, sparse_mode)": _attention,
    }
)
