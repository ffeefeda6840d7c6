"""The mesh of a plan and the machine it runs on, with what a step sends over each link."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ir.plan import Plan
from ir.plan_stages import stage_ranks, tier_names
from planner.repricing.flows import FloatArray, Flow, between_devices, flows_of, tier_loads
from report.tables import plain
from report.traffic import group_table, group_traffic, tier_table
from topology.catalogue import is_machine, named_machine
from topology.machine import Machine
from topology.picture import picture_of
from topology.shapes import Line, Picture

_NEAR = 1e-6
MOST_RANKS = 4096
"""Ranks that are listed one by one."""


def mesh_view(plan: Plan) -> dict[str, Any]:
    """Axes, ranks with their devices, and a table of what travels over which axes."""
    ranks = plan.rank_order[:MOST_RANKS]
    tiers = tier_names(plan)
    return {
        "axes": [{"name": n, "size": s, "tier": tiers[t]} for n, s, t in plan.mesh],
        "ranks": list(ranks),
        "left_out": len(plan.rank_order) - len(ranks),
        "stages": plan.pipeline.parts,
        "report": plain(group_table(group_traffic(plan))),
    }


def cluster_view(
    plan: Plan, uploaded: Machine | None = None, servers: int | None = None
) -> dict[str, Any]:
    """Tiers with their traffic, and a picture of the machine with the bytes of each link.

    Args:
        plan: what runs there.
        uploaded: the machine, where it is none of the bundled ones.
        servers: how many are drawn; `None` for two, or one of each kind.
    """
    flows = flows_of(plan)
    name = str(plan.cluster.get("name"))
    machine = uploaded
    if machine is None and is_machine(name):
        machine = named_machine(name)
    picture = None if machine is None else machine_picture(machine, plan, flows, servers)
    loads = tier_loads(plan, flows)
    return {
        "name": name,
        "devices": plan.devices,
        "tiers": [asdict(load) for load in loads],
        "report": plain(tier_table(loads)),
        "picture": picture,
    }


def machine_picture(
    machine: Machine, plan: Plan | None = None, flows: Sequence[Flow] = (),
    servers: int | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Dots, boxes and lines of a machine; y grows downwards. With a plan, lines say what each
    direction of a link carries in one step.
    """
    picture = picture_of(machine, servers)
    left, right, bottom, top = picture.extent()
    load = _Load(picture, machine, plan, flows)
    return {
        "title": picture.subtitle or picture.title,
        "servers": _servers(machine, picture, plan),
        "extent": [left, -top, right, -bottom],
        "legend": picture.legend,
        "dots": [
            {"x": d.x, "y": -d.y, "label": d.label, "kind": d.kind} for d in picture.dots
        ],
        "boxes": [
            {"x": b.x - b.width / 2, "y": -b.y - b.height / 2, "width": b.width,
             "height": b.height, "label": b.label, "kind": b.kind}
            for b in picture.boxes
        ],
        "lines": [
            {"points": [[x, -y] for x, y in line.points], "kind": line.kind, "width": line.width,
             "faint": line.faint, "bytes": load.of(line)}
            for line in picture.lines
        ],
    }  # fmt: skip


def _servers(machine: Machine, picture: Picture, plan: Plan | None) -> dict[str, int] | None:
    """How many servers are drawn, of how many the plan uses, and devices of each."""
    if plan is None:
        return None
    each = machine.server_links(machine.entries[0].use).devices
    drawn = sum(box.kind == "server" for box in picture.boxes)
    return {"drawn": drawn, "used": -(-plan.devices // each), "devices": each}


class _Load:
    """Bytes of the lines of a picture, one direction of each, in a step."""

    def __init__(
        self, picture: Picture, machine: Machine, plan: Plan | None, flows: Sequence[Flow]
    ) -> None:
        self._devices: dict[tuple[float, float], int] = {}
        self._ports: dict[tuple[float, float], float] = {}
        self._inside: FloatArray | None = None
        self._outside: Mapping[int, float] = {}
        self._per_server = machine.server_links(machine.entries[0].use).devices
        if plan is None or not picture.dots:
            return
        number = 0
        for dot in picture.dots:
            if dot.kind == "device":
                self._devices[_key(dot.x, dot.y)] = number
                number += 1
        traffic = between_devices(plan, flows, number)
        self._inside = traffic
        outer = [0.0] * plan.pipeline.parts
        for flow in flows:
            outer[flow.part] += flow.nbytes * (flow.tier == 0)
        if plan.devices > self._per_server:
            self._outside = {
                device: outer[part]
                for part in range(plan.pipeline.parts)
                for device in stage_ranks(plan, part)
            }
        self._sum_ports(picture)

    def _sum_ports(self, picture: Picture) -> None:
        """What each network port passes on: the traffic of its devices."""
        ports = {_key(d.x, d.y) for d in picture.dots if d.kind == "nic"}
        for line in picture.lines:
            ends = [_key(*line.points[0]), _key(*line.points[-1])]
            if ends[0] in self._devices and ends[1] in ports:
                own = self._outside.get(self._devices[ends[0]], 0.0)
                self._ports[ends[1]] = self._ports.get(ends[1], 0.0) + own

    def of(self, line: Line) -> float | None:
        """Nothing where no plan is shown."""
        if self._inside is None:
            return None
        one, two = _key(*line.points[0]), _key(*line.points[-1])
        if one in self._devices and two in self._devices:
            ends = self._devices[one], self._devices[two]
            return float(max(self._inside[ends], self._inside[ends[::-1]]))
        if one in self._ports:
            return self._ports[one]
        if two in self._ports:
            return self._outside.get(self._devices.get(one, -1), 0.0)
        if one in self._devices:
            row = self._inside[self._devices[one]]
            start = self._devices[one] // self._per_server * self._per_server
            return float(row[start : start + self._per_server].sum())
        return None


def _key(x: float, y: float) -> tuple[float, float]:
    return round(x / _NEAR) * _NEAR, round(y / _NEAR) * _NEAR
