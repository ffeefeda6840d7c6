"""Every output of a graph ends in an operator, so that no result stays partial for nothing."""

from __future__ import annotations

from ir.graph import Op, OpGraph, Tensor, unused_name
from ir.ops.loss import LOSS, OUTPUT

ENDS = frozenset({LOSS, OUTPUT})
"""Kinds of operators that stand behind the outputs of a model that is planned; no framework has
them."""


def add_ends(graph: OpGraph, *, training: bool) -> OpGraph:
    """The graph with a loss at every floating output when training, else with delivered outputs.

    A traced training step has its loss and its gradients already: they are delivered.
    """
    tensors = dict(graph.tensors)
    ops = list(graph.ops)
    gradients = set(graph.gradients.values())
    makers = graph.producers()
    for name in graph.outputs:
        if name in gradients or name not in makers:
            continue
        scope = makers[name].scope
        if training and not graph.is_training_step and tensors[name].is_float:
            value = unused_name(f"{name}/loss", tensors)
            tensors[value] = Tensor(value, (), "float32")
            ops.append(Op(f"loss/{name}", LOSS, (name,), (value,), {}, scope))
        else:
            ops.append(Op(f"output/{name}", OUTPUT, (name,), (), {}, scope))
    return graph.with_ops(ops, tensors)
