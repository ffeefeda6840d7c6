"""One server of a picture: devices, links, switches, and network ports below them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from topology.checks import link_count
from topology.server_file import LinkEntry, NicEntry, ServerFile, Torus
from topology.shapes import Box, Dot, Line, Picture
from topology.units import format_bandwidth, parse_bandwidth
from topology.wiring import device_order, groups_of, nested_groups, nic_ports, pairs_of

__all__ = ["DrawnServer", "add_server", "explain", "placed"]

_MOST_DOTS = 24
"""Devices of a group that are drawn one by one; of more, a block stands for all."""

_MOST_DRAWN = 128
"""Devices of a server that are drawn at all."""

_MOST_LINES = 2000
"""Links of a server that are drawn one by one."""

_GAP = 1.1
"""Between neighbours in a row."""

_TILT = 0.32
"""Height of a ring over its width."""


@dataclass(slots=True)
class DrawnServer:
    """One drawn server: where its devices and ports are."""

    template: ServerFile
    left: float
    width: float
    place: dict[int, tuple[float, float]]
    group: dict[int, int]
    """Group of each device."""

    bottom: float
    ports: dict[str, list[tuple[float, float]]] = field(default_factory=dict)


def placed(template: ServerFile, left: float) -> DrawnServer:
    """A server whose left side is there, with the place of each device."""
    torus = _whole_torus(template)
    links = sum(link_count(entry, template) for entry in template.links.values())
    if template.devices > _MOST_DRAWN or links > _MOST_LINES:
        return DrawnServer(template, left, 6.0, {}, {}, -1.6)
    if torus is not None:
        return _placed_torus(template, torus, left)
    return _placed_groups(template, left)


def _whole_torus(template: ServerFile) -> Torus | None:
    tori = [entry.torus for entry in template.links.values() if entry.torus is not None]
    return tori[0] if tori and tori[0].devices == "all" and not template.groups else None


def _placed_torus(template: ServerFile, torus: Torus, left: float) -> DrawnServer:
    """A grid of rows and columns; planes of a third dimension lie one behind the other."""
    rows, columns = (1, *torus.dims)[-2:]
    planes = template.devices // (rows * columns)
    step = _GAP * (1.8 if planes > 1 else 1.0)
    shift = step / (planes + 1) if planes > 1 else 0.0
    place: dict[int, tuple[float, float]] = {}
    for device in range(template.devices):
        plane, inside = divmod(device, rows * columns)
        row, column = divmod(inside, columns)
        x = left + 1.0 + column * step + plane * shift
        place[device] = (x, -row * step + plane * shift)
    width = (columns - 1) * step + shift * (planes - 1) + 2.0
    return DrawnServer(
        template, left, width, place, dict.fromkeys(place, 0), -(rows - 1) * step - 1.0
    )


def _placed_groups(template: ServerFile, left: float) -> DrawnServer:
    """Devices group below group."""
    order = device_order(template)
    groups = nested_groups(template)
    size = len(groups[-1][1][0]) if groups else template.devices
    rings = [order[start : start + size] for start in range(0, len(order), size)]
    row = size > _MOST_DOTS or not _direct(template, rings[0])
    columns = min(size, _MOST_DOTS if size <= _MOST_DOTS else 12)
    inner = columns * _GAP if row else max(3.2, size * 0.85)
    width = inner + 1.6
    middle = left + width / 2
    place: dict[int, tuple[float, float]] = {}
    group: dict[int, int] = {}
    level = 0.0
    for number, ring in enumerate(rings):
        group |= dict.fromkeys(ring, number)
        height = _row_height(size, columns) if row else inner * _TILT
        for index, device in enumerate(ring):
            if row:
                line, column = divmod(index, columns)
                place[device] = (
                    middle + (column - (columns - 1) / 2) * _GAP,
                    level - line * 0.8,
                )
            else:
                # Turned a quarter of a step: no two devices are above one another.
                angle = math.pi / 2 + 2 * math.pi * (0.25 - index) / size
                place[device] = (
                    middle + inner / 2 * math.cos(angle),
                    level - height / 2 + height / 2 * math.sin(angle),
                )
        level -= height + 1.9
    return DrawnServer(template, left, width, place, group, level + 1.9 - 0.9)


def _row_height(size: int, columns: int) -> float:
    return 0.8 * ((size - 1) // columns)


def _direct(template: ServerFile, ring: Sequence[int]) -> bool:
    """Whether devices of a group are joined by more links than those inside packages."""
    members = set(ring)
    links = sum(
        1
        for entry in template.links.values()
        if entry.switch is None
        for one, two in pairs_of(entry, template.devices)
        if one in members and two in members
    )
    return links >= len(ring) > 1


def add_server(picture: Picture, server: DrawnServer, label: str, nics: set[str]) -> None:
    """Draw a server with its links and the ports of these kinds."""
    template = server.template
    if not server.place:
        _add_block(picture, server, label)
        return
    top = max(y for _, y in server.place.values())
    levels = 0
    for name, entry in template.links.items():
        if entry.switch is not None:
            levels += 1
            _add_switch(picture, server, name, entry, top + 0.5 + 0.9 * levels)
        else:
            _add_links(picture, server, entry)
        explain(picture, entry)
    for name, shared in template.shared.items():
        _add_shared(picture, server, name, f"{name}: {shared.bandwidth.value} per {shared.per}")
    _add_groups(picture, server)
    for device, (x, y) in server.place.items():
        picture.dots.append(Dot(x, y, str(device), "device"))
    shown = {name: nic for name, nic in template.nics.items() if name in nics}
    for index, (name, nic) in enumerate(shown.items()):
        explain(picture, nic)
        if template.devices <= _MOST_DOTS:
            _add_ports(picture, server, name, nic, index)
    height = top + 0.9 * levels + 1.0 - server.bottom
    picture.boxes.append(
        Box(
            server.left + server.width / 2,
            server.bottom + height / 2,
            server.width,
            height,
            label,
            "server",
        )
    )


def _add_groups(picture: Picture, server: DrawnServer) -> None:
    """An ellipse around each group that has a name."""
    named = nested_groups(server.template)
    if not named:
        return
    name, groups = named[-1]
    for index, group in enumerate(groups):
        xs, ys = zip(*(server.place[device] for device in group), strict=True)
        middle = (min(xs) + max(xs)) / 2, (min(ys) + max(ys)) / 2
        size = (max(xs) - min(xs)) * 1.18 + 0.9, (max(ys) - min(ys)) * 1.18 + 0.9
        picture.boxes.append(Box(*middle, *size, f"{name} {index}", "group"))


def explain(picture: Picture, entry: LinkEntry | NicEntry) -> None:
    """Put the bandwidth of a kind of link into the legend."""
    rate = format_bandwidth(parse_bandwidth(entry.bandwidth.value))
    lanes = entry.lanes if isinstance(entry, LinkEntry) else 1
    told = f"{lanes} x {rate}" if lanes > 1 else rate
    known = picture.legend.get(entry.kind)
    if known is None:
        picture.legend[entry.kind] = told
    elif told not in known.split(" or "):
        picture.legend[entry.kind] = f"{known} or {told}"


def _add_block(picture: Picture, server: DrawnServer, label: str) -> None:
    """A server of very many devices: how many, and how they are joined."""
    template = server.template
    for entry in template.links.values():
        explain(picture, entry)
    tori = [entry.torus for entry in template.links.values() if entry.torus is not None]
    joined = "".join(f", torus {' x '.join(map(str, torus.dims))}" for torus in tori)
    middle = server.left + server.width / 2
    picture.boxes.append(Box(middle, -0.8, server.width, 1.6, label, "server"))
    told = f"{template.devices} devices{joined}"
    picture.boxes.append(Box(middle, -0.8, server.width - 1.0, 0.6, told, "switch"))


def _add_links(picture: Picture, server: DrawnServer, entry: LinkEntry) -> None:
    """Straight links; the closing link of a long row is an arc beside the row."""
    width = 1.4 + 1.1 * (entry.lanes - 1)
    for one, two in pairs_of(entry, server.template.devices):
        ends = (server.place[one], server.place[two])
        wraps = entry.torus is not None and one > two
        points = _arc(*ends) if wraps else ends
        picture.lines.append(Line(points, entry.kind, width, faint=wraps))


def _arc(start: tuple[float, float], end: tuple[float, float]) -> tuple[tuple[float, float], ...]:
    """A flat curve between two points."""
    across, along = end[0] - start[0], end[1] - start[1]
    points = []
    for index in range(17):
        part = index / 16
        bulge = 0.12 * math.sin(math.pi * part)
        points.append(
            (start[0] + across * part + along * bulge, start[1] + along * part - across * bulge)
        )
    return tuple(points)


def _add_switch(
    picture: Picture, server: DrawnServer, name: str, entry: LinkEntry, level: float
) -> None:
    """A switch above the devices of each of its groups; planes show as boxes side by side."""
    for group in groups_of(entry.switch, server.template.devices):
        xs = [server.place[device][0] for device in group]
        middle, width = (min(xs) + max(xs)) / 2, max(1.6, (max(xs) - min(xs)) * 0.8)
        part = width / entry.lanes
        for plane in range(entry.lanes):
            x = middle - width / 2 + part * (plane + 0.5)
            label = f"{name} {plane}" if entry.lanes > 1 else name
            if len(group) > _MOST_DOTS:
                label = f"{name}: a port for each of {len(group)} devices"
            picture.boxes.append(Box(x, level, part * 0.9, 0.5, label, "switch"))
        block = len(group) > _MOST_DOTS
        for device in group:
            x, y = server.place[device]
            if block and y < max(server.place[each][1] for each in group):
                continue
            for plane in range(entry.lanes):
                top = middle - width / 2 + part * (plane + 0.5)
                faint = entry.lanes > 1
                picture.lines.append(
                    Line(((x, y), (top, level - 0.25)), entry.kind, 1.2, faint=faint)
                )


def _add_shared(picture: Picture, server: DrawnServer, name: str, label: str) -> None:
    """A band across the links that draw on something shared."""
    ends = [
        (server.place[one], server.place[two])
        for entry in server.template.links.values()
        if entry.via == name and entry.switch is None
        for one, two in pairs_of(entry, server.template.devices)
    ]
    if not ends:
        return
    xs = [(a[0] + b[0]) / 2 for a, b in ends]
    ys = [(a[1] + b[1]) / 2 for a, b in ends]
    middle = (min(xs) + max(xs)) / 2
    picture.boxes.append(
        Box(middle, sum(ys) / len(ys), max(xs) - min(xs) + 1.0, 0.42, label, "shared")
    )


def _add_ports(picture: Picture, server: DrawnServer, name: str, nic: NicEntry, index: int) -> None:
    """Ports below their devices, at places of their own."""
    ports = nic_ports(nic, range(server.template.devices))
    places: list[tuple[float, float]] = []
    for number, port in enumerate(ports):
        xs, ys = zip(*(server.place[device] for device in port), strict=True)
        # The next group's ports stand on the other side: their ways down do not meet.
        side = 0.42 + 0.3 * index
        x = sum(xs) / len(xs) + (side if server.group[port[0]] % 2 else -side)
        y = min(ys) - 0.42
        places.append((x, y))
        picture.dots.append(Dot(x, y, str(number), "nic"))
        for device in port:
            picture.lines.append(Line((server.place[device], (x, y)), nic.kind, 1.0))
    server.ports[name] = places
