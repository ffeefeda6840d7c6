"""What NCCL expects when it chooses an algorithm and a protocol.

Source: NCCL, src/graph/tuning.cc; its tables are in `data/calibration/nccl_tuning.yaml`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import data
from costmodel.collectives.curves import Curve, winners
from costmodel.collectives.kinds import Collective

__all__ = ["ALGORITHMS", "PROTOCOLS", "NcclGroup", "expected_curve", "selection"]

ALGORITHMS = ("ring", "tree", "nvls")
PROTOCOLS = ("ll", "ll128", "simple")
_FIRST_CORRECTED_BYTES = 64
_NVLS_RANKS = 5
"""Fewest GPUs of a server for which NVLS gains."""
_TREE_SLOWER_LL = 3.8
_PLAIN = 0.92
_US = 1e-6
_GB = 1e9


@dataclass(frozen=True, slots=True)
class NcclGroup:
    """A group as NCCL sees it: so many servers with so many GPUs each."""

    generation: str
    servers: int
    per_server: int

    @property
    def ranks(self) -> int:
        """All GPUs."""
        return self.servers * self.per_server

    def steps(self, kind: Collective) -> tuple[int, int]:
        """Steps of a ring inside servers and between them."""
        rounds = 2 if kind is Collective.ALL_REDUCE else 1
        between = rounds * (self.servers - 1)
        return rounds * (self.ranks - 1) - between, between


@cache
def selection(
    group: NcclGroup, kind: Collective, algorithm: str
) -> tuple[tuple[float, str, str], ...]:
    """Bytes from which NCCL takes which algorithm and protocol, in ascending order.

    Args:
        group: who takes part.
        kind: what is done.
        algorithm: `auto`, one of `ALGORITHMS`, or with a protocol as in `ring/ll128`; one that
            the group cannot have is not forced.
    """
    name, _, protocol = algorithm.partition("/")
    curves = {
        (each, layer): curve
        for each in ALGORITHMS
        for layer in PROTOCOLS
        if (curve := expected_curve(group, kind, each, layer)) is not None
    }
    for place, wanted in ((0, name), (1, protocol)):
        if any(pair[place] == wanted for pair in curves):
            curves = {pair: curve for pair, curve in curves.items() if pair[place] == wanted}
    pairs = list(curves)
    return tuple((start, *pairs[k]) for start, k in winners(list(curves.values())))


def expected_curve(
    group: NcclGroup, kind: Collective, algorithm: str, protocol: str
) -> Curve | None:
    """Time that NCCL expects; `None` where it does not consider the pair."""
    if algorithm == "ring":
        return _ring(group, kind, protocol)
    if kind is not Collective.ALL_REDUCE:
        return None
    if algorithm == "tree":
        return _tree(group, protocol)
    return _nvls(group) if protocol == "simple" else None


def _ring(group: NcclGroup, kind: Collective, protocol: str) -> Curve:
    """A start and steps; bandwidth of the ring, x p / steps of the algorithm."""
    table, column = data.calibration("nccl_tuning"), PROTOCOLS.index(protocol)
    bus, own = _bus(group), _generation(group.generation)
    if protocol == "ll":
        bus = min(_limit(group, "ll_limit"), bus / 2)
    elif protocol == "ll128":
        bus = min(_PLAIN * bus, own["channels"] * _limit(group, "ring_ll128_channel"))
    inside, between = group.steps(kind)
    step = {place: table["step_us"][place]["ring"][column] for place in ("nvlink", "network")}
    latency = table["start_us"]["ring"][column] + inside * step["nvlink"]
    if kind in {Collective.BROADCAST, Collective.REDUCE}:
        volume = 1.0
    else:
        volume = (inside + between) / group.ranks
    return Curve.line((latency + between * step["network"]) * _US, volume / (bus * _GB))


def _tree(group: NcclGroup, protocol: str) -> Curve:
    """A chain inside a server, a tree between them, there and back; half the bandwidth."""
    table, column = data.calibration("nccl_tuning"), PROTOCOLS.index(protocol)
    own, bus = _generation(group.generation), _bus(group)
    rate = min(_PLAIN * bus, own["channels"] * _limit(group, "tree_channel"))
    if protocol == "ll":
        rate = min(rate / _TREE_SLOWER_LL, _limit(group, "ll_limit"))
    elif protocol == "ll128":
        share = 7 / 9 if group.servers == 1 else 120 / 128
        rate = min(rate * share, own["channels"] * _limit(group, "tree_ll128_channel"))
    depth = (group.servers - 1).bit_length()
    step = {place: table["step_us"][place]["tree"][column] for place in ("nvlink", "network")}
    way = (group.per_server - 1) * step["nvlink"] + depth * step["network"]
    latency = (table["start_us"]["tree"][column] + 2 * way) * _US
    factors = table["tree_correction"][protocol]
    slopes = tuple(2 / (rate * _GB * factor) for factor in (*factors, 1.0))
    starts = (0.0, *(_FIRST_CORRECTED_BYTES * 2.0**k for k in range(1, len(factors) + 1)))
    return Curve((latency,) * len(slopes), slopes, starts)


def _nvls(group: NcclGroup) -> Curve | None:
    own, table = _generation(group.generation), data.calibration("nccl_tuning")
    if not own["nvls_efficiency"] or group.per_server < _NVLS_RANKS:
        return None
    rate = own["ring_bandwidth"] * own["nvls_efficiency"]
    rate *= 2 * (own["channels"] - 1) / own["channels"]
    latency = table["nvls_us"]["nvlink"]
    if group.servers > 1:
        depth = (group.servers - 1).bit_length()
        latency += 2 * depth * table["nvls_us"]["network"]
        rate = min(rate, group.per_server * own["port_bandwidth"])
    inside, between = group.steps(Collective.ALL_REDUCE)
    return Curve.line(latency * _US, (inside + between) / group.ranks / (rate * _GB))


def _bus(group: NcclGroup) -> float:
    """Bandwidth of all channels of a ring, GB/s: of the links, or of all ports of a server."""
    own = _generation(group.generation)
    inside = float(own["ring_bandwidth"])
    if group.servers == 1:
        return inside
    ports = float(group.per_server * own["port_bandwidth"])
    return ports if group.per_server == 1 else min(inside, ports)


def _limit(group: NcclGroup, name: str) -> float:
    """Entry of a table with one column for 1, 2 and more servers."""
    return float(_generation(group.generation)[name][min(group.servers, 3) - 1])


def _generation(name: str) -> dict[str, Any]:
    found: dict[str, Any] = data.calibration("nccl_tuning")["generations"][name]
    return found
