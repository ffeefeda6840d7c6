"""What must hold in a server file beyond the form of its fields: links, groups, ports."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from topology.errors import Violation
from topology.server_file import LinkEntry, NicEntry, ServerFile, Torus
from topology.units import parse_bandwidth
from topology.wiring import MOST_LINKS, groups_of, nested_groups, pairs_of

__all__ = ["link_count", "server_violations"]

_MOST_OF_A_KIND = 4
"""Violations of one entry that are told one by one."""


def server_violations(
    server: ServerFile, ports: Mapping[str, float], where: str
) -> list[Violation]:
    """All faults of a server.

    Args:
        server: a template.
        ports: how many ports of each kind its chip has, as far as that is known.
        where: path of the template in its file.
    """
    found = [*_groups(server, where), *_placement(server, where)]
    sound = True
    for name, entry in server.links.items():
        here = list(_link(entry, server, f"{where}.links.{name}"))
        sound = sound and not here
        found += here
    for name, nic in server.nics.items():
        found += _nic(nic, server, f"{where}.nics.{name}")
    if sound:
        found += [*_connected(server, where), *_ports(server, ports, where)]
        found += [*_ring_orders(server, where)]
    return found


def _groups(server: ServerFile, where: str) -> Iterator[Violation]:
    devices = list(range(server.devices))
    outer = dict.fromkeys(devices, 0)
    for name, groups in nested_groups(server):
        place = f"{where}.groups.{name}"
        if sorted(device for group in groups for device in group) != devices:
            yield Violation(
                "E_GROUPS", place, f"the groups do not hold each of devices 0 to {devices[-1]} once"
            )
            return
        if len(set(map(len, groups))) != 1:
            sizes = ", ".join(str(len(group)) for group in groups)
            yield Violation("E_GROUPS", place, f"the groups have different sizes: {sizes}")
            return
        if any(len({outer[device] for device in group}) != 1 for group in groups):
            yield Violation("E_GROUPS", place, "a group lies across two of the groups around it")
            return
        outer = {device: index for index, group in enumerate(groups) for device in group}


def _link(entry: LinkEntry, server: ServerFile, where: str) -> Iterator[Violation]:
    yield from _via(entry, server, where)
    faults = [*_members(entry, server, where)]
    yield from faults
    if faults:
        return
    count = link_count(entry, server)
    if count > MOST_LINKS:
        yield Violation("E_SIZE", where, f"{count} links; a server has at most {MOST_LINKS}")
        return
    yield from islice(_pair_faults(entry, server, where), _MOST_OF_A_KIND)


def _via(entry: LinkEntry | NicEntry, server: ServerFile, where: str) -> Iterator[Violation]:
    if entry.via is not None and entry.via not in server.shared:
        known = ", ".join(server.shared) or "none"
        yield Violation("E_SHARED", where, f"no shared resource {entry.via!r}; known: {known}")


def _members(entry: LinkEntry, server: ServerFile, where: str) -> Iterator[Violation]:
    """Faults of the groups that a generator names."""
    torus = entry.torus
    named = (entry.full_mesh, entry.ring, entry.switch, torus.devices if torus else None)
    for members in named:
        if members is None:
            continue
        for group in groups_of(members, server.devices):
            yield from _in_range(group, server, where)
            if len(set(group)) != len(group):
                yield Violation("E_TWICE", where, f"group {_told(group)} names a device twice")
            if entry.ring is not None and len(group) < 3:
                yield Violation("E_RING", where, f"a ring of {len(group)}; it takes three devices")
            if torus is not None:
                yield from _torus(torus, len(group), where)
    for pair in [*(entry.pairs or ()), *(entry.directed or ())]:
        if len(pair) != 2:
            yield Violation("E_PAIR", where, f"{_told(pair)} is no pair of devices")
        yield from _in_range(pair, server, where)


def _torus(torus: Torus, members: int, where: str) -> Iterator[Violation]:
    product = 1
    for size in torus.dims:
        product *= size
    if product != members:
        dims = " x ".join(map(str, torus.dims))
        yield Violation("E_TORUS", where, f"a torus of {dims} has {product} devices, not {members}")
    if len(torus.wraps()) != len(torus.dims):
        yield Violation("E_TORUS", where, "wrap needs one value, or one for each dimension")


def _in_range(devices: Sequence[int], server: ServerFile, where: str) -> Iterator[Violation]:
    bad = [device for device in devices if device >= server.devices]
    if bad:
        yield Violation(
            "E_DEVICE",
            where,
            f"a link to device {bad[0]}, but the server has devices 0 to {server.devices - 1}",
        )


def link_count(entry: LinkEntry, server: ServerFile) -> int:
    """Links of an entry, counted without making them."""
    if entry.full_mesh is not None:
        sizes = [len(group) for group in groups_of(entry.full_mesh, server.devices)]
        return sum(size * (size - 1) for size in sizes)
    if entry.torus is not None:
        return 2 * len(entry.torus.dims) * server.devices
    return 2 * sum(map(len, [*(entry.pairs or ()), *(entry.directed or ())])) + server.devices


def _pair_faults(entry: LinkEntry, server: ServerFile, where: str) -> Iterator[Violation]:
    if entry.switch is not None:
        return
    seen: set[tuple[int, int]] = set()
    for one, two in pairs_of(entry, server.devices):
        if one == two:
            yield Violation("E_SELF", where, f"a link from device {one} to itself")
        key = (one, two) if entry.directed is not None else (min(one, two), max(one, two))
        if key in seen:
            yield Violation(
                "E_TWICE", where, f"the link {one} - {two} stands twice; lanes: 2 joins two cables"
            )
        seen.add(key)
    for one, two in sorted(seen) if entry.directed is not None else ():
        if (two, one) not in seen and not _returns(server, two, one, entry):
            yield Violation(
                "E_ASYMMETRIC", where, f"a link {one} -> {two}, but none of the same kind back"
            )


def _returns(server: ServerFile, source: int, target: int, like: LinkEntry) -> bool:
    """Whether another entry has the way back with the same bandwidth."""
    rate = parse_bandwidth(like.bandwidth.value)
    return any(
        other.directed is not None
        and (source, target) in other.directed
        and parse_bandwidth(other.bandwidth.value) == rate
        for other in server.links.values()
    )


def _nic(nic: NicEntry, server: ServerFile, where: str) -> Iterator[Violation]:
    yield from _via(nic, server, where)
    if nic.devices == "each":
        return
    named = sorted(device for port in nic.devices for device in port)
    if named != list(range(server.devices)):
        last = server.devices - 1
        yield Violation("E_NIC", where, f"the ports do not serve each of devices 0 to {last} once")


def _connected(server: ServerFile, where: str) -> Iterator[Violation]:
    joined: list[Sequence[int]] = []
    for entry in server.links.values():
        if entry.switch is None:
            joined += pairs_of(entry, server.devices)
        else:
            joined += groups_of(entry.switch, server.devices)
    # By hand, for every command reads a machine: networkx takes a quarter of a second to load.
    parts = [{device} for device in range(server.devices)]
    for group in filter(None, map(set, joined)):
        touched = [part for part in parts if part & group]
        parts = [part for part in parts if not part & group] + [group.union(*touched)]
    if len(parts) > 1:
        told = "; ".join(_told(part) for part in sorted(map(sorted, parts))[:_MOST_OF_A_KIND])
        yield Violation("E_DISCONNECTED", f"{where}.links", f"no links join these devices: {told}")


def _ports(server: ServerFile, ports: Mapping[str, float], where: str) -> Iterator[Violation]:
    """Devices with more links of a kind than their chip has ports."""
    used: dict[str, dict[int, int]] = {}
    for entry in server.links.values():
        if entry.switch is not None or entry.kind not in ports:
            continue
        of_kind = used.setdefault(entry.kind, {})
        for pair in pairs_of(entry, server.devices):
            for device in pair:
                of_kind[device] = of_kind.get(device, 0) + entry.lanes
    for kind, of_kind in used.items():
        device = max(of_kind, key=lambda each: of_kind[each], default=-1)
        if device >= 0 and of_kind[device] > ports[kind]:
            yield Violation(
                "E_PORTS",
                f"{where}.links",
                f"device {device} has {of_kind[device]} {kind} links, but its chip has "
                f"{ports[kind]:g} ports",
            )


def _ring_orders(server: ServerFile, where: str) -> Iterator[Violation]:
    if not server.ring_orders:
        return
    joined = {
        frozenset(pair)
        for entry in server.links.values()
        if entry.switch is None
        for pair in pairs_of(entry, server.devices)
    }
    for index, order in enumerate(server.ring_orders):
        place = f"{where}.ring_orders.{index}"
        if sorted(order) != list(range(server.devices)):
            yield Violation("E_RING", place, "the order does not name every device once")
            continue
        steps = zip(order, [*order[1:], order[0]], strict=True)
        missing = next((step for step in steps if frozenset(step) not in joined), None)
        if missing is not None:
            yield Violation("E_RING", place, f"no link {missing[0]} - {missing[1]} for this ring")


def _placement(server: ServerFile, where: str) -> Iterator[Violation]:
    rule = server.placement
    if rule is None:
        return
    place = f"{where}.placement"
    rules = (*rule.job, *rule.group)
    counts = [(count, None) for count in rule.on_one_server]
    for count, inside in [*counts, *((each.count, each.inside) for each in rules)]:
        if count > server.devices:
            yield Violation(
                "E_PLACEMENT", place, f"{count} devices of a server that has {server.devices}"
            )
        if inside is not None and inside not in server.groups:
            yield Violation("E_PLACEMENT", place, f"no groups named {inside!r}")


def _told(devices: Sequence[int]) -> str:
    told = ", ".join(map(str, devices[:8]))
    return f"[{told}{', ...' if len(devices) > 8 else ''}]"
