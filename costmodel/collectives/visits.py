"""How many places a token visits that goes to some experts, many cases at once.

Experts are spread evenly over places (devices, servers), those of a place next to one another. All
experts are alike to a token. Routing that is limited by groups divides them into groups of
neighbours and lets a token visit few of these: it takes its best experts one after the other, and
once it has been to as many groups as it may, from those alone (DeepSeek-V2, arXiv 2405.04434,
section 2.2.2; DeepSeek-V3, arXiv 2412.19437, section 2.1.2).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from costmodel.collectives.curves import FloatArray

__all__ = ["Routing"]


@dataclass(frozen=True, slots=True)
class Routing:
    """What a token visits; arrays of equal length, or () where all cases share a value."""

    experts: FloatArray
    """In all."""

    chosen: FloatArray
    """Of them, by one token; whole numbers."""

    groups: FloatArray | float = 1.0
    """Groups that the experts are divided into; 1 for no limit."""

    best_groups: FloatArray | float = 1.0
    """Groups that a token may visit."""

    def places(self, count: FloatArray) -> FloatArray:
        """Expected number of distinct places that a token visits, of `count` equal ones.

        Exact where places divide groups or groups divide places. State j is "in j groups so far";
        `share[j]` is its probability, `places[j]` the expected number of places times that. A new
        expert lies in a new group with probability (g - j) (e / g) / (e - i) after i experts. In a
        group visited before it lies in a new place with probability (j / g e - v e / n) /
        (j / g e - i) after v places of n; a new group is in a new place if it is no smaller than
        that, else with probability (g - v g / n) / (g - j).
        """
        experts = np.maximum(self.experts, 1.0)
        groups = np.maximum(self.groups, 1.0)
        best = np.clip(np.asarray(self.best_groups), 1.0, groups)
        chosen = np.clip(self.chosen, 1.0, experts * best / groups)
        shape = np.broadcast(experts, groups, best, chosen, count).shape
        states = int(best.max()) + 1
        width, size = experts / groups, experts / count
        share, places = np.zeros((states, *shape)), np.zeros((states, *shape))
        share[1] = places[1] = 1.0
        for drawn in range(1, int(np.ceil(chosen.max()))):
            here = drawn < chosen
            before = share.copy(), places.copy()
            for j in range(1, min(drawn, states - 1) + 1):
                went, seen = before[0][j], before[1][j]
                left = np.maximum(experts - drawn, 1.0)
                fresh = np.where(j < best, np.clip((groups - j) * width / left, 0.0, 1.0), 0.0)
                fresh = np.where(here, fresh, 0.0)
                own = np.maximum(j * width - drawn, 1.0)
                more = np.clip((j * width * went - size * seen) / own, 0.0, went)
                stays = np.where(here, 1.0 - fresh, 0.0)
                share[j] -= fresh * went
                places[j] += stays * more - fresh * seen
                if j + 1 < states:
                    others = np.maximum(groups - j, 1.0)
                    apart = np.clip((groups * went - seen * groups / count) / others, 0.0, went)
                    share[j + 1] += fresh * went
                    places[j + 1] += fresh * (seen + np.where(count >= groups, went, apart))
        found: FloatArray = np.minimum(places.sum(axis=0), np.asarray(count))
        return found
