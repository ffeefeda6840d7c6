"""The change that makes a request possible: the first that does, by effort and not by the clock."""

from __future__ import annotations

import pytest

from planner.pipeline.infeasibility import FEWEST, OPERATORS, with_remedy
from planner.request import InfeasibleError, SearchRequest
from topology.catalogue import named_cluster
from topology.cluster import Cluster

pytestmark = pytest.mark.fast

MACHINE = named_cluster("atlas-800t-a2", 8)
ERROR = InfeasibleError("nothing fits", 2.0, 1.0, {}, ("--devices 16",))
ASKED = SearchRequest(global_batch=1024, zero="0", time_limit_s=None)


def tried(asked: SearchRequest, fitting: int, operators: int = 100) -> tuple[list[str], int]:
    """What is named if the change of this number is the first to fit, and how many were tried."""
    seen: list[tuple[Cluster, SearchRequest]] = []

    def find(cluster: Cluster, request: SearchRequest) -> None:
        seen.append((cluster, request))
        if len(seen) <= fitting:
            raise ERROR

    return list(with_remedy(ERROR, MACHINE, asked, find, operators).remedies), len(seen)


@pytest.mark.parametrize(
    ("number", "named"),
    [
        (0, "--zero auto"),
        (1, "--zero auto --offload auto"),
        (2, "--zero auto --batch 512 (now 1024)"),
    ],
)
def test_the_cheapest_that_fits_is_named(number: int, named: str) -> None:
    assert tried(ASKED, number) == ([named], number + 1)


def test_a_large_network_is_tried_with_fewer_changes_and_more_effort_with_more() -> None:
    every = tried(ASKED, 10**6)[1]
    assert tried(ASKED, 10**6, OPERATORS) == (["--devices 16"], FEWEST)
    assert FEWEST < every < OPERATORS // 100
    twice = SearchRequest(global_batch=1024, zero="0", effort=2)
    assert tried(twice, 10**6, OPERATORS)[1] == min(every, 2 * FEWEST)


def test_a_decision_that_is_open_is_not_opened_again() -> None:
    asked = SearchRequest(global_batch=4, offload="auto")
    assert tried(asked, 0) == (["--batch 2 (now 4)"], 1)


def test_an_interruption_ends_the_look_with_what_was_reckoned() -> None:
    said: list[str] = []

    def find(*_: object) -> None:
        if len(said) == 2:
            raise KeyboardInterrupt
        raise ERROR

    found = with_remedy(ERROR, MACHINE, ASKED, find, 100, said.append)
    assert found.interrupted
    assert not ERROR.interrupted
    assert (found.what, found.remedies) == (ERROR.what, ERROR.remedies)
    assert said == ["trying --zero auto", "trying --zero auto --offload auto"]
