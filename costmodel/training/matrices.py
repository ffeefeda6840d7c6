"""The matrices of a mean layer by their sizes: what factored and orthogonalised updates hang on."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from costmodel.training.sizes import dense_share, expert_parts, routed_share

if TYPE_CHECKING:
    from collections.abc import Iterator

    from costmodel.training.table import FloatArray, RunTable

__all__ = ["Matrix", "dense_matrices", "expert_matrices"]


class Matrix(NamedTuple):
    """Equal matrices of a mean layer: sizes, and how many there are, each of shape (N,)."""

    rows: FloatArray
    columns: FloatArray
    copies: FloatArray
    row_parts: FloatArray
    column_parts: FloatArray
    """Devices that split the rows and the columns."""
    spread: FloatArray
    """Devices over which whole matrices are spread."""

    @property
    def elements(self) -> FloatArray:
        """Elements of all of them, before they are split."""
        return self.rows * self.columns * self.copies

    @property
    def short(self) -> FloatArray:
        """The shorter side of the part that a device has of each."""
        return np.minimum(self.rows / self.row_parts, self.columns / self.column_parts)

    @property
    def long(self) -> FloatArray:
        """Its longer side."""
        return np.maximum(self.rows / self.row_parts, self.columns / self.column_parts)

    @property
    def held(self) -> FloatArray:
        """Of how many of them a device has a part; none of those without elements."""
        return np.where(self.elements > 0, self.copies / self.spread, 0.0)


def dense_matrices(table: RunTable) -> Iterator[Matrix]:
    """All but those of routed experts. With the vectors of normalisation and of mixers their
    elements are those of `sizes.layer_parameters`, which the tests hold.
    """
    mixing, routed, tp, whole = table.mixing, routed_share(table), table.tp, np.ones_like(table.tp)

    def inward(rows: FloatArray, columns: FloatArray, count: FloatArray) -> Matrix:
        return Matrix(rows, columns, count, whole, tp, whole)

    def outward(rows: FloatArray, columns: FloatArray, count: FloatArray) -> Matrix:
        return Matrix(rows, columns, count, tp, whole, whole)

    value = np.where(table.value_size > 0, table.value_size, table.head_size)
    yield from (inward(*sizes) for sizes in _attention(table, value))
    yield outward(table.heads * value, table.hidden, mixing.attention)
    yield inward(table.hidden, mixing.inward + mixing.groups * mixing.group_inward, mixing.share)
    yield outward(mixing.outward, table.hidden, mixing.share)
    for width, share in ((table.ffn, dense_share(table)), (table.shared_ffn, routed)):
        yield inward(table.hidden, width, (1.0 + table.gated) * share)
        yield outward(width, table.hidden, share)
    yield inward(table.hidden, table.experts, routed)
    yield inward(table.hidden, mixing.expert_hidden, 2.0 * routed * mixing.latent)


def _attention(
    table: RunTable, value: FloatArray
) -> Iterator[tuple[FloatArray, FloatArray, FloatArray]]:
    """Rows, columns and number of the matrices into attention."""
    mixing, latent = table.mixing, table.kv_rank > 0
    plain, compressed = mixing.attention * ~latent, mixing.attention * latent
    queries = table.heads * (1.0 + mixing.query_gate) * table.head_size
    yield table.hidden, queries, plain
    yield table.hidden, table.kv_heads * table.head_size, 2.0 * plain
    rank = np.where(table.query_rank > 0, table.query_rank, table.hidden)
    yield table.hidden, table.query_rank, compressed
    yield rank, table.heads * table.head_size, compressed
    yield table.hidden, table.kv_rank + table.rotary_size, compressed
    yield table.kv_rank, table.heads * (table.head_size - table.rotary_size + value), compressed


def expert_matrices(table: RunTable) -> Iterator[Matrix]:
    """Those of all routed experts."""
    parts, whole = expert_parts(table), np.ones_like(table.tp)
    experts = routed_share(table) * table.experts
    inner, outer = table.mixing.expert_hidden, table.expert_ffn
    yield Matrix(inner, outer, (1.0 + table.gated) * experts, whole, parts, table.ep)
    yield Matrix(outer, inner, experts, parts, whole, table.ep)
