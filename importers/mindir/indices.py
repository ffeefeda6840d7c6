"""Places that MindSpore counts in 32 bits and ONNX in 64: a cast between them that nobody needs.

`TopK` and `ArgMax` of ONNX make 64 bits. Where the places only say what to look up, they stay so,
as they do in the same network from elsewhere.
"""

from __future__ import annotations

import onnx

_MAKERS = frozenset({"TopK", "ArgMax", "ArgMin"})
_CARRIERS = frozenset({"Reshape", "Unsqueeze", "Squeeze", "Transpose", "Expand", "Identity"})
_LOOKUPS = frozenset({("Gather", 1), ("GatherElements", 1), ("OneHot", 0)})


def without_narrow_places(graph: onnx.GraphProto) -> None:
    """Take such casts out of a graph whose nodes are in order."""
    delivered = {output.name for output in graph.output}
    only = _only_looked_up(graph, delivered)
    places = {n: _places(node) for node in graph.node for n in node.output}
    renamed: dict[str, str] = {}
    for node in list(graph.node):
        if node.op_type == "Cast" and node.output[0] in only:
            source = node.input[0]
            if source == places.get(source):
                renamed[node.output[0]] = source
                graph.node.remove(node)
                continue
        for place, name in enumerate(node.input):
            node.input[place] = renamed.get(name, name)


def _places(node: onnx.NodeProto) -> str:
    """The result that holds places."""
    if node.op_type not in _MAKERS:
        return ""
    return str(node.output[-1] if node.op_type == "TopK" else node.output[0])


def _only_looked_up(graph: onnx.GraphProto, delivered: set[str]) -> set[str]:
    """Tensors that are indices of a look-up, or become such, and nothing else."""
    used_otherwise = set(delivered)
    for node in reversed(graph.node):
        carries = node.op_type in _CARRIERS and node.output[0] not in used_otherwise
        for place, name in enumerate(node.input):
            if not (carries and place == 0) and (node.op_type, place) not in _LOOKUPS:
                used_otherwise.add(name)
    every = {name for node in graph.node for name in node.output}
    return every - used_otherwise
