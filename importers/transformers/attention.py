"""Attention: projections, positions, scores and the way back."""

from __future__ import annotations

from dataclasses import dataclass

from importers.transformers.fillings import causal_mask
from importers.transformers.norms import normalised
from importers.transformers.positions import turned, turned_in_pairs
from importers.transformers.records import Attention, Latent, Names, Norm
from importers.transformers.writer import Value, Writer


@dataclass(frozen=True, slots=True)
class Sight:
    """Which rows see which, and what is added to their scores."""

    causal: bool
    bias: Value | None = None
    """Added to the scores of every layer in place of a causal mask, e.g. by distance: anything that
    broadcasts to `[batch, heads, rows, rows]`."""


def attention(
    writer: Writer,
    rows: Value,
    sizes: Attention,
    norm: Norm,
    names: Names,
    module: str,
    sight: Sight,
    memory: Value | None = None,
) -> Value:
    """The rows after attention to themselves, or to other rows.

    Args:
        writer: receives the operators.
        rows: `[batch, rows, width]`.
        sizes: heads and their widths.
        norm: of queries and keys, where they are normalised.
        names: of the projections below the module.
        module: path of the block.
        sight: which rows are seen.
        memory: what keys and values are made from, if not from the rows.
    """
    path = {part: f"{module}.{name}" for part, name in names.items()}
    with writer.module(module):
        query, key, value = _heads(writer, rows, sizes, path, memory)
        gate = None
        if sizes.gated:
            query, gate = writer.split(query, 3, (sizes.width, sizes.width))
        if sizes.query_norm:
            query = normalised(writer, query, norm, path["query_norm"])
            key = normalised(writer, key, norm, path["key_norm"])
        if sizes.rotary and sizes.latent is None:
            query, key = turned(writer, query), turned(writer, key)
        made = _attended(writer, query, key, value, sizes, sight)
        if gate is not None:
            made = writer.mul(made, writer.sigmoid(gate))
        merged = writer.transpose(made, 0, 2, 1, 3)
        batch, length, width = writer.dims(rows)
        inner = sizes.heads * sizes.value_width
        flat = writer.reshape(merged, batch, length, inner)
        if sizes.fused:
            return writer.rows_first_linear(flat, path["output"], width)
        return writer.linear(flat, path["output"], width, bias="output" in sizes.biases)


def _heads(
    writer: Writer, rows: Value, sizes: Attention, path: Names, memory: Value | None
) -> tuple[Value, Value, Value]:
    """Queries, keys and values as `[batch, heads, rows, width]`."""
    if sizes.latent is not None:
        return _latent_heads(writer, rows, sizes, sizes.latent, path)
    if sizes.fused:
        return _fused_heads(writer, rows, sizes, path)
    source = rows if memory is None else memory
    parts = (
        ("query", rows, sizes.heads, sizes.width * (2 if sizes.gated else 1)),
        ("key", source, sizes.key_heads, sizes.width),
        ("value", source, sizes.key_heads, sizes.value_width),
    )
    made: list[Value] = []
    for part, origin, heads, width in parts:
        bias = part in sizes.biases
        flat = writer.linear(origin, path[part], heads * width, bias=bias)
        made.append(apart(writer, flat, heads, width))
    return made[0], made[1], made[2]


def apart(writer: Writer, flat: Value, heads: int, width: int) -> Value:
    """`[batch, rows, heads * width]` as `[batch, heads, rows, width]`."""
    batch, rows = writer.dims(flat)[:2]
    return writer.transpose(writer.reshape(flat, batch, rows, heads, width), 0, 2, 1, 3)


def _fused_heads(
    writer: Writer, rows: Value, sizes: Attention, path: Names
) -> tuple[Value, Value, Value]:
    """All three from one product, as GPT-2 has them: keys and values first."""
    inner = sizes.heads * sizes.width
    made = writer.rows_first_linear(rows, path["fused"], 3 * inner)
    query, key, value = writer.split(made, 2, (inner, inner, inner))
    heads = [apart(writer, each, sizes.heads, sizes.width) for each in (key, value, query)]
    return heads[2], heads[0], heads[1]


def _attended(
    writer: Writer, query: Value, key: Value, value: Value, sizes: Attention, sight: Sight
) -> Value:
    """Weighted sums of the values, `[batch, heads, rows, width]`."""
    if sizes.soft_cap:
        return _capped(writer, query, key, value, sizes, sight)
    repeat = sizes.heads // sizes.key_heads
    key, value = _repeated(writer, key, repeat), _repeated(writer, value, repeat)
    turned_key = writer.transpose(key, 0, 1, 3, 2)
    if sizes.scaled:
        # As exporters write it: queries and keys share the scale between them.
        factor = sizes.width**-0.25
        query = writer.scaled(query, "attention/root_of_scale", factor)
        turned_key = writer.scaled(turned_key, "attention/root_of_scale", factor)
    mask = _mask(writer, sight, writer.dims(query)[2], writer.dims(key)[2])
    scores = writer.matmul(query, turned_key)
    if mask is not None:
        scores = writer.add(scores, mask)
    weights = writer.softmax(scores, 3)
    return writer.matmul(_guarded(writer, weights), value)


def _guarded(writer: Writer, weights: Value) -> Value:
    """Zero for rows that see nothing: what exporters write for fused attention."""
    empty = writer.is_nan(weights)
    return writer.select(empty, writer.constant("attention/zero", 0.0), weights)


def _repeated(writer: Writer, value: Value, times: int) -> Value:
    """Every head of keys or values once for each of its queries."""
    if times == 1:
        return value
    batch, heads, rows, width = writer.dims(value)
    wide = writer.expand(writer.unsqueeze(value, 2), batch, heads, times, rows, width)
    return writer.reshape(wide, batch, heads * times, rows, width)


def _mask(writer: Writer, sight: Sight, rows: int, keys: int) -> Value | None:
    """What is added to the scores."""
    if sight.bias is not None:
        return sight.bias
    if not sight.causal:
        return None
    return writer.constant("attention/causal_mask", causal_mask, (1, 1, rows, keys))


def _capped(
    writer: Writer, query: Value, key: Value, value: Value, sizes: Attention, sight: Sight
) -> Value:
    """One operator with a bound on its scores: written apart, no kernel would be recognised."""
    operands = [query, key, value]
    rows, keys = writer.dims(query)[2], writer.dims(key)[2]
    mask = _mask(writer, sight, rows, keys)
    dims = (*writer.dims(query)[:3], sizes.value_width)
    return writer.op(
        "Attention",
        operands if mask is None else [*operands, mask],
        dims,
        softcap=sizes.soft_cap,
        is_causal=0,
    )


def _latent_heads(
    writer: Writer, rows: Value, sizes: Attention, latent: Latent, path: Names
) -> tuple[Value, Value, Value]:
    """Queries, keys and values through low-rank projections, as `[batch, heads, rows, width]`.

    Source: DeepSeek-V2, arXiv 2405.04434, section 2.1; without the absorption of matrices that
    decoding with a cache uses.
    """
    plain = sizes.width - latent.rotary_width
    query = _query(writer, rows, sizes, latent, path)
    query_plain, query_turning = writer.split(query, 3, (plain, latent.rotary_width))
    ranks = (latent.key_rank, latent.rotary_width)
    down = writer.linear(rows, path["key_down"], sum(ranks), bias="latent" in sizes.biases)
    compressed, key_turning = writer.split(down, 2, ranks)
    compressed = normalised(writer, compressed, Norm(), path["key_down_norm"])
    batch, length, _ = writer.dims(rows)
    key_turning = writer.reshape(key_turning, batch, 1, length, latent.rotary_width)
    query_turned = turned_in_pairs(writer, query_turning)
    key_turned = turned_in_pairs(writer, key_turning)
    whole_query = writer.concat(3, query_plain, query_turned)
    widths = (plain, sizes.value_width)
    up = writer.linear(compressed, path["key_up"], sizes.heads * sum(widths))
    both = writer.transpose(writer.reshape(up, batch, length, sizes.heads, sum(widths)), 0, 2, 1, 3)
    key_plain, value = writer.split(both, 3, widths)
    shared = writer.expand(key_turned, batch, sizes.heads, length, latent.rotary_width)
    return whole_query, writer.concat(3, key_plain, shared), value


def _query(writer: Writer, rows: Value, sizes: Attention, latent: Latent, path: Names) -> Value:
    columns = sizes.heads * sizes.width
    if latent.query_rank:
        bias = "latent" in sizes.biases
        down = writer.linear(rows, path["query_down"], latent.query_rank, bias=bias)
        down = normalised(writer, down, Norm(), path["query_down_norm"])
        made = writer.linear(down, path["query_up"], columns)
    else:
        made = writer.linear(rows, path["query"], columns)
    batch, length, _ = writer.dims(rows)
    return writer.transpose(
        writer.reshape(made, batch, length, sizes.heads, sizes.width), 0, 2, 1, 3
    )
