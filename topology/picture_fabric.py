"""The networks of a picture: leaves and spine below the servers."""

from collections.abc import Iterator, Sequence

from topology.cluster_file import FabricEntry
from topology.fabric import fabric_nic
from topology.picture_server import DrawnServer
from topology.shapes import Box, Line, Picture
from topology.wiring import nic_ports

__all__ = ["add_fabric"]


def add_fabric(
    picture: Picture, servers: Sequence[DrawnServer], name: str, fabric: FabricEntry, level: float
) -> float:
    """Leaves and spine below the servers; returns the level for the next network."""
    right = servers[-1].left + servers[-1].width
    leaves = list(_leaves(servers, fabric, right))
    rails = fabric.type in ("rail_optimized", "rails")
    for leaf, (x, width, _) in enumerate(leaves):
        label = f"{name}: {fabric.type.replace('_', ' ')}" if len(leaves) == 1 else f"leaf {leaf}"
        picture.boxes.append(Box(x, level, width, 0.5, label, "switch"))
    for index, server in enumerate(servers):
        kind = fabric_nic(fabric, server.template)
        nic = server.template.nics[kind]
        ports = server.ports.get(kind, [])
        if not ports and not rails:
            x = server.left + server.width / 2
            ends = ((x, server.bottom), (x, level + 0.25))
            picture.lines.append(Line(ends, nic.kind, 4.0, faint=True))
        for number, (x, y) in enumerate(ports):
            rail = number % (nic.rails or len(ports)) if rails else None
            middle, width, _ = _leaf_of(leaves, index, rail)
            end = min(max(x, middle - width / 2 + 0.1), middle + width / 2 - 0.1)
            picture.lines.append(Line(((x, y), (end, level + 0.25)), nic.kind, 0.9, faint=True))
    if len(leaves) > 1 and fabric.type != "rails":
        spine = level - 1.3
        told = f"{name}: spine"
        if fabric.oversubscription:
            told += f", oversubscription {fabric.oversubscription:g}"
        picture.boxes.append(Box(right / 2, spine, max(3.0, right * 0.5), 0.5, told, "switch"))
        kinds = servers[0].template.nics[fabric_nic(fabric, servers[0].template)].kind
        for x, _, _ in leaves:
            picture.lines.append(Line(((x, level - 0.25), (x * 0.5 + right / 4, spine + 0.25)),
                                      kinds, 2.2))  # fmt: skip
        return spine - 1.2
    return level - 1.2


_Leaf = tuple[float, float, tuple[int, ...]]
"""Middle, width, and the servers below a leaf; of a leaf for one rail, the rail stands last."""


def _leaves(servers: Sequence[DrawnServer], fabric: FabricEntry, right: float) -> Iterator[_Leaf]:
    every = tuple(range(len(servers)))
    if fabric.type == "switch":
        yield right / 2, right, every
        return
    below = fabric.servers_per_leaf or len(servers)
    for start in range(0, len(servers), below):
        members = every[start : start + below]
        first, last = servers[members[0]], servers[members[-1]]
        left, end = first.left, last.left + last.width
        if fabric.type == "leaf_spine":
            yield (left + end) / 2, (end - left) * 0.85, members
            continue
        nic = first.template.nics[fabric_nic(fabric, first.template)]
        rails = nic.rails or len(nic_ports(nic, range(first.template.devices)))
        part = (end - left) / rails
        for rail in range(rails):
            yield left + part * (rail + 0.5), part * 0.8, (*members, -1 - rail)


def _leaf_of(leaves: Sequence[_Leaf], server: int, rail: int | None) -> _Leaf:
    """The leaf below a server, or below one rail of it."""
    for leaf in leaves:
        members = leaf[2]
        if rail is None and server in members:
            return leaf
        if rail is not None and server in members[:-1] and members[-1] == -1 - rail:
            return leaf
    return leaves[0]
