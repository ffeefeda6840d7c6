"""Feed-forward blocks and their activations."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

from importers.transformers.records import FeedForward, Names
from importers.transformers.writer import Value, Writer


def _silu(writer: Writer, value: Value) -> Value:
    return writer.mul(value, writer.sigmoid(value))


def _quick_gelu(writer: Writer, value: Value) -> Value:
    wide = writer.scaled(value, "activation/1.702", 1.702)
    return writer.mul(value, writer.sigmoid(wide))


def _gelu_in_parts(writer: Writer, value: Value) -> Value:
    """By a hyperbolic tangent, written out as GPT-2 has it."""
    half = writer.scaled(value, "activation/half", 0.5)
    three = writer.constant("activation/three", 3.0, (), writer.dtype_of(value))
    cube = writer.power(value, three)
    inner = writer.add(value, writer.scaled(cube, "activation/0.044715", 0.044715))
    tangent = writer.tanh(writer.scaled(inner, "activation/slope", math.sqrt(2 / math.pi)))
    one = writer.constant("activation/one", 1.0, (), writer.dtype_of(value))
    return writer.mul(half, writer.add(tangent, one))


def _gelu(writer: Writer, value: Value) -> Value:
    return writer.gelu(value, "none")


def _gelu_by_tangent(writer: Writer, value: Value) -> Value:
    return writer.gelu(value, "tanh")


def _squared_relu(writer: Writer, value: Value) -> Value:
    made = writer.relu(value)
    return writer.mul(made, made)


ACTIVATIONS: Mapping[str, Callable[[Writer, Value], Value]] = MappingProxyType(
    {
        "silu": _silu,
        "swish": _silu,
        "gelu": _gelu,
        "gelu_new": _gelu_in_parts,
        "gelu_fast": _gelu_in_parts,
        "gelu_pytorch_tanh": _gelu_by_tangent,
        "quick_gelu": _quick_gelu,
        "relu": Writer.relu,
        "relu2": _squared_relu,
        "tanh": Writer.tanh,
    }
)
"""By the names that configurations use."""


def activated(writer: Writer, value: Value, activation: str, module: str) -> Value:
    """The value after an activation."""
    with writer.module(module):
        return ACTIVATIONS[activation](writer, value)


def feed_forward(
    writer: Writer, rows: Value, sizes: FeedForward, names: Names, module: str
) -> Value:
    """`[batch, rows, width]` through one hidden width and back."""
    path = {part: f"{module}.{name}" if module else name for part, name in names.items()}
    width = writer.dims(rows)[-1]
    with writer.module(module):
        act = path["activation"]
        if sizes.flat:
            inner = activated(
                writer,
                writer.rows_first_linear(rows, path["up"], sizes.width),
                sizes.activation,
                act,
            )
            return writer.rows_first_linear(inner, path["down"], width)
        if sizes.gated:
            gate = writer.linear(rows, path["gate"], sizes.width, bias=sizes.bias)
            gate = activated(writer, gate, sizes.activation, act)
            up = writer.linear(rows, path["up"], sizes.width, bias=sizes.bias)
            inner = writer.mul(gate, up)
        else:
            inner = writer.linear(rows, path["up"], sizes.width, bias=sizes.bias)
            inner = activated(writer, inner, sizes.activation, act)
        return writer.linear(inner, path["down"], width, bias=sizes.bias)
