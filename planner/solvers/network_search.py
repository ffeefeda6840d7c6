"""The search on large networks: reduce, an instant answer, prices with message passing, then a
proof where the network is small and neighbourhoods of forests where it is not.

Work comes in rounds of a fixed size that do not depend on time or cores, so that an effort, which
counts rounds, gives the same answer anywhere; a time limit stops between two rounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from planner.network import FloatArray, IntArray, Network
from planner.reduction import Reduced, reduced
from planner.reduction.forbidden import NoAnswerError
from planner.solvers.dual import Best, Dual
from planner.solvers.kernels.forests import Space, improve, space_for
from planner.solvers.kernels.memory import Tree, empty_tree, fill
from planner.solvers.kernels.moves import cost_of
from planner.solvers.network_ilp import pairs_allowed, peaks, prove

PASSES = 20
"""Of messages in a round."""
DUAL_ROUNDS = 50
"""For each unit of effort."""
DUAL_SHARE = 0.35
"""Of the time limit."""
HINT_SHARE = 0.12
"""The same where a proof follows, which wants a good answer to start from and the time."""
MOVES = 50
"""Of each worker in a round."""
MOVE_ROUNDS = 200
"""For each unit of effort."""
WORKERS = 2
"""That search from the same answer with other random numbers; as many on any number of cores."""
SCALES = (1.15, 0.85, 1.3)
"""Of the prices at which workers beyond the first start."""
MEETING = 100
"""Rounds after which all workers go on from the best answer."""
LARGEST_AREA = 1500
PROVABLE_PAIRS = 100_000
ROWS = 10
ENOUGH = 1e-9
"""Relative gap that is none."""
PROOF_WORK = 60.0
"""CP-SAT's own measure of work, for each unit of effort."""

Report = Callable[[str, float, float], None]
"""Receives what happened, the best cost and the best bound."""


@dataclass(frozen=True, slots=True)
class Step:
    """The state of the search at one time."""

    time_s: float
    cost: float
    bound: float


@dataclass(frozen=True, slots=True)
class Answer:
    """What a search on a network found."""

    choice: IntArray | None
    """One candidate per node, in the network's order; none if nothing that fits was found."""
    cost: float
    bound: float
    """No choice that fits costs less; infinite if none fits."""
    proof: Literal["optimal", "bounded", "infeasible", "none"]
    peak: float
    truncated: bool
    """Whether the time limit, or an interruption, cut the work short."""
    trace: tuple[Step, ...]

    @property
    def gap(self) -> float:
        """Relative distance of cost and bound."""
        if self.choice is None:
            return np.inf
        return max(0.0, self.cost - self.bound) / max(abs(self.cost), 1e-300)


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a search may do."""

    time_limit_s: float | None = None
    effort: int | None = None
    """Rounds, in units; None: as many as the time limit allows."""
    threads: int = WORKERS
    seed: int = 0


def search_network(
    network: Network, limits: Limits, report: Report = lambda *_: None, started: float | None = None
) -> Answer:
    """The best choice that can be found.

    Args:
        network: the problem.
        limits: a time limit, an effort, or both.
        report: receives progress.
        started: when the clock began, by `time.monotonic()`; now if not given.
    """
    if limits.time_limit_s is None and limits.effort is None:
        raise ValueError("neither a time limit nor an effort is given")
    return _Search(network, limits, report, started or time.monotonic()).run()


@dataclass
class _Search:
    network: Network
    limits: Limits
    report: Report
    started: float
    best: Best = field(default_factory=Best)
    """Of the reduced network."""
    bound: float = -np.inf
    trace: list[Step] = field(default_factory=list)
    truncated: bool = False
    left: Reduced | None = None

    def run(self) -> Answer:
        """Search, and answer with the best so far when interrupted."""
        try:
            self.left = reduced(self.network)
            self._say(f"reduced to {self.left.network.nodes} nodes")
            self._search(self.left.network)
        except NoAnswerError:
            self.bound = np.inf
        except KeyboardInterrupt:
            self.truncated = True
        return self._answer()

    def _search(self, net: Network) -> None:
        if net.nodes == 0:
            self._take(Best(np.zeros(0, dtype=np.int64), 0.0), 0.0, "nothing is left")
            return
        dual = Dual(net)
        dual.first_answer()
        self._take(dual.best, dual.bound, "first answer")
        provable = net.is_whole and pairs_allowed(net) <= PROVABLE_PAIRS
        for _ in self._rounds(DUAL_ROUNDS, HINT_SHARE if provable else DUAL_SHARE):
            dual.run(PASSES)
            self._take(dual.best, dual.bound, "prices")
            if self._is_proven:
                break
        if self._is_proven:
            return
        if provable:
            self._prove(net)
        elif self.best.choice is not None:
            self._improve(dual)

    def _rounds(self, per_effort: int, share: float) -> Iterator[int]:
        """Numbers of rounds until effort or time is used up."""
        limit, effort = self.limits.time_limit_s, self.limits.effort
        number = 0
        while effort is None or number < per_effort * effort:
            spent = time.monotonic() - self.started
            if limit is not None and spent > limit * share - _MARGIN_S:
                self.truncated = self.truncated or effort is not None or share == 1.0
                return
            yield number
            number += 1

    def _prove(self, net: Network) -> None:
        limit, effort = self.limits.time_limit_s, self.limits.effort
        deadline = np.inf if limit is None else self.started + limit - _MARGIN_S
        first = self.best.choice
        rows = [] if first is None else peaks(net, first, ROWS, least=-np.inf)
        found = prove(
            net, first, rows, deadline, self.limits.threads, self.limits.seed,
            work=None if effort is None else PROOF_WORK * effort,
            report=lambda choice, cost, bound: self._take(Best(choice, cost), bound, "programming"),
        )  # fmt: skip
        self._take(Best(found.choice, found.cost), found.bound, "integer programming")
        self.truncated = not found.optimal

    def _improve(self, dual: Dual) -> None:
        """Neighbourhoods, by workers that meet after each round."""
        team = _Team(dual, self.best, self.limits.seed)
        with ThreadPoolExecutor(self.limits.threads) as pool:
            for _ in self._rounds(MOVE_ROUNDS, 1.0):
                self._take(team.round(pool), self.bound, "neighbourhoods")
                if self._is_proven:
                    break

    @property
    def _is_proven(self) -> bool:
        found = self.best.choice is not None
        return found and self.best.cost - self.bound <= ENOUGH * abs(self.best.cost)

    def _take(self, best: Best, bound: float, what: str) -> None:
        """Note what a part of the search found."""
        better = best.choice is not None and best.cost < self.best.cost
        higher = bound > self.bound
        if better:
            self.best = best
        self.bound = max(self.bound, bound)
        if better or higher:
            self._say(what)

    def _say(self, what: str) -> None:
        spent = time.monotonic() - self.started
        last = self.trace[-1] if self.trace else None
        if np.isfinite(self.best.cost) and (last is None or self.best.cost < last.cost):
            self.trace.append(Step(spent, self.best.cost, self.bound))
        self.report(what, self.best.cost, self.bound)

    def _answer(self) -> Answer:
        if self.left is None or self.best.choice is None:
            proof: Literal["infeasible", "none"] = "infeasible" if self.bound == np.inf else "none"
            return Answer(None, np.inf, self.bound, proof, 0.0, self.truncated, tuple(self.trace))
        choice = self.left.expanded(self.best.choice)
        cost = self.network.evaluate(choice)
        bound = min(self.bound, cost)
        done = cost - bound <= ENOUGH * abs(cost)
        return Answer(
            choice, cost, cost if done else bound, "optimal" if done else "bounded",
            self.network.peak(choice), self.truncated and not done, tuple(self.trace),
        )  # fmt: skip


_MARGIN_S = 0.3
"""Kept to end the last round and to write the answer."""


@dataclass(slots=True)
class _Worker:
    choice: IntArray
    tree: Tree
    space: Space
    cost: float
    stamp: int = 0


class _Team:
    """Workers that search from the same answer, and meet to take the best."""

    def __init__(self, dual: Dual, best: Best, seed: int) -> None:
        if best.choice is None:
            raise ValueError("there is no answer to start from")
        self.arrays, self.seed = dual.arrays, seed * 1_000_003
        self.paid: FloatArray = np.concatenate([[0.0], np.cumsum(dual.best_price)])
        self.best = best
        points = dual.network.time_points
        starts = [best, *(dual.decode(scale) for scale in SCALES[: WORKERS - 1])]
        self.workers = [
            _Worker(each.choice.copy(), empty_tree(points), space_for(dual.arrays), each.cost)
            for each in (s if s.choice is not None else best for s in starts)
            if each.choice is not None
        ]
        for worker in self.workers:
            fill(self.arrays, worker.choice, worker.tree)
        self.rounds = 0

    def round(self, pool: ThreadPoolExecutor) -> Best:
        """Some moves of every worker."""
        list(pool.map(self._work, range(len(self.workers))))
        lead = min(self.workers, key=lambda w: w.cost)
        if lead.cost < self.best.cost:
            exact = cost_of(self.arrays, lead.choice)
            self.best = Best(lead.choice.copy(), exact)
        self.rounds += 1
        for worker in self.workers if self.rounds % MEETING == 0 else ():
            if worker.cost > self.best.cost and self.best.choice is not None:
                worker.choice[:] = self.best.choice
                worker.cost = self.best.cost
                fill(self.arrays, worker.choice, worker.tree)
        return self.best

    def _work(self, index: int) -> None:
        worker = self.workers[index]
        seed = (self.seed + 7919 * worker.stamp + index) % 2**32
        worker.cost += improve(
            self.arrays, worker.space, worker.choice, worker.tree, self.paid, MOVES, worker.stamp,
            LARGEST_AREA, seed, self.best.cost / len(worker.choice), 0.0,
        )  # fmt: skip
        worker.stamp += MOVES
