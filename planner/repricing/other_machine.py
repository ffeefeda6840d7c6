"""A plan as it stands, priced anew on another machine: every layout is kept."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from costmodel.plan_overlap import overlapped, software_on, with_host_waits
from costmodel.simulation.step_in_order import in_order_s
from costmodel.software import basis_notes, is_basis_note
from ir.plan import Plan, PlannedCollective, PlannedOperator, SharedParameter
from ir.plan_enums import Cause
from ir.plan_estimate import Bound, Estimate, Published
from ir.plan_stages import (
    has_equal_stages,
    messages_of,
    part_times,
    retimed,
    slowest_part,
    stage_plan,
)
from planner.lowering.calibration_class import compared
from planner.lowering.liveness import analyse
from planner.lowering.lower import lower
from planner.lowering.lowered import Lowered, NodeKind
from planner.pipeline.solved import send_s, send_tier
from planner.repricing.collectives import collectives_on
from planner.repricing.planned_choice import (
    PlannedCandidates,
    check_tiers,
    lowered_plan,
    priced,
    setting_of,
)
from planner.request import RequestError
from topology.cluster import Cluster
from topology.part import stage_cluster


def repriced(plan: Plan, cluster: Cluster, asked: Mapping[str, object] | None = None) -> Plan:
    """The same plan on another machine; bounds and baselines of the old one are left out.

    One stage is priced from its problem there. Of several, times of operators and updates follow
    those of the same splits on both machines.

    Args:
        plan: of one stage or several.
        cluster: with as many devices, in tiers of the same sizes.
        asked: the request in the plan's record with another calibration of its software; its own
            if not said.

    Raises:
        RequestError: the machine has another shape, or the plan cannot be priced on it.
    """
    before, plan = plan, plan if asked is None else replace(plan, request=dict(asked))
    if plan.pipeline.is_single:
        builder = lowered_plan(plan, cluster)
        messages = collectives_on(plan, cluster, builder.operators())
        return priced(plan, cluster, builder.with_collectives(messages))
    check_tiers([tier.size for tier in Cluster.from_dict(plan.cluster).tiers], cluster)
    return _stages_repriced(before, plan, cluster)


def _stages_repriced(before: Plan, plan: Plan, cluster: Cluster) -> Plan:
    views = _views(plan)
    parts = [_part(cluster, math.prod(size for _, size, _ in view.mesh)) for view in views]
    ratios = _Ratios.of(_views(before), views, parts)
    pipeline = plan.pipeline
    basis = basis_notes(cluster.chip, software_on(plan, cluster.chip))
    operators = tuple(ratios.operator(op) for op in plan.operators)
    found = replace(
        plan,
        cluster=cluster.to_dict(),
        operators=operators,
        tensors=tuple(
            replace(
                t,
                update_s=t.update_s * ratios.update,
                recompute_s=t.recompute_s * ratios.mean,
                host_s=t.host_s * ratios.host,
            )
            for t in plan.tensors
        ),
        collectives=_in_order(plan, views, parts, operators),
        notes=(*(n for n in plan.notes if not is_basis_note(n)), *basis),
        bound=Bound(0.0, math.inf, "none", "none"),
        baselines=(),
        pipeline=replace(
            pipeline,
            sends=tuple(_send_on(send, cluster) for send in pipeline.sends),
            shared=tuple(_shared_on(each, cluster, ratios.update) for each in pipeline.shared),
        ),
    )
    found = retimed(overlapped(with_host_waits(found)))
    return replace(found, estimate=_estimate(found, cluster))


def _views(plan: Plan) -> tuple[Plan, ...]:
    """What is priced together: all stages on the machine of one, or each where meshes differ."""
    if has_equal_stages(plan):
        return (replace(plan, cluster=stage_plan(plan, 0).cluster),)
    return tuple(
        replace(
            stage_plan(plan, number),
            operators=tuple(replace(o, stage=0) for o in plan.operators if o.stage == number),
            collectives=tuple(replace(c, stage=0) for c in plan.collectives if c.stage == number),
        )
        for number in range(len(plan.pipeline.stages))
    )


def _part(cluster: Cluster, devices: int) -> Cluster:
    """What one stage has of a machine."""
    part = stage_cluster(cluster, devices)
    if part is None:
        raise RequestError(
            f"{cluster.name} has no equal parts for the stages\n  at:  --cluster\n"
            "  fix: plan for that machine: planner search --cluster"
        )
    return part


def _in_order(
    plan: Plan,
    views: Sequence[Plan],
    parts: Sequence[Cluster],
    operators: Sequence[PlannedOperator],
) -> tuple[PlannedCollective, ...]:
    """The collectives of a plan on another machine, in their order."""
    there = [
        iter(collectives_on(view, part, operators)) for view, part in zip(views, parts, strict=True)
    ]
    equal = len(views) == 1
    found = (next(there[0 if equal else item.stage]) for item in plan.collectives)
    return tuple(
        replace(new, stage=item.stage) for new, item in zip(found, plan.collectives, strict=True)
    )


@dataclass(frozen=True, slots=True)
class _Ratios:
    """Times on the new machine over those on the old one."""

    forward: Mapping[str, float]
    backward: Mapping[str, float]
    update: float
    host: float
    """Of copies from and to the host."""

    @classmethod
    def of(cls, before: Sequence[Plan], views: Sequence[Plan], parts: Sequence[Cluster]) -> _Ratios:
        """Of the splits that were planned, on the machines of stages there.

        Args:
            before: the plan as it was priced, by stage.
            views: the same with the software as it is to be.
            parts: machines of the stages.
        """
        forward, backward, updates = dict[str, float](), dict[str, float](), [0.0, 0.0]
        for own, view, new in zip(before, views, parts, strict=True):
            liveness = analyse(view.graph, training=True)
            settings = setting_of(own, Cluster.from_dict(own.cluster)), setting_of(view, new)
            pair = [lower(liveness, setting) for setting in settings]
            times = [dict(_operator_times(view, lowered)) for lowered in pair]
            for name in times[0]:
                old_s, new_s = times[0][name], times[1][name]
                forward[name] = _ratio(new_s[0], old_s[0])
                backward[name] = _ratio(new_s[1], old_s[1])
            updates = [a + _update_s(b) for a, b in zip(updates, pair, strict=True)]
        host = _host_ratio(views, Cluster.from_dict(views[0].cluster), parts[0])
        return cls(forward, backward, _ratio(updates[1], updates[0]), host)

    @property
    def mean(self) -> float:
        """Of all forward passes."""
        return math.fsum(self.forward.values()) / max(len(self.forward), 1)

    def operator(self, op: PlannedOperator) -> PlannedOperator:
        forward_s, backward_s = op.kernels_s
        backward = backward_s * self.backward[op.name]
        forward = forward_s * self.forward[op.name]
        again = op.recompute_s * self.forward[op.name]
        return replace(
            op, compute_s=forward + backward, backward_s=backward, recompute_s=again,
            waits_s=(0.0, 0.0),
        )  # fmt: skip


def _host_ratio(views: Sequence[Plan], old: Cluster, new: Cluster) -> float:
    if not any(tensor.host_s for view in views for tensor in view.tensors):
        return 1.0
    rates = [each.chip.host_bandwidth_bytes_per_s for each in (old, new)]
    if rates[0] and rates[1]:
        return rates[0] / rates[1]
    chip = new.chip if rates[0] else old.chip
    raise RequestError(
        "optimizer state of the plan is in host memory, and no link to it is "
        f"known of {chip.name}\n  at:  --cluster\n"
        "  fix: plan for that machine: planner search --cluster"
    )


def _ratio(new: float, old: float) -> float:
    return new / old if old > 0 else 1.0


def _operator_times(plan: Plan, lowered: Lowered) -> Iterator[tuple[str, tuple[float, float]]]:
    """Seconds forward and backward of every operator, split as planned."""
    planned = PlannedCandidates(plan, lowered)
    for node in lowered.nodes:
        found = node.candidates
        if found is None:
            continue
        rows = node.columns.assignment[planned.split(node)]
        if not len(rows):
            raise RequestError(
                f"the split of {node.name!r} is not one that this version knows\n"
                "  at:  plan.json\n  fix: plan again with `planner search`"
            )
        yield node.name, (float(found.forward_s[rows[0]]), float(found.backward_s[rows[0]]))


def _update_s(lowered: Lowered) -> float:
    """Seconds to update all parameters, each in its first layout at rest."""
    tables = lowered.problem.node_tables
    pairs = zip(lowered.nodes, lowered.problem.node_table_of, strict=True)
    return math.fsum(
        tables[table].time_s.tolist()[0] for node, table in pairs if node.kind is NodeKind.PARAMETER
    )


def _send_on(send: PlannedCollective, cluster: Cluster) -> PlannedCollective:
    time_s = send.count * send_s(cluster, send.nbytes)
    return replace(send, time_s=time_s, tier=send_tier(cluster))


def _shared_on(shared: SharedParameter, cluster: Cluster, update: float) -> SharedParameter:
    return replace(
        shared,
        time_s=send_s(cluster, shared.nbytes),
        tier=send_tier(cluster),
        updates_s=tuple(own_s * update for own_s in shared.updates_s),
    )


def _estimate(plan: Plan, cluster: Cluster) -> Estimate:
    """Time by what the slowest part does, and the rest of the step in which it waits."""
    pipeline, slowest = plan.pipeline, slowest_part(plan)
    busy = part_times(plan)[slowest] * pipeline.micro_batches
    step_s = in_order_s(pipeline)
    causes: dict[str, float] = {}

    def add(cause: str, seconds: float) -> None:
        causes[cause] = causes.get(cause, 0.0) + seconds

    own = set(range(slowest, len(pipeline.stages), pipeline.parts))
    for op in (o for o in plan.operators if o.stage in own):
        add(Cause.COMPUTE_FORWARD, op.compute_s - op.backward_s)
        add(Cause.COMPUTE_BACKWARD, op.backward_s)
        add(Cause.RECOMPUTE, op.recompute_s)
    for tensor in (t for t in plan.tensors if t.stage in own):
        add(Cause.UPDATE, tensor.update_s)
        add(Cause.HOST, tensor.host_s)
        add(Cause.RECOMPUTE, tensor.recompute_s)
    hidden: dict[str, float] = {}
    for item in messages_of(plan, slowest):
        key = f"{item.kind} in {item.tier}"
        add(key, item.exposed_s)
        if item.hidden_s > 0:
            hidden[key] = hidden.get(key, 0.0) + item.hidden_s
    for shared in pipeline.shared:
        holders = own.intersection(shared.stages)
        for stage, own_s in zip(shared.stages[1:], shared.updates_s[1:], strict=False):
            add(Cause.UPDATE, own_s if stage in holders else 0.0)
    add(Cause.OTHER_STAGES, step_s - busy)
    asked = plan.request.get("memory_limit_bytes")
    limit = asked if isinstance(asked, int | float) else cluster.usable_memory_bytes
    published, unlike = _published(plan, cluster)
    return replace(
        plan.estimate,
        step_time_s=step_s,
        time_by_cause={cause: s for cause, s in causes.items() if s > busy * 1e-12},
        memory_limit_bytes=float(limit),
        published=published,
        unlike=unlike,
        hidden_by_cause=hidden,
    )


def _published(plan: Plan, cluster: Cluster) -> tuple[Published | None, str]:
    """What published runs on the other machine's chips say of the step, or why they do not."""
    micro_batches = plan.pipeline.micro_batches
    forward_s = {op.name: op.kernels_s[0] / micro_batches for op in plan.operators}
    split = {op.name: [factor for _, factor in op.split] for op in plan.operators}
    return compared(plan.graph, cluster.chip, forward_s, split, software_on(plan, cluster.chip))
