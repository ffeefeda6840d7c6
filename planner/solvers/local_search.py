"""Prices with message passing, and neighbourhoods of forests.

For graphs too wide for elimination and for memory that binds at many times. What is found on the
network of a problem is judged by the problem itself.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import numpy as np

from planner.network import Network
from planner.problem import Problem
from planner.solvers.contract import Budget, Progress, Solution
from planner.solvers.ledger import Ledger
from planner.solvers.networks import network_of
from planner.solvers.progress import Incumbent, Meter
from planner.solvers.team import PASSES, Known, Team

WORKERS = 2
"""As many on any number of cores."""
SHARE = 0.75
"""Of a table entry's work in elimination: what one pair takes in a pass of messages."""
GAIN = 5e-4
"""Fall of the relative gap that is one."""
LEAST_ROUNDS = 8
"""Rounds that any search may take to its first gain."""
ROUNDING = 1e-11
"""Relative allowance for the rounding of the sums that make a bound."""


class LocalSearch:
    """Prices, messages and neighbourhoods."""

    name: ClassVar[str] = "local_search"
    neighbourhoods: ClassVar[bool] = True

    def solve(self, problem: Problem, budget: Budget, progress: Progress | None = None) -> Solution:
        """Solve; proofs are `optimal`, `bounded`, `infeasible` or, if nothing fits, `none`."""
        meter = Meter(budget)
        limits = np.full(problem.time_points, float(problem.memory_limit_bytes))
        incumbent = Incumbent(Ledger(problem), limits, progress)
        improve_on_network(incumbent, meter, budget, neighbourhoods=self.neighbourhoods)
        return incumbent.solution(truncated=meter.truncated)


class Lagrangian(LocalSearch):
    """Prices and messages alone: the bound, and the answers on its way."""

    name: ClassVar[str] = "lagrangian"
    neighbourhoods: ClassVar[bool] = False


def improve_on_network(
    incumbent: Incumbent, meter: Meter, budget: Budget, *, neighbourhoods: bool, enough: float = 0.0
) -> None:
    """Better answers and bounds, until the work is used up or the gap is small enough.

    Args:
        incumbent: what is known; receives what is found.
        meter: counts the work.
        budget: seed and threads.
        neighbourhoods: whether to search around answers.
        enough: relative gap at which to stop.
    """
    net = network_of(incumbent.problem)
    if net.nodes == 0:
        incumbent.offer((), "nothing to choose")
        return
    known = Known(incumbent.choice, incumbent.prices)
    team = Team(net, WORKERS, budget.seed, neighbourhoods=neighbourhoods, known=known)
    work = max(1, int(SHARE * 2 * PASSES * len(net.edge_cost)))
    highest, patience = _highest(net), _Patience(budget.effort)
    with ThreadPoolExecutor(max(1, budget.threads)) as pool:
        while not meter.is_spent and not incumbent.is_proven and incumbent.gap > enough:
            team.round(pool)
            meter.charge(work * WORKERS, net.nodes)
            found = team.best
            if found.choice is not None and found.cost < incumbent.cost_s:
                incumbent.offer(found.choice.tolist(), team.what)
            incumbent.raise_bound(team.bound, ROUNDING / 1e-12 * highest, "prices")
            if team.bound > highest * (1 + ROUNDING) and incumbent.choice is None:
                incumbent.infeasible = True
            if team.cycles and (not neighbourhoods or patience.is_over(incumbent)):
                break
    if incumbent.choice is None:
        incumbent.offer(team.leanest().tolist(), "least memory")


class _Patience:
    """Ends a search that has gone without gains for as long as it took to its last one."""

    def __init__(self, effort: int) -> None:
        self.factor = 1 + 0.5 * max(1, effort)
        self.rounds = self.last = 0
        self.gap = math.inf

    def is_over(self, incumbent: Incumbent) -> bool:
        """Whether to end the search, after another round."""
        self.rounds += 1
        if incumbent.gap < self.gap - GAIN:
            self.last, self.gap = self.rounds, incumbent.gap
        return self.rounds > self.factor * (self.last + LEAST_ROUNDS)


def _highest(net: Network) -> float:
    """No choice costs more."""
    nodes = np.maximum.reduceat(net.cost, net.first[:-1]) if net.nodes else np.zeros(0)
    edges = (
        np.maximum.reduceat(net.edge_cost, net.edge_first[:-1]) if len(net.edges) else np.zeros(0)
    )
    return math.fsum(nodes.tolist()) + math.fsum(edges.tolist())
