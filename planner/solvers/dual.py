"""Prices on memory, found together with message passing: a bound, and answers on the way.

For prices of zero or more on the time points the least cost, memory paid and the room's worth
given back, is a bound (Lagrangian duality). Message passing bounds that from below at any time, so
prices move a little after every pass. Only a working set of time points has a price: those at
which some answer on the way was far over the limit.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from planner.network import FloatArray, IntArray, Network, offsets
from planner.solvers.kernels.arrays import arrays_of
from planner.solvers.kernels.memory import empty_tree, fill
from planner.solvers.kernels.messages import backward, forward, priced
from planner.solvers.kernels.moves import cost_of, decode, descend, leanest

MOMENTUM = 0.6
PATIENCE = 60
"""Passes without a better bound after which steps become smaller."""
SHRINK = 0.7
PROGRESS = 1e-5
"""Relative rise of the bound that is none."""
WINDOWS = 20
"""Stretches of time whose worst point may join the working set together."""
NEARLY = 0.9
DECODE_EVERY = 20


@dataclass(slots=True)
class Best:
    """The best answer so far."""

    choice: IntArray | None = None
    cost: float = np.inf


@dataclass
class Dual:
    """Prices and messages of a network, improved pass by pass."""

    network: Network
    best: Best = field(default_factory=Best)
    bound: float = -np.inf
    passes: int = 0

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
        self.direction = np.zeros(points)
        self.working = np.zeros(points, dtype=bool)
        self.tree = empty_tree(points)
        self.all_nodes = np.arange(net.nodes)
        self.room = self.arrays.room
        self.step = 1.0
        self.waited = 0

    @property
    def paid(self) -> FloatArray:
        """Sum of the prices before each time point, shape (T + 1,)."""
        return np.concatenate([[0.0], np.cumsum(self.price)])

    def first_answer(self) -> None:
        """An answer from the leanest choice, made better node by node."""
        ones = np.arange(self.network.time_points + 1, dtype=np.float64)
        choice = np.empty(self.network.nodes, dtype=np.int64)
        leanest(self.arrays, ones, choice)
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
        inner = backward(self.arrays, self.cost, self.at, self.message)
        bound = inner - float(self.price @ self.room)
        self.waited += 1
        if bound > self.bound:
            if bound > self.bound + PROGRESS * abs(self.bound):
                self.waited = 0
            self.bound = bound
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
        """A step of Polyak's length, with momentum; back to the best prices after long waiting."""
        slope = np.where(self.working, excess, 0.0)
        slope[(self.price <= 0) & (slope < 0)] = 0.0
        if self.waited > PATIENCE:
            self.waited, self.step = 0, self.step * SHRINK
            self.price[:] = self.best_price
            self.direction[:] = 0.0
            return
        self.direction = slope + MOMENTUM * self.direction
        norm = float(self.direction @ self.direction)
        if norm <= 0:
            return
        top = self.best.cost if np.isfinite(self.best.cost) else bound + abs(bound) + 1.0
        length = self.step * max(top - bound, 1e-6 * abs(top)) / norm
        np.maximum(self.price + length * self.direction, 0.0, out=self.price)

    def decode(self, scale: float) -> Best:
        """An answer by the messages, of what fits, at prices so many times as high."""
        choice = np.empty(self.network.nodes, dtype=np.int64)
        ones = np.arange(self.network.time_points + 1, dtype=np.float64)
        leanest(self.arrays, ones, choice)
        fill(self.arrays, choice, self.tree)
        priced(self.arrays, scale * self.paid, self.cost)
        decode(self.arrays, self.cost, self.at, self.message, choice, self.tree)
        descend(self.arrays, choice, self.tree, self.all_nodes, 5)
        return self._offer(choice)

    def _offer(self, choice: IntArray) -> Best:
        """Keep an answer if it is the best, and give it back if it fits."""
        if self.tree.most[1] > 0:
            return Best()
        found = Best(choice, cost_of(self.arrays, choice))
        if found.cost < self.best.cost:
            self.best = Best(choice.copy(), found.cost)
        return found
