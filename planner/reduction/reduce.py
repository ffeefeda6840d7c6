"""All reductions, to a fixpoint."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from planner.reduction.dominance import without_dominated
from planner.reduction.edges import merged_edges, without_forbidden, without_sums
from planner.reduction.followers import without_equal_nodes, without_followers, without_leaves
from planner.reduction.memory import with_base, with_deciding_times
from planner.reduction.network import IntArray, Network, runs
from planner.reduction.state import NO_MARKS, State, untouched


@dataclass(frozen=True, slots=True, eq=False)
class Reduced:
    """What is left of a network."""

    whole: Network
    state: State

    @property
    def network(self) -> Network:
        return self.state.network

    def expanded(self, choice: IntArray) -> IntArray:
        """The choice of the whole network that a choice of what is left means."""
        return self.state.expanded(np.asarray(choice, dtype=np.int64))

    def contracted(self, choice: IntArray) -> IntArray:
        """For each node that is left the candidate that most of its followers agree with."""
        state, net = self.state, self.network
        sizes = net.sizes[state.leader]
        agree = state.chosen == np.repeat(choice, sizes)
        votes = np.bincount(
            runs(net.first[state.leader], sizes), weights=agree, minlength=len(net.cost)
        )
        order = np.lexsort((-votes, np.repeat(np.arange(net.nodes), net.sizes)))
        found: IntArray = order[net.first[:-1]] - net.first[:-1]
        return found


def reduced(network: Network, watch: Callable[[State], bool] = lambda _: True) -> Reduced:
    """What is left when everything is gone that cannot matter.

    Args:
        network: the network.
        watch: receives the state in every round, when followers are gone and what is forbidden, but
            before candidates are compared, which takes most of the time; False ends the work there.

    Raises:
        NoAnswerError: every choice has something forbidden.
        ValueError: edges share matrices, or pairs hold memory; no reduction keeps account of that.
    """
    if network.pairs != len(network.edge_cost):
        raise ValueError("a network whose edges share matrices cannot be reduced")
    if len(network.pair_edge):
        raise ValueError("a network whose pairs hold memory cannot be reduced")
    net = merged_edges(network, network.edges, network.edge_cost)
    state = replace(untouched(network), network=net)
    size, settled = (-1, -1, -1), NO_MARKS
    while size != _size(state.network):
        size = _size(state.network)
        state = without_forbidden(state)
        state = without_followers(state)
        state = _remade(state, without_sums(state.network))
        state = _remade(state, with_deciding_times(with_base(state.network)))
        if not watch(state):
            break
        state, settled = without_dominated(state, settled)
        state = without_equal_nodes(without_leaves(state))
    return Reduced(network, state)


def _remade(state: State, network: Network) -> State:
    return replace(state, network=network)


def _size(net: Network) -> tuple[int, int, int]:
    return len(net.cost), len(net.edge_cost), net.time_points
