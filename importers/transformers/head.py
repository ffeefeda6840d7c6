"""From the last rows to what a network answers."""

from __future__ import annotations

from importers.transformers.feed_forward import activated
from importers.transformers.norms import normalised
from importers.transformers.records import Head, Names, Norm
from importers.transformers.writer import Value, Writer

_CAP = 30.0
"""Of the scores, where they have one; planning does not see its size."""


def answered(writer: Writer, rows: Value, head: Head, norm: Norm, names: Names) -> Value:
    """Scores of the vocabulary for every row, of the classes for every sample, or the rows."""
    if head.kind == "none":
        return rows
    if head.kind == "classes":
        return _classes(writer, rows, head, names["classes"])
    width = writer.dims(rows)[-1]
    if head.transform:
        rows = writer.linear(rows, names["transform"], width, bias=True)
        rows = activated(writer, rows, head.transform, names["transform_activation"])
        rows = normalised(writer, rows, norm, names["transform_norm"])
    if head.scaled:
        rows = writer.scaled(rows, "head/scale", width**-0.5)
    module = names["head"]
    with writer.module(module):
        table = names["embedding"] if head.tied else module
        weight = writer.parameter(f"{table}.weight", head.size, width)
        made = writer.matmul(rows, writer.transpose(weight, 1, 0))
        if head.bias:
            made = writer.biased(made, module, head.size)
        return _capped(writer, made) if head.soft_cap else made


def _capped(writer: Writer, scores: Value) -> Value:
    cap = writer.constant("head/cap", _CAP)
    within = writer.op("Div", [scores, cap], writer.dims(scores))
    return writer.scaled(writer.op("Tanh", [within], writer.dims(scores)), "head/cap", _CAP)


def _classes(writer: Writer, rows: Value, head: Head, module: str) -> Value:
    """From the first row alone, where the class token stands."""
    batch, _, width = writer.dims(rows)
    first = writer.constant("head/first", 0, (), "int64")
    picked = writer.op("Gather", [rows, first], (batch, width), axis=1)
    with writer.module(module):
        weight = writer.parameter(f"{module}.weight", head.size, width)
        return writer.biased(writer.matmul(picked, weight, transposed=True), module, head.size)
