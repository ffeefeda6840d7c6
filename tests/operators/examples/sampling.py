"""Examples of resizing, sampling and transforms.

The reference computes places of samples in single precision: they are drawn from sixteenths.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from types import MappingProxyType

import numpy as np

from executors.placement import Array
from tests.operators.example import Draw, Example, Maker, example, floats, whole_numbers
from tests.operators.examples.windows import Attributes, Dims, slid


def _resize(draw: Draw) -> Iterator[Example]:
    """Every mode, way of counting and rounding; larger and smaller; scales, crops."""
    settings: list[Attributes] = [
        {"mode": mode, "coordinate_transformation_mode": way}
        for mode in ("nearest", "linear", "cubic")
        for way in (
            "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
            "asymmetric",
        )
    ]  # fmt: skip
    settings += [
        {"mode": "nearest", "nearest_mode": rounding}
        for rounding in ("round_prefer_ceil", "floor", "ceil")
    ]
    for key in ("antialias", "exclude_outside"):
        other: Attributes = {"mode": "linear", key: 1}
        settings += [other, other]
    for number, attributes in enumerate(settings):
        data, result = (((8, 8, 4), (8, 8, 7)), ((3, 4, 6, 5), (3, 4, 3, 8)))[number % 2]
        if attributes["mode"] == "cubic":
            # The reference has these coefficients in single precision: halves and quarters.
            aligned = attributes["coordinate_transformation_mode"] == "align_corners"
            data, result = ((3, 2, 5), (3, 2, 9)) if aligned else ((3, 6, 4), (3, 3, 8))
        yield example("Resize", [floats(draw, *data)], [result]).having(attributes)
    yield example(
        "Resize",
        [floats(draw, 2, 2, 5, 4)],
        [(2, 2, 6, 6)],
        scales=(1.0, 1.0, 1.25, 1.6),
        mode="linear",
    )
    yield example(
        "Resize", [floats(draw, 2, 3, 4)], [(2, 3, 4)], scales=(1.0, 1.0, 1.125), mode="linear"
    )
    yield example(
        "Resize",
        [floats(draw, 2, 3, 5, 4)],
        [(2, 3, 4, 4)],
        roi=(0.0, 0.0, 0.25, -0.25, 1.0, 1.0, 0.75, 1.0),
        coordinate_transformation_mode="tf_crop_and_resize",
        mode="linear",
        extrapolation_value=0.5,
    )


def _upsample(draw: Draw) -> Iterator[Example]:
    for mode in ("nearest", "linear"):
        yield example("Upsample", [floats(draw, 8, 8, 3)], [(8, 8, 6)], mode=mode)
        yield example("Upsample", [floats(draw, 3, 4, 2, 3)], [(3, 4, 5, 3)], mode=mode)
        yield example("Upsample", [floats(draw, 2, 4, 4, 4)], [(2, 4, 8, 8)], mode=mode)


def sixteenths(draw: Draw, *dims: int, below: int, least: int) -> Array:
    """Places between whole ones, from `least` to `below` sixteenths."""
    return (whole_numbers(draw, *dims, below=below, least=least) * 2 + 1) / 16


def _grid_sample(draw: Draw) -> Iterator[Example]:
    shapes: list[tuple[Dims, Dims]] = [
        ((2, 2, 5), (3,)), ((2, 1, 4, 3), (2, 2)), ((1, 2, 2, 3, 2), (1, 1, 2)),
    ]  # fmt: skip
    for mode in ("linear", "nearest", "cubic"):
        for number, padding in enumerate(("zeros", "border", "reflection")):
            for aligned in (0, 1):
                data, places = shapes[number if aligned and mode != "cubic" else 0]
                yield _grid(draw, data, places, mode, padding, aligned)
    yield _grid(draw, *shapes[1], "cubic", "border", 1)


def _grid(draw: Draw, data: Dims, places: Dims, mode: str, padding: str, aligned: int) -> Example:
    axes = []
    for size in reversed(data[2:]):
        place = sixteenths(draw, data[0], *places, least=-20, below=8 * size + 20)
        axes.append(place * 2 / (size - 1) - 1 if aligned else (2 * place + 1) / size - 1)
    return example(
        "GridSample",
        [floats(draw, *data), np.stack(axes, axis=-1)],
        [(*data[:2], *places)],
        mode=mode,
        padding_mode=padding,
        align_corners=aligned,
    )


def _affine_grid(draw: Draw) -> Iterator[Example]:
    for images, sizes, aligned in ((8, (4, 2), 0), (3, (3, 5), 1), (2, (2, 4, 8), 0)):
        rank = len(sizes)
        matrix = whole_numbers(draw, images, rank, rank + 1, least=-16, below=16) / 16
        yield example("AffineGrid", [matrix], [(images, *sizes, rank)], align_corners=aligned)


def _regions(draw: Draw, count: int, size: int) -> Array:
    starts = floats(draw, count, 2, low=-1.0, high=size / 2)
    return np.concatenate([starts, starts + floats(draw, count, 2, low=0.5, high=size)], axis=1)


def _roi_align(draw: Draw) -> Iterator[Example]:
    for ratio in (0, 2):
        for mode in ("avg", "max"):
            for way in ("half_pixel", "output_half_pixel"):
                operands = [
                    floats(draw, 2, 3, 5, 6, low=0.1),
                    _regions(draw, 4, 10),
                    whole_numbers(draw, 4, below=2),
                ]
                yield example(
                    "RoiAlign",
                    operands,
                    [(4, 3, 1, 2)],
                    mode=mode,
                    sampling_ratio=ratio,
                    spatial_scale=0.5,
                    coordinate_transformation_mode=way,
                )


def _max_roi_pool(draw: Draw) -> Iterator[Example]:
    for count, channels in ((4, 3), (3, 5)):
        images = whole_numbers(draw, count, 1, below=2)
        regions = np.concatenate([images, _regions(draw, count, 12)], axis=1)
        yield example(
            "MaxRoiPool",
            [floats(draw, 2, channels, 5, 6), regions],
            [(count, channels, 2, 3)],
            spatial_scale=0.5,
        )


def _deform_conv(draw: Draw) -> Iterator[Example]:
    """Groups of channels, groups of offsets, both; with and without a mask."""
    cases: list[tuple[Dims, Dims, Attributes, bool]] = [
        ((2, 3, 2, 2), (2, 3, 1, 1), {}, True),
        ((2, 4, 2, 2), (4, 2, 2, 1), {"group": 2}, False),
        ((2, 4, 2, 2), (2, 4, 1, 2), {"offset_group": 2}, True),
        ((2, 4, 3, 2), (2, 2, 1, 2), {"group": 2, "offset_group": 4, "strides": (2, 1)}, True),
        ((1, 2, 2, 3), (2, 2, 2, 2), {"pads": (1, 0, 0, 1), "dilations": (1, 2)}, False),
    ]
    for data, weight, attributes, masked in cases:
        kernel = math.prod(weight[2:])
        groups = attributes.get("offset_group", 1)
        assert isinstance(groups, int)
        places = slid(data[2:], weight[2:], attributes)
        offset = sixteenths(draw, data[0], groups * kernel * 2, *places, least=-12, below=12)
        mask = [floats(draw, data[0], groups * kernel, *places)] if masked else []
        operands = [floats(draw, *data), floats(draw, *weight), offset, *mask]
        dims = (data[0], weight[0], *places)
        yield example("DeformConv", operands, [dims]).having(attributes)


def _det(draw: Draw) -> Iterator[Example]:
    for dims in ((3, 3), (8, 2, 2), (3, 4, 3, 3)):
        yield example("Det", [floats(draw, *dims)], [dims[:-2]])


def _dft(draw: Draw) -> Iterator[Example]:
    """Real and complex signals, both ways, padded and cut, half of the frequencies."""
    cases: list[tuple[Dims, int, int, int, int]] = [
        ((8, 6, 1), 1, 6, 0, 0), ((3, 5, 4, 2), 2, 4, 0, 0), ((3, 5, 4, 2), 1, 7, 0, 0),
        ((8, 6, 1), 1, 5, 0, 1), ((4, 6, 1), 0, 4, 0, 1), ((2, 8, 2), 1, 8, 1, 0),
        ((8, 4, 2), 1, 6, 1, 1), ((8, 4, 2), 1, 7, 1, 1), ((4, 3, 2, 2), 0, 3, 1, 0),
    ]  # fmt: skip
    for dims, axis, length, inverse, half in cases:
        size = length // 2 + 1 if half and not inverse else length
        parts = 1 if half and inverse else 2
        result = (*dims[:axis], size, *dims[axis + 1 : -1], parts)
        attributes: Attributes = {"axis": axis, "length": length}
        attributes |= {"inverse": inverse, "onesided": half}
        yield example("DFT", [floats(draw, *dims)], [result]).having(attributes)


def _stft(draw: Draw) -> Iterator[Example]:
    for dims, step, length, half, windowed in (
        ((8, 12, 1), 3, 4, 1, True), ((3, 9, 2), 2, 5, 0, True), ((2, 8, 1), 4, 4, 1, False),
    ):  # fmt: skip
        frames, bins = (dims[1] - length) // step + 1, length // 2 + 1 if half else length
        window = [floats(draw, length)] if windowed else []
        yield example(
            "STFT",
            [floats(draw, *dims), *window],
            [(dims[0], frames, bins, 2)],
            frame_step=step,
            frame_length=length,
            onesided=half,
        )


SAMPLING: Mapping[str, Maker] = MappingProxyType(
    {
        "Resize": _resize,
        "Upsample": _upsample,
        "GridSample": _grid_sample,
        "AffineGrid": _affine_grid,
        "RoiAlign": _roi_align,
        "MaxRoiPool": _max_roi_pool,
        "DeformConv": _deform_conv,
        "Det": _det,
        "DFT": _dft,
        "STFT": _stft,
    }
)
