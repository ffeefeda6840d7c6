"""Unequal devices: distributions, stragglers, and where devices wait for one another."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.simulation.effects import Contention, Effects
from costmodel.simulation.engine import Timeline, run
from costmodel.simulation.lowering import Lowered
from costmodel.simulation.step import Sharding
from costmodel.simulation.variation import (
    SHAPES,
    Distribution,
    Lanes,
    Variation,
    VariationError,
    varied_steps_s,
)
from tests.costmodel.simulation.steps import block, even_step


def timeline_of(
    stages: int = 2, sync_s: float = 0.0, gather_s: float = 0.0
) -> tuple[Timeline, tuple[int, ...]]:
    own = block(1.0, 2.0, layers=2.0, sync_s=sync_s, gather_s=gather_s)
    sharding = Sharding("network", gather_each_pass=gather_s > 0)
    step = even_step("1f1b", stages, 4, own, sharding=sharding)
    lowered = Lowered(step, Effects(contention=Contention.NONE))
    return run(lowered.graph), tuple(lowered.joins)


@given(st.sampled_from(sorted(SHAPES)), st.floats(0, 0.3), st.integers(1, 50))
def test_factors_have_mean_1_and_the_stated_width(shape: str, width: float, count: int) -> None:
    u = (np.arange(200_000) + 0.5) / 200_000
    factors = Distribution(shape, width).largest_of(1, u)
    assert factors.mean() == pytest.approx(1.0, abs=2e-3)
    assert factors.std() == pytest.approx(width, abs=5e-3)
    assert (Distribution(shape, width).largest_of(count, u) >= factors - 1e-12).all()


@given(st.integers(1, 6), st.floats(0.05, 0.95))
def test_the_largest_of_several_is_below_a_point_if_all_are(count: int, u: float) -> None:
    """P(max <= x) = P(one <= x)^n."""
    one = Distribution("uniform", 0.3)
    at = one.largest_of(count, np.array([u**count]))
    assert at == pytest.approx(one.largest_of(1, np.array([u])))


@given(st.sampled_from([(1,), (4,), (2, 3)]), st.integers(1, 8))
def test_equal_devices_take_as_long_as_simulated(shape: tuple[int, ...], group: int) -> None:
    timeline, joined = timeline_of(sync_s=0.5)
    lanes = Lanes(shape, group, dict.fromkeys(joined, (0,)))
    nothing = Variation(Distribution("normal", 0.0), Distribution("normal", 0.0), samples=2)
    assert varied_steps_s(timeline, lanes, nothing) == pytest.approx([timeline.step_s] * 2)


def test_a_straggler_slows_the_step_as_if_all_were_slow_where_all_wait_for_it() -> None:
    timeline, joined = timeline_of(stages=1)
    lanes = Lanes((8,), 4, dict.fromkeys(joined, (0,)))
    one = Variation(stragglers=1, straggler_factor=1.5, samples=4)
    assert varied_steps_s(timeline, lanes, one) == pytest.approx([1.5 * timeline.step_s] * 4)


def test_more_stragglers_never_help_and_few_hide_in_a_pipeline() -> None:
    timeline, joined = timeline_of(stages=4)
    lanes = Lanes((2,), 1, dict.fromkeys(joined, (0,)))
    means = [
        varied_steps_s(timeline, lanes, Variation(stragglers=n, straggler_factor=2.0)).mean()
        for n in (0, 1, 8)
    ]
    assert means[0] == pytest.approx(timeline.step_s)
    assert means[0] < means[1] < means[2] == pytest.approx(2 * timeline.step_s)


def test_more_devices_wait_longer_for_the_slowest() -> None:
    timeline, joined = timeline_of()
    jitter = Variation(Distribution("lognormal", 0.1), samples=30)
    means = [
        varied_steps_s(timeline, Lanes((n,), group, dict.fromkeys(joined, (0,))), jitter).mean()
        for n, group in ((1, 1), (8, 1), (64, 1), (64, 8))
    ]
    assert means == sorted(means)
    assert means[0] < means[-1]


def test_lanes_wait_for_one_another_only_where_they_join() -> None:
    timeline, joined = timeline_of(stages=1, gather_s=0.5)
    apart, together = Lanes((16,), 1, {}), Lanes((16,), 1, dict.fromkeys(joined, (0,)))
    jitter = Variation(Distribution("exponential", 0.5), samples=10)
    free, tied = (varied_steps_s(timeline, lanes, jitter) for lanes in (apart, together))
    assert (tied >= free - 1e-12).all()
    assert tied.mean() > free.mean()


def test_the_same_seed_draws_the_same_steps() -> None:
    timeline, joined = timeline_of()
    lanes = Lanes((4,), 1, dict.fromkeys(joined, (0,)))
    first, again, other = (
        varied_steps_s(timeline, lanes, Variation(Distribution("normal", 0.1), seed=seed))
        for seed in (1, 1, 2)
    )
    assert (first == again).all()
    assert (first != other).any()


@pytest.mark.parametrize(
    ("shape", "width"),
    [("cauchy", 0.1), ("normal", -0.1), ("uniform", 0.6), ("exponential", 1.1),
     ("normal", float("nan"))],
)  # fmt: skip
def test_a_distribution_that_cannot_be_is_refused(shape: str, width: float) -> None:
    with pytest.raises(VariationError):
        Distribution(shape, width)


def test_numbers_of_stragglers_that_cannot_be_are_refused() -> None:
    for bad in ({"samples": 0}, {"stragglers": -1}, {"straggler_factor": 0.5}):
        with pytest.raises(VariationError):
            Variation(**bad)


def test_each_further_straggler_of_a_seed_slows_every_step_or_none() -> None:
    """Those of fewer are among those of more, and what jitter draws stays."""
    timeline, joined = timeline_of(stages=4)
    lanes = Lanes((2,), 2, dict.fromkeys(joined, (0,)))
    jitter = Distribution("lognormal", 0.05)
    steps = [
        varied_steps_s(timeline, lanes, Variation(jitter, stragglers=n, straggler_factor=1.5))
        for n in range(17)
    ]
    assert all((more >= less - 1e-12).all() for less, more in itertools.pairwise(steps))
    assert (steps[-1] > steps[0]).all()
