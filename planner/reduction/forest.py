"""Which node each node follows, and with which candidate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.network import IntArray, offsets, runs


@dataclass(frozen=True, slots=True, eq=False)
class Forest:
    """Every node's leader, itself if none, and its candidate for each one of the leader."""

    leader: IntArray
    first: IntArray
    """Where the candidates of each node start in `follows`."""
    follows: IntArray


def forest_of(sizes: IntArray, leader: IntArray, followers: IntArray, maps: IntArray) -> Forest:
    """The forest in which some nodes follow others.

    Args:
        sizes: candidates of each node.
        leader: for each node the one that it follows, itself if none.
        followers: nodes that follow another one, ascending.
        maps: for each of them its candidate by that of its leader, one after the other.
    """
    lengths = sizes[leader]
    follows = runs(np.zeros_like(lengths), lengths)
    is_follower = np.zeros(len(sizes), dtype=bool)
    is_follower[followers] = True
    follows[np.repeat(is_follower, lengths)] = maps
    return Forest(leader, offsets(lengths), follows)


def composed(forest: Forest, sizes: IntArray) -> Forest:
    """The forest in which leaders follow nobody, their leaders being everybody's.

    Every step doubles how far each node looks up.
    """
    while True:
        above = forest.leader[forest.leader]
        if (above == forest.leader).all():
            return forest
        lengths = sizes[above]
        inner = forest.follows[runs(forest.first[forest.leader], lengths)]
        follows = forest.follows[np.repeat(forest.first[:-1], lengths) + inner]
        forest = Forest(above, offsets(lengths), follows)
