"""Mixtures of experts of ONNX Runtime (domain `com.microsoft`) as grouped products of experts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from importers.errors import UnsupportedError
from importers.onnx_checks import type_code
from importers.onnx_foreign import Foreign
from importers.onnx_foreign_shapes import foreign, like_first
from importers.onnx_rewriting import Rewriting, rewritten
from ir.ops import COMBINE, DISPATCH, EXPERT_MATMUL


@dataclass(frozen=True, slots=True)
class _Layer:
    """Weight and bias of all experts, "" for what there is not, and how the weight is packed."""

    weight: str
    bias: str
    scale: str = ""
    zero: str = ""
    bits: int = 0


def _mixture(work: Rewriting) -> None:
    """Every token goes to the slots of its experts and comes back weighted."""
    _routed(work, [_Layer(work.operand(i), work.operand(i + 1)) for i in (2, 4, 6)])


def _quantised_mixture(work: Rewriting) -> None:
    """The same with weights of few bits, several to a byte."""
    work.refuse(*range(14, 21))
    kind = work.context.attributes.get("quant_type", "int")
    if kind not in {"int", b"int"}:
        raise UnsupportedError
    layers = []
    for number, first in enumerate((2, 5, 8), 1):
        bits = work.int(f"fc{number}_expert_weight_bits") or work.int("expert_weight_bits", 4)
        weight, scale, bias = (work.operand(first + i) for i in range(3))
        layers.append(_Layer(weight, bias, scale, work.operand(10 + number), bits))
    _routed(work, layers)


def _routed(work: Rewriting, layers: list[_Layer]) -> None:
    if work.int("use_sparse_mixer"):
        raise UnsupportedError
    data, dims = work.operand(0), work.dims(work.operand(0))
    tokens, experts = work.dims(work.operand(1))
    width, chosen = dims[-1], work.int("k", 1)
    share, index = _shares(work, tokens, chosen)
    rows = work.expand(work.reshape(data, tokens, 1, width), tokens, chosen, width)
    rows = work.reshape(rows, tokens * chosen, width, 1)
    capacity = -(-tokens * chosen // experts)
    slots = work.op(DISPATCH, [rows, index], (experts, capacity, width, 1))
    slots = _product(work, _activated(work, slots, layers), layers[1])
    found = work.op(COMBINE, [slots, index], (tokens * chosen, width, 1))
    found = work.reshape(found, tokens, chosen, width)
    found = work.mul(found, work.unsqueeze(share, 2))
    result = work.into(work.output(0))
    if len(dims) == 2:
        result.reduce_sum(found, 1, keep=False)
    else:
        result.reshape(work.reduce_sum(found, 1, keep=False), *dims)


def _shares(work: Rewriting, tokens: int, chosen: int) -> tuple[str, str]:
    """What each chosen expert counts for, and the experts of all tokens behind one another."""
    router = work.operand(1)
    normal = bool(work.int("normalize_routing_weights"))
    scores = router if normal else work.softmax(router, 1)
    index = work.tensor((tokens, chosen), type_code("int64"))
    pair = ((tokens, chosen), (tokens, chosen))
    attributes: dict[str, Any] = {"axis": 1, "largest": 1}
    code = work.code(router)
    top, _ = work.write("TopK", [scores], *pair, outputs=["", index], code=code, **attributes)
    if normal:
        top = work.softmax(top, 1)
    return top, work.reshape(index, tokens * chosen)


def _product(work: Rewriting, slots: str, layer: _Layer) -> str:
    """The product with the weight of each expert, and its bias."""
    experts, capacity = work.dims(slots)[:2]
    width = work.dims(layer.weight)[1]
    dims = (experts, capacity, width, 1)
    if layer.bits:
        attributes: dict[str, Any] = {"bits": layer.bits}
        if work.int("block_size"):
            attributes["block_size"] = work.int("block_size")
        inputs = [slots, layer.weight, layer.scale, layer.zero]
        found = work.op("ExpertMatMulNBits", inputs, dims, **attributes)
    else:
        found = work.op(EXPERT_MATMUL, [slots, layer.weight], dims)
    if not layer.bias:
        return found
    return work.add(found, work.unsqueeze(layer.bias, 1, 3))


_SIMPLE: Mapping[str, Callable[[Rewriting, str], str]] = MappingProxyType(
    {
        "relu": Rewriting.relu,
        "gelu": lambda work, value: work.gelu(value, "tanh"),
        "silu": Rewriting.swish,
        "identity": lambda _, value: value,
    }
)


def _activated(work: Rewriting, slots: str, layers: list[_Layer]) -> str:
    """The first product, activated, and gated by the third where there is one."""
    raw = work.context.attributes.get("activation_type", "relu")
    name = raw.decode() if isinstance(raw, bytes) else str(raw)
    first = _product(work, slots, layers[0])
    gated = bool(layers[2].weight)
    if name == "swiglu":
        fusion = work.int("swiglu_fusion")
        if bool(fusion) == gated:
            raise UnsupportedError
        gate, up = _halves(work, first, fusion) if fusion else (first, "")
        return _swiglu(work, gate, up or _product(work, slots, layers[2]))
    if name not in _SIMPLE:
        raise UnsupportedError
    first = _SIMPLE[name](work, first)
    return work.mul(first, _product(work, slots, layers[2])) if gated else first


def _halves(work: Rewriting, both: str, fusion: int) -> tuple[str, str]:
    """Gate and linear part of one product: alternating, or one behind the other."""
    experts, capacity, wide, _ = work.dims(both)
    if fusion == 1:
        pairs = work.reshape(both, experts, capacity, wide // 2, 2)
        gate, linear = work.split(pairs, 3, (1, 1))
    else:
        gate, linear = work.split(both, 2, (wide // 2, wide // 2))
    return gate, linear


def _swiglu(work: Rewriting, gate: str, linear: str) -> str:
    """`gate * sigmoid(alpha * gate) * (linear + beta)`, both bounded."""
    alpha = work.float("activation_alpha", 1.0)
    beta, limit = work.float("activation_beta"), work.float("swiglu_limit")
    if limit:
        gate = work.pointwise("Clip", gate, max=limit)
        linear = work.pointwise("Clip", linear, min=-limit, max=limit)
    slope: dict[str, Any] = {} if alpha == 1 else {"alpha": alpha}
    gate = work.swish(gate, **slope)
    found = work.mul(gate, linear)
    if not beta:
        return found
    if beta != 1:
        raise UnsupportedError
    return work.add(found, gate)


MICROSOFT_EXPERTS: Mapping[str, Foreign] = MappingProxyType(
    {
        "MoE": Foreign(
            rewritten(_mixture), foreign(like_first(1)), (2, 3, 4, 5, 6, 7),
            "(float[12,8] x, float[12,4] r, float[4,16,8] w, float[4,8,16] v) "
            '=> (float[12,8] y) {y = *<k=2, activation_type="gelu">(x, r, w, , v)}',
        ),
        "QMoE": Foreign(
            rewritten(_quantised_mixture), foreign(like_first(1)), (4, 7, 10),
            "(float[12,8] x, float[12,4] r, uint8[4,16,4] w, float[4,16] s, uint8[4,8,8] v, "
            'float[4,8] t) => (float[12,8] y) {y = *<k=2, activation_type="gelu">'
            "(x, r, w, s, , v, t)}",
        ),
    }
)  # fmt: skip
