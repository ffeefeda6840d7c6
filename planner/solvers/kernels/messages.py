"""Passes over the nodes of a network: messages, and choices made and improved within memory.

Source: V. Kolmogorov, Convergent tree-reweighted message passing for energy minimization, IEEE
TPAMI 28(10), 2006 (TRW-S). Each edge has one message at any time, towards the node that is visited
next. The bound is a true one for any messages, so that prices may change between the passes.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from planner.reduction.network import FloatArray, IntArray
from planner.solvers.kernels.arrays import Arrays, Tree, largest_size, swap_if_it_fits


@njit(cache=True, nogil=True, fastmath={"nnan", "nsz", "reassoc"})
def priced(net: Arrays, paid: FloatArray, out: FloatArray) -> None:
    """Costs of candidates, memory at its price included.

    Args:
        net: the network.
        paid: sum of the prices of all time points before each one, shape (T + 1,).
        out: receives the costs.
    """
    for c in range(len(out)):
        out[c] = net.cost[c]
    for node in range(len(net.first) - 1):
        start, size = net.first[node], net.first[node + 1] - net.first[node]
        for span in range(net.span_of_first[node], net.span_of_first[node + 1]):
            price = paid[net.span_end[span]] - paid[net.span_start[span]]
            if price != 0.0:
                place = net.span_first[span]
                for c in range(size):
                    out[start + c] += price * net.usage[place + c]


@njit(cache=True, nogil=True, fastmath={"nnan", "nsz", "reassoc"})
def forward(
    net: Arrays, cost: FloatArray, at: IntArray, message: FloatArray, choice: IntArray
) -> None:
    """Visit the nodes in order: pass messages on, and choose what is best by those of the others.

    Args:
        net: the network.
        cost: costs of candidates, prices included.
        at: where the message of each edge starts.
        message: all messages; those of edges not yet visited come from the far side.
        choice: receives the candidates chosen.
    """
    largest = largest_size(net.first)
    belief, chosen = np.empty(largest), np.empty(largest)
    for node in range(len(net.first) - 1):
        start, size = net.first[node], net.first[node + 1] - net.first[node]
        back = ahead = 0
        for c in range(size):
            belief[c] = chosen[c] = cost[start + c]
        for k in range(net.around_first[node], net.around_first[node + 1]):
            edge = net.around[k]
            place = at[edge]
            for c in range(size):
                belief[c] += message[place + c]
            if net.low[edge] == node:
                ahead += 1
                for c in range(size):
                    chosen[c] += message[place + c]
            else:
                back += 1
                other = net.low[edge]
                row = net.edge_first[edge] + choice[other] * size
                for c in range(size):
                    chosen[c] += net.edge_cost[row + c]
        choice[node] = np.argmin(chosen[:size])
        share = 1.0 / max(back, ahead, 1)
        for k in range(net.around_first[node], net.around_first[node + 1]):
            edge = net.around[k]
            if net.low[edge] == node:
                _send_up(net, edge, share, belief, size, at[edge], message)


@njit(cache=True, nogil=True, fastmath={"nnan", "nsz", "reassoc"})
def _send_up(
    net: Arrays, edge: int, share: float, belief: FloatArray, size: int, place: int,
    message: FloatArray,
) -> None:  # fmt: skip
    other = net.high[edge]
    width = net.first[other + 1] - net.first[other]
    best = np.full(width, np.inf)
    for c in range(size):
        own = share * belief[c] - message[place + c]
        row = net.edge_first[edge] + c * width
        for d in range(width):
            value = own + net.edge_cost[row + d]
            best[d] = min(best[d], value)
    least = np.inf
    for d in range(width):
        least = min(least, best[d])
    for d in range(width):
        message[place + d] = best[d] - least


@njit(cache=True, nogil=True, fastmath={"nnan", "nsz", "reassoc"})
def backward(
    net: Arrays, cost: FloatArray, at: IntArray, message: FloatArray, beyond: FloatArray
) -> float:
    """Visit the nodes in reverse and return a bound of the cost, prices included.

    The pass splits the cost of any choice into the bound and parts that are never negative: what a
    node keeps of its own, and what is left of every edge. A choice with a certain candidate costs
    at least the bound and the parts that all such choices have.

    Args:
        net: the network.
        cost: costs of candidates, prices included.
        at: where the message of each edge starts.
        message: messages as a forward pass leaves them; receives those of this pass.
        beyond: receives for each candidate a number by which every choice with it exceeds the
            bound; or has no entries, which saves time.
    """
    largest = largest_size(net.first)
    belief, sent, left = np.empty(largest), np.empty(largest), np.empty(largest)
    bound = 0.0
    for node in range(len(net.first) - 2, -1, -1):
        start, size = net.first[node], net.first[node + 1] - net.first[node]
        back = ahead = 0
        for c in range(size):
            belief[c] = cost[start + c]
        for k in range(net.around_first[node], net.around_first[node + 1]):
            edge = net.around[k]
            place = at[edge]
            for c in range(size):
                belief[c] += message[place + c]
            if net.low[edge] == node:
                ahead += 1
            else:
                back += 1
        least = np.inf
        for c in range(size):
            least = min(least, belief[c])
        bound += least
        share = 1.0 / max(back, ahead, 1)
        for c in range(size):
            belief[c] -= least
            left[c] = (1.0 - back * share) * belief[c]
        for k in range(net.around_first[node], net.around_first[node + 1]):
            edge = net.around[k]
            if net.high[edge] == node:
                place = at[edge]
                for c in range(size):
                    sent[c] = share * belief[c] - message[place + c]
                bound += _send_down(net, edge, sent, size, place, message)
                if len(beyond) > 0:
                    _add_rest(net, edge, sent, size, place, message, left)
        if len(beyond) > 0:
            for c in range(size):
                beyond[start + c] = max(left[c], 0.0)
    return bound


@njit(cache=True, nogil=True, fastmath={"nnan", "nsz", "reassoc"})
def _send_down(
    net: Arrays, edge: int, sent: FloatArray, size: int, place: int, message: FloatArray
) -> float:
    other = net.low[edge]
    width = net.first[other + 1] - net.first[other]
    lowest = np.inf
    for d in range(width):
        row = net.edge_first[edge] + d * size
        best = np.inf
        for c in range(size):
            value = sent[c] + net.edge_cost[row + c]
            best = min(best, value)
        message[place + d] = best
        if best < lowest:
            lowest = best
    for d in range(width):
        message[place + d] -= lowest
    return lowest


@njit(cache=True, nogil=True)
def _add_rest(
    net: Arrays, edge: int, sent: FloatArray, size: int, place: int, message: FloatArray,
    left: FloatArray,
) -> None:  # fmt: skip
    """Add what each candidate of the later node leaves on an edge after its message."""
    other = net.low[edge]
    width = net.first[other + 1] - net.first[other]
    lowest = np.inf
    for c in range(size):
        rest = np.inf
        for d in range(width):
            row = net.edge_first[edge] + d * size
            rest = min(rest, sent[c] + net.edge_cost[row + c] - message[place + d])
        sent[c] = rest
        lowest = min(lowest, rest)
    for c in range(size):
        left[c] += sent[c] - lowest


@njit(cache=True, nogil=True)
def min_plus(first: FloatArray, second: FloatArray) -> FloatArray:
    """Least sum over the rows.

    Args:
        first: shape (n, p).
        second: shape (n, m).

    Returns:
        Shape (p, m); the same bits as the sums and minima of numpy.
    """
    columns = second.shape[1]
    result = np.empty((first.shape[1], columns))
    lowest = np.empty(columns)
    for place in range(first.shape[1]):
        for column in range(columns):
            lowest[column] = np.inf
        for row in range(first.shape[0]):
            added = first[row, place]
            for column in range(columns):
                total = added + second[row, column]
                lowest[column] = min(lowest[column], total)
        for column in range(columns):
            result[place, column] = lowest[column]
    return result


@njit(cache=True, nogil=True)
def cost_of(net: Arrays, choice: IntArray) -> float:
    """Cost of a choice, forbidden pairs at their cap."""
    total = 0.0
    for node in range(len(net.first) - 1):
        total += net.cost[net.first[node] + choice[node]]
    for edge in range(len(net.low)):
        other = net.high[edge]
        width = net.first[other + 1] - net.first[other]
        total += net.edge_cost[net.edge_first[edge] + choice[net.low[edge]] * width + choice[other]]
    return total


@njit(cache=True, nogil=True)
def costs_around(net: Arrays, choice: IntArray, node: int, out: FloatArray) -> None:
    """Cost of every candidate of a node with its neighbours as they are."""
    start, size = net.first[node], net.first[node + 1] - net.first[node]
    for c in range(size):
        out[c] = net.cost[start + c]
    for k in range(net.around_first[node], net.around_first[node + 1]):
        edge = net.around[k]
        if net.low[edge] == node:
            other = net.high[edge]
            width = net.first[other + 1] - net.first[other]
            place = net.edge_first[edge] + choice[other]
            for c in range(size):
                out[c] += net.edge_cost[place + c * width]
        else:
            place = net.edge_first[edge] + choice[net.low[edge]] * size
            for c in range(size):
                out[c] += net.edge_cost[place + c]


@njit(cache=True, nogil=True)
def descend(net: Arrays, choice: IntArray, tree: Tree, nodes: IntArray, rounds: int) -> float:
    """Better candidates for these nodes, one at a time, while there are any that fit.

    Returns:
        What the cost changed by, 0 or less.
    """
    largest = 0
    for node in nodes:
        largest = max(largest, net.first[node + 1] - net.first[node])
    values = np.empty(largest)
    total = 0.0
    for _ in range(rounds):
        gained = 0.0
        for node in nodes:
            size = net.first[node + 1] - net.first[node]
            costs_around(net, choice, node, values)
            old = choice[node]
            here = values[old]
            while True:
                new = np.argmin(values[:size])
                if values[new] >= here:
                    break
                if swap_if_it_fits(net, tree, choice, node, old, new):
                    choice[node] = new
                    gained += values[new] - here
                    break
                values[new] = np.inf
        total += gained
        if gained == 0.0:
            break
    return total


@njit(cache=True, nogil=True)
def decode(
    net: Arrays, cost: FloatArray, at: IntArray, message: FloatArray, choice: IntArray, tree: Tree
) -> None:
    """Choose node by node what is best by the messages of those that come later, of what fits.

    Args:
        net: the network.
        cost: costs of candidates, prices included.
        at: where the message of each edge starts.
        message: messages as a backward pass leaves them.
        choice: a choice to start from, best one that fits; receives the new one.
        tree: memory of `choice`; kept up to date.
    """
    largest = largest_size(net.first)
    values = np.empty(largest)
    for node in range(len(net.first) - 1):
        start, size = net.first[node], net.first[node + 1] - net.first[node]
        for c in range(size):
            values[c] = cost[start + c]
        for k in range(net.around_first[node], net.around_first[node + 1]):
            edge = net.around[k]
            if net.low[edge] == node:
                for c in range(size):
                    values[c] += message[at[edge] + c]
            else:
                row = net.edge_first[edge] + choice[net.low[edge]] * size
                for c in range(size):
                    values[c] += net.edge_cost[row + c]
        old = choice[node]
        while True:
            new = np.argmin(values[:size])
            if new == old or values[new] == np.inf:
                break
            if swap_if_it_fits(net, tree, choice, node, old, new):
                choice[node] = new
                break
            values[new] = np.inf


@njit(cache=True, nogil=True)
def leanest(net: Arrays, paid: FloatArray, choice: IntArray) -> None:
    """Take for each node the candidate whose memory costs least at these prices, then the first.

    Args:
        net: the network.
        paid: sum of the prices of all time points before each one.
        choice: receives the candidates.
    """
    for node in range(len(net.first) - 1):
        size = net.first[node + 1] - net.first[node]
        best, least = 0, np.inf
        for c in range(size):
            total = 0.0
            for span in range(net.span_of_first[node], net.span_of_first[node + 1]):
                price = paid[net.span_end[span]] - paid[net.span_start[span]]
                total += price * net.usage[net.span_first[span] + c]
            if total < least:
                best, least = c, total
        choice[node] = best
