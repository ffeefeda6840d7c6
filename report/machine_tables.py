"""Machines, servers and chips in sentences and tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from report.tables import Lines, Part, Table, Unit, numbers
from topology.units import format_bytes

Facts = Mapping[str, Any]


def list_parts(facts: Facts) -> Iterator[Part]:
    """Machines and chips."""
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
    yield Table.of("Machines", ("name", ("devices", Unit.NUMBER), "server", "chip"), machines)
    yield Table.of("Chips", columns, chips)
    told = "`planner topology show NAME` prints one of them with the sources of its numbers."
    yield Lines("", (f"\n{told}",))


def parts(facts: Facts) -> Iterator[Part]:
    """A machine, a server or a chip."""
    if facts["kind"] == "chip":
        yield from _chip(facts)
    elif facts["kind"] == "server":
        yield from _server(facts)
    else:
        yield from _machine(facts)


def _machine(facts: Facts) -> Iterator[Part]:
    lines = [f"{facts['name']}  {facts['title']}"]
    for entry in facts["servers"]:
        most = f" up to {entry['max_count']}" if "max_count" in entry else " as many as needed"
        count = entry.get("count")
        lines.append(f"  servers: {entry['use']}{f' x {count}' if count else f',{most}'}")
    for name, fabric in facts["fabrics"].items():
        told = ", ".join(_setting(key, value) for key, value in fabric.items() if key != "type")
        lines.append(f"  fabric {name}: {fabric['type']}{', ' if told else ''}{told}")
    yield Lines("", tuple(lines))
    for template in facts["templates"]:
        yield from _server(template)
    yield from _view(facts["view"])
    yield Lines("", tuple(facts["notes"]), "note: ")


def _server(server: Facts) -> Iterator[Part]:
    lines = [f"\nserver {server['name']}: {server['devices']} x {server['chip']}"]
    lines += [f"  {server[key]}" for key in ("title", "host") if server[key]]
    for name, groups in server["groups"].items():
        lines.append(f"  {name}: " + " ".join(f"({_counts(group)})" for group in groups))
    yield Lines("", tuple(lines))
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
    yield Table.of("Links and network ports, per direction", columns, rows)
    lines = []
    for name, shared in server["shared"].items():
        rate = shared["bandwidth"]
        lines.append(f"  shared {name}: {rate['value']} per {shared['per']} ({rate['confidence']})")
    if server["placement"]:
        lines += _placement(server["placement"])
    if server["note"]:
        lines.append(f"  {server['note']}")
    yield Lines("", tuple(lines))


def _placement(rule: Facts) -> Iterator[str]:
    yield f"  a job takes {_counts(rule['on_one_server'])} devices of one server"
    if rule["job"]:
        yield f"    which: {'; '.join(_rules(rule['job']))}"
    if rule["group"]:
        rules = "; ".join(_rules(rule["group"]))
        yield f"  a communication group takes, alike on every server: {rules}"


def _rules(rules: list[Facts]) -> Iterator[str]:
    for rule in rules:
        text = str(rule["count"])
        if "inside" in rule:
            text += f" inside one {rule['inside']}"
        if "distance" in rule:
            text += f" in pairs at distance {rule['distance']}"
        yield text


def _view(view: Facts) -> Iterator[Part]:
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
    chip, usable = view["chip"], format_bytes(view["usable_memory_bytes"])
    told = f"each device: {chip['name']} ({chip['family']}), {usable} for the model"
    yield Table.of(title, columns, rows, after=(told,))


def _chip(chip: Facts) -> Iterator[Part]:
    also = (f"  also {', '.join(chip['aliases'])}",) if chip["aliases"] else ()
    yield Lines("", (f"{chip['name']}  {chip['family']}", *also))
    found = list(_quantities(chip, ""))
    rows = [(path, q["value"], q["confidence"], ", ".join(q["source"])) for path, q in found]
    columns = ("what", ("value", Unit.NUMBER), "trust", "from")
    notes = [f"  {path}: {q['note']}" for path, q in found if "note" in q]
    yield Table.of("Numbers and where they come from", columns, rows, after=notes)
    if "note" in chip:
        yield Lines("", (f"\n{chip['note']}",))


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
