"""How many layers the stages of a pipeline have."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]

__all__ = ["stage_layers"]


def stage_layers(
    layers: FloatArray, stages: FloatArray, vpp: FloatArray, further: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Layers of the first, the last and the fullest stage, each of shape (N,).

    Where layers plus the two ends divide evenly and the layers alone do not, embedding and head
    stand for a layer each (Megatron's `account_for_embedding_in_pipeline_split`). With layers that
    predict further tokens, each of them stands for one and head for two, where that divides evenly
    (layouts of Megatron-Bridge's recipes). Otherwise the ends get what is left over least, as
    frameworks put the remainder in the middle; one layer more than there are stages in between is
    in the first.
    """
    chunks, single, behind = stages * vpp, stages == 1, further + 2.0
    even = (layers + behind) / stages
    predicts = ~single & (further > 0) & ((layers + behind) % chunks == 0) & (even > behind)
    ends = ~single & ~predicts & (layers % chunks != 0) & ((layers + 2) % chunks == 0)
    each = (layers + 2) / stages
    low, more = np.floor(layers / stages), layers % stages
    last = np.where(predicts, even - behind, np.where(ends, each - 1, low))
    first = np.where(predicts, even, last + (~ends & (more > 0) & (more > stages - 2)))
    most = np.where(predicts, even, np.where(ends, each, np.ceil(layers / stages)))
    return first, last, most
