"""Candidates go exactly when another one is no dearer with the worst neighbours and no fuller."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from planner.reduction import dominance, reduce, reduced
from planner.reduction.dominance import without_dominated
from planner.reduction.edges import NoAnswerError, merged_edges, without_forbidden
from planner.reduction.network import FORBIDDEN, Network
from planner.reduction.state import NO_MARKS, Marks, State, untouched
from tests.planner.networks import networks


def allowed_part(net: Network) -> State | None:
    """The state of a network without parallel edges or forbidden candidates."""
    try:
        return without_forbidden(untouched(merged_edges(net, net.edges, net.edge_cost)))
    except NoAnswerError:
        return None


def replaces(net: Network, node: int, gone: int, left: int) -> bool:
    """Whether a candidate may be taken for another one, by the definition."""
    cost = net.cost[net.first[node] : net.first[node + 1]]
    extra = float(cost[left] - cost[gone])
    for number, (u, v) in enumerate(net.edges.tolist()):
        matrix = net.edge_cost[net.edge_first[number] : net.edge_first[number + 1]]
        table = matrix.reshape(net.sizes[u], net.sizes[v])
        if node in {u, v}:
            rows = table if node == u else table.T
            partners = rows[gone] < FORBIDDEN
            extra += float((rows[left] - rows[gone])[partners].max())
    spans = np.flatnonzero(net.span_node == node)
    held = [net.usage[net.span_first[s] : net.span_first[s + 1]] for s in spans]
    return extra <= 0 and all(usage[left] <= usage[gone] for usage in held)


def kept_by_definition(net: Network) -> list[bool]:
    """Per candidate whether it stays, looked at from the last to the first of each node."""
    kept: list[bool] = []
    for node, size in enumerate(net.sizes.tolist()):
        own = [True] * size
        for gone in reversed(range(size)):
            others = (left for left in range(size) if own[left] and left != gone)
            own[gone] = not any(replaces(net, node, gone, left) for left in others)
        kept += own
    return kept


@pytest.mark.parametrize("batch", [1, 1_000_000])
@settings(max_examples=300)
@given(net=networks())
def test_what_another_replaces_goes_and_nothing_else(net: Network, batch: int) -> None:
    state = allowed_part(net)
    if state is None:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("planner.reduction.state.BATCH", batch)
        patch.setattr(dominance, "BATCH", batch)
        left, _ = without_dominated(state, NO_MARKS)
    kept = np.array(kept_by_definition(state.network))
    assert left.chosen.tolist() == state.chosen[kept].tolist()


@settings(max_examples=300)
@given(networks())
def test_looking_only_where_something_changed_finds_the_same(net: Network) -> None:
    def forgetful(state: State, settled: Marks) -> tuple[State, Marks]:
        return without_dominated(state, settled[:0])

    try:
        once = reduced(net)
    except NoAnswerError:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reduce, "without_dominated", forgetful)
        again = reduced(net)
    assert once.network.cost.tolist() == again.network.cost.tolist()
    assert once.network.edge_cost.tolist() == again.network.edge_cost.tolist()
    assert once.state.chosen.tolist() == again.state.chosen.tolist()


@given(networks())
def test_what_was_looked_at_is_not_looked_at_again(net: Network) -> None:
    state = allowed_part(net)
    if state is None:
        return
    marks = NO_MARKS
    for _ in range(10):
        before = state
        state, marks = without_dominated(state, marks)
        if state is before:
            break
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dominance, "_least_extra", lambda *_: pytest.fail("looked at again"))
        assert without_dominated(state, marks)[0] is state
