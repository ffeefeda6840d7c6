"""Places that a token visits: laws, and tokens drawn at random."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.collectives.curves import FloatArray
from costmodel.collectives.visits import Routing

Case: TypeAlias = tuple[int, int, int, int, int]
"""Experts, of a token, groups, of a token, places."""


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Places that divide groups or are divided by them."""
    groups, places = 2 ** draw(st.integers(0, 3)), 2 ** draw(st.integers(0, 6))
    experts = max(groups, places) * draw(st.integers(1, 6))
    best = draw(st.integers(1, groups))
    chosen = draw(st.integers(1, min(12, best * experts // groups)))
    return experts, chosen, groups, best, places


def visited(*case: int) -> float:
    """Places of one case."""
    experts, chosen, groups, best, places = (np.array([float(n)]) for n in case)
    return float(Routing(experts, chosen, groups, best).places(places)[0])


def drawn(case: Case, tokens: int, of_group: int = 1) -> float:
    """The same of tokens with random scores: groups by the sum of their best scores, then the best
    experts of those groups.
    """
    experts, chosen, groups, best, places = case
    scores = np.random.default_rng(7).random((tokens, experts))
    ranked = np.sort(scores.reshape(tokens, groups, -1), axis=2)[:, :, -of_group:].sum(axis=2)
    open_ = ranked >= np.sort(ranked, axis=1)[:, -best][:, None]
    limited = np.where(np.repeat(open_, experts // groups, axis=1), scores, -1.0)
    top = np.argsort(-limited, axis=1)[:, :chosen] * places // experts
    return float(np.mean([len(set(each)) for each in top.tolist()]))


@pytest.mark.parametrize(
    "case",
    [
        (256, 8, 8, 4, 8), (256, 8, 8, 4, 4), (256, 8, 8, 4, 32), (160, 6, 8, 3, 16),
        (64, 6, 1, 1, 64), (384, 8, 1, 1, 8), (16, 4, 4, 2, 16),
    ],
)  # fmt: skip
def test_they_are_those_of_tokens_drawn_at_random(case: Case) -> None:
    """Groups by their best expert (DeepSeek-V2); by their best two (V3) it is about the same."""
    assert visited(*case) == pytest.approx(drawn(case, 4000), rel=0.015)
    assert visited(*case) == pytest.approx(drawn(case, 4000, of_group=2), rel=0.04)


@given(cases())
def test_no_limit_is_as_many_groups_as_there_are(case: Case) -> None:
    experts, chosen, groups, _, places = case
    whole = visited(experts, chosen, groups, groups, places)
    assert whole == pytest.approx(visited(experts, chosen, 1, 1, places), rel=1e-9)


@given(cases())
def test_never_more_places_than_the_limit_allows(case: Case) -> None:
    experts, chosen, groups, best, places = case
    found = visited(*case)
    most = min(chosen, places, best * max(places // groups, 1))
    assert 1 - 1e-9 <= found <= most + 1e-9
    if chosen == best * experts // groups:
        assert found >= best * places / groups - 1e-9


@given(cases())
def test_a_wider_limit_never_visits_fewer(case: Case) -> None:
    experts, chosen, groups, best, places = case
    if best < groups:
        assert visited(experts, chosen, groups, best + 1, places) >= visited(*case) - 1e-9


@given(cases())
def test_one_more_expert_never_visits_fewer(case: Case) -> None:
    experts, chosen, groups, best, places = case
    if chosen < best * experts // groups:
        assert visited(experts, chosen + 1, groups, best, places) >= visited(*case) - 1e-9


@given(st.lists(cases(), min_size=1, max_size=8))
def test_many_cases_at_once_are_each_by_itself(several: list[Case]) -> None:
    experts, chosen, groups, best, places = np.array(several, dtype=np.float64).T
    found: FloatArray = Routing(experts, chosen, groups, best).places(places)
    assert found.tolist() == pytest.approx([visited(*case) for case in several], rel=1e-12)
