"""Normalisations: statistics over a split dimension are exchanged."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from executors.device import Device, DeviceAlgorithm, Running
from executors.semantics import SEMANTICS
from executors.semantics.normalisations import OverStatistics


def _where_split(norm: OverStatistics) -> DeviceAlgorithm:
    """The algorithm where the dimensions of the statistics are split, else the operator itself."""

    def run(device: Device) -> Running:
        dims = norm.dims_of(device.call())
        if not device.axes_of(0, dims):
            return device.run()
        return (yield from norm.algorithm(device, dims))

    return run


NORMALISATIONS: Mapping[str, DeviceAlgorithm] = MappingProxyType(
    {
        kind: _where_split(each)
        for kind, each in SEMANTICS.items()
        if isinstance(each, OverStatistics)
    }
)
