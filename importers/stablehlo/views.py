"""Values as views of tensors: what only moves, repeats or adds dimensions of size one is no step.

JAX writes every broadcast and every dimension of size one out, and puts the results of products in
an order of its own. A value is a tensor and, for each of its dimensions, the tensor's dimension
that it is; steps are written where somebody computes with the value, in the order that the tensor
has in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from importers.errors import UnsupportedError
from importers.operators import broadcast_dims
from importers.stablehlo.draft import Draft, View
from importers.stablehlo.nodes import Nodes
from importers.traced.writer import Attribute
from ir.graph import Tensor

Order = tuple[int, ...]
"""Dimensions of a value in the order of a tensor's; -1 for one of size one that it lacks."""


def permuted(view: View, perm: Sequence[int]) -> View:
    """The view with its dimensions in another order."""
    if sorted(perm) != list(range(len(view.dims))):
        raise UnsupportedError
    return picked(view, perm)


def picked(view: View, places: Sequence[int]) -> View:
    """Some dimensions of a view, in this order; the others have size one."""
    axes = tuple(view.axes[p] for p in places)
    return View(view.name, tuple(view.dims[p] for p in places), view.dtype, axes=axes)


def repeated(view: View, dims: tuple[int, ...], places: Sequence[int]) -> View:
    """The view as dimensions `places` of larger dims."""
    if len(places) != len(view.dims) or not all(0 <= p < len(dims) for p in places):
        raise UnsupportedError
    axes: list[int | None] = [None] * len(dims)
    for own, place, axis in zip(view.dims, places, view.axes, strict=True):
        if own != dims[place] and own != 1:
            raise UnsupportedError
        axes[place] = axis if own == dims[place] else None
    return replace(view, dims=dims, axes=tuple(axes))


def reshaped(draft: Draft, view: View, dims: tuple[int, ...], scope: str) -> View:
    """The same elements in other dims; no step where only dimensions of size one come or go."""
    own = [a for d, a in zip(view.dims, view.axes, strict=True) if d != 1]
    if [d for d in view.dims if d != 1] == [d for d in dims if d != 1]:
        rest = iter(own)
        return replace(view, dims=dims, axes=tuple(None if d == 1 else next(rest) for d in dims))
    whole = tensor_of(draft, view, scope)
    return draft.plain(Nodes(draft, scope).reshape(whole, *dims))


def tensor_of(draft: Draft, view: View, scope: str) -> str:
    """A tensor with the dims of the view."""
    name = arranged(draft, view, tuple(range(len(view.dims))), scope)
    nodes = Nodes(draft, scope)
    narrow = tuple(1 if a is None else d for d, a in zip(view.dims, view.axes, strict=True))
    if nodes.dims(name) != narrow:
        name = nodes.reshape(name, *narrow)
    return nodes.expand(name, *view.dims)


def order_of(draft: Draft, views: Sequence[View]) -> Order:
    """The order in which operands of equal dims are computed with: that of the first which is there
    in full, constants last.
    """
    rank = len(views[0].dims)
    full = [v for v in views if _is_full(v)]
    leader = next((v for v in full if v.name not in draft.numbers), full[0] if full else None)
    if leader is None:
        return tuple(i for i in range(rank) if any(v.axes[i] is not None for v in views))
    order = [-1] * len(draft.tensors[leader.name].dims)
    for index, axis in enumerate(leader.axes):
        if axis is not None:
            order[axis] = index
    return tuple(order)


def _is_full(view: View) -> bool:
    return all(a is not None or d == 1 for d, a in zip(view.dims, view.axes, strict=True))


def arranged(draft: Draft, view: View, order: Order, scope: str) -> str:
    """The view's tensor with its dimensions in an order, without ones in front."""
    tensor = draft.tensors[view.name]
    axes = [None if place < 0 else view.axes[place] for place in order]
    target = tuple(1 if a is None else tensor.dims[a] for a in axes)
    kept = [a for a in axes if a is not None and tensor.dims[a] != 1]
    name = view.name
    if kept != sorted(kept):
        rest = [a for a in range(len(tensor.dims)) if a not in kept]
        perm = (*kept, *rest)
        if not rest:
            perm = tuple(kept)
        elif len(order) == len(tensor.dims) and all(a is not None for a in axes):
            perm = tuple(a for a in axes if a is not None)
        name = Nodes(draft, scope).transpose(name, *perm)
    found = draft.tensors[name].dims
    if found == target:
        return name
    short = target
    while short and short[0] == 1 and short != found:
        short = short[1:]
    return Nodes(draft, scope).reshape(name, *short)


def expanded(draft: Draft, view: View, order: Order, scope: str) -> str:
    """As `arranged`, but with all dims in full."""
    name = arranged(draft, view, order, scope)
    dims = tuple(1 if place < 0 else view.dims[place] for place in order)
    nodes, own = Nodes(draft, scope), draft.tensors[name].dims
    if len(own) < len(dims):
        name = nodes.reshape(name, *(1,) * (len(dims) - len(own)), *own)
    return nodes.expand(name, *dims)


def viewed(draft: Draft, name: str, order: Order, dims: tuple[int, ...]) -> View:
    """A tensor that was computed in an order, as a value of the program."""
    own = draft.tensors[name].dims
    skip = len(order) - len(own)
    axes: list[int | None] = [None] * len(dims)
    for position, place in enumerate(order):
        if place >= 0 and position >= skip and own[position - skip] == dims[place]:
            axes[place] = position - skip
    return draft.view(name, dims, axes)


@dataclass(slots=True)
class ViewDraft(Draft):
    """A draft whose element-wise steps are over views, in the order that these have in memory."""

    def add(
        self,
        kind: str,
        inputs: Sequence[Tensor | None],
        outputs: Sequence[Tensor | None],
        *,
        name: str,
        scope: str = "",
        **attributes: Attribute,
    ) -> Sequence[Tensor | None]:
        """A step over values of equal dims, or numbers beside them; it is called as drafts do."""
        del name
        views = [v for v in inputs if isinstance(v, View)]
        dims = max((v.dims for v in views), key=len)
        every = [v if v.dims == dims else repeated(v, dims, range(len(v.dims))) for v in views]
        order = order_of(self, every)
        names = [arranged(self, v, order, scope) for v in every]
        dtype = next(t.dtype for t in outputs if t is not None)
        made = self.step(
            kind,
            names,
            broadcast_dims(kind, *(self.tensors[n].dims for n in names)),
            dtype,
            scope,
            **attributes,
        )
        return [viewed(self, made, order, dims)]
