"""Words that both ways to price a layout share."""

from __future__ import annotations

SECONDS, FLOPS, KERNELS, BYTES = "s", "FLOP", "kernels", "bytes"
TENSOR, CONTEXT, EXCHANGE = "tensor parallel", "context parallel", "expert exchange"
GRADIENTS, SENDS, ENDS = "parameters sent", "sends", "messages of the ends"
VECTORS = "vectors sent"

Quantities = dict[tuple[str, str], float]
"""Of a step on one device of every stage, by name and unit."""


def add(found: Quantities, name: str, unit: str, value: float) -> None:
    """Add to a quantity."""
    found[name, unit] = found.get((name, unit), 0.0) + value
