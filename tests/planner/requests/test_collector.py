from __future__ import annotations

import gc

import pytest

from planner.requests.collector import RECORDS_BETWEEN_COLLECTIONS, collecting_rarely


@collecting_rarely()
def failing_command(seen: list[int]) -> None:
    seen.append(gc.get_threshold()[0])
    raise ZeroDivisionError


@pytest.mark.fast
def test_a_command_that_fails_leaves_the_collector_as_it_was() -> None:
    before, seen = gc.get_threshold(), list[int]()
    with pytest.raises(ZeroDivisionError):
        failing_command(seen)
    assert seen == [RECORDS_BETWEEN_COLLECTIONS]
    assert gc.get_threshold() == before
