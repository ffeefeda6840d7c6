"""Attention of ONNX and of ONNX Runtime (domain `com.microsoft`) as operators of the catalogue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from importers import onnx_foreign_shapes as shapes
from importers.errors import UnsupportedError
from importers.onnx_foreign import Foreign
from importers.onnx_node import NodeContext
from importers.onnx_rewriting import Rewriting, rewritten
from importers.operators import Dims
from importers.parameters import parametrised
from ir.graph import Op


@dataclass(frozen=True, slots=True)
class _Places:
    """Operands of a kind by meaning; -1 for what it lacks."""

    bias: int
    mask: int
    added: int
    past: int
    refused: tuple[int, ...]
    """Buffers that are shared between steps, beams."""


_MULTI_HEAD = _Places(bias=3, mask=4, added=5, past=6, refused=(8, 9))
_DECODER = _Places(bias=10, mask=3, added=4, past=5, refused=(7, 8, 9))


@parametrised
def _multi_head(work: Rewriting, places: _Places) -> None:
    """Heads together, packed, or for keys and values apart; a bias for all of them."""
    work.refuse(*places.refused)
    if work.int("past_present_share_buffer"):
        raise UnsupportedError
    heads = work.int("num_heads")
    query, key, value = _unpacked(work)
    if work.operand(places.bias):
        query, key, value = _biased(work, (query, key, value), work.operand(places.bias))
    mask, lengths = _mask(work, places)
    past = [work.operand(places.past), work.operand(places.past + 1)]
    outputs = [work.output(i) for i in range(4)]
    _attend(work, (query, key, value), heads, mask, lengths, past, outputs)


def _unpacked(work: Rewriting) -> tuple[str, str, str]:
    """Queries, keys and values, which may be one tensor or two."""
    query, key, value = (work.operand(i) for i in range(3))
    dims = work.dims(query)
    if len(dims) == 5:
        batch, rows, heads, _, width = dims
        parts = work.split(query, 3, (1, 1, 1))
        query, key, value = (work.reshape(p, batch, rows, heads * width) for p in parts)
    elif not key:
        width = dims[2] // 3
        query, key, value = work.split(query, 2, (width, width, dims[2] - 2 * width))
    elif not value:
        batch, rows, heads, _, width = work.dims(key)
        parts = work.split(key, 3, (1, 1))
        key, value = (work.reshape(p, batch, rows, heads * width) for p in parts)
    return query, key, value


def _biased(work: Rewriting, parts: tuple[str, str, str], bias: str) -> tuple[str, str, str]:
    """The bias of each part added to it; keys and values that lie apart are complete already."""
    width = work.dims(parts[0])[-1]
    pieces = work.split(bias, 0, (width, width, work.dims(bias)[0] - 2 * width))
    query, key, value = (
        work.add(part, piece) if len(work.dims(part)) == 3 else part
        for part, piece in zip(parts, pieces, strict=True)
    )
    return query, key, value


def _mask(work: Rewriting, places: _Places) -> tuple[str, str]:
    """Mask of the scores, and numbers of keys that count; "" for what there is not."""
    mask, added = work.operand(places.mask), work.operand(places.added)
    if not mask:
        return added, ""
    dims = work.dims(mask)
    if len(dims) == 1:
        batch = work.dims(work.operand(0))[0]
        if dims[0] != batch or work.int("unidirectional") or work.operand(places.past):
            raise UnsupportedError
        return added, work.cast(mask, "int64")
    if len(dims) == 4:
        rows = work.dims(work.operand(0))[1]
        if dims[2:] != (rows, rows):
            raise UnsupportedError
    axes = (1, 2) if len(dims) == 2 else (1,)
    wide = work.unsqueeze(mask, *axes) if len(dims) < 4 else mask
    if not added:
        return work.cast(wide, "bool"), ""
    seen = work.cast(wide, work.dtype_of(added))
    # The logarithm of 1 and 0 is what is added to the scores of keys that count and that do not.
    return work.add(work.pointwise("Log", seen), added), ""


def _attend(
    work: Rewriting,
    parts: tuple[str, str, str],
    heads: int,
    mask: str,
    lengths: str,
    past: list[str],
    outputs: list[str],
) -> None:
    """The operator itself, with the results in the dims of the node."""
    query, key, value = parts
    attributes = _scaled(work)
    if work.int("unidirectional"):
        attributes["is_causal"] = 1
    if outputs[3]:
        attributes["qk_matmul_output_mode"] = 2
    batch, rows, _ = work.dims(query)
    if len(work.dims(key)) == 3:
        attributes |= {"q_num_heads": heads, "kv_num_heads": heads}
    out = _result_dims(work, parts, heads, past)
    inputs = [query, key, value, mask, *past, lengths]
    if len(work.dims(key)) == 3:
        work.write("Attention", inputs, *out, outputs=outputs, **attributes)
        return
    inputs[0] = work.heads_apart(query, heads)
    width = out[0][2] // heads
    apart = (batch, heads, rows, width)
    found = work.write(
        "Attention", inputs, apart, *out[1:], outputs=["", *outputs[1:]], **attributes
    )
    work.into(outputs[0]).reshape(work.transpose(found[0], 0, 2, 1, 3), *out[0])


def _scaled(work: Rewriting) -> dict[str, Any]:
    scale = work.float("scale")
    return {"scale": scale} if scale else {}


def _result_dims(
    work: Rewriting, parts: tuple[str, str, str], heads: int, past: list[str]
) -> list[Dims]:
    """Dims of the result, of keys and values handed on, and of the scores."""
    query, key, value = (work.dims(p) for p in parts)
    apart = len(key) == 4
    earlier = work.dims(past[0])[2] if past[0] else 0
    total = key[-2] + earlier
    widths = [d[-1] if apart else d[-1] // heads for d in (key, value)]
    caches = [(query[0], heads, total, width) for width in widths]
    return [
        (query[0], query[1], heads * widths[1]), *caches, (query[0], heads, query[1], total)
    ]  # fmt: skip


def _self_attention(work: Rewriting) -> None:
    """The product with the merged weights, its bias, and attention of the three parts."""
    work.refuse(6)
    if work.int("do_rotary") or work.int("past_present_share_buffer"):
        raise UnsupportedError
    data, weights, bias = (work.operand(i) for i in range(3))
    heads = work.int("num_heads")
    wide = work.dims(weights)[1]
    sizes = work.context.attribute_ints("qkv_hidden_sizes") or (wide // 3,) * 3
    merged = work.matmul(data, weights)
    if bias:
        merged = work.add(merged, bias)
    query, key, value = work.split(merged, 2, sizes)
    mask, lengths = _mask(work, _Places(bias=2, mask=3, added=5, past=4, refused=()))
    past = ["", ""]
    if work.operand(4):
        past = [work.squeeze(half, 0) for half in work.split(work.operand(4), 0, (1, 1))]
    present = work.output(1)
    dims_of = _result_dims(work, (query, key, value), heads, past)
    caches = [work.tensor(dims) if present else "" for dims in dims_of[1:3]]
    outputs = [work.output(0), *caches, ""]
    _attend(work, (query, key, value), heads, mask, lengths, past, outputs)
    if present:
        work.into(present).concat(0, *(work.unsqueeze(name, 0) for name in caches))


def _grouped(work: Rewriting) -> None:
    """Fewer key heads than query heads, causal, with rotary embedding and a cache."""
    work.refuse(11, 12, 13, 14, 15)
    unusual = ("sliding_window_cache", "qk_output", "kv_cache_bit_width")
    if any(work.int(key) for key in unusual) or work.int("smooth_softmax", -1) > 0:
        raise UnsupportedError
    heads, groups = work.int("num_heads"), work.int("kv_num_heads")
    query, key, value = (work.operand(i) for i in range(3))
    if not key:
        width = work.dims(query)[2] // (heads + 2 * groups)
        sizes = (heads * width, groups * width, groups * width)
        query, key, value = work.split(query, 2, sizes)
    cache = _Cache.of(work, key)
    if work.int("do_rotary"):
        query, key = (
            _turned(work, data, count, cache) for data, count in ((query, heads), (key, groups))
        )
    attributes = _scaled(work) | {"is_causal": work.int("causal", 1)}
    if work.float("softcap"):
        attributes["softcap"] = work.float("softcap")
    if work.int("local_window_size", -1) > 0:
        attributes["left_window_size"] = work.int("local_window_size") - 1
    if cache.shared:
        _in_buffer(work, (query, key, value), (heads, groups), attributes)
        return
    attributes |= {"q_num_heads": heads, "kv_num_heads": groups}
    batch, rows, wide = work.dims(query)
    present = (batch, groups, cache.earlier + work.dims(key)[1], wide // heads)
    past = [work.operand(3), work.operand(4)] if cache.earlier else ["", ""]
    inputs = [query, key, value, work.operand(10), *past]
    outputs = [work.output(i) for i in range(3)]
    work.write("Attention", inputs, (batch, rows, wide), present, present,
             outputs=outputs, **attributes)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Cache:
    """What is known of earlier rows."""

    earlier: int
    """Rows that are handed in."""
    shared: bool
    """Whether new rows are written into the same buffer, where the operand `seqlens_k` says."""

    @staticmethod
    def of(work: Rewriting, key: str) -> _Cache:
        past, present = work.operand(3), work.output(1)
        earlier = work.dims(past)[2] if past else 0
        rows = work.context.facts.dims.get(present, (0, 0, earlier + work.dims(key)[1]))[2]
        if rows not in {earlier, earlier + work.dims(key)[1]}:
            raise UnsupportedError
        return _Cache(earlier, shared=bool(earlier) and rows == earlier)


def _turned(work: Rewriting, data: str, heads: int, cache: _Cache) -> str:
    """Rows turned by their position: as told, from where the cache is written, or behind it."""
    dims = work.dims(data)
    cosine, sine = work.operand(7), work.operand(8)
    attributes: dict[str, Any] = {"num_heads": heads}
    width = 2 * work.dims(cosine)[1]
    if width != dims[2] // heads:
        attributes["rotary_embedding_dim"] = width
    if work.int("rotary_interleaved"):
        attributes["interleaved"] = 1
    places = work.operand(9) if cache.earlier else ""
    if not places and cache.shared:
        places = work.operand(5)
        attributes["position_offset"] = 1 - dims[1]
    elif not places and cache.earlier:
        attributes["position_offset"] = cache.earlier
    inputs = [data, cosine, sine, work.cast(places, "int64") if places else ""]
    return work.op("RotaryEmbedding", inputs, dims, "", **attributes)


def _in_buffer(
    work: Rewriting,
    parts: tuple[str, str, str],
    counts: tuple[int, int],
    attributes: dict[str, Any],
) -> None:
    """New rows go where `seqlens_k` says, one number less than the keys that count then."""
    (heads, groups), (batch, rows, wide) = counts, work.dims(parts[0])
    last = work.cast(work.operand(5), "int64")
    held = []
    for part, index in zip(parts[1:], (3, 4), strict=True):
        new, past = work.heads_apart(part, groups), work.operand(index)
        buffer, inputs = work.into(work.output(index - 2)), [past, new, last]
        held.append(
            buffer.op("TensorScatter", inputs, work.dims(past), axis=2, write_offset=1 - rows)
        )
    inputs = [work.heads_apart(parts[0], heads), *held, work.operand(10), "", "", last]
    apart = (batch, heads, rows, wide // heads)
    found = work.op("Attention", inputs, apart, "", length_offset=1, **attributes)
    work.into(work.output(0)).reshape(work.transpose(found, 0, 2, 1, 3), batch, rows, wide)


def _packed_multi_head(work: Rewriting) -> None:
    """Rows of several sequences behind one another; the offsets before packing are not needed."""
    work.refuse(6)
    query, key, value, bias = (work.operand(i) for i in range(4))
    heads = work.int("num_heads")
    if not key:
        tokens, _, _, width = work.dims(query)
        parts = work.split(query, 2, (1, 1, 1))
        query, key, value = (work.reshape(p, tokens, heads * width) for p in parts)
    if bias:
        width = work.dims(query)[1]
        pieces = work.split(bias, 0, (width, width, work.dims(value)[1]))
        query, key, value = (
            work.add(part, piece) for part, piece in zip((query, key, value), pieces, strict=True)
        )
    inputs = [query, key, value, work.operand(5)]
    result = work.into(work.output(0))
    result.op("PackedMultiHeadAttention", inputs, num_heads=heads, **_scaled(work))


def _rotary_microsoft(work: Rewriting) -> None:
    """Positions come second."""
    if work.int("is_packed_batching") or work.float("scale", 1.0) != 1:
        raise UnsupportedError
    data, places, cosine, sine = (work.operand(i) for i in range(4))
    dims, width = work.dims(data), 2 * work.dims(cosine)[1]
    attributes: dict[str, Any] = work.context.kept(
        "interleaved", "rotary_embedding_dim", "num_heads"
    )
    if len(dims) == 3 and not work.int("num_heads"):
        if work.int("rotary_embedding_dim"):
            raise UnsupportedError
        attributes["num_heads"] = dims[2] // width
    result = work.into(work.output(0))
    result.op("RotaryEmbedding", [data, cosine, sine, places], dims, "", **attributes)


@parametrised
def _standard(context: NodeContext, *keys: str) -> list[Op]:
    """The node with attributes that say how it is computed."""
    attributes: dict[str, Any] = context.kept(*keys)
    return context.same(**attributes)


def tensor_scatter(context: NodeContext) -> list[Op]:
    return context.same(axis=context.axis(-2))


def older_scatter(context: NodeContext) -> list[Op]:
    """The older name of `ScatterElements`."""
    inputs = context.node.input
    return [context.op("ScatterElements", inputs, {"axis": context.axis(0)})]


attention = _standard(
    "scale", "softcap", "qk_matmul_output_mode", "softmax_precision", "left_window_size",
    "right_window_size",
)  # fmt: skip
rotary = _standard("interleaved", "rotary_embedding_dim")
linear_attention = _standard("scale", "update_rule")
causal_conv = _standard("activation")
MICROSOFT_ATTENTION: Mapping[str, Foreign] = MappingProxyType(
    {
        "Attention": Foreign(
            rewritten(_self_attention), shapes.attention, (1, 2),
            "(float[2,6,32] x, float[32,96] w, float[96] b) => (float[2,6,32] y) "
            "{y = *<num_heads=4>(x, w, b)}",
        ),
        "MultiHeadAttention": Foreign(
            rewritten(_multi_head(_MULTI_HEAD)), shapes.multi_head(6), (3,),
            "(float[2,6,32] q, float[2,12,32] k, float[2,12,32] v) => (float[2,6,32] y) "
            "{y = *<num_heads=4>(q, k, v)}",
        ),
        "DecoderMaskedMultiHeadAttention": Foreign(
            rewritten(_multi_head(_DECODER)), shapes.multi_head(5), (10,),
            "(float[2,1,32] q, float[2,1,32] k, float[2,1,32] v) => (float[2,1,32] y) "
            "{y = *<num_heads=4>(q, k, v)}",
        ),
        "GroupQueryAttention": Foreign(
            rewritten(_grouped), shapes.grouped, (),
            "(float[2,6,32] q, float[2,6,16] k, float[2,6,16] v, float[2,2,4,8] pk, "
            "float[2,2,4,8] pv, int32[2] n, int32 t) => (float[2,6,32] y) "
            "{y = *<num_heads=4, kv_num_heads=2>(q, k, v, pk, pv, n, t)}",
        ),
        "PackedMultiHeadAttention": Foreign(rewritten(_packed_multi_head), shapes.packed, (3,)),
        "RotaryEmbedding": Foreign(
            rewritten(_rotary_microsoft), shapes.foreign(shapes.like_first(1)), (),
            "(float[2,4,6,8] x, int64[2,6] p, float[12,4] c, float[12,4] s) "
            "=> (float[2,4,6,8] y) {y = *(x, p, c, s)}",
        ),
    }
)  # fmt: skip
