"""What lookups, convolutions, attention and experts compute on a shard that knows its place."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ir.ops import OpView
from ir.ops.attention import attention_heads
from tests.ir.oracle import onnx_results
from tests.ir.shards import Array

Dims = Sequence[tuple[int, ...]]
Operands = Sequence[Array | None]


def _shifted(values: Array, offset: int, size: int) -> tuple[Array, Array]:
    """Positions in a shard of `size`, and which of them lie in it."""
    local = values - offset
    inside = (local >= 0) & (local < size)
    return np.where(inside, local, 0), inside


def gather(view: OpView, operands: Operands, _: Dims, part: int) -> Array:
    """Rows that another shard of the table has count as zero."""
    table, indices = operands[0], operands[1]
    assert table is not None
    assert indices is not None
    axis, rows = view.int("axis"), view.dims(0)[view.int("axis")]
    size = table.shape[axis]
    positions = np.where(indices < 0, indices + rows, indices)
    local, inside = _shifted(positions, part * size if size < rows else 0, size)
    found = np.take(table, local, axis=axis)
    mask = inside.reshape([1] * axis + list(inside.shape) + [1] * (table.ndim - axis - 1))
    return np.asarray(np.where(mask, found, np.zeros((), found.dtype)))


def gather_nd(view: OpView, operands: Operands, _: Dims, part: int) -> Array:
    """A coordinate that is the position itself is counted from where the shard begins."""
    data, indices = operands[0], operands[1]
    assert data is not None
    assert indices is not None
    batch = view.int("batch_dims")
    local = indices.copy()
    for coordinate in range(indices.shape[-1]):
        size = data.shape[batch + coordinate]
        if size < view.dims(0)[batch + coordinate]:
            local[..., coordinate] -= part * size
    return onnx_results("GatherND", [data, local], {"batch_dims": batch})[0]


def gather_elements(view: OpView, operands: Operands, _: Dims, __: int) -> Array:
    """The reference takes indices with the dims of the data alone."""
    data, indices = (np.asarray(o) for o in operands)
    places: list[Array] = list(np.indices(indices.shape))
    places[view.int("axis")] = indices
    return np.asarray(data[tuple(places)])


def scatter_nd(view: OpView, operands: Operands, _: Dims, part: int) -> Array:
    """Updates of rows that another shard has do nothing."""
    data, indices, updates = (np.asarray(o) for o in operands)
    out = data.copy()
    for place in np.ndindex(indices.shape[:-1]):
        row = []
        for dim, coordinate in enumerate(indices[place]):
            size, whole = data.shape[dim], view.dims(0)[dim]
            row.append(int(coordinate) % whole - (part * size if size < whole else 0))
        if all(0 <= r < s for r, s in zip(row, data.shape, strict=False)):
            out[tuple(row)] = updates[place]
    return out


def conv(view: OpView, operands: Operands, dims: Dims, _: int) -> Array:
    """One product for each group; the dims of the shard say how many groups it has."""
    data, weight = (np.asarray(o) for o in operands[:2])
    forward = view.op.kind == "Conv"
    group = data.shape[1] // weight.shape[1] if forward else dims[0][1] // weight.shape[1]
    attributes = {k: v for k, v in view.op.attributes.items() if k != "group"}
    pieces = zip(np.split(data, group, axis=1), np.split(weight, group, axis=0), strict=True)
    found = [onnx_results(view.op.kind, piece, attributes)[0] for piece in pieces]
    return np.concatenate(found, axis=1)


def attention(view: OpView, operands: Operands, dims: Dims, part: int) -> list[Array]:
    """Softmax of scaled products; a causal mask counts rows from where the shard begins."""
    query, key, value = (np.asarray(o) for o in operands[:3])
    mask = operands[3] if len(operands) > 3 else None
    apart = query.ndim == 4
    whole_heads, whole_keys = attention_heads(view)
    if not apart:
        width = view.dims(0)[-1] // whole_heads
        wide = view.dims(2)[-1] // whole_keys
        query, key = (_apart(x, width) for x in (query, key))
        value = _apart(value, wide)
    past = 0
    if len(operands) > 5 and operands[4] is not None:
        past = np.asarray(operands[4]).shape[2]
        key = np.concatenate([np.asarray(operands[4]), key], axis=2)
        value = np.concatenate([np.asarray(operands[5]), value], axis=2)
    repeats = query.shape[1] // key.shape[1]
    keys, values = np.repeat(key, repeats, axis=1), np.repeat(value, repeats, axis=1)
    scores = query @ np.swapaxes(keys, -1, -2) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = scores + mask
    if view.int("is_causal"):
        rows = query.shape[2]
        first = part * rows if rows < view.dims(0)[-2] else 0
        seen = np.arange(key.shape[2])[None, :] <= np.arange(rows)[:, None] + first + past
        scores = np.where(seen, scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    out = weights / weights.sum(axis=-1, keepdims=True) @ values
    if not apart:
        out = np.swapaxes(out, 1, 2).reshape(dims[0])
    return [out, key, value][: len(dims)]


def _apart(x: Array, width: int) -> Array:
    return np.swapaxes(x.reshape(*x.shape[:2], -1, width), 1, 2)


def expert_matmul(view: OpView, operands: Operands, _: Dims, __: int) -> Array:
    tokens, weight = (np.asarray(o) for o in operands)
    pattern = "ecih,ehf->ecif" if view.int("row") else "echi,efh->ecfi"
    return np.asarray(np.einsum(pattern, tokens, weight))


def dispatch(view: OpView, operands: Operands, dims: Dims, part: int) -> Array:
    """Tokens in order, each in the next free slot of its expert."""
    tokens, expert = (np.asarray(o) for o in operands)
    local, whole = dims[0][0], view.result()[0]
    first = part * local if local < whole else 0
    return np.stack([tokens[expert.reshape(-1) == e] for e in range(first, first + local)])


def combine(view: OpView, operands: Operands, dims: Dims, part: int) -> Array:
    """Tokens of experts that another shard has count as zero."""
    slots, expert = np.asarray(operands[0]), np.asarray(operands[1]).reshape(-1)
    rows = dims[0][0]
    experts, whole = slots.shape[0], view.dims(0)[0]
    first = part * experts if experts < whole else 0
    out = np.zeros((rows, *slots.shape[2:]), slots.dtype)
    for number in range(experts):
        out[expert == first + number] = slots[number]
    return out
