"""The YAML files that describe chips and clusters, and their way into the plain nouns.

A quantity is a string with its unit, or a mapping that says where the number comes from:
`{value: 30 GB/s, source: HC31, confidence: high, note: "..."}`.
"""

import math
from collections.abc import Callable, Mapping
from typing import Annotated, Literal, Self, TypeVar

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PositiveInt,
    ValidationError,
    field_validator,
    model_validator,
)

from topology.cluster import Chip, Cluster, Tier, TierKind
from topology.errors import ClusterError
from topology.units import parse_bandwidth, parse_bytes, parse_flops, parse_ratio, parse_seconds

__all__ = ["ChipFile", "ClusterFile", "Quantity", "chip_file", "cluster_file"]

Dtype = Literal["float32", "tf32", "float16", "bfloat16", "int8"]
_File = TypeVar("_File", bound="_Strict")


class _Strict(BaseModel):
    """A record of a file: unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Quantity(_Strict):
    """One number of a file, with its origin. A bare string stands for its value alone."""

    value: str
    """Number and unit, such as `30 GB/s`."""

    source: tuple[str, ...] = ()
    """Keys of `data/sources.yaml`; several if they agree or the number combines them."""

    confidence: Literal["high", "medium", "low", "assumed", "stated"] = "stated"
    """How far to trust it; `assumed` has no source, `stated` is the user's own word."""

    note: str | None = None
    """How the number came about, where that is not plain."""

    @model_validator(mode="before")
    @classmethod
    def _accept_a_bare_value(cls, given: object) -> object:
        return given if isinstance(given, (Mapping, Quantity)) else {"value": given}

    @field_validator("value", mode="before")
    @classmethod
    def _accept_a_number(cls, given: object) -> object:
        return str(given) if isinstance(given, (int, float)) else given

    @field_validator("source", mode="before")
    @classmethod
    def _accept_one_source(cls, given: object) -> object:
        return (given,) if isinstance(given, str) else given


def _reads_as(parse: Callable[[str], float]) -> AfterValidator:
    """A check that the value of a quantity is a positive number in the right unit."""

    def check(quantity: Quantity) -> Quantity:
        if not parse(quantity.value) > 0:
            raise ValueError(f"{quantity.value!r} is not above zero")
        return quantity

    return AfterValidator(check)


Capacity = Annotated[Quantity, _reads_as(parse_bytes)]
Bandwidth = Annotated[Quantity, _reads_as(parse_bandwidth)]
Rate = Annotated[Quantity, _reads_as(parse_flops)]
Duration = Annotated[Quantity, _reads_as(parse_seconds)]
Ratio = Annotated[Quantity, _reads_as(parse_ratio)]


class _Memory(_Strict):
    """Device memory of a chip."""

    capacity: Capacity
    bandwidth: Bandwidth


class _Efficiency(_Strict):
    """Largest share of the peaks that kernels reach."""

    matmul: Ratio
    memory: Ratio


class _Vector(_Strict):
    """Peak rates of element-wise work."""

    float32: Rate
    float16: Rate | None = None


class ChipFile(_Strict):
    """One file of `data/chips`."""

    schema_version: Literal[1]
    name: str
    family: str
    aliases: tuple[str, ...] = ()
    peak_matmul: dict[Dtype, Rate | None]
    """Dense rate by dtype; `null` if the chip cannot."""
    peak_vector: _Vector
    memory: _Memory
    efficiency: _Efficiency
    launch_latency: Duration

    def to_chip(self) -> Chip:
        return Chip(
            name=self.name,
            family=self.family,
            peak_flops={
                str(dtype): parse_flops(rate.value)
                for dtype, rate in self.peak_matmul.items()
                if rate is not None
            },
            vector_flops=parse_flops(self.peak_vector.float32.value),
            memory_bytes=round(parse_bytes(self.memory.capacity.value)),
            memory_bandwidth_bytes_per_s=parse_bandwidth(self.memory.bandwidth.value),
            matmul_efficiency=parse_ratio(self.efficiency.matmul.value),
            memory_efficiency=parse_ratio(self.efficiency.memory.value),
            launch_latency_s=parse_seconds(self.launch_latency.value),
        )


class _TierFile(_Strict):
    """One tier of a cluster file."""

    name: str
    size: PositiveInt | None = None
    """`null` for the outermost tier: as many as the devices need."""
    max_size: PositiveInt | None = None
    """Most members of a tier whose size is `null`."""
    kind: TierKind
    bandwidth: Bandwidth
    """Per direction, of one link (full mesh, pairs) or port (switch), as the maker states it."""
    efficiency: Ratio
    latency: Duration
    shared_capacity: Bandwidth | None = None
    """Per direction, shared by all links of the tier; only for `pairs`."""

    @model_validator(mode="after")
    def _wiring_agrees(self) -> Self:
        pairs = self.kind is TierKind.PAIRS
        if pairs and self.size != 2:
            raise ValueError("a tier of pairs joins two halves: its size is 2")
        if self.shared_capacity and not pairs:
            raise ValueError("only a tier of pairs has a shared_capacity")
        if self.size and self.max_size:
            raise ValueError("max_size is for a tier whose size is open")
        return self

    def to_tier(self, size: int) -> Tier:
        nominal = parse_bandwidth(self.bandwidth.value)
        shared = self.shared_capacity
        return Tier(
            name=self.name,
            size=size,
            kind=self.kind,
            bandwidth_bytes_per_s=nominal * parse_ratio(self.efficiency.value),
            nominal_bandwidth_bytes_per_s=nominal,
            latency_s=parse_seconds(self.latency.value),
            shared_capacity_bytes_per_s=None if shared is None else parse_bandwidth(shared.value),
        )


class _Placement(_Strict):
    """Which numbers of devices a job may take. Larger jobs take whole servers."""

    on_one_server: tuple[PositiveInt, ...]
    source: tuple[str, ...] = ()
    note: str | None = None


class ClusterFile(_Strict):
    """One file of `data/clusters`, or a user's own."""

    schema_version: Literal[1]
    name: str
    title: str = ""
    chip: str | ChipFile
    """Name of a profile in `data/chips`, or a profile in full."""
    reserved_memory: Capacity | None = None
    communicator_buffers: Capacity | None = None
    """What a device holds for every communication group that it is in."""
    placement: _Placement | None = None
    """`null`: any number that fills the tiers from the innermost outwards."""
    tiers: tuple[_TierFile, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _tiers_agree(self) -> Self:
        names = [tier.name for tier in self.tiers]
        if any(tier.size is None for tier in self.tiers[1:]):
            raise ValueError("only the outermost tier may leave its size open")
        if len(set(names)) != len(names):
            raise ValueError(f"every tier needs its own name, not {', '.join(names)}")
        return self

    @property
    def server_devices(self) -> int:
        """Devices inside one member of the outermost tier."""
        return math.prod(tier.size or 1 for tier in self.tiers[1:])

    @property
    def max_devices(self) -> int | None:
        """Most devices that the machine has, `None` if that is open."""
        most = self.tiers[0].size or self.tiers[0].max_size
        return None if most is None else most * self.server_devices

    def to_cluster(self, chip: Chip, devices: int) -> Cluster:
        """The part of the machine that a job of so many devices occupies."""
        self._check_devices(devices)
        sizes = self._tier_sizes(devices)
        kept = [
            file.to_tier(size) for file, size in zip(self.tiers, sizes, strict=True) if size > 1
        ]
        reserved, buffers = self.reserved_memory, self.communicator_buffers
        return Cluster(
            name=self.name,
            chip=chip,
            tiers=tuple(kept) or (self.tiers[-1].to_tier(1),),
            reserved_memory_bytes=round(parse_bytes(reserved.value)) if reserved else 0,
            communicator_buffer_bytes=round(parse_bytes(buffers.value)) if buffers else 0,
        )

    def _check_devices(self, devices: int) -> None:
        server, most = self.server_devices, self.max_devices
        where = f"cluster {self.name!r} of servers with {server} devices"
        fix = f"use {self._allowed_text()}"
        if devices < 1:
            raise ClusterError(f"{devices} devices", where, fix)
        if most is not None and devices > most:
            raise ClusterError(f"{devices} devices, but the machine has {most}", where, fix)
        if devices > server and devices % server:
            raise ClusterError(f"{devices} devices do not fill whole servers", where, fix)
        if self.placement and devices <= server and devices not in self.placement.on_one_server:
            raise ClusterError(f"a job cannot take {devices} devices of one server", where, fix)

    def _allowed_text(self) -> str:
        """The allowed numbers of devices, in words."""
        server, most = self.server_devices, self.max_devices
        single = self.placement.on_one_server if self.placement else range(1, server + 1)
        parts = [", ".join(map(str, single))]
        if most is None or most > server:
            parts.append(f"a multiple of {server}" + (f" up to {most}" if most else ""))
        return " or ".join(parts)

    def _tier_sizes(self, devices: int) -> list[int]:
        """Members taken of each tier, filled from the innermost outwards."""
        sizes: list[int] = []
        left = devices
        for tier in reversed(self.tiers):
            taken = left if tier.size is None else min(left, tier.size)
            if left % taken:
                raise ClusterError(
                    f"{devices} devices do not fill the tiers of the machine",
                    f"tier {tier.name!r} of cluster {self.name!r}, which has {tier.size}",
                    f"use at most {tier.size} devices, or a multiple of {tier.size}",
                )
            sizes.insert(0, taken)
            left //= taken
        return sizes


def chip_file(text: str, where: str) -> ChipFile:
    """The chip profile in a YAML text; `where` names the text in errors."""
    return _read(ChipFile, text, where)


def cluster_file(text: str, where: str) -> ClusterFile:
    """The cluster description in a YAML text; `where` names the text in errors."""
    return _read(ClusterFile, text, where)


def _read(model: type[_File], text: str, where: str) -> _File:
    try:
        return model.model_validate(yaml.safe_load(text))
    except yaml.YAMLError as fault:
        raise ClusterError(
            f"the text is not YAML: {' '.join(str(fault).split())}",
            where,
            "mend the line, or start from a file of data/clusters",
        ) from fault
    except ValidationError as fault:
        violations = [
            f"{'.'.join(map(str, each['loc'])) or 'the file'}: {each['msg'].splitlines()[0]}"
            for each in fault.errors()
        ]
        raise ClusterError(
            "; ".join(violations), where, "compare with a file of data/clusters or data/chips"
        ) from fault
