"""Operators of which a device needs what others have: one algorithm for one device.

It is the same for every array library: `ir.semantics.arrays` says which one computes. What a
device sends is yielded; who runs the algorithm carries it and sends back what arrives. The numpy
executor runs those of all devices in step, torch runs one in each process.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from executors.device import DeviceAlgorithm
from executors.device_algorithms import attention, indexing, quantised
from executors.device_algorithms.attention import ATTENTION
from executors.device_algorithms.experts import EXPERTS
from executors.device_algorithms.losses import LOSSES
from executors.device_algorithms.normalisations import NORMALISATIONS
from executors.device_algorithms.recurrent import RECURRENT
from executors.device_algorithms.statistics import STATISTICS
from ir.semantics import named

__all__ = ["DEVICE_ALGORITHMS"]

DEVICE_ALGORITHMS: Mapping[str, DeviceAlgorithm] = MappingProxyType(
    {
        **ATTENTION,
        **named(attention, indexing, quantised),
        **EXPERTS,
        **LOSSES,
        **NORMALISATIONS,
        **RECURRENT,
        **STATISTICS,
    }
)
