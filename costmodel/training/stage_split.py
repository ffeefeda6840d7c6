"""How many layers the stages of a pipeline have."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
BoolArray: TypeAlias = NDArray[np.bool_]

__all__ = ["ends_as_layers", "equal_with_head", "stage_layers"]

_HEAD_LAYERS = 2.0
"""Layers that the head stands for beside those that predict further tokens, where stages divide
evenly (layouts of Megatron-Bridge's recipes)."""


def equal_with_head(
    layers: FloatArray, stages: FloatArray, vpp: FloatArray, further: FloatArray
) -> BoolArray:
    """Whether all chunks are equal with what stands behind the layers, shape (N,)."""
    behind, chunks = further + _HEAD_LAYERS, stages * vpp
    even = (layers + behind) / stages
    found: BoolArray = (stages > 1) & (further > 0) & ((layers + behind) % chunks == 0)
    return found & (even > behind)


def ends_as_layers(
    layers: FloatArray, stages: FloatArray, vpp: FloatArray, further: FloatArray
) -> BoolArray:
    """Whether all chunks are equal with embedding and head for a layer each, shape (N,)."""
    chunks = stages * vpp
    found: BoolArray = (layers % chunks != 0) & ((layers + 2) % chunks == 0)
    return found & (stages > 1) & (further <= 0)


def stage_layers(
    layers: FloatArray, stages: FloatArray, vpp: FloatArray, further: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Layers of the first, the last and the fullest stage, each of shape (N,).

    Where layers plus the two ends divide evenly and the layers alone do not, embedding and head
    stand for a layer each (Megatron's `account_for_embedding_in_pipeline_split`). With layers that
    predict further tokens, each of them stands for one and the head for two, and the last stage has
    so many fewer, or as near to it as whole layers allow; one at least. Otherwise the ends get what
    is left over least, as frameworks put the remainder in the middle; one layer more than there are
    stages in between is in the first.
    """
    single, behind = stages == 1, further + _HEAD_LAYERS
    even = (layers + behind) / stages
    predicts = equal_with_head(layers, stages, vpp, further)
    fewer = ~single & ~predicts & (further > 0)
    ends = ends_as_layers(layers, stages, vpp, further)
    each = (layers + 2) / stages
    low, more = np.floor(layers / stages), layers % stages
    last = np.where(predicts, even - behind, np.where(ends, each - 1, low))
    last = np.where(fewer, np.clip(np.floor(even) - behind, np.minimum(low, 1.0), low), last)
    others = np.where(fewer, (layers - last) / np.maximum(stages - 1, 1), layers / stages)
    first = np.where(fewer, np.floor(others), last + (~ends & (more > 0) & (more > stages - 2)))
    first = np.where(predicts, even, first)
    most = np.where(predicts, even, np.where(ends, each, np.ceil(others)))
    return first, last, most
