"""The time of a schedule's passes in their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.schedules.closed_form import pipeline_time_s
from costmodel.schedules.pass_times import PASSES, ROUNDS, PassTimes, _ends_s, part_ends_s
from costmodel.simulation.step_in_order import in_order_s
from ir.plan import Pipeline, PipelineStage, SharedParameter

PARTS, CHUNKS = st.sampled_from([2, 3, 4]), st.integers(2, 3)


def passes_s(times: PassTimes, parts: int, micro_batches: int) -> float:
    """Seconds from the first pass to the last one, where chunks take turns."""
    return max(part_ends_s("interleaved", times, parts, micro_batches))


@given(parts=PARTS, chunks=CHUNKS, rounds=st.integers(1, 20), share=st.floats(0.1, 3.0))
def test_equal_pieces_take_the_closed_form(
    parts: int, chunks: int, rounds: int, share: float
) -> None:
    times = PassTimes([1.0] * (parts * chunks), [share] * (parts * chunks))
    whole = [chunks * (1.0 + share)] * parts
    expected = pipeline_time_s(whole, rounds * parts, chunks)
    assert passes_s(times, parts, rounds * parts) == pytest.approx(expected)


@given(data=st.data(), parts=PARTS, chunks=CHUNKS, rounds=st.integers(1, 14))
def test_it_lies_between_the_work_of_a_part_and_the_slowest_piece_everywhere(
    data: st.DataObject, parts: int, chunks: int, rounds: int
) -> None:
    pieces, micro = parts * chunks, rounds * parts
    forward = data.draw(st.lists(st.floats(0.5, 2.0), min_size=pieces, max_size=pieces))
    backward = data.draw(st.lists(st.floats(0.5, 2.0), min_size=pieces, max_size=pieces))
    spent_s = passes_s(PassTimes(forward, backward), parts, micro)
    busy = [sum(forward[p::parts]) + sum(backward[p::parts]) for p in range(parts)]
    slowest = [max(forward)] * pieces, [max(backward)] * pieces
    most_s = passes_s(PassTimes(*slowest), parts, micro)
    assert micro * max(busy) * (1 - 1e-12) <= spent_s <= most_s * (1 + 1e-12)


def test_a_long_step_goes_on_as_a_short_one() -> None:
    times = PassTimes([1.0, 1.5, 0.7, 2.0], [2.0, 2.5, 1.7, 4.0])
    steps = [passes_s(times, 2, m) for m in (18, 20, 22, 40)]
    round_s = steps[1] - steps[0]
    assert steps[2] - steps[1] == pytest.approx(round_s)
    assert steps[3] - steps[2] == pytest.approx(9 * round_s)


def test_parts_that_are_equal_in_all_but_not_in_each_turn_wait() -> None:
    times = PassTimes([3.0, 1.0, 1.0, 3.0], [6.0, 2.0, 2.0, 6.0])
    assert passes_s(times, 2, 8) > 1.05 * pipeline_time_s([12.0, 12.0], 8, 2)


def staged(times: PassTimes, ends: Sequence[tuple[float, float]], micro: int) -> Pipeline:
    """Stages that add up gradients and update so long once in a step."""
    rows = enumerate(zip(times.forward_s, times.backward_s, ends, strict=True))
    stages = (
        PipelineStage(i, i + 1, f, b, sum(end), 0.0, 1, sync_s=end[0], update_s=end[1])
        for i, (f, b, end) in rows
    )
    return Pipeline("1f1b", micro, 1, tuple(stages))


@given(data=st.data(), parts=PARTS, micro=st.integers(1, 60))
def test_gradients_follow_the_passes_of_a_stage_and_updates_the_gradients_of_all(
    data: st.DataObject, parts: int, micro: int
) -> None:
    own = st.lists(st.floats(0.1, 2.0), min_size=parts, max_size=parts)
    times = PassTimes(data.draw(own), data.draw(own))
    sync, update = data.draw(own), data.draw(own)
    told_s = in_order_s(staged(times, list(zip(sync, update, strict=True)), micro))
    ends_s = part_ends_s("1f1b", times, parts, micro)
    ready_s = max(end + own for end, own in zip(ends_s, sync, strict=True))
    assert told_s == pytest.approx(ready_s + max(update), rel=1e-12)


def test_stages_that_hold_the_same_parameter_wait_for_one_another() -> None:
    times = PassTimes([1.0, 1.0, 1.0], [2.0, 2.0, 2.0])
    alone = staged(times, [(0.0, 1.0)] * 3, 4)
    shared = SharedParameter("w", (0, 2), (), 0.0, 0.5, "server")
    # The last part is over when the first one has two backward passes to do.
    assert in_order_s(alone) == 18.0 + 1.0
    assert in_order_s(replace(alone, shared=(shared,))) == 18.0 + 0.5 + 1.0
    assert in_order_s(replace(alone, shared=(replace(shared, stages=(1, 2)),))) == 18.0 + 1.0


def test_a_file_that_does_not_tell_updates_apart_has_them_last() -> None:
    times = PassTimes([1.0, 1.0], [2.0, 2.0])
    stages = tuple(replace(s, update_s=0.0) for s in staged(times, [(0.0, 4.0)] * 2, 4).stages)
    assert in_order_s(Pipeline("1f1b", 4, 1, stages)) == 15.0 + 4.0


def test_stages_that_share_their_time_otherwise_between_passes_wait_for_one_another() -> None:
    times = PassTimes([4.0, 0.1, 0.1, 0.1], [0.1, 4.0, 1.0, 0.1])
    closed_s = pipeline_time_s([4.1, 4.1, 1.1, 0.2], 8)
    assert in_order_s(staged(times, [(0.0, 0.0)] * 4, 8)) > 1.15 * closed_s


@settings(max_examples=8)
@given(data=st.data(), parts=PARTS)
def test_a_long_step_is_extended_without_a_fault(data: st.DataObject, parts: int) -> None:
    """What is told of many micro-batches is what all of them take."""
    own = st.lists(st.floats(0.1, 2.0), min_size=parts, max_size=parts)
    times = PassTimes(data.draw(own), data.draw(own))
    few = PASSES // parts + ROUNDS * parts * 3
    for micro in (few, few + 1, few + 7 * parts + 3):
        told_s = part_ends_s("1f1b", times, parts, micro)
        assert told_s == pytest.approx(_ends_s("1f1b", times, parts, micro), rel=1e-12)
