"""Rewritten steps compute the same with fewer passes over their numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from executors.dtensor.rewrites import biases_in_products, lookups_added_in_place

Rewrite = Callable[[Any], None]


def rewritten(function: Callable[..., Any], operands: tuple[Any, ...], rewrite: Rewrite) -> Any:
    """Names of what is called after a rewrite that leaves the results as they are."""
    step = make_fx(function, tracing_mode="fake")(*operands)
    expected = step(*operands)
    rewrite(step.graph)
    step.graph.eliminate_dead_code()
    step.recompile()
    for one, other in zip(step(*operands), expected, strict=True):
        assert torch.allclose(one, other, rtol=1e-5, atol=1e-6)
    return [node.target.__name__ for node in step.graph.nodes if node.op == "call_function"]


def operands_of(rows: int, columns: int) -> tuple[Any, ...]:
    torch.manual_seed(0)
    return torch.randn(2, rows, 8), torch.randn(8, columns), torch.randn(columns)


@pytest.mark.parametrize("first", [True, False])
def test_a_bias_is_added_by_the_product(first: bool) -> None:
    def step(x: Any, w: Any, b: Any) -> Any:
        y = torch.matmul(x, w)
        return (b + y if first else y + b,)

    names = rewritten(step, operands_of(4, 6), biases_in_products)
    assert "addmm.default" in names
    assert not {"mm.default", "add.Tensor"} & set(names)


def test_a_product_that_is_read_twice_keeps_its_bias_apart() -> None:
    def step(x: Any, w: Any, b: Any) -> Any:
        y = torch.matmul(x, w)
        return y + b, torch.relu(y)

    assert "addmm.default" not in rewritten(step, operands_of(4, 6), biases_in_products)


def test_what_is_added_to_columns_or_scaled_is_no_bias() -> None:
    def turned(x: Any, w: Any, b: Any) -> Any:
        return (torch.matmul(x, w).transpose(1, 2) + b,)

    def scaled(x: Any, w: Any, b: Any) -> Any:
        return (torch.add(torch.matmul(x, w), b, alpha=2),)

    for step in (turned, scaled):
        assert "addmm.default" not in rewritten(step, operands_of(6, 6), biases_in_products)


def tied(ids: Any, table: Any, seed: Any) -> Any:
    """What a product and a lookup add to the gradient of one table."""
    rows = torch.ops.aten.embedding_dense_backward(seed, ids, table.shape[0], -1, False)
    return (seed.flatten(0, 1)[: table.shape[0]].mm(table).t().t() + rows,)


def test_the_gradient_of_a_lookup_goes_into_that_of_a_product() -> None:
    torch.manual_seed(0)
    ids = torch.randint(8, (2, 5))
    operands = ids, torch.randn(8, 8), torch.randn(2, 5, 8)
    names = rewritten(tied, operands, lookups_added_in_place)
    assert "index_add_.default" in names
    assert not {"embedding_dense_backward.default", "add.Tensor"} & set(names)


def test_a_lookup_with_rows_that_do_not_count_stays() -> None:
    def step(ids: Any, table: Any, seed: Any) -> Any:
        rows = torch.ops.aten.embedding_dense_backward(seed, ids, table.shape[0], 3, False)
        return (table.mm(table) + rows,)

    torch.manual_seed(0)
    operands = torch.randint(8, (2, 5)), torch.randn(8, 8), torch.randn(2, 5, 8)
    assert "index_add_.default" not in rewritten(step, operands, lookups_added_in_place)
