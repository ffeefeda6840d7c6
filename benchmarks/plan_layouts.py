"""The devices of one stage of a published run, and what each of their mesh axes splits."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import yaml

import data
from costmodel.operators.constants import generation_of
from planner.schemes import InexpressibleError, Scheme
from topology.catalogue import named_chip, named_cluster
from topology.mesh import Mesh, MeshAxis

if TYPE_CHECKING:
    from collections.abc import Mapping

    from costmodel.training.records import TrainingLayout, TrainingRun
    from topology.cluster import Cluster

SERVERS = {
    "volta": "dgx-1v", "ampere": "dgx-a100", "hopper": "dgx-h100", "blackwell": "hgx-b200",
    "ascend": "atlas-800t-a2", "cdna": "mi300x-platform",
}  # fmt: skip
"""Machines by generation of their chips."""
_OWN_SERVERS = {
    "ascend_910a": "atlas-800-9000", "ascend_910c": "atlas-900-a3", "gb200_186g": "gb200-nvl72",
    "gb300": "gb200-nvl72",
}  # fmt: skip
_RACK, _RACK_USED = "gb200-nvl72", 64
"""Jobs of several racks have a power of two of the 72 devices of each."""
_SERVER = 8
MOST_AXES = 3
"""Of a mesh; four take minutes."""


@cache
def _chips() -> Mapping[str, str]:
    record = yaml.safe_load(data.read_text("calibration", "training_machines.yaml"))
    return {name: str(each.get("chip", name)) for name, each in record["machines"].items()}


def chip_of(run: TrainingRun) -> str:
    """Name of the chip in `data/chips`."""
    return _chips()[run.machine]


def _server(chip: str) -> str:
    return _OWN_SERVERS.get(chip) or SERVERS[generation_of(chip)]


def filled(chip: str, devices: int) -> int:
    """Devices of the servers that so many are on; of a part of one, that part."""
    each = _RACK_USED if _server(chip) == _RACK else _SERVER
    return devices if devices <= each else -(-devices // each) * each


def cluster_of(chip: str, devices: int) -> Cluster:
    """So many devices of the usual machine of a chip.

    Raises:
        ClusterError: a job cannot have so many.
    """
    name = _server(chip)
    if name == _RACK and devices > _RACK_USED:
        whole = named_cluster(name, devices // _RACK_USED * 72)
        tiers = (*whole.tiers[:-1], replace(whole.tiers[-1], size=_RACK_USED))
        return replace(whole, tiers=tiers, chip=named_chip(chip))
    return replace(named_cluster(name, devices), chip=named_chip(chip))


def split(cluster: Cluster, layout: TrainingLayout, *, split_experts: bool) -> tuple[Mesh, Scheme]:
    """Tensor parallel ranks are neighbours, then those of a context, then replicas; experts are
    spread over neighbours among the last two, or among all where their widths stay whole.

    Args:
        cluster: the devices of one stage.
        layout: its degrees.
        split_experts: tensor parallel ranks split the widths of experts.

    Raises:
        InexpressibleError: the degrees do not divide the tiers.
    """
    tensor, context = layout.tp, layout.tp * layout.cp
    first = layout.tp if split_experts else 1
    last = first * layout.ep
    axes = _axes(cluster, sorted({tensor, context, first, last}))
    kept = [each for each in axes if each[0].size > 1] or axes[-1:]
    if len(kept) > MOST_AXES:
        raise InexpressibleError("a mesh of more axes than a search tries")
    real = [(i, start) for i, (axis, start) in enumerate(kept) if axis.size > 1]
    scheme = Scheme(
        "published",
        tuple(i for i, start in real if start >= context),
        tuple(i for i, start in real if start < tensor),
        shard_weights=layout.zero_stage == 3,
        context_axes=tuple(i for i, start in real if tensor <= start < context),
        expert_axes=tuple(i for i, start in real if first <= start < last),
        whole_experts=not split_experts,
    )
    return Mesh(tuple(axis for axis, _ in kept)), scheme


def _axes(cluster: Cluster, cuts: list[int]) -> list[tuple[MeshAxis, int]]:
    """Axes of the mesh, outermost first, each with the number of devices inside it, such that
    every cut lies between two of them.
    """
    out: list[tuple[MeshAxis, int]] = []
    inside = 1
    for index in reversed(range(len(cluster.tiers))):
        tier = cluster.tiers[index]
        end = inside * tier.size
        for cut in (*(c for c in cuts if inside < c < end), end):
            if cut % inside:
                raise InexpressibleError("degrees do not divide the tiers")
            out.append((MeshAxis(f"{tier.name}_{inside}", cut // inside, index), inside))
            inside = cut
    return out[::-1]
