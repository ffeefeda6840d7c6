"""The change that makes a step in micro-batches possible: the first that does, by effort and not
by the clock.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from planner.explain import Infeasibility, why_infeasible
from planner.request import InfeasibleError, SearchRequest
from tests.builders import mlp
from topology.catalogue import named_machine
from topology.cluster import Cluster

pytestmark = pytest.mark.fast

MACHINE = named_machine("atlas-800t-a2")
ERROR = InfeasibleError("nothing fits", 2.0, 1.0, {}, ("--devices 16",))
ASKED = SearchRequest(global_batch=1024, zero="0")
FOUND = SimpleNamespace(estimate=SimpleNamespace(step_time_s=1.0, peak_memory_bytes=1.0))

Fits = Callable[[Cluster, SearchRequest], bool]


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Infeasibility, int]]:
    """What is found where a search finds a plan in some cases, and how often one was made."""

    def look(asked: SearchRequest, fits: Fits) -> tuple[Infeasibility, int]:
        made: list[SearchRequest] = []

        def found(_: object, cluster: Cluster, request: SearchRequest, **__: bool) -> object:
            made.append(request)
            if not fits(cluster, request):
                raise ERROR
            return FOUND

        monkeypatch.setattr("planner.explain.trials.search_pipeline", found)
        why = why_infeasible(mlp(2), MACHINE.cluster(8), asked, ERROR, MACHINE.cluster)
        return why, len(made)

    return look


@pytest.mark.parametrize(
    ("fits", "named"),
    [
        (lambda _, asked: asked.zero == "auto", "without --zero 0"),
        (lambda _, asked: asked.zero + asked.offload == "autoauto", "--zero auto --offload auto"),
        (lambda _, asked: asked.global_batch <= 600, "--zero auto --batch 512"),
        (lambda cluster, _: cluster.devices > 16, "--zero auto --devices 32"),
        (lambda _, asked: not asked.optimizer.keeps_moments, "--zero auto --optimizer sgd"),
    ],
)
def test_the_cheapest_that_fits_is_named(
    looked: Callable[..., tuple[Infeasibility, int]], fits: Fits, named: str
) -> None:
    found, _ = looked(ASKED, fits)
    assert [fix.change for fix in found.fixes] == [named]
    assert found.fixes[0].text.startswith(f"{named}: a step of 1 s")


def test_more_effort_tries_more_changes(
    looked: Callable[..., tuple[Infeasibility, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    every, made = looked(ASKED, lambda *_: False)
    assert every.complete
    monkeypatch.setattr("planner.explain.infeasible.TRIALS", (3, 3))
    few, fewer = looked(ASKED, lambda *_: False)
    assert (few.complete, fewer) == (False, 3)
    twice = SearchRequest(global_batch=1024, zero="0", effort=2)
    assert looked(twice, lambda *_: False)[1] == 6 < made


def test_a_decision_that_is_open_is_not_opened_again(
    looked: Callable[..., tuple[Infeasibility, int]],
) -> None:
    asked = SearchRequest(global_batch=4, offload="auto")
    found, made = looked(asked, lambda _, own: own.global_batch == 2)
    assert ([fix.change for fix in found.fixes], made) == (["--batch 2"], 1)


def test_an_interruption_ends_the_look_with_what_was_found(
    looked: Callable[..., tuple[Infeasibility, int]],
) -> None:
    def fits(_: Cluster, request: SearchRequest) -> bool:
        if request.global_batch == 256:
            raise KeyboardInterrupt
        return False

    found, _ = looked(ASKED, fits)
    assert (found.interrupted, found.complete, found.fixes) == (True, False, ())
