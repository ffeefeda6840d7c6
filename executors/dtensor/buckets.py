"""Parameters that are gathered, and gradients that are summed, brought together into few messages.

The start of a message costs as much as many kilobytes of it; torch's own DDP does the same. Source:
Li et al., PyTorch Distributed, arXiv 2006.15704, section 3.2.3.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from executors.dtensor.scheduling import chain, gathers_of

_BYTES = 25 * 2**20
"""Largest bucket, as DDP has it."""
_FEWEST = 4
"""Buckets of a small model, so that all but the last travel beside the backward pass."""
MESSAGES = "messages"
"""In a node's meta: bytes of what a bucket holds."""


def bucketed(graph: Any) -> None:
    """Let sums of gradients that only leave the graph travel in buckets."""
    output = next(node for node in graph.nodes if node.op == "output")
    for bucket in _buckets([node for node in graph.nodes if _is_leaving_sum(node, output)]):
        _join(graph, bucket)


def gathers_bucketed(graph: Any) -> None:
    """Let parameters that are gathered one after the other travel in buckets."""
    for bucket in _buckets([node for node in gathers_of(graph) if len(node.users) == 1]):
        _join_gathers(graph, bucket)


def _is_leaving_sum(node: Any, output: Any) -> bool:
    """Whether a message is a sum whose result nothing in the graph computes with."""
    messages = torch.ops._c10d_functional  # noqa: SLF001
    if node.target not in {messages.all_reduce.default, messages.reduce_scatter_tensor.default}:
        return False
    users = list(node.users)
    return node.args[1] == "sum" and len(users) == 1 and _leaves(users[0], output)


def _leaves(node: Any, output: Any) -> bool:
    """Whether whatever reads a node changes its form alone, until it leaves."""
    if node is output:
        return True
    return len(node.all_input_nodes) == 1 and all(_leaves(user, output) for user in node.users)


def _nbytes(node: Any) -> int:
    """Of a sum what goes in, of a gather what comes out."""
    is_gather = str(node.target.__name__).startswith("all_gather")
    value = node.meta["val"] if is_gather else node.args[0].meta["val"]
    return int(value.numel() * value.element_size())


def _buckets(nodes: Sequence[Any]) -> Iterator[list[Any]]:
    """Neighbours over the same devices and of the same type, full when they have enough bytes; none
    of a single message. What would fill a bucket alone is not copied into one.
    """
    most = min(_BYTES, math.ceil(sum(map(_nbytes, nodes)) / _FEWEST))
    full: dict[object, list[Any]] = {}
    found = []
    for node in (each for each in nodes if _nbytes(each) < most):
        key = node.target, node.args[1:], node.args[0].meta["val"].dtype
        bucket = full.setdefault(key, [])
        bucket.append(node)
        if sum(map(_nbytes, bucket)) >= most:
            found.append(full.pop(key))
    return (bucket for bucket in (*found, *full.values()) if len(bucket) > 1)


def _join(graph: Any, bucket: Sequence[Any]) -> None:
    """One message in place of several, where the last of them was. Of scattered sums it holds what
    the first rank takes, then what the second takes.
    """
    aten, messages = torch.ops.aten, torch.ops._c10d_functional  # noqa: SLF001
    shapes = [list(node.meta["val"].shape) for node in bucket]
    target, given = bucket[-1].target, bucket[-1].args[1:]
    ranks = 1 if target is messages.all_reduce.default else given[1]
    call = graph.call_function
    with graph.inserting_before(bucket[-1]):
        rows = [call(aten.reshape.default, (node.args[0], [ranks, -1])) for node in bucket]
        joined = call(aten.reshape.default, (call(aten.cat.default, (rows, 1)), [-1]))
        total = call(target, (joined, *given))
        total.meta[MESSAGES] = [_nbytes(node) for node in bucket]
    waits = [next(iter(node.users)) for node in bucket]
    place = {node: number for number, node in enumerate(graph.nodes)}
    with graph.inserting_before(min(waits, key=place.__getitem__)):
        done = call(messages.wait_tensor.default, (total,))
        sizes = [math.prod(shape) for shape in shapes]
        parts = call(aten.split_with_sizes.default, (done, sizes))
        for number, (wait, shape) in enumerate(zip(waits, shapes, strict=True)):
            part = call(operator.getitem, (parts, number))
            wait.replace_all_uses_with(call(aten.view.default, (part, shape)))
    for node in (*waits, *bucket):
        graph.erase_node(node)


def _join_gathers(graph: Any, bucket: Sequence[Any]) -> None:
    """One message in place of several, where the first of them was."""
    aten, messages = torch.ops.aten, torch.ops._c10d_functional  # noqa: SLF001
    first, ranks, call = bucket[0], bucket[0].args[1], graph.call_function
    for node in bucket[1:]:
        for each in chain(node)[:-1]:
            first.prepend(each)
    with graph.inserting_before(first):
        flat = [call(aten.reshape.default, (node.args[0], [-1])) for node in bucket]
        whole = call(first.target, (call(aten.cat.default, (flat,)), *first.args[1:]))
        whole.meta[MESSAGES] = [_nbytes(node) for node in bucket]
    waits = [next(iter(node.users)) for node in bucket]
    place = {node: number for number, node in enumerate(graph.nodes)}
    with graph.inserting_before(min(waits, key=place.__getitem__)):
        done = call(messages.wait_tensor.default, (whole,))
        sizes = [node.args[0].meta["val"].numel() for node in bucket]
        rows = call(aten.reshape.default, (done, [ranks, -1]))
        parts = call(aten.split_with_sizes.default, (rows, sizes, 1))
        for number, (wait, node) in enumerate(zip(waits, bucket, strict=True)):
            part, shape = call(operator.getitem, (parts, number)), list(node.meta["val"].shape)
            own = call(aten.reshape.default, (part, shape))  # a view where the rows stay rows
            wait.replace_all_uses_with(call(aten.contiguous.default, (own,)))
    for node in (*waits, *bucket):
        graph.erase_node(node)
