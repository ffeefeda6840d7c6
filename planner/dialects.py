"""What a target can express: which assignments of mesh axes to factors exist, and on which
meshes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ir.ops import Engine, OperatorEntry
from ir.rule import ShardingRule
from topology.cluster import Cluster
from topology.mesh import Mesh, grouped_meshes, prime_mesh, tier_mesh

REPLICATED = -1
"""An axis along which the operator is repeated."""
GRADIENT_PARTIAL = -2
"""An axis along which the operator is repeated forward and the gradients are terms of a sum."""

MAX_CANDIDATES = 4096
"""Candidates of one operator; what lies beyond is counted and left out."""

Assignment = tuple[int, ...]
"""For each mesh axis the factor that it splits, or `REPLICATED`, or `GRADIENT_PARTIAL`."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """The space of strategies of a target."""

    name: str
    partial_edges: bool
    """Sums may stay partial between operators; otherwise they are reduced inside."""
    cut_counts: bool
    """Strategies are cut counts: axes go to factors in order, repetition last."""
    max_waste: float
    """Largest share by which padding may enlarge a shard."""
    max_axes: int
    eager_sums: bool = False
    """Sums are completed where they arise, and gradients too: no operator works on terms."""
    all_to_all: bool = True
    """An axis moves between dimensions by one all-to-all, else by an all-gather and a slice."""

    def meshes(self, cluster: Cluster) -> tuple[Mesh, ...]:
        """Meshes to search on, the one of the machine's tiers first, then finer groupings."""
        if self.cut_counts:
            return (prime_mesh(cluster, self.max_axes),)
        finer = sorted(grouped_meshes(cluster, self.max_axes), key=lambda m: len(m.axes))
        return tuple(dict.fromkeys([tier_mesh(cluster), *finer]))

    def coarser_mesh(self, cluster: Cluster) -> Mesh | None:
        """A mesh of fewer axes, for graphs too wide to be solved well on the usual one."""
        if not self.cut_counts:
            return None
        mesh = prime_mesh(cluster, max(self.max_axes - 2, len(cluster.tiers)))
        return mesh if mesh not in self.meshes(cluster) else None

    def assignments(
        self, rule: ShardingRule, entry: OperatorEntry, mesh: Mesh, *, gradient: bool
    ) -> tuple[list[Assignment], int]:
        """All assignments that the rule and the target allow, and how many were left out by the
        limit.
        """
        factors = self._factors(rule, entry)
        compound = _compound_factors(rule)
        found = [
            assignment
            for assignment in self._enumerate(factors, mesh, gradient)
            if self._fits(assignment, rule, mesh, compound)
        ]
        if self.cut_counts:
            found = [a for a in found if _lookup_alone(a, rule)]
        if len(found) <= MAX_CANDIDATES:
            return found, 0
        found.sort(key=lambda a: (len(set(a)), a))
        return found[:MAX_CANDIDATES], len(found) - MAX_CANDIDATES

    def _factors(self, rule: ShardingRule, entry: OperatorEntry) -> tuple[int, ...]:
        factors = rule.splittable
        if not self.cut_counts:
            return factors
        barred = set(rule.uncut)
        if entry.engine is not Engine.VIEW:
            barred.update(_minor_factors(rule))
        return tuple(f for f in factors if f not in barred)

    def _enumerate(
        self, factors: tuple[int, ...], mesh: Mesh, gradient: bool
    ) -> Iterator[Assignment]:
        if mesh.size == 1:
            return iter([(REPLICATED,) * len(mesh.axes)])
        if self.cut_counts:
            choices = (*factors, REPLICATED)
            return itertools.combinations_with_replacement(choices, len(mesh.axes))
        terms = gradient and not self.eager_sums
        free = (REPLICATED, GRADIENT_PARTIAL) if terms else (REPLICATED,)
        return itertools.product((*factors, *free), repeat=len(mesh.axes))

    def _fits(
        self, assignment: Assignment, rule: ShardingRule, mesh: Mesh, compound: set[int]
    ) -> bool:
        shards = shard_counts(assignment, mesh)
        for factor, count in shards.items():
            size = rule.sizes[factor]
            if not rule.is_fixed(factor) and rule.divisors[factor] % count:
                return False
            padded = -(-size // count) * count
            if count > size or padded > size * (
                1 + (0.0 if factor in compound else self.max_waste)
            ):
                return False
        return not compound or all(
            _contiguous(d, rule, shards)
            for m in (*rule.operands, *rule.results)
            if m is not None
            for d in m
        )


def _compound_factors(rule: ShardingRule) -> set[int]:
    """Factors that share a dimension with another."""
    maps = (m for m in (*rule.operands, *rule.results) if m is not None)
    return {f for mapping in maps for dim in mapping if len(dim) > 1 for f in dim}


def shard_counts(assignment: Assignment, mesh: Mesh) -> dict[int, int]:
    """Number of pieces of every factor that is split."""
    counts: dict[int, int] = {}
    for axis, factor in enumerate(assignment):
        if factor >= 0:
            counts[factor] = counts.get(factor, 1) * mesh.sizes[axis]
    return counts


def _contiguous(dim: tuple[int, ...], rule: ShardingRule, shards: Mapping[int, int]) -> bool:
    """A minor factor of a dimension may be split only below completely split major ones, which
    have one size then.
    """
    complete = True
    for factor in dim:
        count = shards.get(factor, 1)
        if count > 1 and not complete:
            return False
        complete = complete and count == rule.sizes[factor] and rule.is_fixed(factor)
    return True


def _minor_factors(rule: ShardingRule) -> set[int]:
    out: set[int] = set()
    for mapping in (*rule.operands, *rule.results):
        for dim in mapping or ():
            real = [f for f in dim if rule.sizes[f] > 1]
            out.update(real[1:])
    return out


def _lookup_alone(assignment: Assignment, rule: ShardingRule) -> bool:
    """MindSpore cuts the rows of a table over all devices or not at all: it would repeat such an
    operator over the outermost devices. Where the indices are cut too, their first dimension is.

    Source: MindSpore 2.7.0, `gather_info.cc`, GetGatherMode.
    """
    split = {f for f in assignment if f >= 0}
    if not split & rule.lookup:
        return True
    if REPLICATED in assignment:
        return False
    table, indices = ([f for d in rule.operands[i] or () for f in d] for i in (0, 1))
    cut = split & set(indices)
    if not cut:
        return True
    columns = split & set(table) - rule.lookup
    wide = len(indices) > 2 or (len(indices) == 2 and columns)
    return len(table) == 2 and indices[0] in cut and not wide


FREE = Dialect("free", partial_edges=True, cut_counts=False, max_waste=0.3, max_axes=3)
XLA = Dialect(
    "xla", partial_edges=True, cut_counts=False, max_waste=0.0, max_axes=3, eager_sums=True
)
MINDSPORE = Dialect("mindspore", partial_edges=False, cut_counts=True, max_waste=0.0, max_axes=6)

TARGETS: Mapping[str, Dialect] = MappingProxyType(
    {"mindspore": MINDSPORE, "jax": XLA, "torch": FREE, "generic": FREE}
)
"""Dialect of each target of `planner search --target`."""


def mindspore_devices_allowed(devices: int) -> bool:
    """MindSpore runs on 1, 2 or 4 devices, or a multiple of 8."""
    return devices in {1, 2, 4} or (devices > 0 and devices % 8 == 0)
