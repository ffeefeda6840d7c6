"""What it costs to go on with another plan: weights and optimizer states move between devices."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from costmodel.memory import Optimizer, ParameterBytes, tensor_bytes
from costmodel.transfers import TransferSchedule, scheduled, tier_distance
from ir.plan import Plan
from ir.plan_slicing import plan_slicing
from ir.slicing import Grid, Slices, Slicing, sliced
from ir.transfers import Need, Traffic, traffic
from planner.request import RequestError
from topology.cluster import Cluster


@dataclass(frozen=True, slots=True)
class MigrationCost:
    """The move from a running plan to a new one."""

    traffic: Traffic
    """Between devices of the running plan, by their number there."""
    schedule: TransferSchedule

    @property
    def time_s(self) -> float:
        """Seconds of the messages; what comes from storage is not in it."""
        return self.schedule.time_s


def migration(old: Plan, new: Plan, lost: Sequence[int] = ()) -> MigrationCost:
    """The cost of moving from a running plan to a new one.

    Training keeps weights, master copies and moments where both plans train, else weights move
    alone. The devices of the new plan are those of the old one that are not lost, in order; more
    of them are new and hold nothing.

    Args:
        old: the plan that runs.
        new: the plan to run.
        lost: devices of the old plan that are gone, such as those of a server.

    Raises:
        RequestError: the plans are of two models, or too few devices are left.
    """
    before, after = plan_slicing(old, "the running plan"), plan_slicing(new, "the new plan")
    _check_models(before, after)
    here = _devices(old, new, lost)
    clusters = [Cluster.from_dict(plan.cluster) for plan in (old, new)]
    cluster = max(clusters, key=lambda c: c.devices)
    gone = frozenset(lost)
    needs = _needs(old, new, (before, after), here, gone)
    found = traffic(needs, lambda one, other: tier_distance(cluster, one, other))
    return MigrationCost(found, scheduled(found.messages, cluster))


def _devices(old: Plan, new: Plan, lost: Sequence[int]) -> list[int]:
    """For each device of the new plan its number among those of the old one."""
    bad = [device for device in lost if not 0 <= device < old.devices]
    if bad:
        what = f"device {bad[0]} of a plan for {old.devices} cannot be lost"
        raise RequestError(f"{what}\n  fix: name devices from 0 to {old.devices - 1}")
    left = [device for device in range(old.devices) if device not in set(lost)]
    if lost and new.devices > len(left):
        what = f"the new plan wants {new.devices} devices, {len(left)} are left"
        raise RequestError(f"{what}\n  fix: plan for the devices that are left")
    return left + list(range(old.devices, old.devices + new.devices - len(left)))


def _check_models(before: Slicing, after: Slicing) -> None:
    odd = sorted(set(before.dims) ^ set(after.dims))
    odd += sorted(n for n in set(before.dims) & set(after.dims) if before.dims[n] != after.dims[n])
    if odd:
        what = f"the plans are of two models: they differ in parameter {odd[0]!r}"
        raise RequestError(f"{what}\n  fix: search both plans for one model file")


def _needs(
    old: Plan,
    new: Plan,
    slicings: tuple[Slicing, Slicing],
    here: Sequence[int],
    gone: frozenset[int],
) -> Iterator[Need]:
    before, after = slicings
    training = bool(old.request.get("training")) and bool(new.request.get("training"))
    optimizer = Optimizer(str(old.request.get("optimizer", Optimizer.NONE)))
    sources: dict[Slices, Slices] = {}
    for name in after.grids:
        sizes = tensor_bytes(old.graph, old.graph.tensors[name], optimizer, training=training)
        dims = after.dims[name]
        for item_bytes, there, now in _pairs(before, after, name, sizes):
            held = sliced(dims, there)
            if held not in sources:
                sources[held] = _on_devices(held, old.rank_order, gone)
            target = sliced(dims, now)
            for box, ranks in zip(target.boxes, target.ranks, strict=True):
                devices = tuple(here[new.rank_order[rank]] for rank in ranks)
                yield Need(sources[held], box, devices, item_bytes)


def _pairs(
    before: Slicing, after: Slicing, name: str, sizes: ParameterBytes
) -> Iterator[tuple[float, tuple[Grid, ...], tuple[Grid, ...]]]:
    """Bytes of an element with where it lies and is to lie; the states apart where they must be."""
    states = math.fsum((sizes.master, sizes.moments))
    there, now = before.grids[name], after.grids[name]
    if name not in before.states and name not in after.states:
        yield sizes.weight + states, there, now
        return
    yield sizes.weight, there, now
    if states:
        yield states, before.states.get(name, there), after.states.get(name, now)


def _on_devices(slices: Slices, rank_order: Sequence[int], gone: frozenset[int]) -> Slices:
    """Slices by device instead of rank, without those that are gone."""
    devices = tuple(
        tuple(sorted({rank_order[rank] for rank in ranks} - gone)) for ranks in slices.ranks
    )
    return Slices(slices.dims, slices.boxes, devices)
