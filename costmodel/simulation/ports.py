"""What a collective takes of the links while it runs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from costmodel.collectives import Collective, CollectiveModel
from costmodel.simulation.stage_tasks import Device
from costmodel.simulation.task_graph import Use
from topology.cluster import Cluster
from topology.mesh import Mesh

_INSTANT = 1e12
"""Factor on the bandwidth of a tier that is to take no time."""


@dataclass(slots=True)
class Ports:
    """The ports of one device of a task graph, one for each tier of the cluster.

    Transfers queue for them as on a stream, or share them.
    """

    device: Device
    cluster: Cluster
    mesh: Mesh
    streams: tuple[int, ...] = field(init=False)
    """To queue at, by tier."""
    _model: CollectiveModel = field(init=False)
    _alone: dict[int, CollectiveModel] = field(default_factory=dict, init=False)
    """By tier the model of a machine on which all other tiers take no time."""
    _known: dict[tuple[Collective, tuple[int, ...], float], tuple[Use, ...]] = field(
        default_factory=dict, init=False
    )

    def __post_init__(self) -> None:
        self.streams = tuple(self.device.stream(f"{tier.name} port") for tier in self.cluster.tiers)
        self._model = CollectiveModel(self.cluster, self.mesh)

    def time_s(self, kind: str, nbytes: float, axes: tuple[int, ...]) -> float:
        """Seconds of one collective that has its links for itself."""
        return float(self._model.time_s(Collective(kind), nbytes, axes))

    def queues(self, axes: tuple[int, ...]) -> tuple[int, ...]:
        """Ports that a collective over some axes holds while it runs: of all tiers it crosses."""
        return tuple(self.streams[tier] for tier in self._crossed(axes))

    def _crossed(self, axes: tuple[int, ...]) -> list[int]:
        return sorted({self.mesh.axes[a].tier for a in axes if self.mesh.axes[a].size > 1})

    def uses(self, kind: str, nbytes: float, axes: tuple[int, ...]) -> tuple[Use, ...]:
        """Share of each port that a collective takes at full speed: that of its time which the
        tier alone would need.
        """
        key = (Collective(kind), axes, nbytes)
        if key not in self._known:
            whole = self.time_s(kind, nbytes, axes)
            found = []
            for tier in self._crossed(axes):
                alone = float(self._with(tier).time_s(key[0], nbytes, axes))
                share = min(alone / whole, 1.0) if whole > 0 else 0.0
                found += (
                    [Use(self.device.ports[self.cluster.tiers[tier].name], share)]
                    if share > 0
                    else []
                )
            self._known[key] = tuple(found)
        return self._known[key]

    def _with(self, tier: int) -> CollectiveModel:
        if tier not in self._alone:
            tiers = tuple(
                each if i == tier else replace(each.scaled(_INSTANT), latency_s=0.0)
                for i, each in enumerate(self.cluster.tiers)
            )
            self._alone[tier] = CollectiveModel(replace(self.cluster, tiers=tiers), self.mesh)
        return self._alone[tier]
