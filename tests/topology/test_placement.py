"""Constraints of the first Ascend generation, as its file states them."""

from __future__ import annotations

from itertools import combinations

from topology.catalogue import named_machine
from topology.placement import group_fault, job_fault

SERVER = named_machine("atlas-800-9000").file.servers["atlas_800_9000"]
OTHER = named_machine("atlas-800t-a2").file.servers["atlas_800t_a2"]
SETS = [c for size in range(1, 9) for c in combinations(range(8), size)]


def mindspore_takes(cards: tuple[int, ...]) -> bool:
    """The check of MindSpore's device manager on local ranks."""
    if len(cards) in (1, 8):
        return True
    if len(cards) == 2:
        one, two = cards
        return two - one == 4 or two < 4 or one >= 4
    if len(cards) == 4:
        one, two, three, four = cards
        ring = cards in ((0, 1, 2, 3), (4, 5, 6, 7))
        return ring or (three % 4 == one % 4 and four % 4 == two % 4)
    return False


def test_groups_are_those_that_mindspore_takes() -> None:
    for cards in SETS:
        assert (group_fault(SERVER, [cards, cards]) is None) == mindspore_takes(cards), cards


def test_jobs_take_one_two_or_four_cards_of_a_ring_or_all() -> None:
    for cards in SETS:
        inside = set(cards) <= {0, 1, 2, 3} or set(cards) <= {4, 5, 6, 7}
        legal = len(cards) in (1, 8) or (len(cards) in (2, 4) and inside)
        assert (job_fault(SERVER, cards) is None) == legal, cards


def test_a_pair_across_the_rings_is_a_group_but_no_job() -> None:
    assert group_fault(SERVER, [(1, 5)]) is None
    assert job_fault(SERVER, (1, 5)) == "devices 1, 5 are not inside one ring"
    assert group_fault(SERVER, [(1, 6)]) == (
        "devices 1, 6 are not inside one ring or in pairs at distance 4"
    )
    assert job_fault(SERVER, (0, 1, 2)) == "3 devices; a job takes 1, 2, 4, 8 of one server"
    assert group_fault(SERVER, [(0, 1, 2)]) == "3 devices of a server; a group takes 1, 2, 4, 8"


def test_a_group_has_the_same_cards_on_every_server() -> None:
    assert group_fault(SERVER, [(0,), (0,), (0,)]) is None
    assert group_fault(SERVER, [(0,), (1,)]) == "the group has different devices on its servers"


def test_the_second_generation_takes_any_cards() -> None:
    for cards in SETS:
        assert job_fault(OTHER, cards) is None
        assert group_fault(OTHER, [cards, cards[:1]]) is None
