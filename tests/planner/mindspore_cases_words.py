"""Networks of the cases that tell them in words, or that take the shapes of one rank.

They have the operators and the strategies that MindSpore's own tests give them: what stands between
operators for their order alone is left out, since our graphs have no such thing.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

Net = Mapping[str, Any]

_ROWS = ((2, 4), (2, 4))
_COLUMNS = ((4, 2), (4, 2))
_RESHAPED = {"x": [128, 96], "y": [256, 48], "weight": [128, 96]}


def _op(kind: str, *inputs: str, out: str, **more: Any) -> Net:
    return {"op": kind, "inputs": list(inputs), "out": out, **more}


def _reshapes(name: str) -> list[Net]:
    first = _op("Reshape", name, shape=[96, 32, 4], out="three")
    return [first, _op("Reshape", "three", shape=[128, 96], out="two")]


def _of_reshapes(*ops: Net) -> Net:
    return {"shapes": _RESHAPED, "data": ["x", "y"], "ops": list(ops)}


def _tied_tables() -> Net:
    """Two tables, each looked up in and multiplied with; the rows of indices of all eight ranks,
    since the dataset of the test is not one full batch.
    """
    ops = [_op("Add", "ids", "ids", out="sum")]
    for table, found, flat, out in (("a", "ga", "ra", "ma"), ("b", "gb", "rb", "mb")):
        ops += [
            _op("Gather", table, "sum", axis=0, out=found),
            _op("Reshape", found, shape=[-1, 5120], out=flat),
            _op("MatMul", flat, table, transpose_b=True, out=out),
        ]
    ops.append(_op("Add", "ma", "mb", out="o"))
    shapes = {"ids": [2 * 8, 1024], "a": [40000, 5120], "b": [40000, 5120]}
    return {"shapes": shapes, "data": ["ids"], "ops": ops}


def _shared_weight() -> Net:
    """What the strategies of a call of `shard` hold are its arguments, here by an operator that
    leaves the layout to them.
    """
    return {
        "shapes": {"x": [128, 96], "y": [128, 96], "gamma": [96, 96]},
        "data": ["x", "y"],
        "ops": [
            _op("Neg", "x", out="left", user_strategy=((4, 2),)),
            _op("Neg", "y", out="right", user_strategy=((2, 4),)),
            _op("MatMul", "left", "gamma", out="m"),
            _op("MatMul", "right", "gamma", out="n"),
            _op("Add", "m", "n", out="o"),
        ],
    }


def _new_dimensions() -> Net:
    """A slice of everything that puts three dimensions before the others."""
    added = _op("Unsqueeze", "x", new_axes=[0, 1, 2], out="s", user_strategy=((2, 4, 8, 16),))
    return {"shapes": {"x": [2, 4, 8, 16]}, "ops": [added, _op("ReLU", "s", out="o")]}


NETS: Mapping[int, Net] = MappingProxyType(
    {
        108: _tied_tables(),
        114: _of_reshapes(
            _op("Mul", "x", "weight", user_strategy=_ROWS, out="m"),
            _op("Add", "y", "y", user_strategy=_ROWS, out="a"),
            _op("ReLU", "a", out="r"),
            *_reshapes("r"),
            _op("Add", "m", "two", user_strategy=_COLUMNS, out="o"),
        ),
        115: _of_reshapes(
            _op("Mul", "x", "weight", user_strategy=_ROWS, out="m"),
            *_reshapes("y"),
            _op("ReLU", "two", out="o"),
        ),
        116: _of_reshapes(
            _op("Mul", "x", "weight", out="m"),
            *_reshapes("y"),
            _op("ReLU", "two", out="r"),
            _op("Add", "r", "r", user_strategy=_COLUMNS, out="o"),
        ),
        121: _shared_weight(),
        124: _new_dimensions(),
    }
)
"""By number of the case."""
