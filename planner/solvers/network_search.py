"""The search on large networks: reduce, then workers that look for answers and bounds, and a proof
where the network is small.

Work comes in rounds of a fixed size that do not depend on time or cores, so that an effort, which
counts rounds, gives the same answer anywhere; a time limit stops between two rounds.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

import numpy as np

from planner.reduction import Reduced, reduced
from planner.reduction.edges import NoAnswerError
from planner.reduction.network import FORBIDDEN, IntArray, Network, highest_cost
from planner.reduction.state import State, without
from planner.solvers.dual import Best, Dual, settled
from planner.solvers.network_mip import pairs_allowed, peaks, prove
from planner.solvers.team import Team

ROUNDS = 400
"""Of the workers, for each unit of effort."""
HINT_ROUNDS = 60
"""The same where a proof follows, which wants a good answer to start from."""
HINT_SHARE, HINT_CYCLES = 0.12, 3
"""Of the time left, and of every worker, for the same."""
WORKERS = 2
"""As many on any number of cores."""
PROVABLE_PAIRS = 200_000
"""Allowed pairs up to which integer programming is tried."""
HOPEFUL_PAIRS = 1_000_000
"""Allowed pairs of a network that may shrink to so few when dear candidates are left out."""
ROWS = 10
ENOUGH = 1e-9
"""Relative gap that is none."""
PROOF_NODES = 2000
"""Of each search tree of a proof, for each unit of effort."""

Report = Callable[[str, float, float], None]
"""Receives what happened, the best cost and the best bound."""
_MARGIN_S = 0.5
"""Kept to write the answer."""
T = TypeVar("T")
POLL_S = 0.05


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
    early: Best = field(default_factory=Best)
    """Of the whole network, found before it was reduced to the end."""
    bound: float = -np.inf
    watched: bool = False
    """Whether an answer was looked for on the way."""
    trace: list[Step] = field(default_factory=list)
    truncated: bool = False
    left: Reduced | None = None
    highest: float = np.inf
    """No choice of the reduced network costs more."""

    def run(self) -> Answer:
        """Search, and answer with the best so far when interrupted."""
        try:
            self.left = reduced(self.network, self._watch)
            self._say(f"reduced to {self.left.network.nodes} nodes")
            self._search(self.left.network)
        except NoAnswerError:
            self.bound = np.inf
        except KeyboardInterrupt:
            self.truncated = True
        return self._answer()

    def _watch(self, state: State) -> bool:
        """Give an answer before the network is reduced to the end, which may take seconds; whether
        there is time to go on with that.
        """
        if not self.watched and state.network.nodes:
            self.watched = True
            dual = Dual(state.network)
            dual.first_answer()
            if dual.best.choice is not None:
                choice = state.expanded(dual.best.choice)
                if self.network.is_feasible(choice):
                    self.early = Best(choice, self.network.evaluate(choice))
                    self._say("answer at once")
        return not self._is_late

    @property
    def _is_late(self) -> bool:
        """Whether the time limit leaves nothing but time to write the answer."""
        limit = self.limits.time_limit_s
        return limit is not None and time.monotonic() - self.started > limit - _MARGIN_S

    def _search(self, net: Network) -> None:
        if net.nodes == 0:
            self._take(Best(np.zeros(0, dtype=np.int64), 0.0), 0.0, "nothing is left")
            return
        self.highest = highest_cost(net)
        hopeful = net.is_whole and pairs_allowed(net) <= HOPEFUL_PAIRS
        team = Team(net, WORKERS, self.limits.seed)
        with ThreadPoolExecutor(self.limits.threads) as pool:
            if hopeful:
                self._let_work(team, pool, HINT_ROUNDS, HINT_SHARE, cycles=HINT_CYCLES)
                if not (self._is_over or self._is_late) and self._prove(net, team, pool):
                    return
            if not self._is_over:
                self._let_work(team, pool, ROUNDS, 1.0)

    def _let_work(
        self,
        team: Team,
        pool: ThreadPoolExecutor,
        per_effort: int,
        share: float,
        cycles: float = np.inf,
    ) -> None:
        for _ in self._rounds(per_effort, share):
            team.round(pool)
            self._take(team.best, team.bound, team.what)
            if self._is_over or team.cycles >= cycles:
                return

    def _rounds(self, per_effort: int, share: float) -> Iterator[int]:
        """Numbers of rounds until effort or time is used up, or would be by one more round."""
        limit, effort = self.limits.time_limit_s, self.limits.effort
        number, begun = 0, time.monotonic() - self.started
        last = 0.0
        while effort is None or number < per_effort * effort:
            spent = time.monotonic() - self.started
            if limit is not None and spent + last > begun + share * (limit - begun) - _MARGIN_S:
                self.truncated = self.truncated or effort is not None or share == 1.0
                return
            yield number
            number += 1
            last = time.monotonic() - self.started - spent

    def _prove(self, net: Network, team: Team, pool: ThreadPoolExecutor) -> bool:
        """Integer programming on what is left without the candidates that no better answer has;
        whether that was small enough to try.
        """
        kept = team.kept(self.best.cost)
        if self.best.choice is not None:
            kept[net.first[:-1] + self.best.choice] = True
        small = without(net, kept)
        try:
            core = reduced(small.network)
        except NoAnswerError:
            core = None
        if core is None or pairs_allowed(core.network) > PROVABLE_PAIRS:
            return False
        self._say(f"{len(core.network.cost)} of {len(net.cost)} candidates may be in a better one")

        first = None
        if self.best.choice is not None:
            first = settled(core, small.narrowed(self.best.choice, kept, net))
        rows = [] if first is None else peaks(core.network, first, ROWS, least=-np.inf)
        limit, effort = self.limits.time_limit_s, self.limits.effort
        deadline = np.inf if limit is None else self.started + limit - _MARGIN_S
        nodes = None if effort is None else PROOF_NODES * effort
        task = BackgroundCall(
            lambda report: prove(
                core.network, first, rows, deadline, self.limits.seed, nodes=nodes, report=report
            )
        )
        target, optimal = self.best.cost, False
        for found in task.reports(between=lambda: effort is None and team.round(pool)):
            optimal = found.optimal
            whole = None
            if found.choice is not None:
                whole = small.widened(core.expanded(found.choice))
            # What was left out costs more than the answer that was known then.
            self._take(Best(whole, found.cost), min(found.bound, target), "integer programming")
            self._take(team.best, self.bound, "neighbourhoods")
        self.truncated = not optimal
        return True

    @property
    def _is_over(self) -> bool:
        """Whether the best answer is proven, or that there is none."""
        if self.best.choice is None:
            if self.bound > self.highest * (1 + ENOUGH):
                self.bound = np.inf
            return self.bound == np.inf
        return self.best.cost - self.bound <= ENOUGH * abs(self.best.cost)

    def _take(self, best: Best, bound: float, what: str) -> None:
        """Note what a part of the search found."""
        better = best.cost < self.best.cost and self._is_allowed(best.choice)
        higher = bound > self.bound
        if better:
            self.best = best
        self.bound = max(self.bound, bound)
        if better or higher:
            self._say(what)

    def _is_allowed(self, choice: IntArray | None) -> bool:
        """Whether there is a choice, and it has nothing forbidden; the workers see to memory."""
        if choice is None or self.left is None:
            return False
        return bool((self.left.network.chosen_costs(choice) < FORBIDDEN).all())

    def _say(self, what: str) -> None:
        spent = time.monotonic() - self.started
        last = self.trace[-1] if self.trace else None
        cost = min(self.best.cost, self.early.cost)
        if np.isfinite(cost) and (last is None or cost < last.cost):
            self.trace.append(Step(spent, cost, self.bound))
        self.report(what, cost, self.bound)

    def _choice(self) -> IntArray | None:
        """The best choice of the whole network."""
        if self.left is None or self.best.choice is None or self.early.cost < self.best.cost:
            return self.early.choice
        return self.left.expanded(self.best.choice)

    def _answer(self) -> Answer:
        choice = self._choice()
        if choice is None:
            proof: Literal["infeasible", "none"] = "infeasible" if self.bound == np.inf else "none"
            return Answer(None, np.inf, self.bound, proof, 0.0, self.truncated, tuple(self.trace))
        cost = self.network.evaluate(choice)
        bound = min(self.bound, cost)
        done = cost - bound <= ENOUGH * abs(cost)
        return Answer(
            choice, cost, cost if done else bound, "optimal" if done else "bounded",
            self.network.peak(choice), self.truncated and not done, tuple(self.trace),
        )  # fmt: skip


class BackgroundCall(Generic[T]):
    """A call into a solver library, which cannot be interrupted, beside work that can.

    Its thread ends with the process if nobody waits for it.
    """

    def __init__(self, work: Callable[[Callable[[T], None]], T]) -> None:
        """Start it.

        Args:
            work: receives a function to report with on the way; its result is reported last.
        """
        self._reports: queue.SimpleQueue[T | BaseException] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self._thread.start()

    def _run(self, work: Callable[[Callable[[T], None]], T]) -> None:
        try:
            self._reports.put(work(self._reports.put))
        except BaseException as error:  # noqa: BLE001  handed to who waits
            self._reports.put(error)

    def reports(self, between: Callable[[], bool]) -> Iterator[T]:
        """Every report as it comes, the result last.

        Args:
            between: other work, a little of it; whether there was any. If not, wait a little.

        Raises:
            Exception: what the call raised.
        """
        while True:
            running = self._thread.is_alive()
            try:
                found = self._reports.get(timeout=0.0 if between() else POLL_S)
            except queue.Empty:
                if running:
                    continue
                return
            if isinstance(found, BaseException):
                raise found
            yield found
