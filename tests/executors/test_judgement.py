"""What counts as agreement between a plan and an outside judge."""

from __future__ import annotations

import pytest

from executors.judgement import Comparison, Judgement, Traffic, traffic_of
from executors.verdict import Output
from ir.plan import PlannedCollective

pytestmark = pytest.mark.fast

PLANNED = (Traffic("all_reduce", 8, 1000.0, 2), Traffic("all_gather", 4, 64.0, 1))


def _judgement(*emitted: Traffic, counts_matter: bool = False, error: float = 0.0) -> Judgement:
    return Judgement(
        judge="a judge",
        outputs=(Output("y", (2,), error),),
        predicted=PLANNED,
        emitted=emitted,
        tolerance=1e-6,
        counts_matter=counts_matter,
    )


def test_equal_traffic_is_confirmed() -> None:
    assert _judgement(*PLANNED).passed
    assert _judgement(*reversed(PLANNED)).passed


def test_messages_may_be_combined_where_counts_do_not_matter() -> None:
    combined = (Traffic("all_reduce", 8, 1000.0, 1), PLANNED[1])
    assert _judgement(*combined).passed
    assert not _judgement(*combined, counts_matter=True).passed


@pytest.mark.parametrize(("nbytes", "fine"), [(1019.0, True), (1021.0, False), (979.0, False)])
def test_bytes_may_differ_by_two_percent(nbytes: float, fine: bool) -> None:
    assert _judgement(Traffic("all_reduce", 8, nbytes, 2), PLANNED[1]).passed is fine


def test_traffic_of_one_side_alone_is_a_difference() -> None:
    found = _judgement(PLANNED[0], Traffic("all_to_all", 4, 64.0, 1))
    assert found.differences == (
        Comparison("all_gather", 4, 64.0, 0.0, 1, 0),
        Comparison("all_to_all", 4, 0.0, 64.0, 0, 1),
    )


def test_the_same_bytes_over_other_groups_are_a_difference() -> None:
    assert not _judgement(Traffic("all_reduce", 2, 1000.0, 2), PLANNED[1]).passed


def test_wrong_numbers_are_not_confirmed() -> None:
    assert not _judgement(*PLANNED, error=1e-3).passed


def test_traffic_of_a_plan_is_summed_by_kind_and_group() -> None:
    def item(kind: str, size: int, nbytes: float, count: int) -> PlannedCollective:
        return PlannedCollective(kind, ("a",), size, nbytes, count, 0.0, "card", "forward", "", "")

    items = [item("all_reduce", 8, 10.0, 3), item("all_reduce", 8, 5.0, 1),
             item("all_reduce", 2, 1.0, 1)]  # fmt: skip
    assert traffic_of(items) == (
        Traffic("all_reduce", 2, 1.0, 1),
        Traffic("all_reduce", 8, 35.0, 4),
    )
