"""Examples of mixtures of experts, with a balanced load."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

import numpy as np

from executors.placement import Array
from tests.operators.example import Draw, Example, Maker, example, floats, whole_numbers


def balanced(draw: Draw, experts: int, capacity: int) -> Array:
    """An expert for every token; in every slice of the tokens each expert is as frequent."""
    rng = np.random.default_rng(draw.randrange(1 << 30))
    index = rng.permuted(np.tile(np.arange(experts), (capacity, 1)), axis=1).reshape(-1)
    return np.where(rng.random(index.shape) < 0.2, index - experts, index)


def _dispatch(draw: Draw) -> Iterator[Example]:
    data = [floats(draw, 24, 4), balanced(draw, 4, 6)]
    yield example("Dispatch", data, [(4, 6, 4)])
    data = [floats(draw, 48, 1, 8), balanced(draw, 6, 8)[:, None]]
    yield example("Dispatch", data, [(6, 8, 1, 8)])
    data = [floats(draw, 10, 6), np.array([3, 0, 1, 2, 3, 0, -1, 0, 1, 2])]
    yield example("Dispatch", data, [(4, 3, 6)])


def _combine(draw: Draw) -> Iterator[Example]:
    data = [floats(draw, 4, 6, 4), balanced(draw, 4, 6)]
    yield example("Combine", data, [(24, 4)])
    data = [floats(draw, 6, 8, 8, 1), balanced(draw, 6, 8)[:, None].astype(np.int32)]
    yield example("Combine", data, [(48, 8, 1)])
    data = [floats(draw, 4, 3, 6), np.array([3, 0, 1, 2, 3, 0, -1, 0, 1, 2])]
    yield example("Combine", data, [(10, 6)])


def _expert_matmul(draw: Draw) -> Iterator[Example]:
    kind = "ExpertMatMul"
    data = [floats(draw, 4, 6, 1, 8), floats(draw, 4, 8, 6)]
    yield example(kind, data, [(4, 6, 1, 6)], row=1)
    data = [floats(draw, 6, 8, 4, 1), floats(draw, 6, 3, 4)]
    yield example(kind, data, [(6, 8, 3, 1)])


def _packed_expert_matmul(draw: Draw) -> Iterator[Example]:
    """Weights of two, four and eight bits, in blocks or in rows, with and without zero points."""
    kind = "ExpertMatMulNBits"

    def packed(*dims: int) -> Array:
        return whole_numbers(draw, *dims, below=256).astype(np.uint8)

    data = [floats(draw, 4, 6, 32, 1), packed(4, 6, 16), floats(draw, 4, 6, 8)]
    yield example(kind, data, [(4, 6, 6, 1)], bits=4, block_size=4)
    data = [floats(draw, 2, 4, 16, 1), packed(2, 6, 8), floats(draw, 2, 6, 2), packed(2, 6, 1)]
    yield example(kind, data, [(2, 4, 6, 1)], bits=4, block_size=8)
    data = [floats(draw, 2, 4, 8, 1), packed(2, 6, 2), floats(draw, 2, 6), packed(2, 2)]
    yield example(kind, data, [(2, 4, 6, 1)], bits=2)
    data = [floats(draw, 2, 4, 8, 1), packed(2, 6, 8), floats(draw, 2, 6), packed(2, 6)]
    yield example(kind, data, [(2, 4, 6, 1)], bits=8)


EXPERTS: Mapping[str, Maker] = MappingProxyType(
    {
        "Dispatch": _dispatch,
        "Combine": _combine,
        "ExpertMatMul": _expert_matmul,
        "ExpertMatMulNBits": _packed_expert_matmul,
    }
)
