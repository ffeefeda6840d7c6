"""The planner's view of a server: nested tiers, each with one kind of wiring.

Devices stand in rank order, so that the members of every tier are blocks of consecutive devices.
A tier is what the links between these blocks are: links between every two counterparts, ports
into one switch, or links between neighbours. Where they differ, the tier has what all of them have.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise

from topology.cluster import Tier, TierKind
from topology.errors import ClusterError
from topology.links import Link, ServerLinks
from topology.server_file import LinkEntry, ServerFile
from topology.wiring import nested_groups

__all__ = ["Level", "common_tier", "levels_of", "tiers_of"]

_AXES = ("x", "y", "z")


@dataclass(frozen=True, slots=True)
class Level:
    """A tier before its wiring is known."""

    name: str
    size: int
    torus: bool = False
    """A dimension of a declared torus."""


def levels_of(server: ServerFile) -> tuple[Level, ...]:
    """The levels inside a server, outermost first, from its groups or its torus."""
    tori = [entry.torus for entry in server.links.values() if entry.torus is not None]
    whole = [torus for torus in tori if torus.devices == "all"]
    if whole and not server.groups:
        dims = whole[0].dims
        names = _AXES if len(dims) <= len(_AXES) else tuple(f"d{i}" for i in range(len(dims)))
        levels = [Level(name, size, torus=True) for name, size in zip(names, dims, strict=False)]
        return tuple(level for level in levels if level.size > 1) or (Level("card", 1),)
    levels, outside = [], 1
    for name, groups in nested_groups(server):
        levels.append(Level(name, len(groups) // outside))
        outside = len(groups)
    inner = Level("card", server.devices // outside)
    return tuple(level for level in (*levels, inner) if level.size > 1) or (inner,)


def tiers_of(
    links: ServerLinks, levels: Sequence[Level], entries: Mapping[str, LinkEntry]
) -> list[Tier]:
    """The tiers of one server, outermost first.

    Args:
        links: the server's links.
        levels: their sizes multiply to the server's devices, or to a divisor.
        entries: what made the links, by name.

    Raises:
        ClusterError: the members of a tier are not all wired to one another.
    """
    best = _best_links(links)
    switches: dict[int, list[int]] = {}
    for source, target in best:
        if links.nodes[target].kind == "switch":
            switches.setdefault(source, []).append(target)
    tiers: list[Tier] = []
    stride = 1
    for level in reversed(levels):
        block = _Block(links, best, switches, level, stride)
        tier, entry = _wired(block)
        if entry in entries:
            made = entries[entry]
            reduces = made.in_network_reduction and tier.kind is TierKind.SWITCH
            tier = replace(tier, algorithm=made.algorithm, in_network_reduction=reduces)
        tiers.insert(0, tier)
        stride *= level.size
    return tiers


def _best_links(links: ServerLinks) -> dict[tuple[int, int], Link]:
    """The widest link between every two nodes."""
    best: dict[tuple[int, int], Link] = {}
    for link in links.links:
        known = best.get((link.source, link.target))
        if known is None or link.bandwidth_bytes_per_s > known.bandwidth_bytes_per_s:
            best[link.source, link.target] = link
    return best


@dataclass(frozen=True, slots=True)
class _Block:
    """One tier that looks for its wiring: members are blocks of `stride` devices."""

    server: ServerLinks
    best: dict[tuple[int, int], Link]
    switches: dict[int, list[int]]
    """Switches into which each device has a port."""

    level: Level
    stride: int

    @property
    def starts(self) -> range:
        """First device of every set of members that the tier joins."""
        span = self.stride * self.level.size
        return range(0, self.server.devices // span * span, span)

    def between(self, pairs: Iterable[tuple[int, int]]) -> list[Link] | None:
        """Links from counterpart to counterpart, both ways; `None` if one is missing."""
        found = []
        for one, two in pairs:
            for start in self.starts:
                for offset in range(self.stride):
                    ends = (
                        start + one * self.stride + offset,
                        start + two * self.stride + offset,
                    )
                    there, back = self.best.get(ends), self.best.get(ends[::-1])
                    if there is None or back is None:
                        return None
                    found += [there, back]
        return found

    def ports(self) -> list[Link] | None:
        """Links of all devices into a switch that the tier's members have in common."""
        found: list[Link] = []
        for start in self.starts:
            devices = range(start, start + self.stride * self.level.size)
            best: list[Link] = []
            for switch in self.switches.get(start, ()):
                links = [self.best.get((device, switch)) for device in devices]
                here = [link for link in links if link is not None]
                if len(here) == len(links) and (not best or _least(here) > _least(best)):
                    best = here
            if not best:
                return None
            found += best
        return found


def _least(links: Sequence[Link]) -> float:
    return min(link.bandwidth_bytes_per_s for link in links)


def _wired(block: _Block) -> tuple[Tier, str]:
    """The tier, and the name of the entry that its links are of."""
    size = block.level.size
    members = range(size)
    every = combinations(members, 2)
    line = pairwise(members)
    ends = [(size - 1, 0)] if size > 2 else []
    mesh = None if block.level.torus else block.between(every)
    ports = None if block.level.torus else block.ports()
    choices: list[tuple[float, Callable[[], Tier], str]] = []
    if mesh:
        rate = _least(mesh) * (size - 1)
        choices.append((rate, lambda: _mesh_tier(block, mesh), mesh[0].name))
    if ports:
        choices.append((_least(ports), lambda: _switch_tier(block, ports), ports[0].name))
    if not choices and (row := block.between(line)):
        ring = block.between(ends) if ends else None
        links = [*row, *(ring or [])]
        tier = replace(_tier(block, TierKind.TORUS, links), wrap=bool(ring))
        choices.append((0.0, lambda: _rationed(block, tier, links), row[0].name))
    if size == 1:
        return _alone(block)
    if not choices:
        raise _unwired(block)
    _, make, entry = max(choices, key=lambda choice: choice[0])
    return make(), entry


def _tier(block: _Block, kind: TierKind, links: Sequence[Link]) -> Tier:
    return Tier(
        name=block.level.name,
        size=block.level.size,
        kind=kind,
        bandwidth_bytes_per_s=_least(links),
        nominal_bandwidth_bytes_per_s=min(link.nominal_bandwidth_bytes_per_s for link in links),
        latency_s=max(link.latency_s for link in links),
        transport=links[0].kind,
    )


def _mesh_tier(block: _Block, links: Sequence[Link]) -> Tier:
    if block.level.size > 2 or block.stride == 1:
        return _rationed(block, _tier(block, TierKind.FULL_MESH, links), links)
    out = [link for link in links if link.source // block.stride % 2 == 0]
    back = [link for link in links if link.source // block.stride % 2 == 1]
    shared = [_shared(block, way) for way in (out, back)]
    known = [each for each in shared if each is not None]
    return replace(
        _tier(block, TierKind.PAIRS, links),
        shared_capacity_bytes_per_s=min(known) if known else None,
    )


def _switch_tier(block: _Block, links: Sequence[Link]) -> Tier:
    tier = _tier(block, TierKind.SWITCH, links)
    if block.stride == 1:
        return _rationed(block, tier, links)
    return replace(tier, shared_capacity_bytes_per_s=_shared(block, links))


def _alone(block: _Block) -> tuple[Tier, str]:
    """A tier of one member: there is nothing to send, so any port of the device will do."""
    links = [link for link in block.server.links if link.source == 0]
    if not links:
        return Tier(block.level.name, 1, TierKind.SWITCH, 1.0, 1.0, 0.0), ""
    return _tier(block, TierKind.SWITCH, links[:1]), links[0].name


def _shared(block: _Block, links: Sequence[Link]) -> float | None:
    """Least that all devices of one member share on the way out, `None` if they share nothing."""
    if any(link.resource is None for link in links):
        return None
    members: dict[int, set[int]] = {}
    for link in links:
        assert link.resource is not None
        members.setdefault(link.source // block.stride, set()).add(link.resource)
    return min(sum(_capacity(block, each) for each in drawn) for drawn in members.values())


def _capacity(block: _Block, resource: int) -> float:
    """What one direction has of a resource while both are in use."""
    found = block.server.resources[resource]
    return found.capacity_bytes_per_s / (2 if found.both_ways else 1)


def _rationed(block: _Block, tier: Tier, links: Sequence[Link]) -> Tier:
    """The tier with each link at its part of the resource that it shares with others."""
    drawn: dict[int, int] = {}
    for link in links:
        if link.resource is not None:
            drawn[link.resource] = drawn.get(link.resource, 0) + 1
    parts = [block.server.resources[r].capacity_bytes_per_s / count for r, count in drawn.items()]
    return replace(tier, bandwidth_bytes_per_s=min([tier.bandwidth_bytes_per_s, *parts]))


def _unwired(block: _Block) -> ClusterError:
    level = block.level
    return ClusterError(
        f"the {level.size} members of tier {level.name!r} are not all wired alike: "
        f"{_missing(block)}",
        f"server {block.server.name!r}",
        "declare groups of devices with the same wiring, or add the links",
    )


def _missing(block: _Block) -> str:
    """A pair of counterparts without a link."""
    ids = block.server.local_ids
    for one in range(block.level.size):
        for two in range(one + 1, block.level.size):
            if block.between([(one, two)]) is None:
                for offset in range(block.stride):
                    ends = one * block.stride + offset, two * block.stride + offset
                    if ends not in block.best or ends[::-1] not in block.best:
                        return f"no link between devices {ids[ends[0]]} and {ids[ends[1]]}"
    return "no two have the same links"


def common_tier(one: Tier, two: Tier) -> Tier:
    """What two wirings of the same tier both have."""
    low, other = (one, two) if one.kind == two.kind else _as_like(one, two)
    shared = [t.shared_capacity_bytes_per_s for t in (one, two)]
    known = [each for each in shared if each is not None]
    return replace(
        low,
        bandwidth_bytes_per_s=min(low.bandwidth_bytes_per_s, other.bandwidth_bytes_per_s),
        nominal_bandwidth_bytes_per_s=min(
            low.nominal_bandwidth_bytes_per_s, other.nominal_bandwidth_bytes_per_s
        ),
        latency_s=max(low.latency_s, other.latency_s),
        shared_capacity_bytes_per_s=min(known) if known else None,
        in_network_reduction=one.in_network_reduction and two.in_network_reduction,
        wrap=one.wrap and two.wrap,
        algorithm=one.algorithm if one.algorithm == two.algorithm else "auto",
        transport=low.transport if low.transport == other.transport else "",
    )


def _as_like(one: Tier, two: Tier) -> tuple[Tier, Tier]:
    """The tiers with the more general wiring written as the poorer one.

    A switch can do what a mesh, pairs or a torus does, and a mesh what a torus does, each link with
    its part of the port.
    """
    order = (TierKind.TORUS, TierKind.PAIRS, TierKind.FULL_MESH, TierKind.SWITCH)
    poor, rich = sorted((one, two), key=lambda tier: order.index(tier.kind))
    peers = 2 if poor.kind is TierKind.TORUS else max(1, poor.size - 1)
    share = peers if rich.kind is TierKind.SWITCH else 1
    like = replace(
        rich,
        kind=poor.kind,
        bandwidth_bytes_per_s=rich.bandwidth_bytes_per_s / share,
        nominal_bandwidth_bytes_per_s=rich.nominal_bandwidth_bytes_per_s / share,
    )
    return poor, like
