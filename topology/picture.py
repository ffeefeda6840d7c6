"""A machine as a plan of dots, lines and boxes: where everything stands in its picture.

A group of devices that are joined directly is drawn as a ring seen from the side, groups of one
server above one another, so that links between counterparts run straight down. Devices behind a
switch stand in a row below it. Network ports hang below their devices, the network below all.
"""

from topology.cluster_file import ordered_fabrics
from topology.fabric import fabric_nic
from topology.machine import Machine
from topology.picture_fabric import add_fabric
from topology.picture_server import DrawnServer, add_server, placed
from topology.server_file import ServerFile
from topology.shapes import Picture

__all__ = ["picture_of"]


def picture_of(machine: Machine, servers: int | None = None) -> Picture:
    """The plan of a picture.

    Args:
        machine: what to draw.
        servers: how many; `None` for two, or one of each kind.
    """
    picture = Picture(machine.name, machine.file.title)
    left = 0.0
    drawn: list[DrawnServer] = []
    for template, label in _drawn(machine, servers):
        server = placed(template, left)
        fabrics = machine.file.cluster.fabrics.values()
        nics = {fabric_nic(fabric, template) for fabric in fabrics} or set(template.nics)
        add_server(picture, server, label, nics)
        drawn.append(server)
        left += server.width + 1.0
    level = min(server.bottom for server in drawn) - 1.4
    for name, fabric in ordered_fabrics(machine.file.cluster):
        level = add_fabric(picture, drawn, name, fabric, level)
    return picture


def _drawn(machine: Machine, servers: int | None) -> list[tuple[ServerFile, str]]:
    """Templates and labels of the servers that are drawn."""
    entries = machine.entries
    kinds = [machine.file.servers[entry.use] for entry in entries]
    if len(entries) > 1 and servers is None:
        return [
            (kind, f"{kind.name} x {entry.count}")
            for kind, entry in zip(kinds, entries, strict=True)
        ]
    wanted = 2 if servers is None else servers
    found: list[tuple[ServerFile, str]] = []
    for kind, entry in zip(kinds, entries, strict=True):
        most = entry.count or entry.max_count or wanted
        if not machine.file.cluster.fabrics:
            most = 1
        for _ in range(min(most, wanted - len(found))):
            found.append((kind, f"{kind.name}, server {len(found)}"))
    return found
