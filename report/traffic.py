"""What a step sends: over which axes of the mesh, and over which links of the machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ir.folding import Axes
from ir.plan import Plan, PlannedCollective
from ir.plan_stages import messages_of, slowest_part
from report.tables import Table, Unit


@dataclass(frozen=True, slots=True)
class GroupTraffic:
    """Messages over the same axes, of a device of the slowest part of the machine, in a step."""

    over: str
    """The axes in short; what stages send each other is named by its cause."""
    kinds: tuple[str, ...]
    size: int
    count: int
    nbytes: float
    exposed_s: float
    hidden_s: float


@dataclass(frozen=True, slots=True)
class TierLoad:
    """The links of a tier, and what a step does with them."""

    name: str
    size: int
    kind: str
    transport: str
    bandwidth_bytes_per_s: float
    latency_s: float
    sent_bytes: float
    """Of a device, in the part of the machine that sends most."""
    busy: float
    """Share of the step in which its links carry that."""
    time_s: float
    """Of communication that these links hold up, exposed."""
    hidden_s: float
    """The same, hidden."""


def group_traffic(plan: Plan) -> tuple[GroupTraffic, ...]:
    """By axes, those first that take longest."""
    axes = Axes.of(plan)
    members: dict[tuple[str, ...], list[PlannedCollective]] = {}
    for item in messages_of(plan, slowest_part(plan)):
        members.setdefault(item.axes, []).append(item)
    groups = [
        GroupTraffic(
            over=axes.short(names) if names else own[0].cause,
            kinds=tuple(dict.fromkeys(item.kind.replace("_", "-") for item in own)),
            size=own[0].group_size,
            count=sum(item.count for item in own),
            nbytes=sum(item.nbytes * item.count for item in own),
            exposed_s=sum(item.exposed_s for item in own),
            hidden_s=sum(item.hidden_s for item in own),
        )
        for names, own in members.items()
    ]
    return tuple(sorted(groups, key=lambda group: -group.exposed_s - group.hidden_s))


def group_table(groups: Sequence[GroupTraffic]) -> Table:
    """Axes with what travels over them."""
    number, seconds = Unit.NUMBER, Unit.SECONDS
    columns = (
        "over", "kind", ("members", number), ("how often", number),
        ("bytes of a device", Unit.BYTES), ("exposed", seconds), ("hidden", seconds),
    )  # fmt: skip
    rows = [
        (g.over, ", ".join(g.kinds), g.size, g.count, g.nbytes, g.exposed_s, g.hidden_s)
        for g in groups
    ]
    return Table.of("Communication groups", columns, rows)


def tier_table(loads: Sequence[TierLoad]) -> Table:
    """Tiers from the outside in, with what a step does to them."""
    seconds = Unit.SECONDS
    columns = (
        "tier", ("members", Unit.NUMBER), "wiring", ("transport", Unit.CODE),
        ("bandwidth", Unit.BANDWIDTH), ("bytes of a device", Unit.BYTES),
        ("busy %", Unit.SHARE), ("holds the step up", seconds), ("hidden", seconds),
    )  # fmt: skip
    rows = [
        (t.name, t.size, t.kind.replace("_", " "), t.transport, t.bandwidth_bytes_per_s,
         t.sent_bytes, t.busy, t.time_s, t.hidden_s)
        for t in loads
    ]  # fmt: skip
    return Table.of("Tiers, from the outside in", columns, rows)
