"""What a target can express, and what its framework does of itself: one record for each target."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ir.ops.shape import RESHAPES
from topology.cluster import Cluster
from topology.mesh import Mesh, grouped_meshes, prime_mesh, reordered_meshes, tier_mesh

__all__ = [
    "FREE", "MINDSPORE", "TARGETS", "USUAL_TARGET", "XLA", "Dialect", "dialect_named",
    "target_with",
]  # fmt: skip


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
    never_cut: frozenset[str] = frozenset()
    """Kinds that take no strategy: they follow their neighbours."""
    stages: bool = True
    """Its plans are run in pipeline stages too; JAX runs a plan as one program."""
    equal_stages: bool = False
    """Every stage has as many devices."""
    devices_per_server: int = 1
    """Of a full server: a job has a multiple of it, or a divisor."""
    shares_gradients: bool = False
    """The backward pass begins with a share of the loss on every device: gradients are sums over
    all axes that do not split their tensor."""
    shares_weights: bool = False
    """Where the optimizer state of a parameter is sharded, its weight is too."""
    own_cost: str = ""
    """The cost that the framework's own searches minimise, by its name for `--cost`."""
    framework: str = ""
    """Its name in messages."""

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

    def runs_on(self, devices: int) -> bool:
        """Whether there may be that many devices.

        >>> [n for n in range(20) if MINDSPORE.runs_on(n)]
        [1, 2, 4, 8, 16]
        """
        whole = self.devices_per_server
        return devices > 0 and (devices % whole == 0 or (devices < whole and whole % devices == 0))


FREE = Dialect("free", partial_edges=True, cut_counts=False, max_waste=0.3, max_axes=3)
XLA = Dialect(
    "xla", partial_edges=True, cut_counts=False, max_waste=0.0, max_axes=3, eager_sums=True,
    stages=False,
)  # fmt: skip
MINDSPORE = Dialect(
    "mindspore", partial_edges=False, cut_counts=True, max_waste=0.0, max_axes=6,
    never_cut=frozenset(RESHAPES), equal_stages=True, devices_per_server=8, shares_gradients=True,
    shares_weights=True, own_cost="mindspore", framework="MindSpore",
)  # fmt: skip

TARGETS: Mapping[str, Dialect] = MappingProxyType(
    {"mindspore": MINDSPORE, "jax": XLA, "torch": FREE, "generic": FREE}
)
"""Dialect of each target of `planner search --target`, the usual one first."""
USUAL_TARGET = next(iter(TARGETS))


def dialect_named(name: str) -> Dialect:
    """The dialect of a plan by the name in its file; of an unknown one, what is true of most."""
    return next((each for each in TARGETS.values() if each.name == name), FREE)


def target_with(fact: Callable[[Dialect], object]) -> str:
    """The first target of whose dialect a fact holds, as a message proposes it.

    >>> target_with(lambda dialect: dialect.cut_counts)
    'mindspore'
    """
    return next(name for name, dialect in TARGETS.items() if fact(dialect))
