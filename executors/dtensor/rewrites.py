"""One torch call in place of two, in a recorded step: what hand-written code calls at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

_ROWS_KEPT = ("view", "_unsafe_view")
_VIEWS = (*_ROWS_KEPT, "t", "transpose", "permute")


def biases_in_products(graph: Any) -> None:
    """Let a product begin with the bias that is added to it: one pass less over its result."""
    aten = torch.ops.aten
    for node in graph.find_nodes(op="call_function", target=aten.add.Tensor):
        for number, bias in enumerate(node.args):
            product = _product(node.args[1 - number], _ROWS_KEPT)
            if product is None or not _is_bias(bias, node, product):
                continue
            with graph.inserting_before(node):
                found = graph.call_function(aten.addmm.default, (bias, *product.args))
                shaped = graph.call_function(aten.view.default, (found, list(_value(node).shape)))
            found.meta, shaped.meta = dict(product.meta), dict(node.meta)
            node.replace_all_uses_with(shaped)
            graph.erase_node(node)
            break


def lookups_added_in_place(graph: Any) -> None:
    """Let the gradient of a table that is looked up go straight into the gradient of its other
    use, as a table of tokens and scores has; it would be a table of zeros first.
    """
    aten = torch.ops.aten
    for node in graph.find_nodes(op="call_function", target=aten.add.Tensor):
        for number, looked_up in enumerate(node.args):
            table = node.args[1 - number]
            fits = _product(table, _VIEWS) is not None and _is_lookup(looked_up, node)
            if not fits or _value(table).shape != _value(looked_up).shape:
                continue
            gradient, rows = looked_up.args[:2]
            width = _value(table).shape[1]
            with graph.inserting_before(node):
                flat = graph.call_function(aten.reshape.default, (gradient, [-1, width]))
                places = graph.call_function(aten.reshape.default, (rows, [-1]))
                found = graph.call_function(aten.index_add_.default, (table, 0, places, flat))
            found.meta = dict(node.meta)
            node.replace_all_uses_with(found)
            graph.erase_node(node)
            break


def _value(node: Any) -> Any:
    return node.meta["val"]


def _product(node: Any, views: Sequence[str]) -> Any:
    """The product that a node is, seen through some views, and that nothing else reads; or None."""
    while isinstance(node, torch.fx.Node) and len(node.users) == 1:
        if node.target is torch.ops.aten.mm.default:
            return node
        if str(getattr(node.target, "__name__", "")).partition(".")[0] not in views:
            return None
        node = node.args[0]
    return None


def _is_bias(bias: Any, total: Any, product: Any) -> bool:
    """Whether a vector is added to every row of a product as it comes."""
    if not isinstance(bias, torch.fx.Node) or total.kwargs or _value(bias).ndim != 1:
        return False
    columns = int(_value(product).shape[1])
    alike = _value(bias).dtype == _value(product).dtype == _value(total).dtype
    rows_kept = _value(total).is_contiguous() and _value(total).shape[-1] == columns
    return bool(alike and rows_kept and _value(bias).shape[0] == columns)


def _is_lookup(node: Any, total: Any) -> bool:
    """Whether a node is the gradient of a table, every row of which counts."""
    if not isinstance(node, torch.fx.Node) or total.kwargs or len(node.users) != 1:
        return False
    is_gradient = node.target is torch.ops.aten.embedding_dense_backward.default
    return is_gradient and node.args[3] < 0 and not node.args[4]
