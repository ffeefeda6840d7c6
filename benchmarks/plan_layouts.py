"""The devices of one stage of a published run, and what each of their mesh axes splits."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from planner.constraints.schemes import InexpressibleError, Scheme
from topology.catalogue import named_cluster, named_machine
from topology.machine_names import known_machines
from topology.mesh import Mesh, MeshAxis

if TYPE_CHECKING:
    from costmodel.training.records import TrainingLayout, TrainingRun
    from topology.cluster import Cluster

_RACK, _RACK_USED = 72, 64
"""Jobs of several racks have a power of two of the devices of each."""
MOST_AXES = 3
"""Of a mesh; four take minutes."""


def chip_of(run: TrainingRun) -> str:
    """Name of the chip in `data/chips`."""
    return known_machines()[run.machine].chip


def filled(chip: str, devices: int) -> int:
    """Devices of the servers that so many are on; of a part of one, that part."""
    each = _server(chip)
    each = _RACK_USED if each == _RACK else each
    return devices if devices <= each else -(-devices // each) * each


def cluster_of(chip: str, devices: int) -> Cluster:
    """So many devices of the usual cluster of a chip.

    Raises:
        ClusterError: a job cannot have so many.
    """
    if _server(chip) == _RACK and devices > _RACK_USED:
        whole = named_cluster(chip, devices // _RACK_USED * _RACK)
        tiers = (*whole.tiers[:-1], replace(whole.tiers[-1], size=_RACK_USED))
        return replace(whole, tiers=tiers)
    return named_cluster(chip, devices)


def _server(chip: str) -> int:
    """Devices of a server of the usual cluster of a chip."""
    found = named_machine(chip)
    return found.file.servers[found.entries[0].use].devices


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
