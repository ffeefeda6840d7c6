"""All assignments of mesh axes to the factors of an operator, as arrays.

Operators are told apart here by their factors alone: a large and a small product whose factors can
be split in the same ways share one `Assignments`, and with it whatever follows from the split
without the sizes.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ir.rule import ShardingRule, Window

IntArray: TypeAlias = NDArray[np.int64]
BoolArray: TypeAlias = NDArray[np.bool_]

REPLICATED = -1
"""An axis along which the operator is repeated."""
GRADIENT_PARTIAL = -2
"""An axis along which the operator is repeated forward and the gradients are terms of a sum."""

Assignment: TypeAlias = tuple[int, ...]
"""For each mesh axis the factor that it splits, or `REPLICATED`, or `GRADIENT_PARTIAL`."""


@dataclass(frozen=True, slots=True, eq=False)
class Patterns:
    """Every way to give one of some choices to each axis, whatever the choices are."""

    chosen: IntArray
    """Choice of each axis, shape (N, axes)."""
    pieces: IntArray
    """Product of the sizes of the axes that have each choice, shape (N, choices)."""


def patterns(choices: int, sizes: tuple[int, ...], *, ordered: bool) -> Patterns:
    """All patterns in lexicographic order.

    Args:
        choices: how many there are.
        sizes: of the mesh axes.
        ordered: choices never decrease from an axis to the next.
    """
    numbers = range(choices)
    found = (
        itertools.combinations_with_replacement(numbers, len(sizes))
        if ordered
        else itertools.product(numbers, repeat=len(sizes))
    )
    chosen = np.array(list(found), dtype=np.int64).reshape(-1, len(sizes))
    pieces = np.ones((len(chosen), choices), dtype=np.int64)
    rows = np.arange(len(chosen))
    for axis, size in enumerate(sizes):
        pieces[rows, chosen[:, axis]] *= size
    return Patterns(chosen, pieces)


def fitting(
    rule: ShardingRule, factors: Sequence[int], pieces: IntArray, max_waste: float
) -> BoolArray:
    """Which patterns a rule allows, shape (N,).

    Args:
        rule: of the operator.
        factors: what the first choices stand for.
        pieces: shape (N, choices), of the patterns.
        max_waste: largest share by which padding may enlarge a shard of a factor that has its
            dimensions for itself.
    """
    count = pieces[:, : len(factors)]
    compound = _compound_factors(rule)
    size = np.array([rule.sizes[f] for f in factors], dtype=np.int64)
    waste = [0.0 if f in compound else max_waste for f in factors]
    padded = -(-size // count) * count
    fits = (count <= size) & (padded <= size * (1 + np.array(waste)))
    for column, factor in enumerate(factors):
        if not rule.is_fixed(factor):
            fits[:, column] &= rule.divisors[factor] % count[:, column] == 0
    out = np.asarray(fits.all(axis=1))
    for dim in compound_dims(rule) if compound else ():
        out &= _contiguous(dim, rule, factors, count)
    for window in rule.windows:
        if window.factor in factors:
            out &= _in_step(window, rule, count[:, factors.index(window.factor)])
    return out


def _in_step(window: Window, rule: ShardingRule, pieces: IntArray) -> BoolArray:
    """Positions are cut alike at every size, and into pieces that no edge is longer than."""
    known = rule.divisors or rule.sizes
    kinds = np.unique(pieces)
    fine = [window.fits(known[window.factor], int(kind)) for kind in kinds]
    return np.asarray(np.isin(pieces, kinds[np.array(fine, dtype=bool)]))


def compound_dims(rule: ShardingRule) -> dict[tuple[int, ...], None]:
    """Dimensions made of several factors."""
    maps = (m for m in (*rule.operands, *rule.results) if m is not None)
    return {dim: None for mapping in maps for dim in mapping if len(dim) > 1}


def _compound_factors(rule: ShardingRule) -> set[int]:
    """Factors that share a dimension with another."""
    return {f for dim in compound_dims(rule) for f in dim}


def _contiguous(
    dim: tuple[int, ...], rule: ShardingRule, factors: Sequence[int], count: IntArray
) -> BoolArray:
    """A minor factor of a dimension may be split only below completely split major ones, which
    have one size then. Shape (N,).
    """
    complete, out = np.ones(len(count), dtype=bool), np.ones(len(count), dtype=bool)
    for factor in dim:
        if factor in factors:
            own = count[:, factors.index(factor)]
            out &= complete | (own == 1)
            complete &= (own == rule.sizes[factor]) & rule.is_fixed(factor)
        elif rule.sizes[factor] != 1 or not rule.is_fixed(factor):
            complete[:] = False
    return out


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """The mesh axes that take part in something, by candidate."""

    axes: tuple[tuple[int, ...], ...]
    """Distinct ones."""
    of: IntArray
    """Which of these each candidate has, shape (C,)."""


@dataclass(frozen=True, eq=False)
class Assignments:
    """Assignments of an operator, C of them."""

    choices: tuple[int, ...]
    """Factors, `REPLICATED` and `GRADIENT_PARTIAL`: what an axis can have."""
    chosen: IntArray
    """Position in `choices` for each axis, shape (C, axes)."""
    pieces: IntArray
    """Pieces into which each choice is cut, shape (C, choices)."""
    sizes: tuple[int, ...]
    """Of the mesh axes."""
    rows: tuple[Assignment, ...] = field(init=False)
    """The same for people."""
    _masks: dict[int, IntArray] = field(default_factory=dict, init=False, repr=False)
    _groups: dict[frozenset[int], Groups] = field(default_factory=dict, init=False, repr=False)
    _places: dict[int, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        table = np.array(self.choices, dtype=np.int64)[self.chosen]
        object.__setattr__(self, "rows", tuple(map(tuple, table.tolist())))
        object.__setattr__(self, "_places", {f: i for i, f in enumerate(self.choices)})

    def __len__(self) -> int:
        return len(self.chosen)

    def counts(self, factors: Sequence[int]) -> IntArray:
        """Pieces into which several factors are cut together, shape (C,)."""
        found = [self._places[f] for f in factors if f in self._places]
        if len(found) == 1:
            return np.asarray(self.pieces[:, found[0]])
        return np.asarray(self.pieces[:, found].prod(axis=1))

    def mask(self, factor: int) -> IntArray:
        """Axes that have a factor, as a sum of powers of two, shape (C,)."""
        if factor not in self._masks:
            place, powers = self._places.get(factor), 1 << np.arange(self.chosen.shape[1])
            has = self.chosen == (len(self.choices) if place is None else place)
            self._masks[factor] = has @ powers
        return self._masks[factor]

    def together(self, factors: frozenset[int]) -> IntArray:
        """Axes that have any of some factors, as `mask`."""
        own = [self.mask(f) for f in self.choices if f in factors]
        return sum(own, start=np.zeros(len(self), dtype=np.int64))

    def groups(self, factors: frozenset[int]) -> Groups:
        """Axes that have any of some factors."""
        if factors not in self._groups:
            number: dict[int, int] = {}
            masks = self.together(factors).tolist()
            of = [number.setdefault(mask, len(number)) for mask in masks]
            axes = tuple(map(axes_of_mask, number))
            self._groups[factors] = Groups(axes, np.array(of, dtype=np.int64))
        return self._groups[factors]

    def shares(self, sizes: Sequence[int]) -> NDArray[np.float64]:
        """Share of the iteration space that the busiest device computes, and 1 for the whole
        operator on one device, shape (C + 1,).

        Args:
            sizes: of the factors, by number.
        """
        own = np.array([sizes[f] if f >= 0 else 1 for f in self.choices], dtype=np.int64)
        ratio = -(-own // self._cuts) / own
        found = ratio[self._rows, self.chosen.T]
        found[self._again] = 1.0
        out = np.ones(len(self) + 1)
        np.multiply.reduce(found, axis=0, out=out[:-1])
        return out

    @cached_property
    def in_order(self) -> BoolArray:
        """Where axes go to the choices in their order, as cut counts have it, shape (C,)."""
        return np.asarray((np.diff(self.chosen, axis=1) >= 0).all(axis=1))

    @cached_property
    def labels(self) -> IntArray:
        """Numbers of what each candidate does with each axis, shape (C, axes); 0 is nothing."""
        return np.array(self.choices, dtype=np.int64)[self.chosen] - REPLICATED

    @cached_property
    def _rows(self) -> IntArray:
        return np.arange(len(self))

    @cached_property
    def _cuts(self) -> IntArray:
        """Pieces of what is a factor, shape (C, choices)."""
        return np.where(np.array(self.choices) >= 0, self.pieces, 1)

    @cached_property
    def _again(self) -> BoolArray:
        """Axes of whose choice an axis before them has the same, shape (axes, C). A factor counts
        where it is met first: in this order a product is always rounded.
        """
        found = [
            (self.chosen[:, :axis] == self.chosen[:, axis, None]).any(axis=1)
            for axis in range(self.chosen.shape[1])
        ]
        return np.stack(found)


@lru_cache(maxsize=1024)
def axes_of_mask(mask: int) -> tuple[int, ...]:
    """Axes whose bits a mask has, ascending.

    >>> axes_of_mask(5)
    (0, 2)
    """
    return tuple(axis for axis in range(mask.bit_length()) if mask >> axis & 1)
