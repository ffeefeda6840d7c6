"""Mixtures of experts: a device sorts its tokens into the slots of the experts that it has."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from executors.device import Device, DeviceAlgorithm, Running, with_attributes
from ir.ops import COMBINE, DISPATCH


def _routed(device: Device) -> Running:
    """The device knows how many experts there are, and which its first is."""
    yield from ()
    if device.op.kind == DISPATCH:
        experts, own = device.results[0].dims[0], device.result_place(0, 0)
        first = int(own[0]) if len(own) else 0
    else:
        experts, first = device.dims(0)[0], device.first(0, 0)
    return device.run(with_attributes(device.op, experts=experts, first_expert=first))


EXPERTS: Mapping[str, DeviceAlgorithm] = MappingProxyType({DISPATCH: _routed, COMBINE: _routed})
