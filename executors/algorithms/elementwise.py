"""Element-wise operators that depend on how numbers are stored."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx

from executors.evaluation import working_dtype
from executors.spmd import Algorithm, OperatorRun, Shards, alone


def _bit_cast(task: OperatorRun) -> Shards:
    """The bits are those of the stored types, not of the wider ones that are computed in."""
    before = stored_dtype(task.graph.tensors[task.op.inputs[0]].dtype)
    after = task.results[0].dtype
    return alone(
        [
            np.ascontiguousarray(shard.astype(before)).view(stored_dtype(after))
            .astype(working_dtype(after)).reshape(shard.shape)
            for shard in task.operand(0).shards
        ]
    )  # fmt: skip


def stored_dtype(name: str) -> Any:
    """The element type of a name; numpy itself lacks the short floating types."""
    try:
        return np.dtype(name)
    except TypeError:
        code = onnx.TensorProto.DataType.Value(name.upper())
        return onnx.helper.tensor_dtype_to_np_dtype(code)


ELEMENTWISE: Mapping[str, Algorithm] = MappingProxyType({"BitCast": _bit_cast})
