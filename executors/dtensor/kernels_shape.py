"""Quotients, and operators that move elements, by functions that torch has of its own."""

from __future__ import annotations

from typing import Any

import torch

from executors.dtensor.call import Call
from executors.dtensor.numbers import same_kind


def split(call: Call) -> list[Any]:
    axis = call.int("axis")
    return list(torch.split(call[0], [dims[axis] for dims in call.result_dims], dim=axis))


def pad(call: Call) -> list[Any]:
    computed = "pads" not in call.op.attributes or call.has(1)
    if computed or call.op.attributes.get("mode", "constant") != "constant":
        raise NotImplementedError("padding that is computed or reflects")
    axes, pads = call.ints("axes"), call.ints("pads")
    widths = [0] * (2 * call[0].ndim)
    for axis, before, after in zip(axes, pads, pads[len(axes) :], strict=False):
        place = 2 * (call[0].ndim - 1 - axis)
        widths[place : place + 2] = [before, after]
    return [torch.nn.functional.pad(call[0], widths, value=call.float("value", 0.0))]


def gather(call: Call) -> list[Any]:
    """A lookup of rows of a table is an embedding, for which DTensor has a rule of its own."""
    table, rows, axis = call[0], call[1], call.int("axis")
    rows = torch.where(rows < 0, rows + table.shape[axis], rows)
    if axis == 0 and table.ndim == 2 and table.is_floating_point():
        return [torch.nn.functional.embedding(rows, table)]
    found = torch.index_select(table, axis, rows.reshape(-1))
    return [found.reshape((*table.shape[:axis], *rows.shape, *table.shape[axis + 1 :]))]


def gather_nd(call: Call) -> list[Any]:
    """Numbers of the coordinates are not looked at: they may lie on another device, or nowhere."""
    data, rows, batch = call[0], call[1], call.int("batch_dims")
    index: list[Any] = []
    for dim in range(batch):
        shape = [-1 if d == dim else 1 for d in range(rows.ndim - 1)]
        places = torch.arange(data.shape[dim], device=data.device).reshape(shape)
        index.append(same_kind(data, places))
    index += [rows[..., i] for i in range(rows.shape[-1])]
    return [data[tuple(index)]]


def quotient(call: Call) -> list[Any]:
    whole = None if call[0].is_floating_point() else "trunc"
    return [torch.div(call[0], call[1], rounding_mode=whole)]
