"""Which links the communication of a plan waits for: its seconds by the tier that binds them.

A collective over several tiers is named by the outermost one, but takes as long as the links that
hold it up, which may be those inside servers. What binds is told by what more of it would save, as
a what-if tells it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from costmodel.collectives import Collective, CollectiveModel
from ir.plan import Plan, PlannedCollective
from ir.plan_stages import messages_of, part_cluster, slowest_part, stage_mesh
from planner.repricing.collectives import latency_shares
from topology.cluster import Cluster
from topology.mesh import Mesh

FASTER = 2.0
"""Factor of the bandwidth by which a tier is tried; what-if tables say twice as well."""


@dataclass(slots=True)
class TierTime:
    """Seconds of a step that the links of a tier hold up, on the slowest part of the machine."""

    exposed_s: float = 0.0
    hidden_s: float = 0.0


def tier_times(plan: Plan) -> Mapping[str, TierTime]:
    """By tier, outermost first, the communication that the step of a plan has; the exposed seconds
    of all tiers sum to those of its causes.
    """
    cluster, shares = Cluster.from_dict(plan.cluster), _Shares(plan)
    found = {tier.name: TierTime() for tier in cluster.tiers}
    for item in messages_of(plan, slowest_part(plan)):
        for tier, share in shares.of(item).items():
            found[tier].exposed_s += share * item.exposed_s
            found[tier].hidden_s += share * item.hidden_s
    return found


class _Shares:
    """Of the time of messages, by tier."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._latency = latency_shares(plan)
        self._models: dict[int, Mapping[str, CollectiveModel]] = {}
        self._known: dict[tuple[object, ...], Mapping[str, float]] = {}

    def of(self, item: PlannedCollective) -> Mapping[str, float]:
        """Shares that sum to one: of what twice the bandwidth of each tier would save."""
        models = self._models_of(item.stage)
        mesh = models[""].mesh
        axes = tuple(mesh.axis_index(name) for name in item.axes)
        key = item.kind, item.nbytes, axes, self._latency(item), item.stage
        if not axes:
            return {item.tier: 1.0}
        if key not in self._known:
            self._known[key] = _shares(models, _timed(item, axes, key[3]), item.tier)
        return self._known[key]

    def _models_of(self, stage: int) -> Mapping[str, CollectiveModel]:
        """Of the machine of a stage as it is, and with each of its tiers faster."""
        if stage not in self._models:
            part = part_cluster(self._plan, stage)
            mesh = Mesh.of_rows(stage_mesh(self._plan, stage))
            faster = {t.name: part.with_bandwidth(t.name, FASTER) for t in part.tiers}
            self._models[stage] = {
                name: CollectiveModel(each, mesh) for name, each in {"": part, **faster}.items()
            }
        return self._models[stage]


def _timed(
    item: PlannedCollective, axes: tuple[int, ...], latency: float
) -> Callable[[CollectiveModel], float]:
    kind = Collective(item.kind)
    return lambda model: float(model.time_s(kind, item.nbytes, axes, latency))


def _shares(
    models: Mapping[str, CollectiveModel], time_s: Callable[[CollectiveModel], float], tier: str
) -> Mapping[str, float]:
    """What each tier saves, of what all save; of latency alone the outermost tier has all."""
    usual_s = time_s(models[""])
    saved = {name: usual_s - time_s(model) for name, model in models.items() if name}
    total = sum(saved.values())
    if total <= usual_s * 1e-12:
        return {tier: 1.0}
    return {name: each / total for name, each in saved.items() if each > 0}
