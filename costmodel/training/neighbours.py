"""What the formulas miss of measured runs, and how much of it a similar run is expected to share.

The logarithm of measured over predicted time is a Gaussian process (kriging; Rasmussen and
Williams, Gaussian Processes for Machine Learning, 2006, equations 2.25 and 2.26) with three
levels, each of which asks for more likeness: the sizes of a layer; those and what one device has
of it; those and the layout. Libraries choose kernels by shape, so that equal layers on equal parts
share what no smooth formula has. Nothing here depends on a rate of the machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from costmodel.training.distinct import distinct_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from costmodel.training.table import FloatArray, RunTable

__all__ = [
    "COLUMNS", "KNOWN", "LARGEST", "NEIGHBOURS_OF_NOBODY", "NOISE", "UNKNOWN_DEVIATION",
    "Neighbours", "columns_of", "covariance",
]  # fmt: skip

_LEVELS = (
    (("hidden", "heads", "ffn", "experts"), 0.15, 0.04),
    (("seq_len", "micro_batch", "tp", "cp"), 0.35, 0.06),
    (("layers", "pp", "vpp", "ep", "dp"), 1.0, 0.08),
)
"""Sizes; the distance of their logarithms at which likeness falls to exp(-1/2); standard deviation
of what is shared (assumed; errors of rows left out hardly change with them)."""

_SWITCHES = (
    ("fp8", "fp4", "mx"),
    ("recompute_full", "recompute_core"),
    (
        "zero_stage", "fused_tp", "overlap", "frozen", "early_stop", "uncompiled", "old_release",
        "graphs", "ep_overlap", "further",
    ),
)  # fmt: skip
"""Type of the products, recomputation, software: groups of settings."""

_MARKS = np.sqrt([2.0, 3.0, 5.0, 7.0, 11.0, 13.0, 17.0, 19.0, 23.0, 29.0])
"""Settings, as small whole numbers or shares, times these add up to equal sums only if equal."""

_OTHER = 0.5
"""Likeness of runs that differ in one group of settings, or in the machine (assumed)."""

NOISE = 0.05
"""Standard deviation of what is one run's own: repeats differ by about as much."""

KNOWN = 2**0.5 * NOISE
"""Deviation up to which a run is known: what similar ones leave open is no more than its own."""

UNKNOWN_DEVIATION = float(np.sqrt(sum(deviation**2 for *_, deviation in _LEVELS) + NOISE**2))
"""That of a run like none that was measured."""

LARGEST = 0.25
"""What a run misses beyond this has a cause that its row does not state, and is cut off."""

_OTHER_HEADS = 1e6
"""Far beyond any number of heads."""

_ROWS = 4096
"""Runs that are compared at once: as many may each have a layer of their own."""

_PIECE = 100_000
"""Pairs of runs that are multiplied at once: more leave the cache."""

COLUMNS = (
    *(name for names, _, _ in _LEVELS for name in names),
    *(name for names in _SWITCHES for name in names),
)
"""Columns of a table of runs that likeness is made of."""


class _Compared(NamedTuple):
    """Likeness of runs, always[l] + near[l] far[o], with their layer l and their layout o."""

    always: FloatArray
    """By layers and what a device has of them, shape (layers, N)."""

    near: FloatArray
    """What the last level adds to runs of the same layout, shape (layers, N)."""

    far: FloatArray
    """How much of that is left, shape (layouts, N)."""

    of_layer: NDArray[np.intp]
    of_layout: NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Measured runs of one family."""

    columns: FloatArray
    """Shape (N, columns), in the order of `COLUMNS`."""

    machines: NDArray[np.str_]
    """Names of the machines, shape (N,)."""

    weights: FloatArray
    """How much each of them moves a run that is like it, shape (N,)."""

    own: FloatArray
    """Variance of what is its own of each of them, shape (N,)."""

    @classmethod
    def of(
        cls,
        columns: FloatArray,
        machines: NDArray[np.str_],
        missed: FloatArray,
        runs: FloatArray | None = None,
    ) -> Self:
        """Neighbours from what the formulas missed.

        Args:
            columns: shape (N, columns), see `columns_of`.
            machines: their names, shape (N,).
            missed: logarithms of measured over predicted time, shape (N,).
            runs: number of runs that each stands for; one by default.
        """
        own = NOISE**2 / (np.ones(len(missed)) if runs is None else runs)
        known = cls(columns, machines, np.zeros(len(missed)), own)
        cut = np.clip(missed, -LARGEST, LARGEST)
        weights = np.asarray(np.linalg.solve(known._covariance(), cut), dtype=np.float64)
        return cls(columns, machines, weights, own)

    def factor(self, table: RunTable, machines: NDArray[np.str_]) -> FloatArray:
        """Expected time over that of the formulas, for N runs on these machines; shape (N,)."""
        columns = columns_of(table, len(machines))
        factors = np.ones(len(columns))
        if not len(self.weights):
            return factors
        for start in range(0, len(columns), _ROWS):
            part = slice(start, start + _ROWS)
            factors[part] = np.exp(self._missed(columns[part], machines[part]))
        return factors

    def _missed(self, columns: FloatArray, machines: NDArray[np.str_]) -> FloatArray:
        """Expected logarithms of measured over predicted time."""
        like = self._compared(columns, machines)
        missed, near = (like.always @ self.weights)[like.of_layer], like.near * self.weights
        step = max(_PIECE // len(self.weights), 1)
        for start in range(0, len(columns), step):
            part = slice(start, start + step)
            one, other = near[like.of_layer[part]], like.far[like.of_layout[part]]
            missed[part] += np.einsum("ij,ij->i", one, other)
        return missed

    def deviation(self, table: RunTable, machines: NDArray[np.str_]) -> FloatArray:
        """Standard deviation of logarithms of N runs' times around the expected ones, shape (N,).

        Rasmussen and Williams, equation 2.26, and what is the run's own: small for a run like
        measured ones, that of the formulas alone for a run like none. What a family's formulas
        miss may be more or less than is assumed here for all; intervals are multiples of this that
        its rows say.
        """
        columns = columns_of(table, len(machines))
        variance = np.full(len(columns), sum(deviation**2 for *_, deviation in _LEVELS))
        if len(self.weights):
            lower = np.linalg.cholesky(self._covariance())
            known = np.linalg.solve(lower, self._likeness(columns, machines).T)
            variance = variance - np.sum(known**2, axis=0)
        return np.asarray(np.sqrt(np.maximum(variance, 0.0) + NOISE**2))

    def _covariance(self) -> FloatArray:
        """Of the measured runs with one another, shape (N, N)."""
        return np.asarray(self._likeness(self.columns, self.machines) + np.diag(self.own))

    def _likeness(self, columns: FloatArray, machines: NDArray[np.str_]) -> FloatArray:
        """Covariance of other runs with these, shape (others, N)."""
        like = self._compared(columns, machines)
        one, other = like.of_layer, like.of_layout
        return np.asarray(like.always[one] + like.near[one] * like.far[other])

    def _compared(self, columns: FloatArray, machines: NDArray[np.str_]) -> _Compared:
        """Other runs beside these; a layer and a layout that many runs share are compared once."""
        *before, (names, distance, deviation) = _LEVELS
        last, kinds = _places(names), _kinds(columns, machines)
        layers, of_layer = distinct_rows(*columns[:, : last.start].T, *kinds)
        squares = np.zeros((len(layers), len(self.columns)))
        always = np.zeros_like(squares)
        for level, width, share in before:
            squares += self._squares(columns[layers], level, width)
            always += share**2 * np.exp(-0.5 * squares)
        alike = np.ones_like(squares)
        for theirs, ours in zip(kinds, self._own_kinds(), strict=True):
            alike *= np.where(theirs[layers][:, None] == ours[None, :], 1.0, _OTHER)
        near = deviation**2 * np.exp(-0.5 * squares) * alike
        layouts, of_layout = distinct_rows(*columns[:, last].T)
        far = np.exp(-0.5 * self._squares(columns[layouts], names, distance))
        return _Compared(always * alike, near, far, of_layer, of_layout)

    def _squares(self, columns: FloatArray, names: tuple[str, ...], distance: float) -> FloatArray:
        """Squared distances of other runs to these in one level, in units of its distance."""
        mine = _places(names)
        one, other = _logs(columns[:, mine]), _logs(self.columns[:, mine])
        return _squares(one / distance, other / distance)

    def _own_kinds(self) -> tuple[NDArray[Any], ...]:
        return _kinds(self.columns, self.machines)


def _kinds(columns: FloatArray, machines: NDArray[np.str_]) -> tuple[NDArray[Any], ...]:
    """What is equal or not: a number for each group of settings, and the machine."""
    sums = (columns[:, _places(group)] @ _MARKS[: len(group)] for group in _SWITCHES)
    return (*(np.round(each, 9) for each in sums), machines)


def _squares(one: FloatArray, other: FloatArray) -> FloatArray:
    """Squared distances of all rows of one to all rows of the other; near 0 exactly 0."""
    lengths = np.sum(one**2, axis=1)[:, None] + np.sum(other**2, axis=1)[None, :]
    squares = np.asarray(lengths - 2.0 * one @ other.T)
    return np.where(squares > 1e-9 * lengths, squares, 0.0)


def _places(names: tuple[str, ...]) -> slice:
    """Where neighbouring columns stand."""
    first = COLUMNS.index(names[0])
    return slice(first, first + len(names))


def _logs(sizes: FloatArray) -> FloatArray:
    """Logarithms of sizes; a model without experts is as far from one expert as from half."""
    return np.asarray(np.log(np.maximum(sizes, 0.5)))


def columns_of(table: RunTable, runs: int) -> FloatArray:
    """What likeness is made of, of so many runs; shape (runs, columns).

    A setting that has nothing to act on, such as sharing states with nobody, counts as off. Heads
    beside mixers without softmax are other ones: such a model is like no transformer.
    """
    acts = {
        "heads": np.where(table.mixing.share > 0, _OTHER_HEADS, 1.0),
        "zero_stage": table.dp * table.cp > 1,
        "overlap": table.dp * table.cp > 1,
        "fused_tp": table.tp > 1,
        "ep_overlap": table.ep > 1,
    }
    columns = [
        np.broadcast_to(getattr(table, name) * acts.get(name, 1.0), (runs,)) for name in COLUMNS
    ]
    return np.stack(columns, axis=1).astype(np.float64)


def covariance(table: RunTable, machines: NDArray[np.str_]) -> FloatArray:
    """Of what the formulas miss of runs, of each with each, before any was measured; shape (N, N).

    Args:
        table: of N runs.
        machines: their names, shape (N,).
    """
    runs = len(machines)
    alone = Neighbours(columns_of(table, runs), machines, np.zeros(runs), np.zeros(runs))
    return alone._covariance()  # noqa: SLF001  of this module


NEIGHBOURS_OF_NOBODY = Neighbours(
    np.zeros((0, len(COLUMNS))), np.zeros(0, np.str_), np.zeros(0), np.zeros(0)
)
"""No measured runs: every factor is 1."""
