"""The chip layer of machine files: what one device computes, holds and is joined with."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from topology.cluster import Chip
from topology.quantities import (
    Bandwidth,
    Capacity,
    Count,
    Duration,
    Factor,
    Frequency,
    Power,
    Rate,
    Ratio,
    Share,
    Strict,
)
from topology.units import parse_bandwidth, parse_bytes, parse_flops, parse_ratio, parse_seconds

__all__ = ["ChipFile", "ChipLink", "TrainingRates"]

HOST_LINKS = ("PCIE", "C2C")
"""Links of a chip that lead to the memory of the host."""
HOST_SHARE = 0.8
"""Of the nominal bandwidth of such a link that copies reach where nothing was measured: 25.6 of
32 GB/s (A100) and 51.2 of 64 GB/s (H100).
Source: SimAI, as in data/sources.yaml."""

Dtype = Literal["float32", "tf32", "float16", "bfloat16", "int8", "float8", "float4"]

_MOVED = ("float8", "float4")
"""Types that stood in `other_peaks` before plans knew them; files that have them there hold too."""


class _Memory(Strict):
    """Device memory of a chip."""

    capacity: Capacity
    bandwidth: Bandwidth


class _Efficiency(Strict):
    """Largest share of the peaks that kernels reach."""

    matmul: Ratio
    memory: Ratio


class _Vector(Strict):
    """Peak rates of element-wise work."""

    float32: Rate
    float16: Rate | None = None


class ChipLink(Strict):
    """Ports of one kind on a chip; bandwidths are per direction."""

    kind: str
    """In words, such as `PCIe4 x16`."""

    count: Count | None = None
    """Ports of the chip; a server cannot use more."""

    bandwidth: Bandwidth | None = None
    """Of one port."""

    total: Bandwidth | None = None
    """Of all ports together."""

    achieved: Bandwidth | None = None
    """Of one port, as software reaches it."""

    note: str | None = None


class TrainingRates(Strict):
    """What published training runs say of a chip's products, besides its peaks."""

    sustained: Factor | None = None
    """Rate under load over the peak, relative to the first chip of the generation; 1 if absent.
    Power limits differ between boards of one chip."""

    products: Ratio | None = None
    """Share of the peak that large 16-bit products reach in a long run over that of an A100; 1
    where nobody measured them."""

    shapes: str | None = None
    """The chip of `data/chips` whose constants of shapes hold for its products, if not its own."""


class ChipFile(Strict):
    """One file of `data/chips`. The planner takes what stands before `other_peaks`."""

    schema_version: Literal[2] = 2
    name: str
    family: str
    aliases: tuple[str, ...] = ()
    """Other names of the chip: the maker's, and those that stand for its usual cluster."""

    hardware: tuple[str, ...] = ()
    """Lower-case patterns of whole words that name the chip in a text such as `NVIDIA A100 80GB`;
    of those that match, the longest match counts."""

    generation: str = ""
    """Chips of one generation share fitted constants of training steps, such as `hopper`."""

    training: TrainingRates = TrainingRates()
    peak_matmul: dict[Dtype, Rate | None]
    """Dense rate by dtype; `null` if the chip cannot."""
    peak_vector: _Vector
    memory: _Memory
    efficiency: _Efficiency
    launch_latency: Duration
    overlap: Share | None = None
    """Share of a message that computation can hide; all of it if absent."""
    other_peaks: dict[str, Rate] = Field(default_factory=dict)
    """Rates of types that are not planned with, and rates as advertised."""
    counts: dict[str, Count] = Field(default_factory=dict)
    """Cores and the like."""
    clock: Frequency | None = None
    caches: dict[str, Capacity] = Field(default_factory=dict)
    links: dict[str, ChipLink] = Field(default_factory=dict)
    """Ports by the kind that links of a server name: `HCCS`, `ROCE`, `PCIE`, ..."""
    power: Power | None = None
    note: str | None = None

    def to_chip(self) -> Chip:
        return Chip(
            name=self.name,
            family=self.family,
            peak_flops=self._peaks(),
            vector_flops=parse_flops(self.peak_vector.float32.value),
            memory_bytes=round(parse_bytes(self.memory.capacity.value)),
            memory_bandwidth_bytes_per_s=parse_bandwidth(self.memory.bandwidth.value),
            matmul_efficiency=parse_ratio(self.efficiency.matmul.value),
            memory_efficiency=parse_ratio(self.efficiency.memory.value),
            launch_latency_s=parse_seconds(self.launch_latency.value),
            host_bandwidth_bytes_per_s=self._host_bandwidth(),
            overlap=1.0 if self.overlap is None else parse_ratio(self.overlap.value),
        )

    def _host_bandwidth(self) -> float | None:
        """Bytes per second to or from the host, as measured or as copies usually reach."""
        for link in (self.links[kind] for kind in HOST_LINKS if kind in self.links):
            if link.achieved is not None:
                return parse_bandwidth(link.achieved.value)
            if link.bandwidth is not None:
                return parse_bandwidth(link.bandwidth.value) * HOST_SHARE
        return None

    def _peaks(self) -> Mapping[str, float]:
        rates: dict[str, Rate | None] = {
            dtype: self.other_peaks[dtype] for dtype in _MOVED if dtype in self.other_peaks
        }
        rates.update({str(dtype): rate for dtype, rate in self.peak_matmul.items()})
        return {dtype: parse_flops(rate.value) for dtype, rate in rates.items() if rate is not None}
