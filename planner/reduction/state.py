"""A network while it shrinks, and how an answer to it becomes one of the whole."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from planner.network import BoolArray, IntArray, Network, offsets, runs


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """What is left of a network.

    A node of the whole follows a node that is left: `chosen` says which of its candidates goes with
    each candidate of that one.
    """

    network: Network
    leader: IntArray
    """For each node of the whole the node that it follows, shape (N,)."""
    chosen_first: IntArray
    """Where the candidates of each node of the whole start in `chosen`."""
    chosen: IntArray
    """For each node of the whole, by candidate of its leader, its own candidate."""

    def expanded(self, choice: IntArray) -> IntArray:
        """The choice of the whole that a choice of what is left means."""
        found: IntArray = self.chosen[self.chosen_first[:-1] + choice[self.leader]]
        return found


def untouched(network: Network) -> State:
    """The state in which nothing was done."""
    sizes = network.sizes
    return State(
        network, np.arange(network.nodes), network.first, runs(np.zeros_like(sizes), sizes)
    )


def without_candidates(state: State, kept: BoolArray) -> State:
    """The state without some candidates.

    Args:
        state: the state.
        kept: for each candidate of its network whether it stays; of each node at least one does.
    """
    net = state.network
    sizes = np.add.reduceat(kept, net.first[:-1]) if net.nodes else np.zeros(0, dtype=np.int64)
    u, v = net.edges[:, 0], net.edges[:, 1]
    pair_kept = _pairs_kept(net, kept)
    span_kept = kept[runs(net.first[net.span_node], net.sizes[net.span_node])]
    whole_kept = kept[runs(net.first[state.leader], net.sizes[state.leader])]
    return State(
        network=replace(
            net,
            first=offsets(sizes),
            cost=net.cost[kept],
            edge_first=offsets(sizes[u] * sizes[v]),
            edge_cost=net.edge_cost[pair_kept],
            span_first=offsets(sizes[net.span_node]),
            usage=net.usage[span_kept],
        ),
        leader=state.leader,
        chosen_first=offsets(sizes[state.leader]),
        chosen=state.chosen[whole_kept],
    )


def _pairs_kept(net: Network, kept: BoolArray) -> BoolArray:
    """For each entry of the matrices whether both of its candidates are kept."""
    whole = np.logical_and.reduceat(kept, net.first[:-1])
    length = np.diff(net.edge_first)
    cut = ~whole[net.edges].all(axis=1)
    u, v = net.edges[cut].T
    ku, kv = net.sizes[u], net.sizes[v]
    rows = np.repeat(kept[runs(net.first[u], ku)], np.repeat(kv, ku))
    columns = kept[runs(np.repeat(net.first[v], ku), np.repeat(kv, ku))]
    pairs = np.ones(len(net.edge_cost), dtype=bool)
    pairs[np.repeat(cut, length)] = rows & columns
    return pairs
