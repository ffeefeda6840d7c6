"""Recurrent networks: a device may have one of two directions."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from executors.device import Device, DeviceAlgorithm, Running
from executors.semantics.recurrent import recurrent
from ir.ops.recurrent import GATES


def _recurrent(device: Device) -> Running:
    yield from ()
    return recurrent(device.call(), device.first(1, 0))


RECURRENT: Mapping[str, DeviceAlgorithm] = MappingProxyType(dict.fromkeys(GATES, _recurrent))
