"""Several kinds of chips in one job: what all of them have, and which of them limits."""

from collections.abc import Callable, Sequence

from topology.cluster import Chip
from topology.units import format_bandwidth, format_bytes, format_flops

__all__ = ["common_chip", "limits"]


def _matmul(chip: Chip) -> float:
    """Achieved rate of the chip's fastest 16-bit product, or of any if it has none."""
    sixteen = [chip.peak_flops[t] for t in ("float16", "bfloat16") if t in chip.peak_flops]
    return max(sixteen or chip.peak_flops.values()) * chip.matmul_efficiency


def _memory(chip: Chip) -> float:
    return chip.memory_bandwidth_bytes_per_s * chip.memory_efficiency


_LIMITS: tuple[tuple[str, Callable[[Chip], float], Callable[[float], str]], ...] = (
    ("matmul", _matmul, format_flops),
    ("memory bandwidth", _memory, format_bandwidth),
    ("memory", lambda chip: float(chip.memory_bytes), format_bytes),
    ("element-wise work", lambda chip: chip.vector_flops, format_flops),
)


def common_chip(one: Chip, two: Chip) -> Chip:
    """A chip that does what both can, as fast as the slower of them."""
    if one == two:
        return one
    slow = min((one, two), key=_matmul)
    narrow = min((one, two), key=_memory)
    hosts = [chip.host_bandwidth_bytes_per_s for chip in (one, two)]
    slowest_host = min((rate for rate in hosts if rate is not None), default=None)
    peaks = {
        dtype: _peak(dtype, slow, two if slow is one else one)
        for dtype in one.peak_flops
        if dtype in two.peak_flops
    }
    return Chip(
        name=f"{one.name}+{two.name}",
        family=f"the least of {one.name} and {two.name}",
        peak_flops=peaks,
        vector_flops=min(one.vector_flops, two.vector_flops),
        memory_bytes=min(one.memory_bytes, two.memory_bytes),
        memory_bandwidth_bytes_per_s=narrow.memory_bandwidth_bytes_per_s,
        matmul_efficiency=slow.matmul_efficiency,
        memory_efficiency=narrow.memory_efficiency,
        launch_latency_s=max(one.launch_latency_s, two.launch_latency_s),
        host_bandwidth_bytes_per_s=None if None in hosts else slowest_host,
        overlap=min(one.overlap, two.overlap),
    )


def _peak(dtype: str, slow: Chip, other: Chip) -> float:
    """Peak that gives the lower of two achieved rates with the efficiency of the slow chip."""
    share = other.matmul_efficiency / slow.matmul_efficiency
    return min(slow.peak_flops[dtype], other.peak_flops[dtype] * share)


def limits(kinds: Sequence[tuple[str, Chip]]) -> tuple[str, ...]:
    """Which kind of server limits what, in words.

    Args:
        kinds: name and chip of every kind of server.
    """
    notes = []
    for noun, measure, told in _LIMITS:
        values = [measure(chip) for _, chip in kinds]
        if max(values) > min(values):
            name, chip = kinds[values.index(min(values))]
            notes.append(
                f"{noun} is limited by {name} ({chip.name}): {told(min(values))} of "
                f"{told(max(values))}"
            )
    missing = {
        dtype: name
        for _, chip in kinds
        for dtype in chip.peak_flops
        for name, other in kinds
        if dtype not in other.peak_flops
    }
    notes += [f"no {dtype}: {name} lacks it" for dtype, name in sorted(missing.items())]
    return tuple(notes)
