"""Prices with message passing, and neighbourhoods of forests.

For graphs too wide for elimination and for memory that binds at many times. What is found on the
network of a problem is judged by the problem itself.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import numpy as np

from planner.problem import Problem
from planner.reduction.network import FloatArray, IntArray, Network, highest_cost
from planner.reduction.problem_network import network_of
from planner.reduction.state import Narrowed, without
from planner.solvers.contract import Budget, Incumbent, Meter, Progress, Solution
from planner.solvers.team import PASSES, Known, Team

WORKERS = 2
"""As many on any number of cores."""
SHARE = 0.75
"""Of a table entry's work in elimination: what one pair takes in a pass of messages."""
GAIN = 5e-4
"""Fall of the relative gap that is one."""
LEAST_ROUNDS = 8
"""Rounds that any search may take to its first gain."""
WORTHWHILE = 0.5
"""Share of the pairs of candidates that must go before a search begins again without them."""
APART = 2
"""How many times longer matrices may become that are no longer shared."""
ROUNDING = 1e-11
"""Relative allowance for the rounding of the sums that make a bound."""


class LocalSearch:
    """Prices, messages and neighbourhoods."""

    name: ClassVar[str] = "local_search"
    neighbourhoods: ClassVar[bool] = True

    def solve(self, problem: Problem, budget: Budget, progress: Progress | None = None) -> Solution:
        """Solve; proofs are `optimal`, `bounded`, `infeasible` or, if nothing fits, `none`."""
        meter, incumbent = Meter(budget), Incumbent.of(problem, progress)
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
    search = _Search(net, incumbent, meter, budget, neighbourhoods=neighbourhoods)
    with ThreadPoolExecutor(max(1, budget.threads)) as pool:
        while not meter.is_spent and not incumbent.is_proven and incumbent.gap > enough:
            search.round(pool)
            if search.is_over:
                break
    if incumbent.choice is None:
        incumbent.offer(search.leanest(), "least memory")


class _Search:
    """Workers on the network of a problem, which loses candidates as the gap closes."""

    def __init__(
        self,
        net: Network,
        incumbent: Incumbent,
        meter: Meter,
        budget: Budget,
        *,
        neighbourhoods: bool,
    ) -> None:
        self.incumbent, self.meter, self.budget = incumbent, meter, budget
        self.neighbourhoods = neighbourhoods
        self.highest, self.patience = highest_cost(net), _Patience(budget.effort)
        self.shrunk: list[Narrowed] = []
        self.known: IntArray | None = None
        """The answer of the incumbent in the network as it is."""
        if incumbent.choice is not None:
            self.known = np.array(incumbent.choice, dtype=np.int64)
        self._begin(net, incumbent.prices)
        self.is_over = False

    def _begin(self, net: Network, price: FloatArray | None) -> None:
        self.net = net
        self.work = max(1, int(SHARE * 2 * PASSES * net.pairs)) * WORKERS
        known = Known(None if self.known is None else self.known.tolist(), price)
        self.team = Team(
            net, WORKERS, self.budget.seed, neighbourhoods=self.neighbourhoods, known=known
        )
        self.judged = 0

    def round(self, pool: ThreadPoolExecutor) -> None:
        """One unit of work of every worker."""
        team, incumbent = self.team, self.incumbent
        team.round(pool)
        self.meter.charge(self.work, self.net.nodes)
        found = team.best
        if found.choice is not None and found.cost < incumbent.cost_s:
            before = incumbent.cost_s
            incumbent.offer(self._whole(found.choice), team.what)
            if incumbent.cost_s < before:
                self.known = found.choice.copy()
        # What was left out costs more than an answer that was known then.
        bound = team.bound if not self.shrunk else min(team.bound, incumbent.cost_s)
        incumbent.raise_bound(bound, ROUNDING / 1e-12 * self.highest, "prices")
        if team.bound > self.highest * (1 + ROUNDING) and incumbent.choice is None:
            incumbent.infeasible = True
        if team.cycles > self.judged:
            self.judged = team.cycles
            self._narrow()
        if team.cycles and (not self.neighbourhoods or self.patience.is_over(incumbent)):
            self.is_over = True

    def _narrow(self) -> None:
        """Leave out the candidates that no better answer has, if that saves work."""
        if self.known is None:
            return
        kept = self.team.kept(self.incumbent.cost_s)
        kept[self.net.first[:-1] + self.known] = True
        sizes = np.add.reduceat(kept, self.net.first[:-1], dtype=np.int64)
        ends = sizes[self.net.edges]
        left = int((ends[:, 0] * ends[:, 1]).sum())
        if left > min(WORTHWHILE * self.net.pairs, APART * len(self.net.edge_cost)):
            return
        small = without(self.net, kept)
        self.known = small.narrowed(self.known, kept, self.net)
        self.shrunk.append(small)
        self.incumbent.note(f"{len(kept)} candidates become {len(small.original)}")
        self._begin(small.network, self.team.best_price)

    def _whole(self, choice: IntArray) -> list[int]:
        for small in reversed(self.shrunk):
            choice = small.widened(choice)
        return [int(c) for c in choice]

    def leanest(self) -> list[int]:
        """The choice whose nodes each hold least memory, summed over time."""
        return self._whole(self.team.leanest())


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
