"""Recurrent networks: a device may have one of two directions."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from executors.semantics.call import Call
from executors.semantics.recurrent import recurrent
from executors.spmd import Algorithm, OperatorRun, Shards, with_attributes
from ir.ops.recurrent import GATES, LENGTHS

_BEYOND_REFERENCE = frozenset(
    {"activations", "activation_alpha", "activation_beta", "clip", "input_forget"}
)
"""Attributes that ONNX's reference operators do not heed."""


def _recurrent(task: OperatorRun) -> Shards:
    """Own steps where the reference has none: other functions, sequences of several lengths."""
    own = bool(_BEYOND_REFERENCE & set(task.op.attributes)) or task.has(LENGTHS)
    both = task.operand(1).dims[0] == 2
    out = []
    for rank in task.ranks:
        operands = task.parts(rank)
        first, end = task.operand(1).box(rank)[0]
        if own:
            dims = tuple(task.local_dims(i, rank) for i in range(len(task.results)))
            out.append(recurrent(Call(task.op, tuple(operands), dims), first))
        elif both and end - first == 1:
            direction = "reverse" if first else "forward"
            out.append(task.on(rank, with_attributes(task.op, direction=direction), operands))
        else:
            out.append(task.on(rank, task.op, operands))
    return out


RECURRENT: Mapping[str, Algorithm] = MappingProxyType(dict.fromkeys(GATES, _recurrent))
