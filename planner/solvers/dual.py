"""Prices on memory, found together with message passing: a bound, and answers on the way.

For prices of zero or more on the time points the least cost, memory paid and the room's worth
given back, is a bound (Lagrangian duality). Message passing bounds that from below at any time, so
prices move a little after every pass. Only a working set of time points has a price: those at
which some answer on the way was far over the limit.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from planner.reduction import Reduced
from planner.reduction.network import BoolArray, FloatArray, IntArray, Network, offsets
from planner.solvers.kernels.arrays import arrays_of, empty_tree, fill
from planner.solvers.kernels.messages import (
    backward,
    cost_of,
    decode,
    descend,
    forward,
    leanest,
    priced,
)

MEMORY = 0.99
"""Of the mean square of each price's slope."""
FIRST_STEP = 0.01
"""Of the gap, that the first prices may be worth."""
PATIENCE = 60
"""Passes without a better bound after which steps become smaller."""
SHRINK = 0.7
QUIET = 30
"""The same after which messages without prices have settled."""
SETTLED = 0.003
"""Of the first step, at which prices hardly move."""
PROGRESS = 1e-5
"""Relative rise of the bound that is none."""
WINDOWS = 20
"""Stretches of time whose worst point may join the working set together."""
NEARLY = 0.9
DECODE_EVERY = 10
SETTLING = 10
"""Passes at the best prices before candidates are judged by them."""
SAFE = 1e-9
"""Relative allowance for the rounding of sums."""
KEPT = 3
"""Answers of a cycle that are remembered."""
NOISE = 0.3
"""Of the logarithm of prices when a cycle begins anew."""

NOT_WANTED = np.zeros(0)


@dataclass(frozen=True, slots=True)
class Pace:
    """How prices move."""

    step: float
    """Of the mean price, in the direction of each slope, at first."""
    momentum: float


PACES = (Pace(0.1, 0.95), Pace(0.05, 0.9))


@dataclass(slots=True)
class Best:
    """The best answer so far."""

    choice: IntArray | None = None
    cost: float = np.inf


@dataclass
class Dual:
    """Prices and messages of a network, improved pass by pass."""

    network: Network
    pace: Pace = PACES[0]
    best: Best = field(default_factory=Best)
    bound: float = -np.inf
    passes: int = 0
    found: list[Best] = field(default_factory=list)
    """The best answers of this cycle, cheapest first."""

    def __post_init__(self) -> None:
        net = self.network
        self.arrays = arrays_of(net)
        ends = net.sizes[net.edges]
        self.at = offsets(ends.max(axis=1) if len(ends) else np.zeros(0, dtype=np.int64))
        self.message = np.zeros(int(self.at[-1]))
        self.cost = np.empty(len(net.cost))
        self.choice = np.zeros(net.nodes, dtype=np.int64)
        points = net.time_points
        self.price = np.zeros(points)
        self.best_price = np.zeros(points)
        """At the highest bound of this cycle."""
        self.level = -np.inf
        """The highest bound of this cycle."""
        self.direction = np.zeros(points)
        self.square = np.zeros(points)
        self.working = np.zeros(points, dtype=bool)
        self.tree = empty_tree(points)
        self.all_nodes = np.arange(net.nodes)
        self.room = self.arrays.room
        self.step = self.pace.step
        self.waited = 0

    @property
    def paid(self) -> FloatArray:
        """Sum of the prices before each time point, shape (T + 1,)."""
        return np.concatenate([[0.0], np.cumsum(self.price)])

    @property
    def is_settled(self) -> bool:
        """Whether prices hardly move any more, or the bound does not where there are none."""
        free = not self.working.any() and self.waited > QUIET
        return free or self.step < SETTLED * self.pace.step

    def begin_at(self, price: FloatArray) -> None:
        """Begin from prices that are known to be good, shape (T,)."""
        self.price[:] = self.best_price[:] = price
        self.working[:] = price > 0

    def disturb(self, generator: np.random.Generator) -> None:
        """Begin a new cycle from other prices near the best of the last one."""
        noise = generator.normal(0.0, NOISE, len(self.price))
        self.price = self.best_price * np.exp(noise)
        self.direction[:] = self.square[:] = 0.0
        self.step, self.waited, self.level = self.pace.step, 0, -np.inf
        self.found = []

    def leanest(self) -> IntArray:
        """The choice whose nodes each hold least memory, summed over time."""
        ones = np.arange(self.network.time_points + 1, dtype=np.float64)
        choice = np.empty(self.network.nodes, dtype=np.int64)
        leanest(self.arrays, ones, choice)
        return choice

    def first_answer(self) -> None:
        """An answer from the leanest choice, made better node by node."""
        choice = self.leanest()
        fill(self.arrays, choice, self.tree)
        descend(self.arrays, choice, self.tree, self.all_nodes, 3)
        self._offer(choice)

    def run(self, passes: int) -> None:
        """So many passes of messages, each with a step of the prices."""
        for _ in range(passes):
            self._pass()
            if self.passes % DECODE_EVERY == 0:
                self.decode(1.0)

    def _pass(self) -> None:
        self.passes += 1
        priced(self.arrays, self.paid, self.cost)
        forward(self.arrays, self.cost, self.at, self.message, self.choice)
        inner = backward(self.arrays, self.cost, self.at, self.message, NOT_WANTED)
        bound = inner - float((self.price * self.room).sum())
        self.bound = max(self.bound, bound)
        self.waited += 1
        if bound > self.level:
            if bound > self.level + PROGRESS * abs(self.level):
                self.waited = 0
            self.level = bound
            self.best_price[:] = self.price
        excess = self.network.profile(self.choice) - self.network.limit
        self._extend(excess)
        self._move(excess, bound)

    def _extend(self, excess: FloatArray) -> None:
        """Let the worst time points have prices, unless some that have are nearly as bad."""
        if not len(excess):
            return
        worst = excess.max()
        known = excess[self.working].max() if self.working.any() else 0.0
        if worst <= 0 or known >= NEARLY * worst:
            return
        width = -(-len(excess) // WINDOWS)
        for start in range(0, len(excess), width):
            place = start + int(np.argmax(excess[start : start + width]))
            if excess[place] >= NEARLY * worst:
                self.working[place] = True

    def _move(self, excess: FloatArray, bound: float) -> None:
        """A step along the slope, each price at its own scale (Adam); back to the best prices of
        the cycle, and on in smaller steps, after long waiting.
        """
        slope = np.where(self.working, excess, 0.0)
        slope[(self.price <= 0) & (slope < 0)] = 0.0
        if self.waited > PATIENCE:
            self.waited, self.step = 0, self.step * SHRINK
            self.price[:] = self.best_price
            self.direction[:] = 0.0
            return
        keep = self.pace.momentum
        self.direction = keep * self.direction + (1 - keep) * slope
        self.square = MEMORY * self.square + (1 - MEMORY) * slope * slope
        scale = np.sqrt(np.maximum(self.square, np.finfo(float).tiny))
        course = np.where(self.working, self.direction / scale, 0.0)
        np.maximum(self.price + self._unit(slope, course, bound) * course, 0.0, out=self.price)

    def _unit(self, slope: FloatArray, course: FloatArray, bound: float) -> float:
        """How far to go: relative to the mean price, and relative to the gap before there is one.

        Sums of products, not scalar products: those depend on the number of cores.
        """
        total = float(self.price.sum())
        if total > 0:
            return self.step * total / max(int(self.working.sum()), 1)
        rise = float(np.abs(slope * course).sum())
        top = self.best.cost if np.isfinite(self.best.cost) else bound + abs(bound) + 1.0
        return FIRST_STEP * max(top - bound, 1e-6 * abs(top)) / rise if rise > 0 else 0.0

    def kept(self, cost: float) -> BoolArray:
        """For each candidate whether a choice with it may cost no more than this, by the best
        prices of the cycle.
        """
        paid = np.concatenate([[0.0], np.cumsum(self.best_price)])
        priced(self.arrays, paid, self.cost)
        for _ in range(SETTLING):
            forward(self.arrays, self.cost, self.at, self.message, self.choice)
            backward(self.arrays, self.cost, self.at, self.message, NOT_WANTED)
        forward(self.arrays, self.cost, self.at, self.message, self.choice)
        beyond = np.empty(len(self.cost))
        inner = backward(self.arrays, self.cost, self.at, self.message, beyond)
        bound = inner - float((self.best_price * self.room).sum())
        self.bound = max(self.bound, bound)
        allowed: BoolArray = bound + beyond <= cost + SAFE * (abs(cost) + abs(inner))
        return allowed

    def decode(self, scale: float) -> Best:
        """An answer by the messages, of what fits, at prices so many times as high."""
        choice = self.leanest()
        fill(self.arrays, choice, self.tree)
        priced(self.arrays, scale * self.paid, self.cost)
        decode(self.arrays, self.cost, self.at, self.message, choice, self.tree)
        descend(self.arrays, choice, self.tree, self.all_nodes, 5)
        return self._offer(choice)

    def offer(self, choice: IntArray) -> None:
        """Keep an answer that comes from elsewhere, if it fits."""
        fill(self.arrays, choice, self.tree)
        self._offer(choice)

    def _offer(self, choice: IntArray) -> Best:
        """Keep an answer if it is the best, and give it back if it fits."""
        if self.tree.most[1] > 0:
            return Best()
        found = Best(choice, cost_of(self.arrays, choice))
        if found.cost < self.best.cost:
            self.best = Best(choice.copy(), found.cost)
        if all(found.cost != each.cost for each in self.found):
            self.found = sorted([*self.found, found], key=lambda each: each.cost)[:KEPT]
        return found


def settled(core: Reduced, choice: IntArray) -> IntArray | None:
    """A choice of what is left of a network that comes near one of the whole, made better node by
    node; none if it does not fit.
    """
    net, dual = core.network, Dual(core.network)
    near = core.contracted(choice)
    fill(dual.arrays, near, dual.tree)
    descend(dual.arrays, near, dual.tree, dual.all_nodes, 5)
    return near if net.is_feasible(near) else None
