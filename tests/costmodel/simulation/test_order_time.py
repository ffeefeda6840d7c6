"""The time of a schedule's passes in their order."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.simulation.order_time import PASSES, PassTimes, in_order_s, order_time_s
from ir.plan import Pipeline, PipelineStage
from planner.stages.chain import pipeline_time_s

PARTS, CHUNKS = st.sampled_from([2, 3, 4]), st.integers(2, 3)


@given(parts=PARTS, chunks=CHUNKS, rounds=st.integers(1, 20), share=st.floats(0.1, 3.0))
def test_equal_pieces_take_the_closed_form(
    parts: int, chunks: int, rounds: int, share: float
) -> None:
    times = PassTimes([1.0] * (parts * chunks), [share] * (parts * chunks))
    whole = [chunks * (1.0 + share)] * parts
    expected = pipeline_time_s(whole, rounds * parts, chunks)
    assert order_time_s("interleaved", times, parts, rounds * parts) == pytest.approx(expected)


@given(data=st.data(), parts=PARTS, chunks=CHUNKS, rounds=st.integers(1, 14))
def test_it_lies_between_the_work_of_a_part_and_the_slowest_piece_everywhere(
    data: st.DataObject, parts: int, chunks: int, rounds: int
) -> None:
    pieces, micro = parts * chunks, rounds * parts
    forward = data.draw(st.lists(st.floats(0.5, 2.0), min_size=pieces, max_size=pieces))
    backward = data.draw(st.lists(st.floats(0.5, 2.0), min_size=pieces, max_size=pieces))
    spent_s = order_time_s("interleaved", PassTimes(forward, backward), parts, micro)
    busy = [sum(forward[p::parts]) + sum(backward[p::parts]) for p in range(parts)]
    slowest = [max(forward)] * pieces, [max(backward)] * pieces
    most_s = order_time_s("interleaved", PassTimes(*slowest), parts, micro)
    assert micro * max(busy) * (1 - 1e-12) <= spent_s <= most_s * (1 + 1e-12)


def test_a_long_step_goes_on_as_a_short_one() -> None:
    times = PassTimes([1.0, 1.5, 0.7, 2.0], [2.0, 2.5, 1.7, 4.0])
    steps = [order_time_s("interleaved", times, 2, m) for m in (18, 20, 22, 40)]
    round_s = steps[1] - steps[0]
    assert steps[2] - steps[1] == pytest.approx(round_s)
    assert steps[3] - steps[2] == pytest.approx(9 * round_s)


def test_parts_that_are_equal_in_all_but_not_in_each_turn_wait() -> None:
    times = PassTimes([3.0, 1.0, 1.0, 3.0], [6.0, 2.0, 2.0, 6.0])
    assert order_time_s("interleaved", times, 2, 8) > 1.05 * pipeline_time_s([12.0, 12.0], 8, 2)


def staged(times: PassTimes, once_s: float, micro: int) -> Pipeline:
    pairs = zip(times.forward_s, times.backward_s, strict=True)
    stages = (PipelineStage(i, i + 1, f, b, once_s, 0.0, 1) for i, (f, b) in enumerate(pairs))
    return Pipeline("1f1b", micro, 1, tuple(stages))


@given(data=st.data(), parts=PARTS, micro=st.integers(1, 60), once=st.floats(0.0, 2.0))
def test_stages_in_a_row_take_all_passes_in_their_order_or_the_closed_form(
    data: st.DataObject, parts: int, micro: int, once: float
) -> None:
    own = st.lists(st.floats(0.1, 2.0), min_size=parts, max_size=parts)
    times = PassTimes(data.draw(own), data.draw(own))
    work = [f + b for f, b in zip(times.forward_s, times.backward_s, strict=True)]
    least_s = pipeline_time_s([w + once / micro for w in work], micro)
    told_s = in_order_s(staged(times, once, micro), least_s)
    passes_s = order_time_s("1f1b", times, parts, micro)
    assert told_s == pytest.approx(max(least_s, passes_s + once), rel=1e-12)


def test_stages_that_share_their_time_otherwise_between_passes_wait_for_one_another() -> None:
    times = PassTimes([4.0, 0.1, 0.1, 0.1], [0.1, 4.0, 1.0, 0.1])
    closed_s = pipeline_time_s([4.1, 4.1, 1.1, 0.2], 8)
    assert in_order_s(staged(times, 0.0, 8), closed_s) > 1.15 * closed_s


@settings(max_examples=8)
@given(data=st.data(), parts=PARTS)
def test_a_long_step_is_extended_without_a_fault(data: st.DataObject, parts: int) -> None:
    """What is told of many micro-batches lies on the line of two that are run whole."""
    own = st.lists(st.floats(0.1, 2.0), min_size=parts, max_size=parts)
    times = PassTimes(data.draw(own), data.draw(own))
    run = PASSES // parts - PASSES // parts % parts
    near, far = (order_time_s("1f1b", times, parts, run + more * parts) for more in (0, 1000))
    slowest = max(f + b for f, b in zip(times.forward_s, times.backward_s, strict=True))
    assert far - near == pytest.approx(1000 * parts * slowest, rel=1e-6)
