"""A machine: its file, its links, and the planner's view of the part that a job takes."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, TypeVar

import numpy as np

from topology.chip_file import ChipFile
from topology.cluster import Chip, Cluster, Tier, TierKind
from topology.cluster_file import (
    ClusterFile,
    FabricEntry,
    LibraryEntry,
    ServersEntry,
    ordered_fabrics,
)
from topology.errors import ClusterError
from topology.fabric import link_graph
from topology.kinds import common_chip, limits
from topology.library import Library, named_library
from topology.link_graph import LinkGraph
from topology.links import ServerLinks
from topology.network_tiers import few_tiers, network_tiers
from topology.server_file import Placement, ServerFile
from topology.tiers import Level, common_tier, levels_of, tiers_of
from topology.units import parse_bytes
from topology.wiring import server_links

__all__ = ["Machine"]

_Level = TypeVar("_Level", Level, Tier)


@dataclass(frozen=True, slots=True, eq=False)
class Machine:
    """A checked cluster file with the chips that it names."""

    file: ClusterFile
    profiles: Mapping[str, ChipFile]
    """The chip of every kind of server."""

    _chips: dict[str, Chip] = field(default_factory=dict, repr=False)
    _links: dict[str, ServerLinks] = field(default_factory=dict, repr=False)
    _views: dict[tuple[str, ...], list[Tier]] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        return self.file.name

    @property
    def chips(self) -> Mapping[str, Chip]:
        """The planner's view of the chip of every kind of server."""
        if not self._chips:
            self._chips.update((name, each.to_chip()) for name, each in self.profiles.items())
        return self._chips

    @property
    def entries(self) -> tuple[ServersEntry, ...]:
        """Servers of each kind, in the order of ranks."""
        return self.file.cluster.servers

    @property
    def max_devices(self) -> int | None:
        """Devices of the whole machine, `None` if their number is open."""
        counts = [entry.count or entry.max_count for entry in self.entries]
        sizes = [self._template(entry).devices for entry in self.entries]
        if any(count is None for count in counts):
            return None
        return sum((count or 0) * size for count, size in zip(counts, sizes, strict=True))

    @property
    def is_open(self) -> bool:
        """Whether the number of servers is the job's to say."""
        return any(entry.count is None for entry in self.entries)

    def server_links(self, name: str) -> ServerLinks:
        """The links of one kind of server, built when first asked for."""
        if name not in self._links:
            self._links[name] = server_links(self.file.servers[name])
        return self._links[name]

    def cluster(self, devices: int | None = None) -> Cluster:
        """The planner's view of the part that a job of so many devices takes.

        Args:
            devices: `None` takes the whole machine, which then must have a size.

        Raises:
            ClusterError: a job cannot have so many devices, or their wiring has no tiers.
        """
        count, taken = self._taken(devices)
        sizes = {self._template(entry).devices for entry, _ in taken}
        tiers = self._tiers(taken, min(count, math.gcd(*sizes)))
        layer = self.file.cluster
        chips = [self.chips[entry.use] for entry, _ in taken]
        reserved, buffers = layer.reserved_memory, layer.communicator_buffers
        return Cluster(
            name=self.name,
            chip=reduce(common_chip, chips),
            tiers=tiers,
            reserved_memory_bytes=round(parse_bytes(reserved.value)) if reserved else 0,
            communicator_buffer_bytes=round(parse_bytes(buffers.value)) if buffers else 0,
            host_memory_bytes=_host_memory([self._template(entry) for entry, _ in taken]),
            library=_library(layer.library),
        )

    def links(self, devices: int | None = None) -> LinkGraph:
        """The links of the servers that a job of so many devices takes."""
        count, taken = self._taken(devices)
        names = list(dict.fromkeys(entry.use for entry, _ in taken))
        kinds = np.array([names.index(e.use) for e, n in taken for _ in range(n)], np.int64)
        per_server = np.array([self.file.servers[name].devices for name in names])[kinds]
        server_of_rank = np.repeat(np.arange(len(kinds)), per_server)[:count]
        first = np.concatenate([[0], np.cumsum(per_server)[:-1]])
        local = np.arange(count) - first[server_of_rank]
        fabrics = [(name, entry, entry.servers or len(kinds)) for name, entry in self._fabrics()]
        return link_graph(
            self.name,
            [(self.file.servers[name], self.server_links(name)) for name in names],
            kinds,
            fabrics if len(kinds) > 1 else (),
            (server_of_rank, local),
        )

    def notes(self, devices: int | None = None) -> tuple[str, ...]:
        """What the planner's view leaves out of the machine, in words."""
        _, taken = self._taken(devices)
        if len(taken) < 2:
            return ()
        return limits([(entry.use, self.chips[entry.use]) for entry, _ in taken])

    def _template(self, entry: ServersEntry) -> ServerFile:
        return self.file.servers[entry.use]

    def _fabrics(self) -> list[tuple[str, FabricEntry]]:
        return ordered_fabrics(self.file.cluster)

    def _whole(self) -> int:
        if self.max_devices is None or self.is_open:
            raise ClusterError(
                f"the number of servers of {self.name!r} is open",
                "cluster.servers",
                "say how many devices the job takes, or give the servers a count",
            )
        return self.max_devices

    def _taken(self, devices: int | None) -> tuple[int, list[tuple[ServersEntry, int]]]:
        """Devices and servers of each kind that a job takes, first the first kind."""
        count = left = self._whole() if devices is None else devices
        self._check_devices(count)
        taken = []
        for entry in self.entries:
            size = self._template(entry).devices
            most = entry.count or entry.max_count or left
            number = min(most, -(-left // size))
            if number > 0:
                taken.append((entry, number))
            left -= number * size
        return count, taken

    def _check_devices(self, devices: int) -> None:
        first = self._template(self.entries[0])
        size, most = first.devices, self.max_devices
        kinds = len({self._template(entry).devices for entry in self.entries})
        where = f"cluster {self.name!r} of servers with {size} devices"
        fix = f"use {self._allowed_text(first.placement, size, most)}"
        if devices < 1:
            raise ClusterError(f"{devices} devices", where, fix)
        if most is not None and devices > most:
            raise ClusterError(f"{devices} devices, but the machine has {most}", where, fix)
        if kinds > 1 and devices > size:
            self._check_mixed(devices, where)
        elif devices > size and devices % size:
            raise ClusterError(f"{devices} devices do not fill whole servers", where, fix)
        rule = first.placement
        if rule and devices <= size and devices not in rule.on_one_server:
            raise ClusterError(f"a job cannot take {devices} devices of one server", where, fix)

    def _check_mixed(self, devices: int, where: str) -> None:
        """Servers of several sizes fill up one after the other."""
        left = devices
        for entry in self.entries:
            size = self._template(entry).devices
            number = min(entry.count or 0, left // size)
            left -= number * size
            if number < (entry.count or 0):
                break
        if left:
            raise ClusterError(
                f"{devices} devices do not fill whole servers",
                where,
                f"use {devices - left}, or all of the next kind of server",
            )

    def _allowed_text(self, rule: Placement | None, size: int, most: int | None) -> str:
        """The allowed numbers of devices, in words."""
        single: Sequence[int] = rule.on_one_server if rule else range(1, size + 1)
        told = ", ".join(map(str, single)) if len(single) <= 32 else f"1 to {size}"
        if most is None or most > size:
            told += f" or a multiple of {size}" + (f" up to {most}" if most else "")
        return told

    def _tiers(self, taken: list[tuple[ServersEntry, int]], unit: int) -> tuple[Tier, ...]:
        """Tiers of the part that a job takes, outermost first."""
        inner = self._inner(taken, unit)
        total = sum(self._template(entry).devices * number for entry, number in taken)
        servers = total // unit if total > unit and len(taken) + taken[0][1] > 2 else 1
        outer = self._outer(taken, servers, unit) if servers > 1 else []
        kept = [tier for tier in (*outer, *inner) if tier.size > 1] or [inner[-1]]
        return tuple(few_tiers(kept))

    def _inner(self, taken: list[tuple[ServersEntry, int]], unit: int) -> list[Tier]:
        """Tiers inside a server, or inside the part of it that every kind has."""
        names = tuple(dict.fromkeys(entry.use for entry, _ in taken))
        if names not in self._views:
            self._views[names] = self._common_view(names)
        return _fitting(self._views[names], unit, self.name)

    def _common_view(self, names: Sequence[str]) -> list[Tier]:
        """Tiers of the largest part of a server that all these kinds have."""
        part = math.gcd(*(self.file.servers[name].devices for name in names))
        faults: list[ClusterError] = []
        for name in names:
            levels = _fitting(levels_of(self.file.servers[name]), part, self.name)
            try:
                views = [
                    tiers_of(self.server_links(each), levels, self.file.servers[each].links)
                    for each in names
                ]
            except ClusterError as fault:
                faults.append(fault)
                continue
            return [reduce(common_tier, tiers) for tiers in zip(*views, strict=True)]
        raise faults[0]

    def _outer(self, taken: list[tuple[ServersEntry, int]], servers: int, unit: int) -> list[Tier]:
        """Tiers of the networks between servers."""
        tiers: list[Tier] = []
        left, below = servers, 1
        for name, entry in self._fabrics():
            most = left if entry.servers is None else entry.servers // below
            size = min(left, most)
            if left % size:
                raise ClusterError(
                    f"{servers} servers do not fill the tiers of the machine",
                    f"fabric {name!r} of cluster {self.name!r}, which joins {entry.servers}",
                    f"use at most {entry.servers} servers, or a multiple of {entry.servers}",
                )
            below *= size
            kinds = [self._template(each) for each, _ in taken]
            tiers = [*network_tiers(name, entry, kinds, size, unit), *tiers]
            left //= size
        if left > 1:
            raise ClusterError(
                f"nothing joins {servers} servers",
                f"cluster {self.name!r}",
                "give the cluster a fabric that joins all servers",
            )
        return tiers


def _fitting(levels: Sequence[_Level], devices: int, name: str) -> list[_Level]:
    """The levels with as many members as so many devices fill, from the innermost outwards."""
    fitted: list[_Level] = []
    left = devices
    for level in reversed(levels):
        taken = min(left, level.size)
        if left % taken:
            raise ClusterError(
                f"{devices} devices do not fill the tiers of the machine",
                f"tier {level.name!r} of cluster {name!r}, which has {level.size}",
                f"use at most {level.size} devices, or a multiple of {level.size}",
            )
        fitted.insert(0, _cut(level, taken))
        left //= taken
    return [level for level in fitted if level.size > 1] or [fitted[-1]]


def _cut(level: _Level, size: int) -> _Level:
    """The level with so many members; a part of a ring is a line."""
    changed: dict[str, Any] = {"size": size}
    if getattr(level, "kind", None) is TierKind.TORUS and size < level.size:
        changed["wrap"] = False
    return replace(level, **changed)


def _host_memory(servers: Sequence[ServerFile]) -> int | None:
    """What falls to each device of the server whose host has least; `None` if one is not known."""
    shares = [
        None if each.host_memory is None else parse_bytes(each.host_memory.value) / each.devices
        for each in servers
    ]
    known = [share for share in shares if share is not None]
    return int(min(known)) if known and len(known) == len(shares) else None


def _library(entry: LibraryEntry | None) -> Library | None:
    if entry is None:
        return None
    if entry.profile is not None:
        return named_library(entry.profile)
    constants = {name: each.value for name, each in entry.constants.items()}
    return Library(entry.name, entry.generation, "", constants)
