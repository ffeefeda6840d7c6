"""What collectives of NCCL take: the algorithm and protocol that it would choose, at the rates
and latencies that were measured.

A ring spans all GPUs and all ports of their servers; a tree is a chain inside each server and a
binary tree between them; NVLS lets the switches add up. Each has three protocols but NVLS.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from costmodel.collectives.curves import Curve, lowest, spliced, upper
from costmodel.collectives.kinds import Collective
from costmodel.collectives.nccl_constants import Constants
from costmodel.collectives.nccl_tuning import NcclGroup, selection

__all__ = ["NcclModel", "Port"]

_NETWORK_LATENCY = {"ll": 2.7 / 14, "ll128": 4 / 14, "simple": 1.0}
"""Of a step between servers, in units of one in Simple: the ratio of NCCL's own table."""
_PASSED_ON = frozenset({Collective.BROADCAST, Collective.REDUCE})


@dataclass(frozen=True, slots=True)
class Port:
    """What one device has towards one kind of network."""

    nominal_bytes_per_s: float
    """As its maker states it, while all groups of the tier are at work."""

    efficiency: float
    """Share of it that large messages reach, where the library's constants do not say."""

    latency_s: float
    """Of one step, where the library's constants do not say."""


@dataclass(frozen=True)
class NcclModel:
    """Times of one group."""

    group: NcclGroup
    constants: Constants
    link: Port | None
    """Towards the other GPUs of the server; `None` if a server has one GPU of the group."""
    network: Port | None
    """Towards other servers; `None` if the group is inside one."""
    algorithm: str = "auto"
    """`auto`, an algorithm, or both as in `ring/ll128`."""

    def curve(self, kind: Collective) -> Curve:
        """Time of one collective over bytes."""
        if kind is Collective.ALL_TO_ALL:
            return self._exchange()
        if kind in {Collective.SCATTER, Collective.GATHER}:
            return self._rooted()
        if kind is Collective.POINT_TO_POINT:
            return self._sent()
        parts = selection(self.group, kind, self.algorithm)
        curves = [self._priced(kind, algorithm, protocol) for _, algorithm, protocol in parts]
        return spliced(curves, [(start, k) for k, (start, *_) in enumerate(parts)]).growing()

    def choice(self, kind: Collective, nbytes: float) -> tuple[str, str]:
        """Algorithm and protocol that NCCL takes for so many bytes of a collective with steps."""
        parts = selection(self.group, kind, self.algorithm)
        found = (pair for start, *pair in reversed(parts) if start <= nbytes)
        algorithm, protocol = next(found)
        return algorithm, protocol

    def _priced(self, kind: Collective, algorithm: str, protocol: str) -> Curve:
        if algorithm == "ring":
            return self._ring(kind, protocol)
        return self._tree(protocol) if algorithm == "tree" else self._nvls()

    def _ring(self, kind: Collective, protocol: str) -> Curve:
        """A start, steps, and (p - 1) / p n of each round over link or port; own pieces beside.

        In Simple no less than the fill of every step.
        """
        inside, between = self.group.steps(kind)
        start = self._start_s(protocol)
        latency = start + inside * self._step_s(protocol) + between * self._hop_s(protocol)
        if kind in _PASSED_ON:
            return Curve.line(latency, self._seconds_per_byte(protocol))
        per_byte = (inside + between) * self._seconds_per_byte(protocol)
        if protocol != "ll" and self.link is not None:
            own = self.constants.reduce_own
            if kind is Collective.ALL_GATHER:
                own = self.constants.gather_own
            per_byte += own / self.link.nominal_bytes_per_s
        line = Curve.line(latency, per_byte / self.group.ranks)
        if protocol != "simple":
            return line
        fill = start + inside * self.constants.simple_fill_s + between * self._hop_s(protocol)
        return upper((Curve.line(fill, 0.0), line))

    def _tree(self, protocol: str) -> Curve:
        """Down and up a chain inside servers and a tree between them; the vector goes twice."""
        depth = (self.group.servers - 1).bit_length()
        way = (self.group.per_server - 1) * self._step_s(protocol) + depth * self._hop_s(protocol)
        return Curve.line(self._start_s(protocol) + 2 * way, 2 * self._seconds_per_byte(protocol))

    def _nvls(self) -> Curve:
        """All n bytes over each port; between servers a tree over all ports of a server."""
        assert self.link is not None
        constants, rate = self.constants, self.link.nominal_bytes_per_s
        latency, slope = constants.nvls_start_s, 1 / (constants.nvls_share * rate)
        if self.network is not None:
            depth = (self.group.servers - 1).bit_length()
            latency += constants.network_start_s + 2 * depth * self._hop_s("simple")
            slope = max(slope, 2 / (self.group.per_server * self._network_rate))
        return Curve.line(latency, slope)

    def _exchange(self) -> Curve:
        """Pieces of n / p to every peer at once; those of other servers over the own port."""
        constants, group = self.constants, self.group
        peers = constants.exchange_peer_s * (group.ranks - 1)
        slope = small_slope = 0.0
        if self.link is not None:
            rate = self.link.nominal_bytes_per_s
            sent = (group.per_server - 1) / constants.exchange_share + constants.exchange_own
            slope = sent / group.ranks / rate
            small_slope = 1 / (constants.exchange_small_share * rate * group.ranks)
        away = 0.0
        if self.network is not None:
            away = (group.ranks - group.per_server) / group.ranks / self._network_rate
        late = self._hop_s("simple") + constants.network_start_s if self.network else 0.0
        large = Curve.line(constants.exchange_start_s + peers + late, max(slope, away))
        little = constants.exchange_small_start_s + peers
        small = Curve.line(little + late * _NETWORK_LATENCY["ll"], max(small_slope, 2 * away))
        return lowest((small, large))

    def _rooted(self) -> Curve:
        """The root sends or receives (p - 1) / p n over its port."""
        group, constants = self.group, self.constants
        port = self._port_s_per_byte(constants.exchange_share)
        peers = constants.exchange_peer_s * (group.ranks - 1)
        share = (group.ranks - 1) / group.ranks
        late = self._hop_s("simple") if self.network else 0.0
        return Curve.line(constants.exchange_start_s + peers + late, share * port)

    def _sent(self) -> Curve:
        """One device to one other, over the outermost network between them."""
        port = self._port_s_per_byte(self.constants.exchange_share)
        late = self._hop_s("simple") if self.network else 0.0
        return Curve.line(self.constants.exchange_start_s + late, port)

    def _port_s_per_byte(self, share: float) -> float:
        if self.network is not None:
            return 1 / self._network_rate
        return 1 / (share * self.link.nominal_bytes_per_s) if self.link else 0.0

    def _seconds_per_byte(self, protocol: str) -> float:
        """Of the ring of all channels: the link, or the ports of all GPUs of a server together."""
        rates = []
        if self.link is not None:
            rates.append(self._share(protocol) * self.link.nominal_bytes_per_s)
        if self.network is not None:
            factor = self._share(protocol) / self._share("simple")
            ports = self.group.per_server * self._network_rate
            rates.append(ports * min(1.0, 2 * factor))
        return 1 / min(rates)

    def _share(self, protocol: str) -> float:
        if protocol != "simple":
            return self.constants.ll_share if protocol == "ll" else self.constants.ll128_share
        if self.constants.simple_share is not None:
            return self.constants.simple_share
        return self.link.efficiency if self.link is not None else 1.0

    @cached_property
    def _network_rate(self) -> float:
        assert self.network is not None
        share = self.constants.network_share
        return self.network.nominal_bytes_per_s * (
            self.network.efficiency if share is None else share
        )

    def _start_s(self, protocol: str) -> float:
        start = {
            "ll": self.constants.ll_start_s,
            "ll128": self.constants.ll128_start_s,
            "simple": self.constants.simple_start_s,
        }[protocol]
        return start + (self.constants.network_start_s if self.network else 0.0)

    def _step_s(self, protocol: str) -> float:
        if self.link is None:
            return 0.0
        if protocol != "simple":
            return self.constants.ll_step_s if protocol == "ll" else self.constants.ll128_step_s
        step = self.constants.simple_step_s
        return self.link.latency_s if step is None else step

    def _hop_s(self, protocol: str) -> float:
        """One step between servers."""
        if self.network is None:
            return 0.0
        step = self.constants.network_step_s
        whole = self.network.latency_s if step is None else step
        return whole * _NETWORK_LATENCY[protocol]
