"""What a plan demands of extents: that they are split as before."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from executors.shrinking.extents import Extent
from executors.shrinking.sizes import Demand
from executors.shrinking.space import Space
from ir.plan import NamedLayout, Plan, PlannedOperator
from ir.plan_stages import axis_sizes


def demands_of(plan: Plan, space: Space) -> Iterator[Demand]:
    """Pieces of every dimension that some layout splits, and of every factor that is split."""
    for op, planned in zip(plan.graph.ops, plan.operators, strict=True):
        sizes = axis_sizes(plan, planned.stage)
        named = (*zip(op.inputs, planned.inputs, strict=True),
                 *zip((n for n in op.outputs if n), planned.outputs, strict=True))  # fmt: skip
        for name, layout in named:
            if name:
                yield from _pieces(space, name, layout, sizes)
        ids = space.factors[op.name, 0]
        for factor, count in split_factors(planned, sizes).items():
            yield Demand((ids[factor],), count)
    for tensor in plan.tensors:
        for layout in (tensor.layout, tensor.used, tensor.gradient):
            yield from _pieces(space, tensor.name, layout, axis_sizes(plan, tensor.stage))
    yield from _of_messages(plan, space)


def _of_messages(plan: Plan, space: Space) -> Iterator[Demand]:
    """The same of what collectives and sends move."""
    ends = [
        (item, layout, item.stage)
        for item in plan.collectives
        for layout in (item.before, item.after)
    ]
    for send in plan.pipeline.sends:
        ends += [(send, send.before, send.stage - 1), (send, send.after, send.stage)]
    for item, layout, stage in ends:
        if item.tensor:
            yield from _pieces(space, item.tensor, layout, axis_sizes(plan, stage))


def whole_majors(plan: Plan, space: Space) -> Iterator[Extent]:
    """Factors that are cut to single elements, so that a lesser factor of the same dimension is cut
    too: these keep their size.
    """
    for op, planned in zip(plan.graph.ops, plan.operators, strict=True):
        sizes = axis_sizes(plan, planned.stage)
        rule, split = space.rules[op.name, 0], split_factors(planned, sizes)
        for mapping in (*rule.operands, *rule.results):
            for dim in mapping or ():
                places = [i for i, factor in enumerate(dim) if factor in split]
                yield from (space.factors[op.name, 0][f] for f in dim[: max(places, default=0)])


def split_factors(planned: PlannedOperator, sizes: Mapping[str, int]) -> dict[int, int]:
    """Pieces of every factor that an operator splits."""
    out: dict[int, int] = {}
    for axis, factor in planned.split:
        if factor >= 0 and sizes[axis] > 1:
            out[factor] = out.get(factor, 1) * sizes[axis]
    return out


def _pieces(
    space: Space, name: str, layout: NamedLayout | None, sizes: Mapping[str, int]
) -> Iterator[Demand]:
    for index, axes in enumerate(layout.dims if layout is not None else ()):
        for count in _counts(axes, sizes):
            yield Demand((space.dim(name, index),), count)


def _counts(axes: Sequence[str], sizes: Mapping[str, int]) -> Iterator[int]:
    """Pieces of a dimension. What follows `/n` splits each of n pieces."""
    real = [a for a in axes if not a.startswith("/")]
    count = math.prod(sizes[a] for a in real)
    if count > 1:
        yield count
    for place, axis in enumerate(axes):
        if axis.startswith("/"):
            inner = [a for a in axes[place + 1 :] if not a.startswith("/")]
            yield int(axis[1:]) * math.prod(sizes[a] for a in inner)
