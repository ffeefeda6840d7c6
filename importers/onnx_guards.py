"""Nodes at which ONNX's own shape inference does not fail but crashes, or never returns.

Found by running the inference of every operator on random operands and attributes (onnx 1.23.2,
27,000 nodes of each): a Split with another number of pieces than results (out of bounds), a
GatherND with a negative number of batch dimensions (segmentation fault), and an Expand to billions
of dimensions (one step for each).
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from importers.errors import ModelError

MAX_RANK = 1000
"""Dimensions of one tensor; models have up to ten."""


def check_node(node: onnx.NodeProto, dims: Mapping[str, tuple[int, ...]], where: str) -> None:
    """Raise `ModelError` for a node that must not reach ONNX's inference.

    Args:
        node: any node, also one inside a sub-graph.
        dims: dims of the tensors that are known.
        where: the node, for messages.
    """
    attributes = {a.name: a.i for a in node.attribute if a.type == onnx.AttributeProto.INT}
    if node.op_type == "Split":
        pieces = attributes.get("num_outputs", len(node.output))
        if pieces != len(node.output):
            raise _misfit(f"{pieces} pieces for {len(node.output)} results", where)
    elif node.op_type == "GatherND" and attributes.get("batch_dims", 0) < 0:
        raise _misfit(f"{attributes['batch_dims']} batch dimensions", where)
    elif node.op_type == "Expand" and len(node.input) > 1:
        shape = dims.get(node.input[1], ())
        if shape and shape[0] > MAX_RANK:
            raise _misfit(f"a shape of {shape[0]} dimensions", where)


def _misfit(what: str, where: str) -> ModelError:
    return ModelError(
        f"the node does not fit its operands: {what}", where, "export the model again"
    )
