"""Machines, servers and chips as text for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from cli.text import show
from report.tables import Table, Unit, numbers
from topology.units import format_bytes

if TYPE_CHECKING:
    from rich.console import Console

Facts = Mapping[str, Any]


def print_list(facts: Facts, out: Console) -> None:
    """Tables of machines and chips."""
    machines = []
    for each in facts["clusters"]:
        most = f", up to {each['max_devices']}" if each["max_devices"] else ""
        count = f"{each['devices_per_server']} a server{most}"
        machines.append((each["name"], count, each["server"], each["chip"]))
    keys = ("flops_16_bit", "memory_bytes", "memory_bandwidth_bytes_per_s")
    chips = [(c["name"], *(c[key] for key in keys), c["family"]) for c in facts["chips"]]
    columns = (
        "name", ("16 bit", Unit.FLOPS), ("memory", Unit.BYTES), ("bandwidth", Unit.BANDWIDTH),
        "family",
    )  # fmt: skip
    show(
        (
            Table.of("Machines", ("name", ("devices", Unit.NUMBER), "server", "chip"), machines),
            Table.of("Chips", columns, chips),
        ),
        out,
    )
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
    rows = []
    for wire in (*server["links"], *server["nics"]):
        lanes, keys = wire.get("lanes", 1), ("bandwidth", "efficiency", "latency")
        rate, *others = (wire[key]["value"] for key in keys)
        trust = dict.fromkeys(wire[key]["confidence"] for key in keys)
        between = wire["between"] + (f", via {wire['via']}" if "via" in wire else "")
        lane_rate = f"{lanes} x {rate}" if lanes > 1 else rate
        name = f"{wire['name']} ({wire['kind']})"
        rows.append((name, between, lane_rate, *others, ", ".join(trust)))
    columns = ("links", "between", *numbers("bandwidth", "eff.", "latency"), "trust")
    show((Table.of("Links and network ports, per direction", columns, rows),), out)
    for name, shared in server["shared"].items():
        rate = shared["bandwidth"]
        out.print(f"  shared {name}: {rate['value']} per {shared['per']} ({rate['confidence']})")
    if server["placement"]:
        _print_placement(server["placement"], out)
    if server["note"]:
        out.print(f"  {server['note']}")


def _print_placement(rule: Facts, out: Console) -> None:
    out.print(f"  a job takes {_counts(rule['on_one_server'])} devices of one server")
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
    rate = Unit.BANDWIDTH
    columns = (
        "tier", ("size", Unit.NUMBER), "wiring", ("achieved", rate), ("stated", rate),
        ("shared", rate), ("latency", Unit.SECONDS),
    )  # fmt: skip
    keys = ("bandwidth_bytes_per_s", "nominal_bandwidth_bytes_per_s", "shared_capacity_bytes_per_s")
    rows = []
    for tier in view["tiers"]:
        extra = " in-network reduction" if tier["in_network_reduction"] else ""
        line = "" if tier["wrap"] else " open"
        wiring = f"{tier['kind']}{line} {tier['transport']}{extra}".rstrip()
        values = (tier[key] for key in (*keys, "latency_s"))
        rows.append((tier["name"], tier["size"], wiring, *values))
    title = f"The planner's view of {view['devices']} devices, outermost first, per direction"
    show((Table.of(title, columns, rows),), out)
    chip = view["chip"]
    out.print(
        f"each device: {chip['name']} ({chip['family']}), "
        f"{format_bytes(view['usable_memory_bytes'])} for the model"
    )


def _print_chip(chip: Facts, out: Console) -> None:
    out.print(f"{chip['name']}  {chip['family']}")
    if chip["aliases"]:
        out.print(f"  also {', '.join(chip['aliases'])}")
    found = list(_quantities(chip, ""))
    rows = [(path, q["value"], q["confidence"], ", ".join(q["source"])) for path, q in found]
    columns = ("what", ("value", Unit.NUMBER), "trust", "from")
    notes = [f"  {path}: {q['note']}" for path, q in found if "note" in q]
    show((Table.of("Numbers and where they come from", columns, rows, after=notes),), out)
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


def _counts(counts: list[int]) -> str:
    return ", ".join(map(str, counts))


def _setting(key: str, value: object) -> str:
    told = value["value"] if isinstance(value, dict) else value
    return f"{key.replace('_', ' ')} {told}"
