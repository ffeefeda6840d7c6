"""Multi-head latent attention: queries, keys and values through low-rank projections.

Source: DeepSeek-V2, arXiv 2405.04434, section 2.1; without the absorption of matrices that decoding
with a cache uses.
"""

from __future__ import annotations

from importers.transformers.norms import normalised
from importers.transformers.positions import turned_in_pairs
from importers.transformers.records import Attention, Latent, Names, Norm
from importers.transformers.writer import Value, Writer


def latent_heads(
    writer: Writer, rows: Value, sizes: Attention, latent: Latent, path: Names
) -> tuple[Value, Value, Value]:
    """Queries, keys and values as `[batch, heads, rows, width]`."""
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
