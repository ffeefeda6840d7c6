"""Nodes at which ONNX's own shape inference does not fail but crashes, or never returns.

Found by running the inference of every operator on random operands and attributes (onnx 1.23.2,
27,000 nodes of each): a Split with another number of pieces than results (out of bounds), a
GatherND with a negative number of batch dimensions (segmentation fault), and an Expand to billions
of dimensions (one step for each).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

import onnx

from importers.errors import ModelError
from ir.semantics import named

Dims: TypeAlias = tuple[int, ...]
MAX_RANK = 1000
"""Dimensions of one tensor; models have up to ten."""


def check_node(node: onnx.NodeProto, dims: Mapping[str, Dims], where: str) -> None:
    """Raise `ModelError` for a node that must not reach ONNX's inference.

    Args:
        node: any node, also one inside a sub-graph.
        dims: dims of the tensors that are known.
        where: the node, for messages.
    """
    misfit = _CHECKS[node.op_type](node, dims) if node.op_type in _CHECKS else ""
    if misfit:
        what = f"the node does not fit its operands: {misfit}"
        raise ModelError(what, where, "export the model again")


def split(node: onnx.NodeProto, _: Mapping[str, Dims]) -> str:
    """A number of pieces that is not that of the results."""
    pieces = _attributes(node).get("num_outputs", len(node.output))
    results = len(node.output)
    return f"{pieces} pieces for {results} results" if pieces != results else ""


def gather_nd(node: onnx.NodeProto, _: Mapping[str, Dims]) -> str:
    """A negative number of batch dimensions."""
    batch = _attributes(node).get("batch_dims", 0)
    return f"{batch} batch dimensions" if batch < 0 else ""


def expand(node: onnx.NodeProto, dims: Mapping[str, Dims]) -> str:
    """More dimensions than any tensor has."""
    shape = dims.get(node.input[1], ()) if len(node.input) > 1 else ()
    return f"a shape of {shape[0]} dimensions" if shape and shape[0] > MAX_RANK else ""


def _attributes(node: onnx.NodeProto) -> dict[str, int]:
    return {a.name: a.i for a in node.attribute if a.type == onnx.AttributeProto.INT}


_CHECKS: Mapping[str, Callable[[onnx.NodeProto, Mapping[str, Dims]], str]] = MappingProxyType(
    named(sys.modules[__name__])
)
"""What does not fit, by the kind of the node."""
