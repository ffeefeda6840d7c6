"""Times of the operators of a layer; the one place through which the training estimate asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from costmodel.operators import matmul_s as product_s

if TYPE_CHECKING:
    from costmodel.training.machines import MachineRates
    from costmodel.training.table import FloatArray

__all__ = ["matmul_s", "stream_s"]


def matmul_s(
    m: FloatArray, n: FloatArray, k: FloatArray, flops: FloatArray, rates: MachineRates
) -> FloatArray:
    """Seconds of products (m, k) x (k, n) in a long run, with 16-bit traffic.

    Args:
        m: rows of the result, shape (N,).
        n: columns of the result.
        k: the inner dimension.
        flops: rate that large products reach.
        rates: of the machines.
    """
    return product_s((1.0, m, n, k), flops, rates.memory_bytes_per_s, rates.shapes)


def stream_s(nbytes: FloatArray, rates: MachineRates) -> FloatArray:
    """Seconds to move so many bytes between memory and cores at the full rate."""
    return nbytes / rates.memory_bytes_per_s
