"""The same splits on another machine or with another batch: priced and simulated anew, at once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from costmodel.simulation.effects import Effects
from costmodel.simulation.plan_simulation import simulate_plan
from ir.plan import Plan, PlannedCollective, is_once
from planner.repricing.other_machine import repriced
from planner.repricing.other_size import resized
from planner.request import RequestError
from report.plan import PlanReport
from report.step_change import StepFacts
from topology.catalogue import is_machine, named_cluster
from topology.cluster import Cluster


@dataclass(frozen=True, slots=True)
class Factors:
    """What is asked."""

    devices: int | None = None
    batch: int | None = None
    memory_bytes: float | None = None
    """Of a device that the model may fill; None keeps the plan's."""
    bandwidth: Mapping[str, float] | None = None
    """By tier, a factor."""


def step_change(plan: Plan, factors: Factors) -> tuple[StepFacts, StepFacts]:
    """The step as planned, and with the same splits at these factors.

    Raises:
        RequestError: the plan cannot be kept there.
        SimulationError, BatchError, ClusterError: the plan or the factors do not fit.
    """
    found = _changed(plan, factors) if plan.pipeline.is_single else _changed_stages(plan, factors)
    limit, peak = plan.estimate.memory_limit_bytes, plan.estimate.peak_memory_bytes
    before, after = (simulate_plan(each, Effects()) for each in (plan, found))
    there = found.estimate.peak_memory_bytes
    if not plan.pipeline.is_single:
        # Repricing keeps the micro-batches in flight; only a simulation has those of another batch.
        there = peak + after.peak_memory_bytes - before.peak_memory_bytes
    own = _facts(plan, before.step_s, peak, limit)
    return own, _facts(found, after.step_s, there, factors.memory_bytes or limit)


def _changed(plan: Plan, factors: Factors) -> Plan:
    """The plan at these factors: other sizes first, then other links."""
    cluster = Cluster.from_dict(plan.cluster)
    devices, batch = factors.devices or plan.devices, factors.batch or plan.batch
    found = plan
    if devices != plan.devices or batch != plan.batch:
        found = _resized(plan, scaled_cluster(cluster, devices), batch)
        cluster = Cluster.from_dict(found.cluster)
    factor = {t: f for t, f in (factors.bandwidth or {}).items() if f != 1.0}
    for tier, value in factor.items():
        cluster = cluster.with_bandwidth(tier, value)
    return repriced(found, cluster) if factor else found


def _resized(plan: Plan, cluster: Cluster, batch: int) -> Plan:
    try:
        return resized(plan, cluster, batch)
    except RequestError as error:
        raise RequestError(
            f"the splits of this plan cannot be kept on {cluster.devices} devices with a batch of "
            f"{batch}\n  at:  devices, batch\n  fix: search there"
        ) from error


def _changed_stages(plan: Plan, factors: Factors) -> Plan:
    """A plan with stages at these factors: other micro-batches first, then other links."""
    if factors.devices not in {None, plan.devices}:
        raise RequestError(
            "stages keep the devices that they were planned for\n  at:  devices\n"
            "  fix: search there"
        )
    cluster = Cluster.from_dict(plan.cluster)
    for tier, value in (factors.bandwidth or {}).items():
        cluster = cluster.with_bandwidth(tier, value)
    batch = factors.batch or plan.batch
    if batch == plan.batch and cluster.to_dict() == plan.cluster:
        return plan
    return repriced(with_global_batch(plan, batch), cluster)


def with_global_batch(plan: Plan, batch: int) -> Plan:
    """The same micro-batches, more or fewer of them; estimates are left to be made again.

    Raises:
        RequestError: the batch is no whole number of micro-batches.
    """
    pipeline = plan.pipeline
    old, new = pipeline.micro_batches, batch // pipeline.micro_batch
    if batch != new * pipeline.micro_batch or not new:
        raise RequestError(
            f"a batch of {batch} is no multiple of the micro-batch of {pipeline.micro_batch}\n"
            "  at:  batch\n  fix: give a multiple, or search there"
        )
    share = new / old

    def times(item: PlannedCollective) -> PlannedCollective:
        count, backward = item.count * new // old, item.backward * new // old
        return replace(
            item, count=count, backward=backward,
            time_s=item.time_s * share, hidden_s=item.hidden_s * share,
        )  # fmt: skip

    return replace(
        plan,
        operators=tuple(
            replace(
                op,
                compute_s=op.compute_s * share,
                backward_s=op.backward_s * share,
                recompute_s=op.recompute_s * share,
            )
            for op in plan.operators
        ),
        tensors=tuple(replace(t, recompute_s=t.recompute_s * share) for t in plan.tensors),
        collectives=tuple(c if is_once(c, old) else times(c) for c in plan.collectives),
        pipeline=replace(
            pipeline, micro_batches=new, sends=tuple(times(send) for send in pipeline.sends)
        ),
    )


def scaled_cluster(cluster: Cluster, devices: int) -> Cluster:
    """The same machine with more or fewer devices: the outermost tiers change first.

    Raises:
        RequestError: the tiers cannot make so many devices.
    """
    sizes = [tier.size for tier in cluster.tiers]
    if devices % math.prod(sizes[1:]) == 0:
        sizes[0] = devices // math.prod(sizes[1:])
    else:
        left = devices
        for position in reversed(range(len(sizes))):
            part = math.gcd(left, sizes[position])
            sizes[position], left = part, left // part
    if math.prod(sizes) != devices:
        shape = " x ".join(str(tier.size) for tier in cluster.tiers)
        raise RequestError(
            f"tiers of {shape} do not become {devices} devices\n  at:  devices\n"
            "  fix: give a multiple or a part of the plan's devices"
        )
    if devices > cluster.devices and is_machine(cluster.name):
        _check_tiers(cluster, named_cluster(cluster.name, devices))
    tiers = tuple(replace(t, size=s) for t, s in zip(cluster.tiers, sizes, strict=True))
    return replace(cluster, tiers=tiers)


def _check_tiers(cluster: Cluster, larger: Cluster) -> None:
    """Refuse a machine that has links which the plan's lacks, such as those between servers."""
    own, there = ([tier.name for tier in each.tiers] for each in (cluster, larger))
    if own != there:
        raise RequestError(
            f"{larger.devices} devices of {cluster.name} have tiers {', '.join(there)}, "
            f"the plan's {', '.join(own)}\n  at:  devices\n  fix: search there"
        )


def _facts(plan: Plan, simulated_s: float, peak: float, limit: float) -> StepFacts:
    report = PlanReport(plan)
    each = report.rates.samples_per_s or 0.0
    return StepFacts(
        step_s=report.step_s,
        simulated_s=simulated_s,
        expected_s=report.expected_s,
        computing_s=report.computing_s,
        exposed_s=report.exposed_s,
        hidden_s=plan.estimate.hidden_s,
        waiting_s=report.waiting_s,
        samples_per_s=each,
        samples_per_device_s=each / plan.devices,
        peak_bytes=peak,
        limit_bytes=limit,
        devices=plan.devices,
        batch=plan.batch,
    )
