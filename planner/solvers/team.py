"""Workers that search a large network, each by itself: a cycle of prices, then neighbourhoods from
the best answers on its way, and so again from other prices.

A worker's work comes in units of a fixed size and depends on nothing but the network, the seed and
the worker's number, so that answers are the same on any number of cores.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from planner.reduction.network import BoolArray, FloatArray, IntArray, Network
from planner.solvers.dual import PACES, Best, Dual
from planner.solvers.kernels.arrays import empty_tree, fill
from planner.solvers.kernels.forests import improve, space_for
from planner.solvers.kernels.messages import cost_of

PASSES = 10
"""Of messages in a unit."""
MOVES = 50
"""Of neighbourhoods in a unit."""
TRIAL = 0.5
"""Moves for each node of the network in which a start shows its worth."""
LEAST_TRIAL = 500
FIRST_CYCLE, CYCLE = 4000, 800
"""Passes in a cycle of prices, at most."""
KNOWN_CYCLE = 100
"""The same from prices that are known."""
GAIN = 1e-4
"""Relative gain of a trial's moves below which others are tried."""
LARGEST_AREA, AREA_SHARE = 1500, 0.5
"""Nodes of the largest area, and the share of all nodes that it may be."""
NOISE = 0.1
"""Of a kick, relative to the mean cost of a node."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a network before the search."""

    choice: Sequence[int] | None = None
    """One candidate per node."""
    price: FloatArray | None = None
    """Of memory at each time point, shape (T,), with which a good bound was found."""


NOTHING_KNOWN = Known()


class Worker:
    """One line of search."""

    def __init__(
        self, network: Network, number: int, seed: int, known: Known, *, neighbourhoods: bool
    ) -> None:
        self.dual = Dual(network, PACES[number % len(PACES)])
        self.neighbourhoods, self.known = neighbourhoods, known
        self.best = Best()
        self.generator = np.random.default_rng([seed, number])
        self.what = ""
        """What is being done."""
        self.cycles = 0
        """Of prices that are done."""
        self.script = self._script()

    def work(self) -> None:
        """One unit of work."""
        next(self.script)

    def _script(self) -> Iterator[None]:
        self.what = "first answer"
        self.dual.first_answer()
        if self.known.choice is not None:
            self.dual.offer(np.asarray(self.known.choice, dtype=np.int64))
        self._take(self.dual.best)
        yield
        if self.known.price is None:
            yield from self._cycle(FIRST_CYCLE)
        else:
            self.dual.begin_at(self.known.price)
            yield from self._cycle(KNOWN_CYCLE)
        while True:
            if self.neighbourhoods:
                yield from self._search()
            self.dual.disturb(self.generator)
            yield from self._cycle(CYCLE)

    def _cycle(self, passes: int) -> Iterator[None]:
        self.what = "prices"
        for _ in range(passes // PASSES):
            if self.dual.is_settled:
                break
            self.dual.run(PASSES)
            self._take(self.dual.best)
            yield
        self.cycles += 1

    def _search(self) -> Iterator[None]:
        """Try each start of the cycle, and go on from the best while that gains."""
        self.what = "neighbourhoods"
        results: list[Best] = []
        for start in self.dual.found:
            yield from self._trial(start)
            results.append(start)
        results.sort(key=lambda each: each.cost)
        for lead in results[:1]:
            before = np.inf
            while before - lead.cost > GAIN * abs(lead.cost):
                before = lead.cost
                yield from self._trial(lead)

    def _trial(self, start: Best) -> Iterator[None]:
        """Moves from an answer, which is made better in place."""
        arrays, choice = self.dual.arrays, start.choice
        if choice is None:
            return
        paid = np.concatenate([[0.0], np.cumsum(self.dual.best_price)])
        tree, space = empty_tree(len(arrays.room)), space_for(arrays)
        fill(arrays, choice, tree)
        largest = min(LARGEST_AREA, int(AREA_SHARE * len(choice)))
        count = max(LEAST_TRIAL, int(TRIAL * len(choice)))
        for stamp in range(0, count, MOVES):
            improve(
                arrays, space, choice, tree, paid, MOVES, stamp, largest,
                int(self.generator.integers(2**32)), NOISE * start.cost / len(choice), 0.0,
            )  # fmt: skip
            start.cost = cost_of(arrays, choice)
            self._take(start)
            yield

    def _take(self, found: Best) -> None:
        if found.choice is not None and found.cost < self.best.cost:
            self.best = Best(found.choice.copy(), found.cost)


class Team:
    """Workers side by side."""

    def __init__(
        self,
        network: Network,
        workers: int,
        seed: int,
        *,
        neighbourhoods: bool = True,
        known: Known = NOTHING_KNOWN,
    ) -> None:
        """Set up workers.

        Args:
            network: what is solved, no two edges between the same nodes, the smaller one first.
            workers: how many.
            seed: of their random numbers.
            neighbourhoods: whether they search around answers; else prices and messages alone.
            known: what the search begins with.
        """
        self.workers = [
            Worker(network, number, seed, known, neighbourhoods=neighbourhoods)
            for number in range(workers)
        ]

    def round(self, pool: ThreadPoolExecutor) -> bool:
        """One unit of work of every worker; True."""
        list(pool.map(Worker.work, self.workers))
        return True

    @property
    def best(self) -> Best:
        return min((worker.best for worker in self.workers), key=lambda best: best.cost)

    def kept(self, cost: float) -> BoolArray:
        """For each candidate whether a choice with it may cost no more than this."""
        return self._lead.kept(cost)

    @property
    def best_price(self) -> FloatArray:
        """Of memory at each time point, at the highest bound of the last cycles, shape (T,)."""
        return self._lead.best_price

    @property
    def _lead(self) -> Dual:
        return max((worker.dual for worker in self.workers), key=lambda dual: dual.level)

    def leanest(self) -> IntArray:
        """The choice whose nodes each hold least memory, summed over time."""
        return self.workers[0].dual.leanest()

    @property
    def bound(self) -> float:
        return max(worker.dual.bound for worker in self.workers)

    @property
    def cycles(self) -> int:
        """Of prices that every worker has done."""
        return min(worker.cycles for worker in self.workers)

    @property
    def what(self) -> str:
        """What the first worker does."""
        return self.workers[0].what
