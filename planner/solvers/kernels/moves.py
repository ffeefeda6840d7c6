"""Choices made and improved node by node, within memory."""

from __future__ import annotations

import numpy as np
from numba import njit

from planner.network import FloatArray, IntArray
from planner.solvers.kernels.arrays import Arrays
from planner.solvers.kernels.memory import Tree, swap_if_it_fits


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
    largest = 0
    for node in range(len(net.first) - 1):
        largest = max(largest, net.first[node + 1] - net.first[node])
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
