"""A split survives a reshape: the reshaped shard is the shard of the reshaped tensor."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from executors.placement import Array
from ir.ops.shape import reshape_maps
from ir.rule import FactorMap, RuleBuilder, ShardingRule


def rule_of(source: tuple[int, ...], target: tuple[int, ...]) -> ShardingRule:
    builder = RuleBuilder()
    left, right = reshape_maps(source, target, builder)
    return builder.build([left], [right])


@st.composite
def reshapes(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two ways to group the same small factors, with dimensions of size 1 strewn in."""
    factors = draw(st.lists(st.sampled_from([1, 2, 2, 3, 4]), min_size=1, max_size=6))

    def grouped() -> tuple[int, ...]:
        dims = [1]
        for factor in factors:
            if draw(st.booleans()):
                dims.append(1)
            dims[-1] *= factor
        return tuple(dims[0 if draw(st.booleans()) else 1 - bool(dims[0] - 1) :]) or (1,)

    return grouped(), grouped()


@st.composite
def arbitrary(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Any two factorisations of one number, also such that fit badly."""
    total = draw(st.sampled_from([12, 24, 36, 48, 60]))

    def split() -> tuple[int, ...]:
        dims: list[int] = []
        rest = total
        while rest > 1 and len(dims) < 4:
            size = draw(st.sampled_from([d for d in range(1, rest + 1) if rest % d == 0]))
            dims.append(size)
            rest //= size
        return (*dims, rest)

    return split(), split()


def cut(
    array: Array, mapping: FactorMap | None, sizes: tuple[int, ...], factor: int, ways: int
) -> list[Array]:
    """Equal parts along one factor, which may stand anywhere in a dimension made of several."""
    assert mapping is not None
    apart: list[int] = []
    dims: list[int] = []
    axis = 0
    for dim, factors in zip(array.shape, mapping, strict=True):
        if factor in factors:
            axis = len(apart) + factors.index(factor)
        inner = [sizes[f] for f in factors]
        apart += [*inner, dim // math.prod(inner)]
        dims.append(dim // ways if factor in factors else dim)
    return [part.reshape(dims) for part in np.split(array.reshape(apart), ways, axis)]


@given(reshapes() | arbitrary())
def test_the_shard_of_a_reshape_is_the_reshape_of_the_shard(
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
) -> None:
    source, target = shapes
    rule = rule_of(source, target)
    left, right = rule.operands[0], rule.results[0]
    whole = np.arange(math.prod(source)).reshape(source)
    for factor in rule.splittable:
        ways = next(n for n in (2, 3, 5, rule.sizes[factor]) if rule.sizes[factor] % n == 0)
        assert rule.has(left, factor)
        assert rule.has(right, factor)
        shards = cut(whole, left, rule.sizes, factor, ways)
        wanted = cut(whole.reshape(target), right, rule.sizes, factor, ways)
        for one, other in zip(shards, wanted, strict=True):
            np.testing.assert_array_equal(one.reshape(other.shape), other)


@given(reshapes() | arbitrary())
def test_factors_divide_the_dimensions_that_they_make_up(
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
) -> None:
    rule = rule_of(*shapes)
    for dims, mapping in zip(shapes, (rule.operands[0], rule.results[0]), strict=True):
        assert mapping is not None
        assert len(mapping) == len(dims)
        for dim, factors in zip(dims, mapping, strict=True):
            assert dim % math.prod(rule.sizes[f] for f in factors) == 0
        used = [f for factors in mapping for f in factors]
        assert len(set(used)) == len(used)


@given(reshapes())
def test_where_the_boundaries_fit_nothing_stays_whole(
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
) -> None:
    source, target = shapes
    rule = rule_of(source, target)
    ends = [{math.prod(dims[: i + 1]) for i in range(len(dims))} for dims in shapes]
    cuts = sorted(ends[0] | ends[1])
    if all(b % a == 0 for a, b in pairwise(cuts)):
        assert math.prod(rule.sizes) == math.prod(source)


def test_heads_are_split_off_and_merged() -> None:
    rule = rule_of((8, 128, 512), (8, 128, 16, 32))
    assert rule.sizes == (8, 128, 16, 32)
    assert rule.operands == (((0,), (1,), (2, 3)),)
    assert rule.results == (((0,), (1,), (2,), (3,)),)


def test_where_nothing_fits_the_common_divisor_of_the_outer_dimensions_is_left() -> None:
    rule = rule_of((4, 6), (6, 4))
    assert [rule.sizes[f] for f in rule.splittable] == [2]


def test_a_batch_of_one_can_be_followed_into_a_merged_dimension() -> None:
    rule = rule_of((1, 128, 64), (128, 64))
    left, right = rule.operands[0], rule.results[0]
    assert left is not None
    assert right is not None
    assert left[0] == (right[0][0],)


def test_an_empty_tensor_has_no_factors() -> None:
    assert rule_of((2, 0), (0, 4)).sizes == ()
