"""Examples of operators that move elements, and of the ends of a graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

import numpy as np

from ir.graph import AttributeValue
from tests.operators.example import Draw, Example, Maker, example, floats, whole_numbers
from tests.operators.examples.composites import COMPOSITES
from tests.operators.examples.constants import CONSTANTS

SHAPES = ((6,), (3, 4), (2, 5, 8), (1, 6, 4, 3), (2, 2, 3, 1, 4))


def _transpose(draw: Draw) -> Iterator[Example]:
    for dims in SHAPES:
        perm = draw.sample(range(len(dims)), len(dims))
        result = tuple(dims[p] for p in perm)
        yield example("Transpose", [floats(draw, *dims)], [result], perm=tuple(perm))
    yield example("Transpose", [floats(draw, 2, 3, 4)], [(4, 3, 2)])
    yield example("Transpose", [floats(draw, 2, 4, 6)], [(6, 2, 4)], perm=(2, 0, 1))


def _reshape(draw: Draw) -> Iterator[Example]:
    """Merged, cut, regrouped dimensions, and such of size 1 that come and go."""
    for source, target in (
        ((4, 6), (24,)), ((24,), (2, 3, 4)), ((2, 3, 8), (2, 24)), ((4, 6, 8), (4, 6, 2, 4)),
        ((2, 4, 6, 3), (8, 18)), ((4, 6), (6, 4)), ((6, 4), (4, 6)), ((4, 6), (8, 3)),
        ((1, 8, 6), (8, 6)), ((8, 6), (1, 8, 6)), ((8, 6), (8, 1, 6)), ((12, 4), (2, 6, 2, 2)),
        ((5, 7), (35,)), ((1,), ()), ((), (1, 1)), ((2, 1, 4), (1, 8, 1)), ((8, 4), (2, 2, 8)),
        ((2, 4, 6), (4, 2, 6)), ((2, 4, 6), (48,)), ((2, 4, 6), (2, 2, 2, 6)),
        ((2, 4, 6), (2, 2, 2, 3, 2)), ((2, 4, 6), (1, 2, 4, 6)), ((2, 4, 6), (2, 12, 2)),
        ((2, 4, 6), (4, 12)), ((2, 4, 6), (16, 3)), ((2, 0), (0, 4)),
    ):  # fmt: skip
        yield example("Reshape", [floats(draw, *source)], [target])


def _flatten(draw: Draw) -> Iterator[Example]:
    for axis, result in ((1, (2, 24)), (0, (1, 48)), (2, (6, 8)), (3, (48, 1))):
        yield example("Flatten", [floats(draw, 2, 3, 8)], [result], axis=axis)


def _squeeze(draw: Draw) -> Iterator[Example]:
    for dims, axes in (
        ((1, 6, 4), (0,)),
        ((3, 1, 8, 1), (1, 3)),
        ((1,), (0,)),
        ((4, 6, 1), (2,)),
        ((1, 2, 4, 1, 6), (0, 3)),
    ):
        left = tuple(d for i, d in enumerate(dims) if i not in axes)
        yield example("Squeeze", [floats(draw, *dims)], [left], axes=axes)
        yield example("Unsqueeze", [floats(draw, *left)], [dims], axes=axes)


def _only(kind: str, make: Maker) -> Maker:
    """The examples of one kind among those of several."""
    return lambda draw: (e for e in make(draw) if e.op.kind == kind)


def _expand(draw: Draw) -> Iterator[Example]:
    for dims, result in (
        ((1, 6), (4, 6)), ((6,), (2, 3, 6)), ((2, 1, 4), (2, 8, 4)), ((), (4, 6)),
        ((3, 1), (3, 7)), ((4, 6), (4, 6)), ((1, 2, 1, 3), (4, 2, 6, 3)),
    ):  # fmt: skip
        yield example("Expand", [floats(draw, *dims)], [result])


def _tile(draw: Draw) -> Iterator[Example]:
    for dims, result in (
        ((4, 3), (4, 6)),
        ((2, 3, 8), (6, 3, 8)),
        ((6,), (6,)),
        ((1, 4), (5, 4)),
        ((2, 4, 6), (2, 8, 6)),
    ):
        yield example("Tile", [floats(draw, *dims)], [result])


def _pad(draw: Draw) -> Iterator[Example]:
    """Every mode, a value, cropping, cropping with padding, a value that is computed."""

    def pad(
        dims: tuple[int, ...], axes: tuple[int, ...], pads: tuple[int, ...], **more: AttributeValue
    ) -> Example:
        result = list(dims)
        for place, axis in enumerate(axes):
            result[axis] += pads[place] + pads[len(axes) + place]
        array = floats(draw, *dims)
        known: dict[str, AttributeValue] = {"axes": axes, "pads": pads, **more}
        return example("Pad", [array], [tuple(result)], (), (), None, **known)

    for mode in ("constant", "reflect", "edge", "wrap"):
        yield pad((2, 4, 5), (2,), (2, 1), mode=mode)
        yield pad((3, 4, 4, 5), (2, 3), (1, 2, 0, 3), mode=mode)
    yield pad((8,), (0,), (1, 1), value=-1.5)
    yield pad((2, 6, 5), (2,), (-1, -2))
    yield pad((4, 6), (1,), (-1, 1), value=0.25)
    yield pad((4, 2, 3, 3, 4), (3,), (0, 2))
    yield pad((2, 4, 6), (1,), (1, 1))
    yield pad((2, 4, 6), (1,), (1, -1))
    value = np.asarray(0.75)
    yield example("Pad", [floats(draw, 4, 3), value], [(4, 5)], axes=(1,), pads=(1, 1))
    operands = [floats(draw, 4, 3), np.asarray([0, 1, 0, 1]), value]
    yield example("Pad", operands, [(4, 5)], axes=(0, 1), mode="constant")


def _trilu(draw: Draw) -> Iterator[Example]:
    for dims in ((4, 6), (6, 4), (3, 4, 4), (2, 3, 5, 6)):
        for upper in (0, 1):
            array = floats(draw, *dims)
            yield example("Trilu", [array], [dims], upper=upper, k=draw.choice((-2, -1, 0, 1)))
    yield example("Trilu", [floats(draw, 2, 4, 4), np.asarray(1)], [(2, 4, 4)])


def _slice(draw: Draw) -> Iterator[Example]:
    """Forwards, backwards, with steps, beyond the ends; of one axis, of several."""

    def cut(dims: tuple[int, ...], axes: tuple[int, ...], *bounds: tuple[int, ...]) -> Example:
        starts, ends, steps = bounds
        every = [slice(None)] * len(dims)
        for axis, start, end, step in zip(axes, *bounds, strict=True):
            every[axis] = slice(start, None if step < 0 and end < -dims[axis] else end, step)
        array = floats(draw, *dims)
        known: dict[str, AttributeValue] = {
            "axes": tuple(sorted(axes)), "slice_axes": axes, "starts": starts, "ends": ends,
            "steps": steps,
        }  # fmt: skip
        return example("Slice", [array], [array[tuple(every)].shape], (), (), None, **known)

    yield cut((4, 6), (1,), (1,), (5,), (1,))
    yield cut((4, 6, 8), (1,), (-4,), (1 << 60,), (2,))
    yield cut((3, 8), (1,), (-1,), (-(1 << 60),), (-1,))
    yield cut((8, 5, 3, 2), (2, 1), (0, 1), (2, 4), (1, 1))
    yield cut((7,), (0,), (2,), (6,), (3,))
    yield cut((2, 4, 6), (1,), (3,), (-10,), (-1,))
    yield cut((2, 4, 6), (2,), (0,), (6,), (2,))
    operands = [floats(draw, 4, 6), *(np.asarray([v]) for v in (1, 4, 1))]
    yield example("Slice", operands, [(4, 3)], axes=(0, 1))


def _concat(draw: Draw) -> Iterator[Example]:
    for dims, axis, sizes in (
        ((4, 3), 1, (2, 3)), ((2, 3, 6), 0, (1, 4, 2)), ((6,), 0, (6, 6)), ((2, 4, 1, 3), 2, (1,)),
        ((2, 4, 6), 1, (4, 2)), ((2, 4, 6), 1, (4, 4)),
    ):  # fmt: skip
        arrays = [floats(draw, *dims[:axis], size, *dims[axis + 1 :]) for size in sizes]
        result = (*dims[:axis], sum(sizes), *dims[axis + 1 :])
        yield example("Concat", arrays, [result], axis=axis)


def _split(draw: Draw) -> Iterator[Example]:
    for dims, axis, sizes in (
        ((4, 6), 1, (2, 4)), ((6, 3, 4), 0, (2, 2, 2)), ((8,), 0, (5, 3)), ((2, 4, 6, 3), 2, (6,)),
        ((2, 4, 6), 1, (2, 2)), ((2, 4, 6), 1, (1, 3)),
    ):  # fmt: skip
        results = [(*dims[:axis], size, *dims[axis + 1 :]) for size in sizes]
        yield example("Split", [floats(draw, *dims)], results, axis=axis)


def _reverse_sequence(draw: Draw) -> Iterator[Example]:
    for dims, batch, time in (((5, 4), 1, 0), ((4, 6, 3), 0, 1), ((2, 6, 4, 8), 3, 1)):
        lengths = whole_numbers(draw, dims[batch], below=dims[time] + 1)
        data = [floats(draw, *dims), lengths]
        yield example("ReverseSequence", data, [dims], batch_axis=batch, time_axis=time)


def _one_hot(draw: Draw) -> Iterator[Example]:
    for dims, axis in (((6,), 1), ((4, 3), 0), ((2, 3, 8), 2)):
        indices = whole_numbers(draw, *dims, least=-5, below=5)
        result = (*dims[:axis], 5, *dims[axis:])
        data = [indices, np.asarray([0.25, 0.75])]
        yield example("OneHot", data, [result], ["float64"], axis=axis)


def _non_zero(draw: Draw) -> Iterator[Example]:
    for dims in ((6,), (4, 6), (2, 3, 4)):
        array = whole_numbers(draw, *dims, below=3)
        yield example("NonZero", [array], [(len(dims), int(np.count_nonzero(array)))])


def _compress(draw: Draw) -> Iterator[Example]:
    chosen = np.array([True, False, True, True])
    yield example("Compress", [floats(draw, 4, 6), chosen], [(3, 6)], axis=0)
    yield example("Compress", [floats(draw, 2, 4, 8), chosen], [(2, 3, 8)], axis=1)
    yield example("Compress", [floats(draw, 2, 3), chosen], [(3,)])


def _unique(draw: Draw) -> Iterator[Example]:
    array = whole_numbers(draw, 4, 6, below=5).astype(np.float64)
    values, first, back, counts = np.unique(array, True, True, True)
    dims = [a.reshape(-1).shape for a in (values, first, back, counts)]
    types = ["float64", "int64", "int64", "int64"]
    yield example("Unique", [array], dims, types, sorted=1)
    yield example("Unique", [array], dims[:1], types, sorted=1)
    rows = np.concatenate([array, array[:2]])
    yield example("Unique", [rows], [np.unique(rows, axis=0).shape], types, sorted=1, axis=0)


def _loss(draw: Draw) -> Iterator[Example]:
    """Rows and classes, a vector of scores, a single number."""
    for dims in ((8, 6), (6,), (7,), (), (2, 3, 8), (2, 2, 3, 4), (4, 1)):
        yield example("Loss", [floats(draw, *dims)], [()])


def _output(draw: Draw) -> Iterator[Example]:
    for dims in ((4, 6), (8,), ()):
        yield example("Output", [floats(draw, *dims)], [])


SHAPE: Mapping[str, Maker] = MappingProxyType(
    {
        **COMPOSITES,
        **CONSTANTS,
        "Transpose": _transpose,
        "Reshape": _reshape,
        "Flatten": _flatten,
        "Squeeze": _only("Squeeze", _squeeze),
        "Unsqueeze": _only("Unsqueeze", _squeeze),
        "Expand": _expand,
        "Tile": _tile,
        "Pad": _pad,
        "Trilu": _trilu,
        "Slice": _slice,
        "Concat": _concat,
        "Split": _split,
        "ReverseSequence": _reverse_sequence,
        "OneHot": _one_hot,
        "NonZero": _non_zero,
        "Compress": _compress,
        "Unique": _unique,
        "Loss": _loss,
        "Output": _output,
    }
)
