"""Chips that laws of operators are tested on."""

from dataclasses import replace

from topology import chip_names, named_chip
from topology.cluster import Chip

CHIPS = tuple(named_chip(name) for name in chip_names())


def faster(chip: Chip, *, flops: float = 1.0, bandwidth: float = 1.0) -> Chip:
    """The chip with other peaks, all else equal."""
    return replace(
        chip,
        peak_flops={dtype: peak * flops for dtype, peak in chip.peak_flops.items()},
        vector_flops=chip.vector_flops * flops,
        memory_bandwidth_bytes_per_s=chip.memory_bandwidth_bytes_per_s * bandwidth,
    )


def dtype_of(chip: Chip) -> str:
    """A 16-bit type that the chip multiplies."""
    return "bfloat16" if chip.supports("bfloat16") else "float16"
