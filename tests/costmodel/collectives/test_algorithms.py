"""Every formula beside its closed form, written out from the guide."""

import math

import pytest

from costmodel.collectives import Collective
from costmodel.collectives.algorithms import ALGORITHMS, Stage, stage_curve, torus_curve
from topology.cluster import TierKind

pytestmark = pytest.mark.fast

A, B, G, N = 3.0, 0.25, 0.5, 64.0
AR, AG, RS = Collective.ALL_REDUCE, Collective.ALL_GATHER, Collective.REDUCE_SCATTER
A2A, BC, RD = Collective.ALL_TO_ALL, Collective.BROADCAST, Collective.REDUCE


def time_s(algorithm: str, p: int, kind: Collective, wiring: TierKind = TierKind.SWITCH) -> float:
    curve = stage_curve(algorithm, Stage(p, A, B, wiring, G), kind)
    assert curve is not None
    return curve.time_s(N)


def log(p: int) -> int:
    return math.ceil(math.log2(p))


@pytest.mark.parametrize("p", [2, 3, 4, 7, 8])
def test_ring(p: int) -> None:
    share = (p - 1) / p
    assert time_s("ring", p, AG) == (p - 1) * A + share * N * B
    assert time_s("ring", p, RS) == (p - 1) * A + share * N * (B + G)
    assert time_s("ring", p, AR) == pytest.approx(2 * (p - 1) * A + share * N * (2 * B + G))
    assert time_s("ring", p, BC) == (p - 1) * (A + N * B)
    assert time_s("ring", p, RD) == (p - 1) * (A + N * (B + G))


@pytest.mark.parametrize("p", [2, 3, 4, 7, 8])
def test_mesh_with_a_link_for_every_pair(p: int) -> None:
    full = TierKind.FULL_MESH
    adding = (p - 1) / p * N * G
    assert time_s("mesh", p, AG, full) == pytest.approx(A + N * B / p)
    assert time_s("mesh", p, A2A, full) == pytest.approx(A + N * B / p)
    assert time_s("mesh", p, RS, full) == pytest.approx(A + N * B / p + adding)
    assert time_s("mesh", p, AR, full) == pytest.approx(2 * A + 2 * N * B / p + adding)
    assert time_s("mesh", p, BC, full) == pytest.approx(2 * A + 2 * N * B / p)
    assert time_s("star", p, BC, full) == pytest.approx(A + N * B)


@pytest.mark.parametrize("p", [2, 4, 8])
def test_halving_doubling_of_a_power_of_two(p: int) -> None:
    share = (p - 1) / p
    assert time_s("halving_doubling", p, AG) == log(p) * A + share * N * B
    assert time_s("halving_doubling", p, AR) == pytest.approx(
        2 * log(p) * A + share * N * (2 * B + G)
    )
    assert time_s("halving_doubling", p, BC) == log(p) * (A + N * B)


@pytest.mark.parametrize(("p", "q"), [(3, 2), (6, 4), (7, 4), (12, 8)])
def test_halving_doubling_folds_the_ranks_beyond_a_power_of_two(p: int, q: int) -> None:
    rounds, share = int(math.log2(q)), (q - 1) / q
    expected = (2 * rounds + 2) * A + (2 * share + 2) * N * B + (share + 1) * N * G
    assert time_s("halving_doubling", p, AR) == pytest.approx(expected)
    stage = Stage(p, A, B, TierKind.SWITCH)
    assert stage_curve("halving_doubling", stage, AG) is None


@pytest.mark.parametrize("p", [2, 3, 5, 8])
def test_nhr_and_pairwise(p: int) -> None:
    share = (p - 1) / p
    assert time_s("nhr", p, AR) == pytest.approx(2 * log(p) * A + share * N * (2 * B + G))
    assert time_s("pairwise", p, A2A) == (p - 1) * A + share * N * B


def test_a_torus_passes_things_both_ways() -> None:
    """Source: "How to Scale Your Model": V / W of both directions, an all-to-all a quarter."""
    ring = Stage(16, A, B, TierKind.TORUS)
    line = Stage(16, A, B, TierKind.TORUS, wrap=False)
    curve, opened = torus_curve((ring,), AG), torus_curve((line,), AG)
    assert curve is not None
    assert opened is not None
    assert curve.time_s(N) == pytest.approx(8 * A + 15 / 16 * N * B / 2)
    assert opened.time_s(N) == pytest.approx(2 * curve.time_s(N))
    exchange = torus_curve((ring,), A2A)
    assert exchange is not None
    # A local tensor is 1 / 16 of all bytes V: V / (4 x 2 / B).
    assert exchange.slopes[0] * N == pytest.approx(16 * N * B / 8)


def test_two_dimensions_of_a_torus_are_twice_as_wide() -> None:
    one = Stage(4, 0.0, B, TierKind.TORUS)
    flat, square = torus_curve((one,), AG), torus_curve((one, one), AG)
    assert flat is not None
    assert square is not None
    assert square.time_s(N) / flat.time_s(N) == pytest.approx((15 / 16) / (3 / 4) / 2)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("kind", Collective)
def test_more_ranks_never_make_a_whole_vector_cheaper_than_its_lower_bound(
    algorithm: str, kind: Collective
) -> None:
    """A rank cannot receive (p - 1) / p of its bytes faster than all its links bring them."""
    for p in (2, 3, 4, 8):
        curve = stage_curve(algorithm, Stage(p, 0.0, B, TierKind.SWITCH), kind)
        if curve is None or kind is Collective.POINT_TO_POINT:
            continue
        ports = 2 if algorithm == "torus" else 1
        assert curve.time_s(N) >= (p - 1) / p * N * B / ports * (1 - 1e-12)
