"""Devices and batches that the splits of a plan can take, so that sliders offer no others."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ir.batch import BatchError
from ir.plan import NamedLayout, Plan, PlannedTensor
from planner.repricing.other_circumstances import scaled_cluster
from planner.repricing.other_size import resized_mesh, with_other_batch
from planner.request import RequestError
from topology.cluster import Cluster

POWERS = range(-5, 6)
"""Of two, by which devices and batch may differ from those of the plan."""


def possible_sizes(plan: Plan) -> tuple[list[int], list[int]]:
    """Numbers of devices and batches that keep the splits, ascending; the plan's among them."""
    if not plan.pipeline.is_single:
        return [plan.devices], list(_global_batches(plan))
    mesh = {name: size for name, size, _ in plan.mesh}
    devices = [n for n in _scaled(plan.devices) if n == plan.devices or _has_room(plan, n)]
    return devices, list(_batches(plan, mesh))


def _scaled(value: int) -> Iterator[int]:
    """The value times powers of two that leave it whole."""
    for power in POWERS:
        scaled = value * 2.0**power
        if scaled >= 1 and scaled == int(scaled):
            yield int(scaled)


def _global_batches(plan: Plan) -> Iterator[int]:
    """Whole micro-batches, and of several chunks as many as all stages take turns with."""
    pipeline = plan.pipeline
    unit = pipeline.micro_batch * (pipeline.parts if pipeline.chunks > 1 else 1)
    return (batch for batch in _scaled(plan.batch) if batch % unit == 0)


def _has_room(plan: Plan, devices: int) -> bool:
    """Whether every dim is divided evenly by the axes that cut it on so many devices."""
    if devices == 1:  # no axis is left to keep a split on
        return False
    try:
        cluster = scaled_cluster(Cluster.from_dict(plan.cluster), devices)
    except RequestError:
        return False
    there = {n: size for n, size, _ in resized_mesh(plan, [t.size for t in cluster.tiers])}
    mesh = {name: size for name, size, _ in plan.mesh}
    return all(
        dim % _pieces(axes, there) == 0
        for tensor in plan.tensors
        for dim, axes in _cut(tensor)
        if dim % _pieces(axes, mesh) == 0
    )


def _batches(plan: Plan, mesh: dict[str, int]) -> Iterator[int]:
    """Batches that the axes which cut them divide evenly."""
    try:
        twice = with_other_batch(plan.graph, 2 * plan.batch)
    except BatchError:
        yield plan.batch
        return
    unit = 1
    for tensor in plan.tensors:
        grown = twice.tensors[tensor.name].dims
        for layout in _layouts(tensor):
            for dim, new, axes in zip(tensor.dims, grown, layout.dims, strict=True):
                pieces = _pieces(axes, mesh)
                if new == 2 * dim and dim % pieces == 0:
                    unit = math.lcm(unit, pieces * plan.batch // math.gcd(dim, pieces * plan.batch))
    yield from (batch for batch in _scaled(plan.batch) if batch % unit == 0 or batch == plan.batch)


def _layouts(tensor: PlannedTensor) -> Iterator[NamedLayout]:
    found = (tensor.layout, tensor.gradient, tensor.used, tensor.states)
    return (layout for layout in found if layout is not None)


def _cut(tensor: PlannedTensor) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Sizes and axes of the dims of a tensor, in all layouts that it has."""
    for layout in _layouts(tensor):
        for dim, axes in zip(tensor.dims, layout.dims, strict=True):
            if axes:
                yield dim, axes


def _pieces(axes: tuple[str, ...], mesh: dict[str, int]) -> int:
    return math.prod(mesh.get(axis, 1) for axis in axes)
