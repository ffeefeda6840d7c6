"""Parameter servers against closed forms."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.simulation.parameter_server import (
    Change,
    Member,
    ServedTraining,
    ServerError,
    changed_run,
    served_rate,
)

BASE = ServedTraining((0.1,) * 4, 2, 1e9, 10e9, 10e9, steps=6)


@given(st.integers(1, 12), st.integers(1, 12), st.booleans())
def test_equal_workers_take_turns_at_the_ports_that_are_fewer(
    workers: int, servers: int, synchronous: bool
) -> None:
    """compute + 2 n / B max(1, W / S): all push at once, then all pull at once."""
    training = replace(BASE, compute_s=(0.1,) * workers, servers=servers, synchronous=synchronous)
    each = 1e9 / 10e9 * max(1.0, workers / servers)
    found = served_rate(training)
    assert found.step_s == pytest.approx(0.1 + 2 * each)
    assert found.batches_per_s == pytest.approx(workers / (0.1 + 2 * each))
    assert found.communication_s == pytest.approx(2 * each)


def test_synchronous_workers_wait_for_the_slowest_and_others_do_not() -> None:
    slow = replace(BASE, compute_s=(0.1, 0.1, 0.1, 1.0), servers=100)
    together = served_rate(slow)
    apart = served_rate(replace(slow, synchronous=False))
    assert together.batches_per_s == pytest.approx(4 / 1.2)
    assert apart.batches_per_s == pytest.approx(3 / 0.3 + 1 / 1.2)


@pytest.mark.fast
def test_updates_take_their_turn_at_the_servers() -> None:
    training = replace(BASE, servers=100, update_s=0.05)
    assert served_rate(training).step_s == pytest.approx(0.1 + 0.2 + 4 * 0.05)


def test_synchronous_workers_never_see_stale_parameters() -> None:
    assert served_rate(BASE).staleness == 0.0
    one = replace(BASE, compute_s=(0.1,), synchronous=False)
    assert served_rate(one).staleness == 0.0


def test_asynchronous_workers_see_the_updates_of_others_between() -> None:
    training = replace(BASE, compute_s=(0.1, 0.11, 0.12, 0.13), servers=100, synchronous=False,
                       steps=20)  # fmt: skip
    assert served_rate(training).staleness == pytest.approx(3.0, abs=0.5)


@given(st.floats(1, 5))
def test_faster_ports_never_slow_equal_workers(factor: float) -> None:
    for name in ("worker_bytes_per_s", "server_bytes_per_s"):
        faster = replace(BASE, **{name: getattr(BASE, name) * factor})
        assert served_rate(faster).step_s <= served_rate(BASE).step_s * (1 + 1e-9)


def test_a_lost_worker_costs_its_share_or_the_time_of_all() -> None:
    training = replace(BASE, servers=100)
    lost = Change(Member.WORKER, -1, at_s=50.0, downtime_s=10.0)
    together = changed_run(training, lost, 100.0)
    before, after = together.before, together.after
    assert after.batches_per_s == pytest.approx(0.75 * before.batches_per_s)
    worked = (50 - before.step_s / 2) * before.batches_per_s + 40 * after.batches_per_s
    assert together.batches == pytest.approx(worked)
    apart = changed_run(replace(training, synchronous=False), lost, 100.0)
    assert together.batches < apart.batches < apart.without_change


def test_an_added_worker_helps_until_the_servers_are_full() -> None:
    added = Change(Member.WORKER, 4, at_s=0.0)
    free = changed_run(replace(BASE, servers=100), added, 100.0)
    assert free.batches == pytest.approx(2 * free.without_change)
    full = changed_run(replace(BASE, servers=1), added, 100.0)
    assert full.batches < 1.2 * full.without_change


def test_a_lost_server_slows_all_and_an_added_one_speeds_all_up() -> None:
    lost = changed_run(BASE, Change(Member.SERVER, -1, 50.0, 10.0), 100.0)
    added = changed_run(BASE, Change(Member.SERVER, 1, 50.0), 100.0)
    assert lost.after.step_s > lost.before.step_s > added.after.step_s
    assert lost.batches < lost.without_change < added.batches


@pytest.mark.parametrize(
    "bad",
    [{"compute_s": ()}, {"servers": 0}, {"steps": 0}, {"nbytes": -1.0}, {"latency_s": -1.0},
     {"worker_bytes_per_s": 0.0}, {"server_bytes_per_s": float("nan")},
     {"compute_s": (float("inf"),)}],
)  # fmt: skip
def test_sizes_that_cannot_be_are_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ServerError):
        replace(BASE, **bad)  # type: ignore[arg-type]


def test_nobody_left_and_changes_outside_are_refused() -> None:
    for change in (
        Change(Member.WORKER, -4, 1.0),
        Change(Member.SERVER, -2, 1.0),
        Change(Member.WORKER, -1, 20.0),
        Change(Member.WORKER, -1, -1.0),
        Change(Member.WORKER, -1, 1.0, -1.0),
    ):
        with pytest.raises(ServerError):
            changed_run(BASE, change, 10.0)
