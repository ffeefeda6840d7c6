"""What is known of machines, servers and chips, as plain JSON values."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from topology import catalogue
from topology.chips import chip_profile, is_chip
from topology.server_file import GENERATORS, LinkEntry, NicEntry, ServerFile
from topology.uses import bundled

if TYPE_CHECKING:
    from topology.machine import Machine

Facts = dict[str, Any]


def listed() -> Facts:
    """Names of everything bundled, with what tells them apart."""
    clusters = [_cluster_line(name) for name in catalogue.cluster_names()]
    chips = [_chip_line(name) for name in catalogue.chip_names()]
    return {"clusters": clusters, "chips": chips}


def bundled_facts(name: str, devices: int | None) -> Facts | None:
    """What is known under the name of a machine, server or chip; nothing under other names.

    Raises:
        ClusterError: a job cannot have so many devices.
    """
    if name in catalogue.server_names():
        server = ServerFile.model_validate(bundled("servers", name))
        return {"kind": "server", **server_facts(server)}
    if name not in catalogue.cluster_names() and is_chip(name):
        return {"kind": "chip", **chip_profile(name).model_dump(mode="json", exclude_none=True)}
    if not catalogue.is_machine(name):
        return None
    return machine_facts(catalogue.named_machine(name), devices)


def known_names() -> tuple[str, ...]:
    """Names of all machines, servers and chips."""
    return (*catalogue.cluster_names(), *catalogue.server_names(), *catalogue.chip_names())


def machine_facts(machine: Machine, devices: int | None) -> Facts:
    """The layers of a machine and the planner's view of it."""
    count = default_devices(machine) if devices is None else devices
    cluster = machine.cluster(count)
    file = machine.file
    names = list(dict.fromkeys(entry.use for entry in machine.entries))
    return {
        "kind": "machine",
        "name": file.name,
        "title": file.title,
        "max_devices": machine.max_devices,
        "servers": [entry.model_dump(mode="json", exclude_none=True) for entry in machine.entries],
        "templates": [server_facts(file.servers[name]) for name in names],
        "fabrics": {
            name: entry.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
            for name, entry in file.cluster.fabrics.items()
        },
        "view": {
            "devices": count,
            "chip": asdict(cluster.chip) | {"peak_flops": dict(cluster.chip.peak_flops)},
            "tiers": [asdict(tier) | {"kind": tier.kind.value} for tier in cluster.tiers],
            "usable_memory_bytes": cluster.usable_memory_bytes,
        },
        "notes": list(machine.notes(count)),
    }


def default_devices(machine: Machine) -> int:
    """The whole machine, or two of its servers if their number is open."""
    if machine.max_devices is not None and not machine.is_open:
        return machine.max_devices
    first = machine.entries[0]
    most = first.max_count or 2
    return min(2, most) * machine.file.servers[first.use].devices


def _cluster_line(name: str) -> Facts:
    machine = catalogue.named_machine(name)
    server = machine.file.servers[machine.entries[0].use]
    return {
        "name": name,
        "title": machine.file.title,
        "server": server.name,
        "chip": machine.chips[server.name].name,
        "devices_per_server": server.devices,
        "max_devices": machine.max_devices,
    }


def _chip_line(name: str) -> Facts:
    chip = catalogue.named_chip(name)
    sixteen = chip.peak_flops.get("bfloat16") or chip.peak_flops.get("float16")
    return {
        "name": name,
        "family": chip.family,
        "flops_16_bit": sixteen,
        "memory_bytes": chip.memory_bytes,
        "memory_bandwidth_bytes_per_s": chip.memory_bandwidth_bytes_per_s,
    }


def server_facts(server: ServerFile) -> Facts:
    """The links, ports and constraints of a kind of server."""
    chip = server.chip if isinstance(server.chip, str) else server.chip.name
    return {
        "name": server.name,
        "title": server.title,
        "host": server.host,
        "chip": chip,
        "devices": server.devices,
        "groups": {name: [list(g) for g in groups] for name, groups in server.groups.items()},
        "links": [_wire(name, entry) for name, entry in server.links.items()],
        "nics": [_wire(name, entry) for name, entry in server.nics.items()],
        "shared": {
            name: shared.model_dump(mode="json", exclude_none=True)
            for name, shared in server.shared.items()
        },
        "placement": None
        if server.placement is None
        else server.placement.model_dump(mode="json", exclude_none=True),
        "note": server.note,
    }


def _wire(name: str, entry: LinkEntry | NicEntry) -> Facts:
    record = entry.model_dump(mode="json", exclude_none=True)
    if isinstance(entry, NicEntry):
        return {"name": name, "between": _ports(entry), **record}
    generator = next(each for each in GENERATORS if getattr(entry, each) is not None)
    return {"name": name, "between": _between(generator, record[generator]), **record}


def _ports(entry: NicEntry) -> str:
    each = "one for each device" if entry.devices == "each" else ""
    return each or f"{len(entry.devices)}, for {len(entry.devices[0])} devices each"


def _between(generator: str, members: object) -> str:
    """A generator in words, such as `full_mesh of [0, 1, 2, 3], [4, 5, 6, 7]`."""
    noun = generator.replace("_", " ")
    if isinstance(members, dict):
        dims = " x ".join(map(str, members["dims"]))
        return f"{noun} {dims}"
    if members == "all":
        return f"{noun} of all"
    assert isinstance(members, list)
    told = [", ".join(map(str, group)) for group in members]
    if generator in ("pairs", "directed"):
        return f"{noun} " + " ".join(text.replace(", ", "-") for text in told)
    return f"{noun} of " + " and ".join(f"({text})" for text in told)
