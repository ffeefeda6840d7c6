"""Sequential tree-reweighted message passing (TRW-S) over a network whose memory has a price.

Source: V. Kolmogorov, Convergent tree-reweighted message passing for energy minimization, IEEE
TPAMI 28(10), 2006. Each edge has one message at any time, towards the node that is visited next.
The bound is a true one for any messages, so that prices may change between the passes.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from planner.network import FloatArray, IntArray
from planner.solvers.kernels.arrays import Arrays


@njit(cache=True, nogil=True, fastmath={"nnan", "nsz", "reassoc"})
def priced(net: Arrays, paid: FloatArray, out: FloatArray) -> None:
    """Costs of candidates, memory at its price included.

    Args:
        net: the network.
        paid: sum of the prices of all time points before each one, shape (T + 1,).
        out: receives the costs.
    """
    out[:] = net.cost
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
    largest = 0
    for node in range(len(net.first) - 1):
        largest = max(largest, net.first[node + 1] - net.first[node])
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
    least = best.min()
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
    largest = 0
    for node in range(len(net.first) - 1):
        largest = max(largest, net.first[node + 1] - net.first[node])
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
        least = belief[:size].min()
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
