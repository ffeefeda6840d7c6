"""Assignments as arrays: what one by one is allowed, counted and shared."""

from __future__ import annotations

import itertools
import math

import pytest

from ir.dialects import FREE, MINDSPORE, Dialect
from ir.ops import Engine, lookup
from ir.rule import ShardingRule, parse_rule
from planner.candidates.assignments import REPLICATED, Assignments
from planner.candidates.offers import Offers
from topology.catalogue import named_cluster
from topology.mesh import Mesh, MeshAxis, prime_mesh

pytestmark = pytest.mark.fast

ODD = Mesh((MeshAxis("server", 3, 0), MeshAxis("card0", 2, 1), MeshAxis("card1", 4, 1)))
EIGHT = prime_mesh(named_cluster("atlas-800t-a2", 8), 6)
PRODUCT = parse_rule("m k, k n -> m n", [(12, 48), (48, 7)], [(12, 7)])
HEADS = parse_rule("b (h=6 d) -> b h d", [(4, 48)], [(4, 6, 8)])


def allowed(rule: ShardingRule, row: tuple[int, ...], mesh: Mesh, waste: float) -> bool:
    """The rule for one assignment: padding within limits, minor factors below whole ones."""
    compound = [dim for m in (*rule.operands, *rule.results) if m for dim in m if len(dim) > 1]
    pieces = {
        f: math.prod(s for s, own in zip(mesh.sizes, row, strict=True) if own == f)
        for f in range(len(rule.sizes))
    }
    for factor, size in enumerate(rule.sizes):
        share = 0.0 if any(factor in dim for dim in compound) else waste
        padded = -(-size // pieces[factor]) * pieces[factor]
        if pieces[factor] > size or padded > size * (1 + share):
            return False
    return not any(
        pieces[minor] > 1 and pieces[major] < rule.sizes[major]
        for dim in compound
        for i, minor in enumerate(dim)
        for major in dim[:i]
    )


@pytest.mark.parametrize("rule", [PRODUCT, HEADS])
@pytest.mark.parametrize(("dialect", "mesh"), [(FREE, ODD), (MINDSPORE, EIGHT)])
def test_every_assignment_that_fits_is_offered(
    rule: ShardingRule, dialect: Dialect, mesh: Mesh
) -> None:
    entry = lookup("Reshape")  # a view: minor factors may be cut in every dialect
    assert entry.engine is Engine.VIEW
    found, left_out = Offers(dialect, mesh).of(rule, entry, gradient=False)
    choices = (*rule.splittable, REPLICATED)
    count = len(mesh.axes)
    every = (
        itertools.combinations_with_replacement(choices, count)
        if dialect.cut_counts
        else itertools.product(choices, repeat=count)
    )
    assert left_out == 0
    assert list(found.rows) == [r for r in every if allowed(rule, r, mesh, dialect.max_waste)]


@pytest.mark.parametrize("mesh", [ODD, EIGHT])
def test_what_is_counted_is_what_the_rows_say(mesh: Mesh) -> None:
    splits = offered(PRODUCT, mesh)
    shares = splits.shares(PRODUCT.sizes)
    groups = splits.groups(frozenset({0, 2}))
    assert shares[-1] == 1.0
    for i, row in enumerate(splits.rows):
        pieces = [
            math.prod(s for s, own in zip(mesh.sizes, row, strict=True) if own == f)
            for f in range(3)
        ]
        expected = math.prod(-(-s // n) / s for s, n in zip(PRODUCT.sizes, pieces, strict=True))
        assert shares[i] == pytest.approx(expected, rel=1e-15)
        assert [splits.counts((f,))[i] for f in range(3)] == pieces
        assert splits.counts((0, 2))[i] == pieces[0] * pieces[2]
        assert groups.axes[groups.of[i]] == tuple(a for a, f in enumerate(row) if f in {0, 2})
        assert [label == 0 for label in splits.labels[i]] == [f == REPLICATED for f in row]


def test_operators_that_can_be_split_alike_share_their_assignments() -> None:
    entry, offers = lookup("MatMul"), Offers(MINDSPORE, EIGHT)
    large = parse_rule("m k, k n -> m n", [(64, 512), (512, 128)], [(64, 128)])
    larger = parse_rule("m k, k n -> m n", [(256, 64), (64, 4096)], [(256, 4096)])
    narrow = parse_rule("m k, k n -> m n", [(64, 512), (512, 2)], [(64, 2)])
    first, second, third = (offers.of(r, entry, gradient=True)[0] for r in (large, larger, narrow))
    assert first is second
    assert first is not third
    assert len(third) < len(first)


def offered(rule: ShardingRule, mesh: Mesh) -> Assignments:
    return Offers(FREE, mesh).of(rule, lookup("MatMul"), gradient=True)[0]
