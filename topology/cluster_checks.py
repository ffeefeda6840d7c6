"""What must hold in a cluster file as a whole: counts, names, networks, tiers; and what is odd."""

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise

from topology.chip_file import ChipFile
from topology.cluster_file import ClusterFile, FabricEntry, ServersEntry, ordered_fabrics
from topology.errors import ClusterError, Violation
from topology.library import LIBRARIES, library_choices, library_names
from topology.machine import Machine
from topology.server_file import LinkEntry, NicEntry
from topology.tiers import levels_of, tiers_of
from topology.units import format_bandwidth, parse_bandwidth, parse_count

__all__ = ["chip_ports", "cluster_violations", "machine_violations", "server_names"]

_MOST_NAMES = 2**17
_RANGE = re.compile(r"([^\[\]]*)\[(\d{1,9})-(\d{1,9})\]([^\[\]]*)")

_FASTEST: Mapping[str, float] = {
    "HCCS": 30e9, "SIO": 270e9, "PCIE": 128e9, "NVLINK": 900e9, "UB": 196e9, "XGMI": 64e9,
    "ICI": 100e9, "ROCE": 100e9, "IB": 100e9,
}  # fmt: skip
"""Fastest link or port of each kind among the bundled machines, bytes per second and direction."""


def chip_ports(chip: ChipFile) -> dict[str, float]:
    """Ports of a chip by kind, as far as its file says."""
    counts = {kind: link.count for kind, link in chip.links.items()}
    return {kind: parse_count(count.value) for kind, count in counts.items() if count is not None}


def server_names(entry: ServersEntry) -> tuple[str, ...]:
    """Names of the servers of an entry; empty if it gives none.

    Raises:
        ValueError: the range of names is none, or is too long.
    """
    if entry.names is None:
        return ()
    if not isinstance(entry.names, str):
        return entry.names
    match = _RANGE.fullmatch(entry.names)
    if match is None:
        if set("[]") & set(entry.names):
            raise ValueError(f"{entry.names[:80]!r} is no range of names such as node-[0-15]")
        return (entry.names,)
    before, first, last, after = match.groups()
    count = int(last) - int(first) + 1
    if not 0 < count <= _MOST_NAMES:
        raise ValueError(f"the range [{first}-{last}] has {count} names")
    width = len(first) if first.startswith("0") else 0
    numbers = range(int(first), int(last) + 1)
    return tuple(f"{before}{number:0{width}d}{after}" for number in numbers)


def cluster_violations(file: ClusterFile) -> list[Violation]:
    """Faults of the cluster layer."""
    found = [*_servers(file), *_library(file)]
    for name, fabric in file.cluster.fabrics.items():
        found += _fabric(fabric, file, f"cluster.fabrics.{name}")
    sizes = [fabric.servers for _, fabric in ordered_fabrics(file.cluster)]
    nested = all(
        inner is not None and (outer is None or (outer > inner and outer % inner == 0))
        for inner, outer in pairwise(sizes)
    )
    if not nested:
        told = ", ".join("all" if size is None else str(size) for size in sizes)
        what = f"networks that join {told} servers do not nest; each joins a multiple of the last"
        found.append(Violation("E_FABRIC", "cluster.fabrics", what))
    unknown = any(each.code in ("E_USE", "E_COUNT") for each in found)
    return found if unknown else [*found, *_joined(file)]


def _servers(file: ClusterFile) -> Iterator[Violation]:
    seen: set[str] = set()
    several = len(file.cluster.servers) > 1
    for index, entry in enumerate(file.cluster.servers):
        where = f"cluster.servers.{index}"
        if entry.use not in file.servers:
            yield Violation("E_USE", where, f"no server {entry.use!r}")
        if several and entry.count is None:
            yield Violation("E_COUNT", where, "servers of several kinds need a count each")
        if entry.count is not None and entry.max_count is not None:
            yield Violation("E_COUNT", where, "give count or max_count, not both")
        try:
            names = server_names(entry)
        except ValueError as fault:
            yield Violation("E_NAMES", where, str(fault))
            continue
        for name in names:
            if name in seen:
                yield Violation("E_NAMES", where, f"the name {name[:80]!r} stands twice")
                break
            seen.add(name)
        if names and entry.count is not None and len(names) != entry.count:
            yield Violation("E_NAMES", where, f"{len(names)} names for {entry.count} servers")


def _library(file: ClusterFile) -> Iterator[Violation]:
    entry = file.cluster.library
    if entry is not None and entry.generation not in LIBRARIES.get(entry.name, ()):
        known = ", ".join(library_choices())
        told = f"{entry.name} {entry.generation}".strip()[:80]
        yield Violation("E_LIBRARY", "cluster.library", f"no library {told!r}; known: {known}")
    if entry is not None and entry.profile is not None and entry.profile not in library_names():
        told = f"no profile {entry.profile[:80]!r}; known: {', '.join(library_names())}"
        yield Violation("E_LIBRARY", "cluster.library.profile", told)


def _fabric(fabric: FabricEntry, file: ClusterFile, where: str) -> Iterator[Violation]:
    for name in dict.fromkeys(entry.use for entry in file.cluster.servers):
        server = file.servers.get(name)
        if server is None:
            continue
        known = ", ".join(server.nics) or "none"
        if not server.nics:
            yield Violation("E_NIC", where, f"server {name!r} has no network ports")
        elif fabric.nic is None and len(server.nics) > 1:
            yield Violation("E_NIC", where, f"say which nic of {name!r} it joins: {known}")
        elif fabric.nic is not None and fabric.nic not in server.nics:
            yield Violation("E_NIC", where, f"server {name!r} has no nic {fabric.nic!r}: {known}")


def _joined(file: ClusterFile) -> Iterator[Violation]:
    """Servers that no network joins."""
    entries = file.cluster.servers
    counts = [entry.count or entry.max_count for entry in entries]
    most = None if None in counts else sum(count or 0 for count in counts)
    if most == 1:
        return
    reaches = [fabric.servers for fabric in file.cluster.fabrics.values()]
    reach = None if None in reaches else max((each or 1 for each in reaches), default=1)
    if not file.cluster.fabrics:
        yield Violation(
            "E_DISCONNECTED", "cluster.fabrics", "nothing joins the servers: name a fabric"
        )
    elif reach is not None and (most is None or most > reach):
        total = "any number of" if most is None else str(most)
        yield Violation(
            "E_DISCONNECTED", "cluster.fabrics", f"they join {reach} servers, not {total} servers"
        )


def machine_violations(machine: Machine) -> list[Violation]:
    """Faults that show when the planner's view is made, and what is odd though valid."""
    found = [*_fast(machine.file)]
    most = machine.max_devices
    devices = most if most is not None and not machine.is_open else None
    if devices is None:
        first = machine.entries[0]
        size = machine.file.servers[first.use].devices
        devices = 2 * size if first.max_count != 1 else size
    try:
        machine.cluster(devices)
    except ClusterError as fault:
        found.append(Violation("E_TIERS", fault.where, fault.what))
        return found
    found += [Violation("W_MIXED", "cluster.servers", note) for note in machine.notes(devices)]
    found += [*_uneven(machine)]
    return found


def _fast(file: ClusterFile) -> Iterator[Violation]:
    """Bandwidths that look like bits for bytes."""
    for server, template in file.servers.items():
        entries: dict[str, LinkEntry | NicEntry] = {
            **{f"links.{name}": link for name, link in template.links.items()},
            **{f"nics.{name}": nic for name, nic in template.nics.items()},
        }
        for where, entry in entries.items():
            rate, known = parse_bandwidth(entry.bandwidth.value), _FASTEST.get(entry.kind)
            if known is not None and rate > 2 * known:
                yield Violation(
                    "W_FAST",
                    f"servers.{server}.{where}.bandwidth",
                    f"{entry.bandwidth.value} is more than twice the fastest {entry.kind} known; "
                    "GB/s are bytes, Gb/s are bits, of one direction",
                )


def _uneven(machine: Machine) -> Iterator[Violation]:
    """Links that the planner's tiers take for slower than they are, or leave out."""
    for name in dict.fromkeys(entry.use for entry in machine.entries):
        server = machine.file.servers[name]
        tiers = tiers_of(machine.server_links(name), levels_of(server), server.links)
        for entry, link in server.links.items():
            rate = parse_bandwidth(link.bandwidth.value) * link.lanes
            alike = [tier for tier in tiers if tier.transport == link.kind]
            if any(tier.nominal_bandwidth_bytes_per_s >= rate for tier in alike):
                continue
            least = format_bandwidth(alike[0].nominal_bandwidth_bytes_per_s) if alike else ""
            what = (
                f"{format_bandwidth(rate)}, but the planner's tier {alike[0].name!r} counts {least}"
                if alike
                else "the planner's tiers do not use these links"
            )
            yield Violation("W_UNEVEN", f"servers.{name}.links.{entry}", what)
