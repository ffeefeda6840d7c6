"""Cards of jobs and ranks of groups follow different rules."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import pytest

from topology.rank_tables import Product
from topology.rank_tables.jobs import JobServer, job_faults

pytestmark = pytest.mark.fast

RING_0, RING_1 = {0, 1, 2, 3}, {4, 5, 6, 7}


def job(*servers: Sequence[int], switches: Sequence[str | None] | None = None) -> list[JobServer]:
    where = switches or [None] * len(servers)
    return [
        JobServer(f"10.0.0.{100 + index}", tuple(cards), switch)
        for index, (cards, switch) in enumerate(zip(servers, where, strict=True))
    ]


def test_jobs_on_one_first_generation_server() -> None:
    """1 card, 8 cards, and 2 or 4 of one ring; every subset of the eight is tried."""
    for count in range(1, 9):
        for cards in combinations(range(8), count):
            in_ring = set(cards) <= RING_0 or set(cards) <= RING_1
            legal = count in {1, 8} or (count in {2, 4} and in_ring)
            assert (job_faults(Product.A1, job(cards)) == ()) is legal, cards


def test_jobs_on_several_first_generation_servers_take_them_whole() -> None:
    assert job_faults(Product.A1, job(range(8), range(8), range(8))) == ()
    (fault,) = job_faults(Product.A1, job(range(8), range(4)))
    assert "10.0.0.101" in fault


def test_servers_of_a_job_are_on_one_switch_and_in_order() -> None:
    whole = (range(8), range(8))
    assert job_faults(Product.A1, job(*whole, switches=("leaf-1", "leaf-1"))) == ()
    assert job_faults(Product.A1, job(*whole, switches=("leaf-1", None))) == ()
    (fault,) = job_faults(Product.A1, job(*whole, switches=("leaf-1", "leaf-2")))
    assert "different switches: leaf-1, leaf-2" in fault
    (fault,) = job_faults(Product.A1, list(reversed(job(*whole))))
    assert "does not come later as a string" in fault


def test_jobs_on_later_generations() -> None:
    assert job_faults(Product.A2, job((1, 4, 6))) == ()
    assert job_faults(Product.A2, job((0, 1), (2, 3, 4))) == ()
    assert job_faults(Product.A3, job((3,))) == ()
    assert job_faults(Product.A3, job((2, 3), (0, 1, 6, 7))) == ()
    assert job_faults(Product.A3, job((1, 2)))
    assert job_faults(Product.A3, job((0,), (0, 1)))


@pytest.mark.parametrize("servers", [(), ((),), ((0, 0),), ((8,),), ((-1,),)])
def test_cards_that_are_none(servers: tuple[tuple[int, ...], ...]) -> None:
    assert job_faults(Product.A1, job(*servers))
