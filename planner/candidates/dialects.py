"""What a target can express: which assignments of mesh axes to factors exist, and on which
meshes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from ir.ops import Engine, OperatorEntry
from ir.rule import ShardingRule
from planner.candidates.assignments import (
    GRADIENT_PARTIAL,
    REPLICATED,
    Assignment,
    Assignments,
    Patterns,
    compound_dims,
    fitting,
    patterns,
)
from topology.cluster import Cluster
from topology.mesh import Mesh, grouped_meshes, prime_mesh, reordered_meshes, tier_mesh

__all__ = [
    "FREE",
    "GRADIENT_PARTIAL",
    "MAX_CANDIDATES",
    "MINDSPORE",
    "REPLICATED",
    "TARGETS",
    "XLA",
    "Assignment",
    "Dialect",
    "Offers",
    "mindspore_devices_allowed",
]

MAX_CANDIDATES = 4096
"""Candidates of one operator; what lies beyond is counted and left out."""


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
    cut_positions: bool = False
    """Positions that windows read may be cut: neighbours send each other their edges."""
    inherits: bool = False
    """Operators that work element by element may have layouts that no cut counts say: those of a
    neighbour. MindSpore's propagation takes them over, no strategy of a user can ask for them.
    """
    stages: bool = True
    """Its plans are run in pipeline stages too; JAX runs a plan as one program."""

    def meshes(self, cluster: Cluster) -> tuple[Mesh, ...]:
        """Meshes to search on, the one of the machine's tiers first, then finer groupings.

        Cut counts go to axes in order: there, the same axes with the tiers of a server in another
        order, which is another order of ranks.
        """
        if self.cut_counts:
            mesh = prime_mesh(cluster, self.max_axes)
            return (mesh, *reordered_meshes(cluster, mesh))
        finer = sorted(grouped_meshes(cluster, self.max_axes), key=lambda m: len(m.axes))
        return tuple(dict.fromkeys([tier_mesh(cluster), *finer]))

    def coarser_mesh(self, cluster: Cluster) -> Mesh | None:
        """A mesh of fewer axes, for graphs too wide to be solved well on the usual one."""
        if not self.cut_counts:
            return None
        mesh = prime_mesh(cluster, max(self.max_axes - 2, len(cluster.tiers)))
        return mesh if mesh not in self.meshes(cluster) else None

    def mesh_of_cuts(self, cluster: Cluster, fits: Callable[[Mesh], bool]) -> Mesh | None:
        """The first of all other meshes that fits cuts which those of `meshes` do not.

        Many devices have axes of several primes, and a user may cut between these.
        """
        if not self.cut_counts:
            return None
        every = grouped_meshes(cluster, self.max_axes)
        return next((mesh for mesh in every if fits(mesh)), None)

    def assignments(
        self, rule: ShardingRule, entry: OperatorEntry, mesh: Mesh, *, gradient: bool
    ) -> tuple[list[Assignment], int]:
        """All assignments that the rule and the target allow, and how many were left out by the
        limit.
        """
        found, left_out = Offers(self, mesh).of(rule, entry, gradient=gradient)
        return list(found.rows), left_out

    def choices(
        self, rule: ShardingRule, entry: OperatorEntry, *, gradient: bool
    ) -> tuple[int, ...]:
        """What an axis may do: the factors that it may split, then the ways to repeat."""
        terms = gradient and not self.eager_sums and not self.cut_counts
        free = (REPLICATED, GRADIENT_PARTIAL) if terms else (REPLICATED,)
        return (*self._factors(rule, entry), *free)

    def _factors(self, rule: ShardingRule, entry: OperatorEntry) -> tuple[int, ...]:
        factors = rule.splittable
        if not self.cut_positions:
            whole = {window.factor for window in rule.windows}
            factors = tuple(f for f in factors if f not in whole)
        if not self.cut_counts:
            return factors
        barred = set(rule.uncut)
        if entry.engine is not Engine.VIEW:
            barred.update(_minor_factors(rule))
        return tuple(f for f in factors if f not in barred)


@dataclass(slots=True)
class Offers:
    """The assignments that a target offers on one mesh, the same object for operators alike."""

    dialect: Dialect
    mesh: Mesh
    _patterns: dict[tuple[int, bool], Patterns] = field(default_factory=dict)
    _found: dict[tuple[object, ...], tuple[Assignments, int]] = field(default_factory=dict)
    _known: dict[tuple[tuple[int, ...], bool, bytes], Assignments] = field(default_factory=dict)

    def of(
        self, rule: ShardingRule, entry: OperatorEntry, *, gradient: bool, in_order: bool = True
    ) -> tuple[Assignments, int]:
        """Those of an operator, and how many were left out by the limit.

        Args:
            rule: of the operator.
            entry: of its kind.
            gradient: whether the gradient of an operand is wanted.
            in_order: only what cut counts say, where the target has those.
        """
        ordered = self.dialect.cut_counts and (in_order or not self.dialect.inherits)
        choices = self.dialect.choices(rule, entry, gradient=gradient)
        if self.mesh.size == 1:
            choices = (REPLICATED,)
        # Rules that look up are told by all they have; of others only these facts count.
        compound = rule if rule.lookup else tuple(compound_dims(rule))
        windows = rule.windows if self.dialect.cut_positions else ()
        key = (choices, ordered, rule.sizes, rule.divisors, compound, windows)
        if key not in self._found:
            self._found[key] = self._offered(rule, choices, ordered=ordered)
        return self._found[key]

    def _offered(
        self, rule: ShardingRule, choices: tuple[int, ...], *, ordered: bool
    ) -> tuple[Assignments, int]:
        every = self._every(len(choices), ordered=ordered)
        factors = tuple(f for f in choices if f >= 0)
        keep = np.flatnonzero(fitting(rule, factors, every.pieces, self.dialect.max_waste))
        if self.dialect.cut_counts and rule.lookup:
            rows = np.array(choices)[every.chosen[keep]].tolist()
            keep = keep[[_lookup_alone(tuple(row), rule) for row in rows]]
        left_out = max(len(keep) - MAX_CANDIDATES, 0)
        if left_out:
            rows = np.array(choices)[every.chosen[keep]].tolist()
            order = sorted(range(len(rows)), key=lambda i: (len(set(rows[i])), rows[i]))
            keep = keep[order[:MAX_CANDIDATES]]
        same = (choices, ordered, keep.tobytes())
        if same not in self._known:
            chosen, pieces = every.chosen[keep], every.pieces[keep]
            self._known[same] = Assignments(choices, chosen, pieces, self.mesh.sizes)
        return self._known[same], left_out

    def _every(self, choices: int, *, ordered: bool) -> Patterns:
        key = (choices, ordered)
        if key not in self._patterns:
            self._patterns[key] = patterns(choices, self.mesh.sizes, ordered=ordered)
        return self._patterns[key]


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
    "xla", partial_edges=True, cut_counts=False, max_waste=0.0, max_axes=3, eager_sums=True,
    stages=False,
)  # fmt: skip
MINDSPORE = Dialect("mindspore", partial_edges=False, cut_counts=True, max_waste=0.0, max_axes=6)

TARGETS: Mapping[str, Dialect] = MappingProxyType(
    {"mindspore": MINDSPORE, "jax": XLA, "torch": FREE, "generic": FREE}
)
"""Dialect of each target of `planner search --target`."""


def mindspore_devices_allowed(devices: int) -> bool:
    """MindSpore runs on 1, 2 or 4 devices, or a multiple of 8."""
    return devices in {1, 2, 4} or (devices > 0 and devices % 8 == 0)
