"""Products of grouped queries: heads that share keys become heads with keys of their own.

JAX has the queries of a group as a dimension beside the heads: `b s (k g) d` times `b t k d`.
Exporters of other frameworks repeat the keys for each query head, which is the form that attention
is recognised in; the repetition is part of it and costs nothing there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from importers.stablehlo.call import ViewCall
from importers.stablehlo.draft import View
from importers.stablehlo.views import picked, tensor_of


@dataclass(frozen=True, slots=True)
class Side:
    """One operand of a product, without dimensions of size one."""

    view: View
    batch: tuple[int, ...]
    free: tuple[int, ...]
    inner: tuple[int, ...]
    places: Mapping[int, int]
    """Dimensions of the result by its own."""

    @property
    def turned(self) -> bool:
        """Whether the free dimensions are the last in the tensor, not those that are summed."""
        axes = [self.view.axes[i] for i in (*self.free, *self.inner)]
        if None in axes or not self.free or not self.inner:
            return False
        last = max(a for a in axes if a is not None)
        return last in {self.view.axes[i] for i in self.free}


@dataclass(frozen=True, slots=True)
class Grouped:
    """Both operands with all heads in one dimension of the batch."""

    left: Side
    right: Side
    place: int
    """Of the heads that share keys, in the result."""
    group_place: int
    """Of the queries of a group."""
    count: int
    """Queries in a group."""


def grouped_heads(call: ViewCall, left: Side, right: Side) -> Grouped | None:
    """The operands of a product of grouped queries; None where it is another product."""
    view = left.view
    real = [i for i in left.free if view.dims[i] != 1]
    columns = [i for i in right.free if right.view.dims[i] != 1]
    axes = [view.axes[i] for i in range(len(view.dims)) if view.dims[i] != 1]
    heads = [b for b in left.batch if view.dims[b] != 1]
    if len(heads) != 2 or len(real) != 2 or len(columns) != 1 or None in axes:
        return None
    near = [(h, g) for h in heads for g in real if view.axes[g] == (view.axes[h] or 0) + 1]
    pair = max(near, key=lambda p: view.axes[p[0]] or 0, default=None)
    if (
        pair is None
        or (view.axes[pair[0]] or 0) == 0
        or len(right.inner) != 1
        or right.view.dims[right.inner[0]] == 1
    ):
        return None
    head, group = pair
    merged = _merged(call, left, head, group)
    repeated = _repeated(call, right, left.batch.index(head), columns[0], view.dims[group])
    places = left.places[head], left.places[group]
    return Grouped(merged, repeated, *places, view.dims[group])


def _merged(call: ViewCall, side: Side, head: int, group: int) -> Side:
    """The queries with their heads and groups in one dimension, as they are in memory."""
    view = side.view
    at = view.axes[head] or 0
    tensor = call.draft.tensors[view.name]
    dims = (*tensor.dims[:at], tensor.dims[at] * tensor.dims[at + 1], *tensor.dims[at + 2 :])
    name = call.nodes.reshape(view.name, *dims)
    sizes = [d * view.dims[group] if i == head else d for i, d in enumerate(view.dims)]
    axes = [a if a is None or a <= at else a - 1 for a in view.axes]
    sizes[group], axes[group] = 1, None
    return replace(side, view=call.draft.view(name, tuple(sizes), axes))


def _repeated(call: ViewCall, side: Side, head: int, column: int, count: int) -> Side:
    """Keys or values with every head repeated for its group: batch, heads, rows, width."""
    view, inner = side.view, side.inner[0]
    batch = [b for b in side.batch if view.dims[b] != 1]
    at = batch.index(side.batch[head])
    rest = (inner, column) if side.turned else (column, inner)
    order = (*batch, *rest)
    part = picked(view, order)
    name = tensor_of(call.draft, part, call.scope)
    dims, nodes = part.dims, call.nodes
    apart = (*dims[: at + 1], 1, *dims[at + 1 :])
    wide = (*dims[: at + 1], count, *dims[at + 1 :])
    whole = (*dims[:at], dims[at] * count, *dims[at + 1 :])
    name = nodes.reshape(nodes.expand(nodes.reshape(name, *apart), *wide), *whole)
    own = {old: new for new, old in enumerate(order)}
    return Side(
        call.draft.plain(name), tuple(own[b] for b in batch), (own[column],), (own[inner],),
        {own[i]: side.places[i] for i in (*batch, column)},
    )  # fmt: skip
