"""What MindSpore would refuse in the strategy of one operator.

Source: MindSpore 2.7.0, `frontend/parallel/ops_info/operator_info.cc`, CheckStrategyByVector, and
the CheckStrategy of the operators that are named here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from ir.mindspore_forms.readers import Reader
from ir.violations import Violation

_Found = Iterator[tuple[str, str]]
"""What is wrong, and how to mend it."""

_PLACE_FIX = "give the mesh axes to the factors in the order of MindSpore's device matrix"


def reader_violations(reader: Reader) -> tuple[Violation, ...]:
    """Everything that MindSpore would refuse, or place elsewhere on the mesh."""
    if not reader.form.name:
        return ()
    place = f"operator {reader.op.name!r} ({reader.form.name})"
    found = [*_cuts(reader), *_RULES.get(reader.form.name, _nothing)(reader)]
    if not reader.is_in_order:
        found.append(("MindSpore would put its cuts on other devices than the plan", _PLACE_FIX))
    return tuple(Violation(what, place, fix) for what, fix in found)


def _cuts(reader: Reader) -> _Found:
    devices = math.prod(reader.sizes)
    for index, (cuts, dims) in enumerate(zip(reader.cuts, reader.form.dims, strict=True)):
        for cut, dim in zip(cuts, dims, strict=True):
            if dim % cut:
                what = f"dimension of size {dim} of input {index} is cut {cut} ways"
                yield what, "choose a divisor of the size"
            if _is_power_of_two(devices) and not _is_power_of_two(cut):
                yield f"input {index} is cut {cut} ways", "choose a power of two"
    used = math.prod(reader.count(factors) for factors in reader.form.device_matrix)
    if devices % used:
        yield f"it takes {used} of {devices} devices", "choose cuts whose product divides them"


def _is_power_of_two(number: int) -> bool:
    return number & (number - 1) == 0


def _nothing(_: Reader) -> _Found:
    return iter(())


def _layer_norm(reader: Reader) -> _Found:
    axis = reader.op.attributes.get("axis", len(reader.cuts[0]) - 1)
    if isinstance(axis, int) and math.prod(reader.cuts[0][axis:]) > 1:
        yield f"the normalised dimensions are cut {reader.cuts[0][axis:]}", "leave them whole"


def _convolution(reader: Reader) -> _Found:
    data, weight = reader.cuts
    if math.prod(weight[2:]) > 1:
        yield f"the kernel is cut {weight[2:]}", "leave it whole"
    if reader.op.attributes.get("group", 1) != 1 and math.prod((data[1], *weight[:2])) > 1:
        yield "the channels of a convolution in groups are cut", "cut the images only"
    elif data[1] != weight[1]:
        yield f"input channels are cut {data[1]} ways and {weight[1]} ways", "cut both alike"


def _batch_norm(reader: Reader) -> _Found:
    if len(reader.cuts[0]) not in {2, 4}:
        yield f"its input has {len(reader.cuts[0])} dimensions", "leave it to batch parallelism"


def _gather(reader: Reader) -> _Found:
    table, indices = reader.cuts
    rows = reader.count(tuple(reader.form.looked_up))
    if rows == 1:
        return
    repeated = math.prod(reader.sizes) > math.prod((*table, *indices))
    if len(table) > 2:
        yield f"rows of a table of {len(table)} dimensions are cut", "leave the rows whole"
    elif not indices:
        yield "the rows are cut and the index is a single number", "leave the rows whole"
    elif math.prod(indices) > 1:
        yield from _both(table, indices, repeated=repeated)
    elif reader.op.attributes.get("axis", 0) != 0:
        yield "columns of the table that are looked up are cut", "leave them whole"
    elif repeated and math.prod(table) > rows:
        yield "the rows of the table are cut and the operator is repeated", "cut over all devices"


def _both(table: tuple[int, ...], indices: tuple[int, ...], *, repeated: bool) -> _Found:
    """Rows of the table and the indices are cut."""
    wide = len(indices) > 2 or (len(indices) == 2 and table[-1] > 1)
    if len(table) != 2 or indices[0] == 1 or wide:
        yield "both the rows of the table and the indices are cut", "cut one of them"
    elif repeated:
        yield "the rows of the table are cut and the operator is repeated", "cut over all devices"


_RULES: Mapping[str, Callable[[Reader], _Found]] = MappingProxyType(
    {
        "BatchNorm": _batch_norm,
        "Conv2D": _convolution,
        "Gather": _gather,
        "LayerNorm": _layer_norm,
    }
)
