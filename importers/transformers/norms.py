"""Normalisations of rows."""

from __future__ import annotations

from importers.transformers.records import Norm
from importers.transformers.writer import Value, Writer

_EPSILON = 1e-5
"""Changes nothing that planning sees."""


def normalised(writer: Writer, value: Value, norm: Norm, module: str) -> Value:
    """The value with its last dimension normalised, scaled by a weight of the module."""
    with writer.module(module):
        width = writer.dims(value)[-1]
        weight = writer.parameter(f"{module}.weight", width)
        if norm.kind == "rms":
            return _rms(writer, value, weight, offset=norm.offset)
        bias = writer.parameter(f"{module}.bias", width)
        axis = len(writer.dims(value)) - 1
        dims = writer.dims(value)
        operands = [value, weight, bias]
        return writer.op("LayerNormalization", operands, dims, axis=axis, epsilon=_EPSILON)


def _rms(writer: Writer, value: Value, weight: Value, *, offset: bool) -> Value:
    """Root mean square in single precision, as the published implementations compute it.

    Source: Zhang and Sennrich, arXiv 1910.07467, equation 4.
    """
    wide = writer.cast(value, "float32")
    square = writer.power(wide, writer.constant("norm/two", 2.0, (), "float32"))
    mean = writer.reduce_mean(square, len(writer.dims(value)) - 1)
    shifted = writer.add(mean, writer.constant("norm/epsilon", _EPSILON, (), "float32"))
    made = writer.mul(wide, writer.reciprocal(writer.sqrt(shifted)))
    if not offset:
        return writer.mul(weight, writer.cast(made, writer.dtype_of(value)))
    one = writer.constant("norm/one", 1.0, (), "float32")
    shifted_weight = writer.add(writer.cast(weight, "float32"), one)
    return writer.cast(writer.mul(made, shifted_weight), writer.dtype_of(value))
