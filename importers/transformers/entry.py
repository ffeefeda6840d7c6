"""From an input to rows of numbers: tokens, patches of an image, frames of a spectrum."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

from importers.transformers.fillings import counted, waves
from importers.transformers.norms import normalised
from importers.transformers.records import Entry, Names, Norm
from importers.transformers.writer import Value, Writer
from ir.ops import BIAS_ADD


def entered(
    writer: Writer, entry: Entry, norm: Norm, names: Names, width: int, batch: int, rows: int
) -> Value:
    """`[batch, rows, width]` from the input that the entry names."""
    return _ENTRIES[entry.kind](writer, entry, norm, names, (batch, rows, width))


_Dims = tuple[int, int, int]


def _tokens(writer: Writer, entry: Entry, norm: Norm, names: Names, dims: _Dims) -> Value:
    _, rows, width = dims
    made = _looked_up(writer, entry.input, names["embedding"], entry.vocabulary, dims)
    if entry.scaled:
        made = writer.scaled(made, "embedding/root_of_width", math.sqrt(width))
    if entry.types:
        types = _looked_up(writer, "token_type_ids", names["types"], entry.types, dims)
        made = writer.add(made, types)
    if entry.table:
        with writer.module(names["positions"]):
            table = writer.parameter(f"{names['positions']}.weight", entry.table, width)
            index = writer.constant("positions", counted, (1, rows), "int64")
            place = writer.gather(table, index, 0)
        made = writer.add(made, place)
    return normalised(writer, made, norm, names["entry_norm"]) if entry.norm else made


def _looked_up(writer: Writer, given: str, module: str, count: int, dims: _Dims) -> Value:
    """The rows of a table that an input names."""
    index = writer.input(given, dims[:2], "int64")
    with writer.module(module):
        table = writer.parameter(f"{module}.weight", count, dims[2])
        return writer.gather(table, index, 0)


def _patches(writer: Writer, entry: Entry, norm: Norm, names: Names, dims: _Dims) -> Value:
    """Patches without overlap, a token for the class in front, learned positions.

    Source: Dosovitskiy et al., arXiv 2010.11929, section 3.1.
    """
    batch, rows, width = dims
    side = entry.image // entry.patch
    image = (batch, entry.channels, entry.image, entry.image)
    pixels = writer.input(entry.input, image, writer.dtype)
    square, none = (entry.patch, entry.patch), (0, 0, 0, 0)
    made = _convolved(writer, pixels, names["patches"], width, (side, side), square, none)
    flat = writer.transpose(writer.reshape(made, batch, width, side * side), 0, 2, 1)
    token = writer.expand(writer.parameter(names["class_token"], 1, 1, width), batch, 1, width)
    joined = writer.concat(1, token, flat)
    place = writer.parameter(names["position_table"], 1, rows, width)
    made = writer.add(joined, place)
    return normalised(writer, made, norm, names["entry_norm"]) if entry.norm else made


def _frames(writer: Writer, entry: Entry, norm: Norm, names: Names, dims: _Dims) -> Value:
    """Two convolutions over time, the second of which halves it, and fixed positions.

    Source: Radford et al., arXiv 2212.04356, section 2.2.
    """
    batch, rows, width = dims
    made = writer.input(entry.input, (batch, entry.channels, 2 * rows), writer.dtype)
    for part, stride in (("first_convolution", 1), ("second_convolution", 2)):
        length = 2 * rows // stride
        made = _convolved(writer, made, names[part], width, (length,), (3,), (1, 1), stride)
        made = writer.gelu(made, "none")
    made = writer.transpose(made, 0, 2, 1)
    place = writer.constant(names["position_table"], waves, (1, rows, width))
    made = writer.add(made, place)
    return normalised(writer, made, norm, names["entry_norm"]) if entry.norm else made


def _convolved(
    writer: Writer,
    value: Value,
    module: str,
    channels: int,
    size: tuple[int, ...],
    kernel: tuple[int, ...],
    pads: tuple[int, ...],
    stride: int = 0,
) -> Value:
    """A convolution with bias; without a stride its kernels do not overlap."""
    batch, before = writer.dims(value)[:2]
    with writer.module(module):
        weight = writer.parameter(f"{module}.weight", channels, before, *kernel)
        dims = (batch, channels, *size)
        made = writer.op(
            "Conv", [value, weight], dims,
            group=1, kernel_shape=kernel, pads=pads, dilations=(1,) * len(kernel),
            strides=(stride,) * len(kernel) if stride else kernel,
        )  # fmt: skip
        bias = writer.parameter(f"{module}.bias", channels)
        return writer.op(BIAS_ADD, [made, bias], dims, axis=1)


_ENTRIES: Mapping[str, Callable[[Writer, Entry, Norm, Names, _Dims], Value]] = MappingProxyType(
    {"tokens": _tokens, "patches": _patches, "frames": _frames}
)
