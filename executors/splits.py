"""Layouts of operands and results, from what the mesh axes split of an operator, and back."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import autograd.numpy as np

from executors.exchange import Communication, exchanged
from executors.placement import Array, Spread, coordinates, region_of
from ir.graph import Op
from ir.layout import Layout
from ir.rule import FactorMap, ShardingRule
from ir.semantics.call import NotRunError

Assignment: TypeAlias = tuple[int, ...]
"""For each mesh axis the factor that it splits; negative where it splits none."""
GRADIENT_TERMS = -2
"""An axis along which an operator is repeated while its gradients are terms of a sum."""


def fitted(
    rule: ShardingRule, index: int, operand: Spread | None, assignment: Assignment
) -> Spread | None:
    """An operand as the rule wants it; a wider part is cut, nothing is sent."""
    if operand is None:
        return None
    mapping, sizes = rule.operands[index], operand.mesh.sizes
    whole_dims = ((),) * len(operand.dims)
    dims = whole_dims if mapping is None else split_dims(rule, mapping, assignment, sizes)
    layout = Layout(dims)
    if _plain(operand.layout) == layout.dims:
        return operand
    return narrowed(operand, layout)


def narrowed(tensor: Spread, layout: Layout) -> Spread:
    """Every device keeps a part of what it has; gradients may pass.

    Raises:
        NotRunError: some device lacks something.
    """
    dims, sizes = tensor.dims, tensor.mesh.sizes
    shards: list[Array] = []
    for place, shard in zip(coordinates(tensor.mesh), tensor.shards, strict=True):
        old = region_of(dims, tensor.layout, sizes, place)
        new = region_of(dims, layout, sizes, place)
        if not all(np.isin(b, a).all() for a, b in zip(old, new, strict=True)):
            raise NotRunError(f"a tensor in {tensor.layout} is needed in {layout}")
        index = [np.searchsorted(a, b) for a, b in zip(old, new, strict=True)]
        shards.append(shard[np.ix_(*index)] if index else shard)
    return Spread(dims, layout, tensor.mesh, tuple(shards))


def _plain(layout: Layout) -> tuple[tuple[int, ...], ...]:
    """The axes of every dimension, whatever pieces stand outside them."""
    return tuple(tuple(axis for axis in dim if axis >= 0) for dim in layout.dims)


def in_pieces(
    rule: ShardingRule, operands: Sequence[Spread | None], layouts: Sequence[Layout]
) -> list[Layout]:
    """Results keep a factor as operands have it, also where each of several pieces is split."""
    known: dict[int, tuple[int, ...]] = {}
    for mapping, operand in zip(rule.operands, operands, strict=True):
        for factors, axes in zip(
            mapping or (), operand.layout.dims if operand else (), strict=False
        ):
            if len(factors) == 1 and min(axes, default=0) < 0:
                known[factors[0]] = axes
    if not known:
        return list(layouts)
    return [
        Layout(
            tuple(
                known.get(factors[0], axes) if len(factors) == 1 else axes
                for factors, axes in zip(mapping or (), layout.dims, strict=True)
            ),
            layout.partial,
        )
        for mapping, layout in zip(rule.results, layouts, strict=True)
    ]


def split_dims(
    rule: ShardingRule, mapping: FactorMap, assignment: Assignment, sizes: Sequence[int]
) -> tuple[tuple[int, ...], ...]:
    """Mesh axes of every dimension: those of its factors, in their order.

    Where a factor is split inside one that is not split to the end, as heads inside a batch that
    were merged into one dimension, `-n` stands for the pieces outside.
    """
    out = []
    for factors in mapping:
        axes: list[int] = []
        outside = 1
        for factor in factors:
            own = [axis for axis, given in enumerate(assignment) if given == factor]
            if own and outside > 1:
                axes.append(-outside)
                outside = 1
            axes += own
            outside *= -(-rule.sizes[factor] // math.prod(sizes[axis] for axis in own))
        out.append(tuple(axes))
    return tuple(out)


def result_layouts(
    rule: ShardingRule, assignment: Assignment, sizes: Sequence[int]
) -> list[Layout]:
    """Layouts of the results, partial over the axes of factors that operands have and they lack."""
    inside = {f for item in rule.internal for f in item.factors}
    present = {f for m in rule.operands if m is not None for dim in m for f in dim}
    out = []
    for mapping in rule.results:
        own = {f for dim in mapping or () for f in dim}
        summed = present - own - inside
        partial = tuple(axis for axis, factor in enumerate(assignment) if factor in summed)
        out.append(Layout(split_dims(rule, mapping or (), assignment, sizes), partial))
    return out


def derived_assignment(
    rule: ShardingRule, layouts: Sequence[Layout | None], sizes: Sequence[int]
) -> Assignment:
    """What each mesh axis splits, read off the layouts of the operands.

    The axes of a dimension fill its factors from the outermost on.
    """
    out = [-1] * len(sizes)
    for mapping, layout in zip(rule.operands, layouts, strict=True):
        if mapping is None or layout is None:
            continue
        for factors, axes in zip(mapping, layout.dims, strict=True):
            rest = list(axes)
            for factor in factors:
                room = rule.sizes[factor]
                while rest and room > 1:
                    axis = rest[0]
                    pieces = sizes[axis] if axis >= 0 else -axis
                    if room % pieces and factor != factors[-1]:
                        # The pieces outside reach into the next factor.
                        rest[0] = -(pieces // room) if axis < 0 and pieces % room == 0 else axis
                        break
                    room = max(1, room // pieces)
                    rest.pop(0)
                    if axis >= 0 and out[axis] < 0:
                        out[axis] = factor
    return tuple(out)


def completed(
    tensor: Spread, wanted: Layout, item_bytes: float
) -> tuple[Spread, Communication | None]:
    """A result whose sums are to be complete, where the target keeps no terms between operators."""
    extra = tuple(a for a in tensor.layout.partial if a not in wanted.partial)
    if not extra:
        return tensor, None
    left = tuple(a for a in tensor.layout.partial if a in wanted.partial)
    return exchanged(tensor, replace(tensor.layout, partial=left), item_bytes)


def part_factors(part: Op, rule: ShardingRule, maps: Mapping[str, FactorMap]) -> dict[int, int]:
    """For each factor of a composite the factor of one part that it is."""
    out: dict[int, int] = {}
    tensors = (
        *zip(part.inputs, rule.operands, strict=True),
        *zip((n for n in part.outputs if n), rule.results, strict=True),
    )
    for name, mapping in tensors:
        for mine, shared in zip(mapping or (), maps.get(name, ()), strict=False):
            if len(mine) == len(shared):
                for own, common in zip(mine, shared, strict=True):
                    out.setdefault(common, own)
    return out


def reduced_axes(rule: ShardingRule, assignment: Assignment) -> set[int]:
    """Axes of factors that an operator has and its first result lacks."""
    kept = {f for dim in rule.results[0] or () for f in dim}
    return {a for a, f in enumerate(assignment) if f >= 0 and f not in kept}
