"""Tensors change their layout: data really move, and who sends to whom says what it was.

Nothing here knows how the planner prices or orders redistribution. A device needs the elements of
its new part, and of a sum that is to be completed every term of them; what it does not hold it
takes from the nearest device that does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from executors.placement import Array, Region, Spread, coordinates, region_of
from ir.layout import Layout
from topology.mesh import Mesh


class ExchangeError(ValueError):
    """A change of layout that loses or invents something."""


@dataclass(frozen=True, slots=True)
class Communication:
    """One collective that was carried out: all its groups are alike."""

    kind: str
    axes: tuple[int, ...]
    """Mesh axes along which the ranks of a group differ."""
    nbytes: int
    """Per device: of the result in an all-gather, of the operand in every other kind; of edges what
    two neighbours send each other.
    """


def exchanged(
    tensor: Spread, target: Layout, item_bytes: float
) -> tuple[Spread, Communication | None]:
    """The tensor in another layout, and the collective that it took.

    Raises:
        ExchangeError: a new term of a sum would come from nowhere.
    """
    move = _Move(tensor, target)
    shards = [move.received(rank) for rank in range(tensor.mesh.size)]
    result = Spread(tensor.dims, target, tensor.mesh, tuple(shards))
    return result, move.communication(item_bytes)


class _Move:
    """One change of layout."""

    def __init__(self, tensor: Spread, target: Layout) -> None:
        self.tensor, self.target = tensor, target
        self.mesh: Mesh = tensor.mesh
        self.places = coordinates(self.mesh)
        sizes = self.mesh.sizes
        self.old = [region_of(tensor.dims, tensor.layout, sizes, p) for p in self.places]
        self.new = [region_of(tensor.dims, target, sizes, p) for p in self.places]
        self.summed = tuple(a for a in tensor.layout.partial if a not in target.partial)
        self.fresh = tuple(a for a in target.partial if a not in tensor.layout.partial)
        self.partners: list[set[int]] = [set() for _ in self.places]

    def received(self, rank: int) -> Array:
        """The new part of one device, put together from what devices hold."""
        region = self.new[rank]
        out = np.zeros([len(each) for each in region], dtype=self.tensor.shards[rank].dtype)
        if any(self.places[rank][a] for a in self.fresh if a not in self.tensor.layout.split_axes):
            return out
        for term in self._terms():
            self._fill(out, region, rank, term)
        return out

    def _terms(self) -> Iterable[tuple[int, ...]]:
        """Coordinates along the summed axes, whose terms are to be added."""
        sizes = [self.mesh.sizes[a] for a in self.summed]
        return [tuple(int(i) for i in index) for index in np.ndindex(*sizes)]

    def _fill(self, out: Array, region: Region, rank: int, term: tuple[int, ...]) -> None:
        """Add one term of every element of a region, each taken from the nearest device."""
        missing = np.ones(out.shape, dtype=bool)
        for source in self._sources(rank, term):
            if not missing.any():
                break
            common = [
                np.intersect1d(a, b, assume_unique=True, return_indices=True)[1:]
                for a, b in zip(region, self.old[source], strict=True)
            ]
            here = np.ix_(*(own for own, _ in common)) if common else ()
            there = np.ix_(*(other for _, other in common)) if common else ()
            window = missing[here]
            if not window.any():
                continue
            out[here] += np.where(window, self.tensor.shards[source][there], out.dtype.type(0))
            missing[here] = False
            if source != rank:
                self.partners[rank].add(source)
        if missing.any() and not self._stays_zero():
            raise ExchangeError(f"no device holds what rank {rank} needs")

    def _stays_zero(self) -> bool:
        """From split to a term of a sum: the elements of the others are zero here."""
        return bool(set(self.fresh) & set(self.tensor.layout.split_axes))

    def _sources(self, rank: int, term: tuple[int, ...]) -> list[int]:
        """Devices that hold the right term, nearest first: those that differ in fewest axes."""
        mine = self.places[rank]
        kept = [a for a in self.tensor.layout.partial if a not in self.summed]
        local = [a for a in self.fresh if a in self.tensor.layout.split_axes]
        found = [
            other
            for other, place in enumerate(self.places)
            if all(place[a] == c for a, c in zip(self.summed, term, strict=True))
            and all(place[a] == mine[a] for a in (*kept, *local))
        ]
        return sorted(found, key=lambda other: (_distance(self.places[other], mine), other))

    def communication(self, item_bytes: float) -> Communication | None:
        """What the exchange was, from who took something from whom."""
        axes = sorted(
            {
                axis
                for rank, others in enumerate(self.partners)
                for other in others
                for axis in range(len(self.mesh.sizes))
                if self.places[rank][axis] != self.places[other][axis]
            }
        )
        if not axes:
            return None
        old = max(_volume(region) for region in self.old)
        new = max(_volume(region) for region in self.new)
        group = math.prod(self.mesh.sizes[axis] for axis in axes)
        kind, elements = self._kind(old, new, group)
        return Communication(kind, tuple(axes), int(elements * item_bytes))

    def _kind(self, old: int, new: int, group: int) -> tuple[str, int]:
        """Name and elements; short pieces of a gather or a scatter are padded to the longest."""
        if self.summed:
            return ("all_reduce", old) if new == old else ("reduce_scatter", new * group)
        kept = all(_contains(new, old) for new, old in zip(self.new, self.old, strict=True))
        return ("all_gather", old * group) if kept and new > old else ("all_to_all", old)


def _distance(one: Sequence[int], other: Sequence[int]) -> int:
    return sum(a != b for a, b in zip(one, other, strict=True))


def _volume(region: Region) -> int:
    return math.prod(len(each) for each in region)


def _contains(outer: Region, inner: Region) -> bool:
    return all(np.isin(b, a).all() for a, b in zip(outer, inner, strict=True))
