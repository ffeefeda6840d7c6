"""Meshes: named axes over the ranks of a cluster, each axis inside one tier."""

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, permutations, product
from typing import Self

import numpy as np

from topology.cluster import Cluster, Tier, TierKind
from topology.errors import ClusterError

__all__ = ["Mesh", "MeshAxis", "grouped_meshes", "prime_mesh", "rank_groups", "reordered_meshes"]
__all__ += ["tier_mesh"]


@dataclass(frozen=True, slots=True)
class MeshAxis:
    """One axis of a mesh: a factor of one tier."""

    name: str
    """The tier's name, numbered if the tier has several axes: `card`, or `card0`, `card1`."""

    size: int
    """Ranks along the axis, at least 1."""

    tier: int
    """Index of its tier in the cluster, 0 = outermost."""

    def __str__(self) -> str:
        return f"{self.name} {self.size}"


@dataclass(frozen=True, slots=True)
class Mesh:
    """Axes outermost first. Ranks are row-major: the last axis varies fastest."""

    axes: tuple[MeshAxis, ...]
    """At least one axis; names differ; axes of one tier stand together. Tiers are in any order:
    where they do not go from the outermost inwards, ranks are not numbered like devices."""
    sizes: tuple[int, ...] = field(init=False, repr=False, compare=False)
    """Ranks along each axis."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "sizes", tuple(axis.size for axis in self.axes))
        names = [axis.name for axis in self.axes]
        tiers = [axis.tier for axis in self.axes]
        if not names or len(set(names)) != len(names):
            fault, fix = f"axes named {names}", "give at least one axis and distinct names"
        elif len([*groupby(tiers)]) != len(set(tiers)) or min(tiers) < 0:
            fault, fix = f"axes of tiers {tiers}", "put the axes of each tier beside one another"
        elif min(self.sizes) < 1:
            fault, fix = f"axes of sizes {self.sizes}", "give every axis a size of at least 1"
        else:
            return
        raise ClusterError(fault, "the mesh", fix)

    @property
    def size(self) -> int:
        """Number of ranks."""
        return math.prod(self.sizes)

    @property
    def used_tiers(self) -> tuple[int, ...]:
        """Tiers whose links ranks of the mesh communicate over, outermost first."""
        return tuple(sorted({axis.tier for axis in self.axes if axis.size > 1}))

    def tiers_of(self, axes: tuple[int, ...]) -> frozenset[int]:
        """Tiers whose links a group over some axes communicates over."""
        return frozenset(self.axes[a].tier for a in axes if self.sizes[a] > 1)

    def axis_index(self, name: str) -> int:
        """Position of an axis, 0 = outermost."""
        names = [axis.name for axis in self.axes]
        if name not in names:
            raise ClusterError(f"no axis {name!r}", "the mesh", f"use one of {', '.join(names)}")
        return names.index(name)

    def stride(self, axis: int) -> int:
        """Difference in rank between neighbours along one axis."""
        return math.prod(self.sizes[axis + 1 :])

    def rank_order(self) -> tuple[int, ...]:
        """Device of each rank, devices numbered from the outermost tier inwards.

        >>> Mesh((MeshAxis("card", 2, 1), MeshAxis("ring", 2, 0))).rank_order()
        (0, 2, 1, 3)
        """
        order = sorted(range(len(self.axes)), key=lambda axis: self.axes[axis].tier)
        sizes = [self.sizes[axis] for axis in order]
        devices = np.arange(self.size).reshape(sizes).transpose(np.argsort(order))
        return tuple(devices.ravel().tolist())

    @property
    def rows(self) -> tuple[tuple[str, int, int], ...]:
        """As plans have it: name, size and tier of every axis; `of_rows` restores an equal mesh."""
        return tuple((axis.name, axis.size, axis.tier) for axis in self.axes)

    @classmethod
    def of_rows(cls, rows: Iterable[tuple[str, int, int]]) -> Self:
        """The mesh that a plan has."""
        return cls(tuple(MeshAxis(*row) for row in rows))

    def __str__(self) -> str:
        return " x ".join(str(axis) for axis in self.axes)


def rank_groups(sizes: Sequence[int], axes: Collection[int]) -> tuple[tuple[int, ...], ...]:
    """All groups of ranks that vary exactly these axes of a mesh, each in ascending order.

    >>> rank_groups((2, 2), (0,))
    ((0, 2), (1, 3))
    """
    varied = sorted(axes)
    fixed = [axis for axis in range(len(sizes)) if axis not in varied]
    ranks = np.arange(math.prod(sizes)).reshape(sizes).transpose(*fixed, *varied)
    length = math.prod(sizes[axis] for axis in varied)
    return tuple(map(tuple, ranks.reshape(-1, length).tolist()))


def tier_mesh(cluster: Cluster) -> Mesh:
    """One axis for each tier, named like it."""
    return _mesh(cluster, [[tier.size] for tier in cluster.tiers])


def prime_mesh(cluster: Cluster, max_axes: int) -> Mesh:
    """One axis for each prime factor of each tier, larger primes first.

    If these are more than `max_axes`, the outermost two neighbours in one tier become one axis,
    again and again until they fit.
    """
    _check_axes(cluster, max_axes)
    factors = [_primes(tier.size) for tier in cluster.tiers]
    while sum(map(len, factors)) > max_axes:
        split = next(sizes for sizes in factors if len(sizes) > 1)
        split[:2] = [split[0] * split[1]]
    return _mesh(cluster, factors)


def grouped_meshes(cluster: Cluster, axes: int) -> tuple[Mesh, ...]:
    """All ways to write every tier as a product of ordered axes, at most `axes` of them in all.

    Coarse meshes come first; among equally many axes, the sizes are in ascending order.
    """
    _check_axes(cluster, axes)
    spare = axes - len(cluster.tiers)
    choices = [list(_ordered_factors(tier.size, spare + 1)) for tier in cluster.tiers]
    splits = [split for split in product(*choices) if sum(map(len, split)) <= axes]
    splits.sort(key=lambda split: (sum(map(len, split)), split))
    return tuple(_mesh(cluster, split) for split in splits)


def reordered_meshes(cluster: Cluster, mesh: Mesh) -> tuple[Mesh, ...]:
    """The same axes with the tiers inside a server in every other order.

    Tiers that join servers stay where they are: the ranks of two servers must not interleave in a
    rank table.
    """
    runs = {tier: tuple(axes) for tier, axes in groupby(mesh.axes, key=lambda axis: axis.tier)}
    switched = len(cluster.tiers) > 1 and cluster.tiers[0].kind is TierKind.SWITCH
    joining = [p for p, tier in enumerate(cluster.tiers) if tier.name == "server"] or [0]
    fixed = [tier for tier in runs if switched and tier <= joining[-1]]
    free = [tier for tier in runs if tier not in fixed]
    orders = ([*fixed, *order] for order in permutations(free))
    meshes = (Mesh(tuple(axis for tier in order for axis in runs[tier])) for order in orders)
    return tuple(each for each in dict.fromkeys(meshes) if each != mesh)


def _mesh(cluster: Cluster, factors: Sequence[Sequence[int]]) -> Mesh:
    """The mesh in which tier i has axes of sizes `factors[i]`."""
    return Mesh(
        tuple(
            MeshAxis(_axis_name(tier, index, len(sizes)), size, position)
            for position, (tier, sizes) in enumerate(zip(cluster.tiers, factors, strict=True))
            for index, size in enumerate(sizes)
        )
    )


def _axis_name(tier: Tier, index: int, count: int) -> str:
    return tier.name if count == 1 else f"{tier.name}{index}"


def _primes(number: int) -> list[int]:
    """Prime factors, largest first; `[1]` for 1."""
    factors: list[int] = []
    divisor = 2
    while divisor * divisor <= number:
        while number % divisor == 0:
            factors.append(divisor)
            number //= divisor
        divisor += 1
    return sorted([*factors, number] if number > 1 else factors, reverse=True) or [1]


def _ordered_factors(number: int, most: int) -> Iterator[tuple[int, ...]]:
    """All tuples of at most `most` factors above 1 with this product; `(1,)` for 1."""
    yield (number,)
    if most == 1:
        return
    for first in range(2, number // 2 + 1):
        if number % first == 0:
            for rest in _ordered_factors(number // first, most - 1):
                yield (first, *rest)


def _check_axes(cluster: Cluster, axes: int) -> None:
    if axes < len(cluster.tiers):
        raise ClusterError(
            f"a mesh of {axes} axes over {len(cluster.tiers)} tiers",
            f"cluster {cluster.name!r}",
            f"allow at least {len(cluster.tiers)} axes: each stays inside one tier",
        )
