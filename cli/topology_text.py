"""Machines, servers and chips as text for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from cli.text import table
from topology.units import format_bandwidth, format_bytes, format_flops, format_seconds

if TYPE_CHECKING:
    from rich.console import Console

Facts = Mapping[str, Any]


def print_list(facts: Facts, out: Console) -> None:
    """Tables of machines and chips."""
    machines = table("Machines", ("name", "devices", "server", "chip"), right=(1,))
    for each in facts["clusters"]:
        most = each["max_devices"]
        count = f"{each['devices_per_server']} a server" + (f", up to {most}" if most else "")
        machines.add_row(each["name"], count, each["server"], each["chip"])
    out.print(machines)
    chips = table("Chips", ("name", "16 bit", "memory", "bandwidth", "family"), right=(1, 2, 3))
    for each in facts["chips"]:
        flops = each["flops_16_bit"]
        chips.add_row(
            each["name"],
            "-" if flops is None else format_flops(flops),
            format_bytes(each["memory_bytes"]),
            format_bandwidth(each["memory_bandwidth_bytes_per_s"]),
            each["family"],
        )
    out.print(chips)
    out.print("\n`planner topology show NAME` prints one of them with the sources of its numbers.")


def print_facts(facts: Facts, out: Console) -> None:
    """A machine, a server or a chip."""
    if facts["kind"] == "chip":
        _print_chip(facts, out)
        return
    if facts["kind"] == "server":
        _print_server(facts, out)
        return
    out.print(f"{facts['name']}  {facts['title']}")
    for entry in facts["servers"]:
        most = f" up to {entry['max_count']}" if "max_count" in entry else " as many as needed"
        count = entry.get("count")
        out.print(f"  servers: {entry['use']} x {count}" if count else
                  f"  servers: {entry['use']},{most}")  # fmt: skip
    for name, fabric in facts["fabrics"].items():
        told = ", ".join(_setting(key, value) for key, value in fabric.items() if key != "type")
        out.print(f"  fabric {name}: {fabric['type']}{', ' if told else ''}{told}")
    for template in facts["templates"]:
        _print_server(template, out)
    _print_view(facts["view"], out)
    for note in facts["notes"]:
        out.print(f"note: {note}")


def _print_server(server: Facts, out: Console) -> None:
    out.print(f"\nserver {server['name']}: {server['devices']} x {server['chip']}")
    for key in ("title", "host"):
        if server[key]:
            out.print(f"  {server[key]}")
    for name, groups in server["groups"].items():
        out.print(f"  {name}: " + " ".join(f"({', '.join(map(str, g))})" for g in groups))
    columns = ("links", "between", "bandwidth", "eff.", "latency", "trust")
    wires = table("Links and network ports, per direction", columns, right=(2, 3, 4))
    for wire in (*server["links"], *server["nics"]):
        lanes = wire.get("lanes", 1)
        rate = wire["bandwidth"]["value"]
        wires.add_row(
            f"{wire['name']} ({wire['kind']})",
            wire["between"] + (f", via {wire['via']}" if "via" in wire else ""),
            f"{lanes} x {rate}" if lanes > 1 else rate,
            wire["efficiency"]["value"],
            wire["latency"]["value"],
            ", ".join(
                dict.fromkeys(wire[k]["confidence"] for k in ("bandwidth", "efficiency", "latency"))
            ),
        )
    out.print(wires)
    for name, shared in server["shared"].items():
        rate = shared["bandwidth"]
        out.print(f"  shared {name}: {rate['value']} per {shared['per']} ({rate['confidence']})")
    if server["placement"]:
        _print_placement(server["placement"], out)
    if server["note"]:
        out.print(f"  {server['note']}")


def _print_placement(rule: Facts, out: Console) -> None:
    out.print(f"  a job takes {_numbers(rule['on_one_server'])} devices of one server")
    if rule["job"]:
        out.print(f"    which: {'; '.join(_rules(rule['job']))}")
    if rule["group"]:
        out.print(
            "  a communication group takes, alike on every server: "
            f"{'; '.join(_rules(rule['group']))}"
        )


def _rules(rules: list[Facts]) -> Iterator[str]:
    for rule in rules:
        text = str(rule["count"])
        if "inside" in rule:
            text += f" inside one {rule['inside']}"
        if "distance" in rule:
            text += f" in pairs at distance {rule['distance']}"
        yield text


def _print_view(view: Facts, out: Console) -> None:
    columns = ("tier", "size", "wiring", "achieved", "stated", "shared", "latency")
    tiers = table(
        f"The planner's view of {view['devices']} devices, outermost first, per direction",
        columns,
        right=(1, 3, 4, 5, 6),
    )
    for tier in view["tiers"]:
        shared = tier["shared_capacity_bytes_per_s"]
        extra = " in-network reduction" if tier["in_network_reduction"] else ""
        line = "" if tier["wrap"] else " open"
        tiers.add_row(
            tier["name"],
            str(tier["size"]),
            f"{tier['kind']}{line} {tier['transport']}{extra}".rstrip(),
            format_bandwidth(tier["bandwidth_bytes_per_s"]),
            format_bandwidth(tier["nominal_bandwidth_bytes_per_s"]),
            "-" if shared is None else format_bandwidth(shared),
            format_seconds(tier["latency_s"]),
        )
    out.print(tiers)
    chip = view["chip"]
    out.print(
        f"each device: {chip['name']} ({chip['family']}), "
        f"{format_bytes(view['usable_memory_bytes'])} for the model"
    )


def _print_chip(chip: Facts, out: Console) -> None:
    out.print(f"{chip['name']}  {chip['family']}")
    if chip["aliases"]:
        out.print(f"  also {', '.join(chip['aliases'])}")
    numbers = table(
        "Numbers and where they come from", ("what", "value", "trust", "from"), right=(1,)
    )
    notes = []
    for path, quantity in _quantities(chip, ""):
        numbers.add_row(
            path,
            quantity["value"],
            quantity["confidence"],
            ", ".join(quantity["source"]),
        )
        if "note" in quantity:
            notes.append(f"  {path}: {quantity['note']}")
    out.print(numbers)
    for note in notes:
        out.print(note)
    if "note" in chip:
        out.print(f"\n{chip['note']}")


def _quantities(record: Facts, path: str) -> Iterator[tuple[str, Facts]]:
    """All numbers of a record, each with its place."""
    for key, value in record.items():
        here = f"{path}.{key}" if path else key
        if isinstance(value, dict) and "value" in value:
            yield here, value
        elif isinstance(value, dict):
            yield from _quantities(value, here)


def _numbers(counts: list[int]) -> str:
    return ", ".join(map(str, counts))


def _setting(key: str, value: object) -> str:
    told = value["value"] if isinstance(value, dict) else value
    return f"{key.replace('_', ' ')} {told}"
