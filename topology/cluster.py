"""The nouns of the machine: chip, tier, cluster."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Self

from topology.errors import ClusterError
from topology.library import Library
from topology.units import format_bandwidth

__all__ = ["Chip", "Cluster", "Tier", "TierKind"]

_PAIR = 2
_WORDS = frozenset(
    {"name", "family", "kind", "transport", "algorithm", "in_network_reduction", "wrap"}
)
"""Fields of a record that are no numbers."""
_MAY_BE_UNKNOWN = frozenset(
    {"shared_capacity_bytes_per_s", "host_bandwidth_bytes_per_s", "host_memory_bytes"}
)


class TierKind(StrEnum):
    """How the members of one tier are wired to one another."""

    FULL_MESH = "full_mesh"
    """Every two members own a link: a group of p uses p-1 links of each member."""

    SWITCH = "switch"
    """Every device owns one port into a non-blocking switch; its port is what limits it."""

    PAIRS = "pairs"
    """Two halves; each device owns a link to its counterpart in the other half."""

    TORUS = "torus"
    """A ring, or a line without `wrap`: each device owns a link to its neighbour in each of the two
    directions. Neighbouring tiers of this kind are the dimensions of one torus."""


_STAND_INS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "float16": ("bfloat16", "float32"),
        "bfloat16": ("float16", "float32"),
        "float8": ("bfloat16", "float16", "float32"),
        "float4": ("float8", "bfloat16", "float16", "float32"),
        "int8": ("bfloat16", "float16", "float32"),
        "int4": ("int8", "bfloat16", "float16", "float32"),
    }
)
"""Types that products run in where a chip has no rate of its own for theirs."""


@dataclass(frozen=True, slots=True)
class Chip:
    """One device as the planner sees it: peaks, memory, and how much of them is reached."""

    name: str
    """Name of the profile in `data/chips`, such as `ascend_910b3`."""

    family: str
    """Generation in words, such as `Ascend 910B (A2)`; for reports only."""

    peak_flops: Mapping[str, float] = field(hash=False)
    """Dense matmul FLOP/s by dtype (`float32`, `tf32`, `float16`, `bfloat16`, `int8`, `float8`,
    `float4`); a dtype that is missing is not supported."""

    vector_flops: float
    """FLOP/s of element-wise work in float32."""

    memory_bytes: int
    """Capacity of device memory."""

    memory_bandwidth_bytes_per_s: float
    """Peak bandwidth of device memory."""

    matmul_efficiency: float
    """Largest share of `peak_flops` that a matmul reaches, in (0, 1]."""

    memory_efficiency: float
    """Largest share of `memory_bandwidth_bytes_per_s` that a kernel reaches, in (0, 1]."""

    launch_latency_s: float
    """Seconds before a kernel does its first useful work."""

    host_bandwidth_bytes_per_s: float | None = None
    """Achieved bandwidth of the link to the memory of the host, per direction; `None` if it is not
    known."""

    overlap: float = 1.0
    """Share of a message that computation can hide: below 1 where the cores that compute carry the
    messages too, as those of a CPU do."""

    def supports(self, dtype: str) -> bool:
        """True if a matmul of this dtype runs on the chip."""
        return dtype in self.peak_flops

    def product_type(self, dtype: str) -> str:
        """The type in which products of a type run: its own, or the next wider one with a rate.

        Where the chip has a rate of neither it is the vector units' `float32`.
        """
        kind = next((k for k in ("float8", "float4") if dtype.startswith(k)), dtype)
        tried = (dtype, kind, *_STAND_INS.get(kind, ("float32",)))
        return next((name for name in tried if name in self.peak_flops), "float32")


@dataclass(frozen=True, slots=True)
class Tier:
    """One level of the machine: how `size` groups of the tier inside it are wired together."""

    name: str
    """`server`, `ring`, `card` in the bundled clusters."""

    size: int
    """Members of the tier, at least 1."""

    kind: TierKind
    """The wiring."""

    bandwidth_bytes_per_s: float
    """Achieved bandwidth per direction: of one link (full mesh, pairs, torus) or of the port of one
    device (switch)."""

    nominal_bandwidth_bytes_per_s: float
    """The same as the maker states it; the ratio of the two is the efficiency."""

    latency_s: float
    """Seconds per communication step."""

    shared_capacity_bytes_per_s: float | None = None
    """Per direction, what all devices inside one member share on the way out of it: PCIe between
    two halves of a server (pairs), the uplinks of a leaf or the few NICs of a server (switch).
    `None` if every link is independent. Only for `pairs` and `switch`."""

    transport: str = ""
    """Kind of link, for reports: `HCCS`, `PCIE`, `ROCE`, `NVLINK`, `IB`, `UB`, `XGMI`, `ICI`."""

    in_network_reduction: bool = False
    """The switches add up what passes through them (NVLink SHARP). Only for `switch`."""

    wrap: bool = True
    """The ring of a torus is closed; without it the ends of the line have no link."""

    algorithm: str = "auto"
    """Algorithm of collectives inside the tier, as `costmodel.collectives` names them (`ring`,
    `mesh`, `nhr`, ...); `auto` leaves the choice to the library."""

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ClusterError(
                f"a tier of size {self.size}", f"tier {self.name!r}", "give a size of at least 1"
            )
        if self.kind is TierKind.PAIRS and self.size > _PAIR:
            raise ClusterError(
                f"a tier of pairs has {self.size} members",
                f"tier {self.name!r}",
                "give it size 2, or make it a full_mesh or a switch",
            )

    def scaled(self, factor: float) -> Self:
        """The same tier with every bandwidth multiplied by the factor."""
        shared = self.shared_capacity_bytes_per_s
        return replace(
            self,
            bandwidth_bytes_per_s=self.bandwidth_bytes_per_s * factor,
            nominal_bandwidth_bytes_per_s=self.nominal_bandwidth_bytes_per_s * factor,
            shared_capacity_bytes_per_s=None if shared is None else shared * factor,
        )

    def __str__(self) -> str:
        rate = format_bandwidth(self.bandwidth_bytes_per_s)
        return f"{self.name} x{self.size} {self.kind.value} {rate}"


@dataclass(frozen=True, slots=True)
class Cluster:
    """Equal devices in nested tiers. Ranks are numbered row-major, the innermost tier fastest."""

    name: str
    """Name of the template, such as `atlas-800t-a2`."""

    chip: Chip
    """The device; all are equal."""

    tiers: tuple[Tier, ...]
    """Outermost first; the product of the sizes is the number of devices."""

    reserved_memory_bytes: int = 0
    """Memory of each device that is not the model's: runtime, communication buffers."""

    communicator_buffer_bytes: int = 0
    """Buffers that a device holds for every communication group it is in."""

    host_memory_bytes: int | None = None
    """Memory of the host that falls to each device; `None` if it is not known."""

    library: Library | None = None
    """The communication library with its measured constants; `None` if nothing is known of it:
    every collective then takes the best of the plain formulas."""

    def __post_init__(self) -> None:
        names = [tier.name for tier in self.tiers]
        if not names or len(set(names)) != len(names):
            raise ClusterError(
                f"tiers named {names}",
                f"cluster {self.name!r}",
                "give at least one tier and every tier its own name",
            )

    @property
    def devices(self) -> int:
        """Number of devices."""
        return math.prod(tier.size for tier in self.tiers)

    @property
    def usable_memory_bytes(self) -> int:
        """Memory of one device that the model may fill."""
        return max(0, self.chip.memory_bytes - self.reserved_memory_bytes)

    def buffer_excess_bytes(self, communicators: int) -> int:
        """Buffers of so many communication groups beyond what is reserved."""
        return max(0, communicators * self.communicator_buffer_bytes - self.reserved_memory_bytes)

    def tier_index(self, name: str) -> int:
        """Position of a tier, 0 = outermost."""
        names = [tier.name for tier in self.tiers]
        if name not in names:
            raise ClusterError(
                f"no tier {name!r}", f"cluster {self.name!r}", f"use one of {', '.join(names)}"
            )
        return names.index(name)

    @property
    def servers(self) -> int:
        """Servers of a machine whose outer tiers are called `pod` and `server`; else one."""
        return math.prod(tier.size for tier in self.tiers if tier.name in {"pod", "server"})

    def with_bandwidth(self, tier: str, factor: float) -> Self:
        """The same cluster with every bandwidth of one tier multiplied, for what-if questions."""
        if not (factor > 0 and math.isfinite(factor)):
            raise ClusterError(
                f"bandwidth factor {factor}", f"tier {tier!r}", "give a positive factor such as 2"
            )
        index = self.tier_index(tier)
        changed = self.tiers[index].scaled(factor)
        return replace(self, tiers=(*self.tiers[:index], changed, *self.tiers[index + 1 :]))

    def scaled(
        self,
        *,
        bandwidth: float = 1.0,
        latency: float = 1.0,
        memory: float = 1.0,
        compute: float = 1.0,
    ) -> Self:
        """The same machine with some of its numbers multiplied.

        Args:
            bandwidth: of every link and of what links share.
            latency: of every link, and of the steps that the library was measured with.
            memory: of the capacity of every device.
            compute: of the arithmetic rates of every device; the bandwidth of its memory stays.
        """
        found, chip = self, self.chip
        if bandwidth != 1.0:
            found = replace(found, tiers=tuple(tier.scaled(bandwidth) for tier in found.tiers))
        if latency != 1.0:
            tiers = tuple(replace(tier, latency_s=tier.latency_s * latency) for tier in found.tiers)
            library = None if self.library is None else self.library.slower(latency)
            found = replace(found, tiers=tiers, library=library)
        if memory != 1.0:
            chip = replace(chip, memory_bytes=round(chip.memory_bytes * memory))
        if compute != 1.0:
            peaks = {dtype: flops * compute for dtype, flops in chip.peak_flops.items()}
            chip = replace(chip, peak_flops=peaks, vector_flops=chip.vector_flops * compute)
        return replace(found, chip=chip) if chip is not found.chip else found

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; `from_dict` restores an equal cluster."""
        record = asdict(self)
        record["chip"]["peak_flops"] = dict(sorted(self.chip.peak_flops.items()))
        if self.chip.overlap == 1.0:  # bytes of files as before the field
            del record["chip"]["overlap"]
        record["tiers"] = [asdict(tier) | {"kind": tier.kind.value} for tier in self.tiers]
        record["library"] = None if self.library is None else self.library.to_dict()
        return record

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """The cluster that `to_dict` wrote."""
        try:
            tiers = tuple(
                Tier(**{**tier, "kind": TierKind(tier["kind"])}) for tier in record["tiers"]
            )
            library = record.get("library")
            known = None if library is None else Library(**library)
            chip = Chip(**record["chip"])
            found = cls(**{**record, "chip": chip, "tiers": tiers, "library": known})
            _check_numbers(found)
        except ClusterError:
            raise
        except (AttributeError, KeyError, TypeError, ValueError) as fault:
            raise ClusterError(
                f"the record is not a cluster ({type(fault).__name__}: {fault})",
                "the cluster of a plan file",
                "write the plan again with this version of the planner",
            ) from fault
        return found

    def __str__(self) -> str:
        wiring = ", ".join(str(tier) for tier in self.tiers)
        return f"{self.name}: {self.devices} x {self.chip.name} ({wiring})"


def _check_numbers(cluster: Cluster) -> None:
    """Raise `ValueError` if a number of a cluster is missing, negative or none."""
    own = {
        each.name: getattr(cluster, each.name)
        for each in fields(cluster)
        if each.name not in {"chip", "tiers", "library"}
    }
    chip = asdict(cluster.chip)
    peaks = chip.pop("peak_flops")
    for record in (own, chip, dict(peaks), *map(asdict, cluster.tiers)):
        for name, value in record.items():
            if name in _WORDS or (value is None and name in _MAY_BE_UNKNOWN):
                continue
            if not isinstance(value, int | float) or not 0 <= value < math.inf:
                raise ValueError(f"{name} is {value!r}")
