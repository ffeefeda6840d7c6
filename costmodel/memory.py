"""Bytes that training keeps for each parameter, and moves when it is updated."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ir.dtypes import dtype_bytes


class Optimizer(StrEnum):
    """How parameters are updated."""

    ADAMW = "adamw"
    ADAM = "adam"
    SGD = "sgd"
    NONE = "none"


MASTER_BYTES = 4
"""A float32 copy of each low-precision weight. Source: Micikevicius et al., arXiv 1710.03740."""
MOMENT_BYTES = 4
"""One float32 moment of Adam."""


@dataclass(frozen=True, slots=True)
class ParameterBytes:
    """Bytes for each element of a parameter at rest."""

    weight: float
    gradient: float
    master: float
    moments: float
    moved_by_update: float
    """Bytes read and written by one optimizer step."""

    @property
    def resident(self) -> float:
        return self.weight + self.gradient + self.master + self.moments


def parameter_bytes(dtype: str, optimizer: Optimizer, *, training: bool) -> ParameterBytes:
    """Bytes per element of a parameter.

    With AdamW and bfloat16: 2 of weight, 2 of gradient, 4 of master copy and 8 of moments.
    Source: Rajbhandari et al., ZeRO, arXiv 1910.02054, section 3.1.

    >>> parameter_bytes("bfloat16", Optimizer.ADAMW, training=True).resident
    16.0
    """
    weight = dtype_bytes(dtype)
    if not training:
        return ParameterBytes(weight, 0.0, 0.0, 0.0, 0.0)
    if optimizer is Optimizer.NONE:
        return ParameterBytes(weight, weight, 0.0, 0.0, 0.0)
    master = MASTER_BYTES if weight < MASTER_BYTES else 0
    moments = 2 * MOMENT_BYTES if optimizer in {Optimizer.ADAM, Optimizer.ADAMW} else 0
    copy = master or weight
    moved = weight + 2 * copy + 2 * moments + (weight if master else 0)
    return ParameterBytes(weight, weight, float(master), float(moments), moved)
