"""Cuts of pieces that take turns, by the order of their passes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.schedules.pass_times import PassTimes, part_ends_s
from planner.pipeline.chain import FloatArray
from planner.pipeline.space import Configuration
from planner.pipeline.stage_cuts import FORWARD, order_s, ordered_cuts

pytestmark = pytest.mark.fast

SHAPES = [
    Configuration(2, 1, 4, 2),
    Configuration(2, 1, 6, 3),
    Configuration(3, 1, 6, 2),
    Configuration(4, 1, 16, 2),
]


def in_order_s(pieces_s: FloatArray, shape: Configuration) -> float:
    forward, backward = FORWARD * pieces_s, (1 - FORWARD) * pieces_s
    times = PassTimes(forward.tolist(), backward.tolist())
    return max(part_ends_s("interleaved", times, shape.stages, shape.micro_batches))


def drawn(shape: Configuration, seed: int) -> FloatArray:
    return np.random.default_rng(seed).uniform(0.5, 1.5, (shape.pieces, 4))


@settings(max_examples=30)
@given(st.sampled_from(SHAPES), st.integers(0, 99))
def test_a_short_step_takes_what_its_passes_take_in_their_order(
    shape: Configuration, seed: int
) -> None:
    pieces_s = drawn(shape, seed)
    assert order_s(pieces_s, shape) == pytest.approx([in_order_s(w, shape) for w in pieces_s.T])


@pytest.mark.parametrize(
    "shape", [Configuration(2, 1, 64, 2), Configuration(4, 1, 128, 3)], ids=str
)
def test_a_long_step_is_extended_within_a_hundredth(shape: Configuration) -> None:
    pieces_s = drawn(shape, 1)
    wanted = [in_order_s(w, shape) for w in pieces_s.T]
    assert order_s(pieces_s, shape) == pytest.approx(wanted, rel=0.01)


@settings(max_examples=25)
@given(st.sampled_from(SHAPES[:3]), st.integers(0, 99))
def test_no_segment_that_moves_from_one_piece_to_another_helps_further(
    shape: Configuration, seed: int
) -> None:
    """Where a piece cannot be so long, none is."""
    rng, count = np.random.default_rng(seed), 3 * shape.pieces
    places = np.concatenate([[0.0], np.cumsum(rng.uniform(0.5, 1.5, count))])
    table = np.maximum(places[None, :] - places[:-1, None], 0.0)
    spans = np.arange(count + 1)[None, :] - np.arange(count)[:, None]
    table = np.where((spans > 0) & (spans <= 4), table, np.inf)
    tables, even = [table] * shape.pieces, tuple(range(3, count + 1, 3))

    def of(ends: tuple[int, ...]) -> float:
        lengths = np.array([table[i, j] for i, j in itertools.pairwise((0, *ends))])
        return in_order_s(lengths, shape) if np.isfinite(lengths).all() else np.inf

    found_s, ends = ordered_cuts(tables, even, shape)
    assert found_s == pytest.approx(of(ends))
    assert found_s <= of(even) * (1 + 1e-9)
    for first, last in itertools.combinations(range(shape.pieces), 2):
        for step in (-1, 1):
            own = (*ends[:first], *(end + step for end in ends[first:last]), *ends[last:])
            if all(a < b for a, b in itertools.pairwise((0, *own))):
                assert of(own) >= found_s * (1 - 1e-9)
