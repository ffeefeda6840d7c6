"""Attention: the heads of the device where they are an attribute, and where its rows begin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from executors.device import Device, DeviceAlgorithm, Running, with_attributes
from ir.graph import AttributeValue
from ir.ops.attention import HEAD_COUNTS
from ir.ops.linear_attention import LINEAR_HEAD_COUNTS

_COUNTS = {**HEAD_COUNTS, **LINEAR_HEAD_COUNTS}


def _counted(device: Device, named: Iterable[tuple[int, str]]) -> dict[str, AttributeValue]:
    """Heads of the device by the attribute that counts them."""
    call = device.call()
    return {
        key: call.int(key) * device.operands[i].shape[-1] // device.dims(i)[-1] for i, key in named
    }


def attention(device: Device) -> Running:
    """Heads of the device; rows count from the first that it has, of all that there are."""
    yield from ()
    dims = device.dims(0)
    rows = len(dims) - 2
    own = {} if len(dims) == 4 else _counted(device, _COUNTS[device.op.kind])
    if device.axes_of(0, (rows,)):
        own |= {"first_row": device.first(0, rows), "all_rows": dims[rows]}
    return device.run(with_attributes(device.op, **own))


def rotary(device: Device) -> Running:
    """Heads of the device; positions that are not told for every row count from its first."""
    yield from ()
    dims = device.dims(0)
    own = _counted(device, ((0, "num_heads"),)) if len(dims) == 3 else {}
    counted = not device.has(3) or len(device.dims(3)) == 1
    if counted and len(device.dims(1)) == 2:
        offset = device.call().int("position_offset")
        own["position_offset"] = offset + device.first(0, len(dims) - 2)
    return device.run(with_attributes(device.op, **own))


def _heads_of_device(device: Device) -> Running:
    yield from ()
    named = [(i, key) for i, key in _COUNTS[device.op.kind] if key in device.op.attributes]
    return device.run(with_attributes(device.op, **_counted(device, named)))


ATTENTION: Mapping[str, DeviceAlgorithm] = MappingProxyType(
    dict.fromkeys(_COUNTS, _heads_of_device)
)
