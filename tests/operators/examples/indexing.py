"""Examples of gathers and scatters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

import numpy as np

from executors.placement import Array
from ir.graph import AttributeValue
from tests.operators.example import Draw, Example, Maker, example, floats, whole_numbers


def _gather(draw: Draw) -> Iterator[Example]:
    """Every axis, indices of rank 0 to 3, from the front and from the end."""
    yield example("Gather", [floats(draw, 6, 4), whole_numbers(draw, 8, below=6)], [(8, 4)], axis=0)
    rows = whole_numbers(draw, 2, 4, below=6, least=-6)
    yield example("Gather", [floats(draw, 2, 6, 4), rows], [(2, 2, 4, 4)], axis=1)
    yield example("Gather", [floats(draw, 3, 8), whole_numbers(draw, below=8)], [(3,)], axis=1)
    rows = whole_numbers(draw, 2, 3, 2, below=4)
    yield example("Gather", [floats(draw, 4), rows.astype(np.int32)], [(2, 3, 2)], axis=0)
    words = whole_numbers(draw, 2, 4, below=4)
    yield example("Gather", [floats(draw, 4, 6), words], [(2, 4, 6)], axis=0)
    yield example("Gather", [floats(draw, 4, 4, 6), np.array(1)], [(4, 4)], axis=2)
    table, rows = whole_numbers(draw, 6, 3, below=9), whole_numbers(draw, 4, below=6)
    yield example("Gather", [table, rows], [(4, 3)], axis=0)
    same = np.array([[0, 2, 3], [4, 6, 7]])
    yield example("Gather", [floats(draw, 8, 6), same], [(2, 3, 6)], axis=0, index_blocks=(0, 2, 4))


def _gather_elements(draw: Draw) -> Iterator[Example]:
    rows = whole_numbers(draw, 4, 6, below=8, least=-8)
    yield example("GatherElements", [floats(draw, 4, 8), rows], [(4, 6)], axis=1)
    rows = whole_numbers(draw, 8, 4, 3, below=2)
    yield example("GatherElements", [floats(draw, 2, 4, 6), rows], [(8, 4, 3)], axis=0)
    rows = whole_numbers(draw, 2, 6, below=6)
    yield example("GatherElements", [floats(draw, 4, 6), rows], [(2, 6)], axis=1)
    rows = whole_numbers(draw, 6, below=40)
    yield example("GatherElements", [floats(draw, 40), rows], [(6,)], axis=0)


def _gather_nd(draw: Draw) -> Iterator[Example]:
    """Coordinates of whole rows and of elements, batch dimensions, positions themselves."""
    rows = whole_numbers(draw, 8, 1, below=6, least=-6)
    yield example("GatherND", [floats(draw, 6, 4), rows], [(8, 4)])
    rows = whole_numbers(draw, 2, 4, 2, below=3)
    yield example("GatherND", [floats(draw, 3, 4, 6), rows], [(2, 4, 6)])
    rows = whole_numbers(draw, 4, 6, 1, below=3, least=-3)
    yield example("GatherND", [floats(draw, 4, 3, 8), rows], [(4, 6, 8)], batch_dims=1)
    rows = whole_numbers(draw, 2, 2, 4, 1, below=3)
    yield example("GatherND", [floats(draw, 2, 2, 3), rows], [(2, 2, 4)], batch_dims=2)
    place = np.broadcast_to(np.arange(4)[:, None], (4, 6))
    rows = np.stack([place, whole_numbers(draw, 4, 6, below=8)], axis=-1)
    yield example(
        "GatherND", [floats(draw, 4, 8, 2), rows], [(4, 6, 2)], identity_coordinates=(0, 0)
    )
    rows = np.stack([np.arange(4), np.array([1, 3, 0, 2])], axis=-1)
    own: dict[str, AttributeValue] = {"identity_coordinates": (0, 0)}
    yield example("GatherND", [floats(draw, 4, 4, 6), rows], [(4, 6)]).having(own)
    rows = whole_numbers(draw, 2, 2, below=4)
    yield example("GatherND", [floats(draw, 4, 4, 6), rows], [(2, 6)])
    rows = whole_numbers(draw, 2, 1, below=4)
    yield example("GatherND", [floats(draw, 4, 4, 6), rows], [(2, 4, 6)])


def _distinct(draw: Draw, *dims: int, below: int, axis: int) -> Array:
    """Indices without repetition along an axis, some from the end."""
    rng = np.random.default_rng(draw.randrange(1 << 30))
    lines = [dims[d] for d in range(len(dims)) if d != axis]
    found = rng.permuted(np.broadcast_to(np.arange(below), (*lines, below)), axis=-1)
    found = np.moveaxis(found[..., : dims[axis]], -1, axis)
    return np.where(rng.random(dims) < 0.3, found - below, found)


_REDUCTIONS = ("add", "mul", "max", "min")


def _scatter_elements(draw: Draw) -> Iterator[Example]:
    kind = "ScatterElements"
    rows = _distinct(draw, 4, 3, below=6, axis=1)
    yield example(kind, [floats(draw, 4, 6), rows, floats(draw, 4, 3)], [(4, 6)], axis=1)
    rows = _distinct(draw, 2, 4, 3, below=8, axis=0)
    data = [floats(draw, 8, 4, 6), rows, floats(draw, 2, 4, 3)]
    yield example(kind, data, [(8, 4, 6)], axis=0, reduction="none")
    for reduction in _REDUCTIONS:
        rows = whole_numbers(draw, 8, 4, below=3, least=-3)
        data = [floats(draw, 3, 4), rows, floats(draw, 8, 4)]
        yield example(kind, data, [(3, 4)], axis=0, reduction=reduction)


def _scatter_nd(draw: Draw) -> Iterator[Example]:
    rows = _distinct(draw, 4, below=8, axis=0)[:, None]
    yield example("ScatterND", [floats(draw, 8, 4), rows, floats(draw, 4, 4)], [(8, 4)])
    rows = np.array([[0], [2]])
    yield example("ScatterND", [floats(draw, 4, 4, 6), rows, floats(draw, 2, 4, 6)], [(4, 4, 6)])
    rows = np.array([[[0, 5], [-1, 2]], [[3, 0], [1, -1]]])
    data = [floats(draw, 4, 6), rows, floats(draw, 2, 2)]
    yield example("ScatterND", data, [(4, 6)], reduction="none")
    for reduction in _REDUCTIONS:
        rows = whole_numbers(draw, 2, 4, 1, below=6, least=-6)
        data = [floats(draw, 6, 4), rows, floats(draw, 2, 4, 4)]
        yield example("ScatterND", data, [(6, 4)], reduction=reduction)
    rows = whole_numbers(draw, 8, 2, below=3)
    data = [floats(draw, 3, 4, 2), rows, floats(draw, 8, 2)]
    yield example("ScatterND", data, [(3, 4, 2)], reduction="add")


def _tensor_scatter(draw: Draw) -> Iterator[Example]:
    kind, first = "TensorScatter", np.array([3, 0, 4, 1])
    data = [floats(draw, 4, 6, 3), floats(draw, 4, 2, 3), first]
    yield example(kind, data, [(4, 6, 3)], axis=1)
    data = [floats(draw, 2, 6, 4), floats(draw, 2, 2, 4), np.array([5, 2])]
    yield example(kind, data, [(2, 6, 4)], axis=1, write_offset=-1)
    data = [floats(draw, 4, 2, 3, 8), floats(draw, 4, 2, 2, 8), np.array([2, 0, 1, 2])]
    yield example(kind, data, [(4, 2, 3, 8)], axis=2, mode="circular")
    yield example(kind, [floats(draw, 2, 4, 6), floats(draw, 2, 3, 6)], [(2, 4, 6)], axis=1)


INDEXING: Mapping[str, Maker] = MappingProxyType(
    {
        "Gather": _gather,
        "GatherElements": _gather_elements,
        "GatherND": _gather_nd,
        "ScatterElements": _scatter_elements,
        "ScatterND": _scatter_nd,
        "TensorScatter": _tensor_scatter,
    }
)
