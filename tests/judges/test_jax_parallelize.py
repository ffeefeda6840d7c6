"""JAX functions trained on eight devices as planned: losses and gradients are one device's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from executors.jax import parallelize
from executors.jax_refusals import JaxPlanError
from executors.matching import MismatchError
from importers.jax_trace import traced
from importers.model_file import import_model_file
from ir.plan import PipelineStage, Plan
from planner.request import SearchRequest
from tests.data.jax.blocks import BLOCKS
from tests.judges.schemes import DATA, SEARCHED, SHARDED, STATES, TENSOR, TWO_D, plans

SCHEMES = (DATA, TENSOR, TWO_D, SHARDED, STATES, SEARCHED)
TRAINING = SearchRequest(target="jax", training=True)
STEPS, RATE, MOMENTUM = 5, 1e-2, 0.9
Function = Callable[..., Any]


def numbers_like(tree: Any, seed: int = 0) -> Any:
    """Numbers in place of shapes."""
    draw = np.random.default_rng(seed)

    def drawn(leaf: Any) -> Any:
        wide = max(leaf.shape[-1:], default=1)
        return jax.numpy.asarray(draw.normal(size=leaf.shape) / np.sqrt(wide), leaf.dtype)

    return jax.tree_util.tree_map(drawn, tree)


def planned(
    name: str, folder: Path, wanted: tuple[str, ...] = SCHEMES
) -> tuple[Function, Any, dict[str, Plan]]:
    function, shapes = BLOCKS[name]
    path = folder / f"{name}.mlir"
    path.write_text(traced(function, shapes))
    graph = import_model_file(path)
    return function, shapes, plans(graph, 8, TRAINING, wanted=wanted)


def trained(model: Function, params: Any, inputs: tuple[Any, ...]) -> tuple[list[float], Any, Any]:
    """Losses of some steps with momentum, gradients of the first, and the last parameters."""

    def loss(params: Any) -> Any:
        return (model(params, *inputs) ** 2).mean()

    def once(params: Any, speed: Any) -> tuple[Any, ...]:
        value, slopes = jax.value_and_grad(loss)(params)
        speed = jax.tree_util.tree_map(lambda v, g: MOMENTUM * v + g, speed, slopes)
        params = jax.tree_util.tree_map(lambda p, v: p - RATE * v, params, speed)
        return value, slopes, params, speed

    step = jax.jit(once)
    speed = jax.tree_util.tree_map(jax.numpy.zeros_like, params)
    losses, first = [], None
    for _ in range(STEPS):
        value, slopes, params, speed = step(params, speed)
        first = slopes if first is None else first
        losses.append(float(value))
    return losses, first, params


@pytest.mark.parametrize("name", ["mlp", "transformer"])
def test_losses_and_gradients_are_those_of_one_device(name: str, tmp_path: Path) -> None:
    function, shapes, found = planned(name, tmp_path)
    params, *inputs = numbers_like(shapes)
    alone, slopes, _ = trained(function, params, tuple(inputs))
    assert len(found) > 3
    for scheme, plan in found.items():
        model = parallelize(function, plan, shapes)
        losses, own, last = trained(model, model.place(params), tuple(inputs))
        assert losses == pytest.approx(alone, rel=1e-5), scheme
        pairs = list(zip(*map(jax.tree_util.tree_leaves, (slopes, own)), strict=True))
        most = max(float(jax.numpy.linalg.norm(one)) for one, _ in pairs)
        for one, other in pairs:  # that of a bias of keys is rounding alone
            scale = max(float(jax.numpy.linalg.norm(one)), 1e-3 * most)
            assert float(jax.numpy.linalg.norm(one - other)) < 1e-5 * scale, scheme
        rests = jax.tree_util.tree_leaves(model.shardings[0])
        for leaf, rest in zip(jax.tree_util.tree_leaves(last), rests, strict=True):
            assert leaf.sharding.is_equivalent_to(rest, leaf.ndim), scheme


def test_parameters_rest_in_parts_where_the_plan_says(tmp_path: Path) -> None:
    function, shapes, found = planned("mlp", tmp_path, (DATA, SHARDED))
    for scheme, plan in found.items():
        model = parallelize(function, plan, shapes)
        placed = jax.tree_util.tree_leaves(model.place(numbers_like(shapes[0])))
        parts = [x.addressable_shards[0].data.size * 8 == x.size for x in placed]
        assert any(parts) == (scheme == SHARDED)


def test_what_the_plan_computes_again_is_not_kept(tmp_path: Path) -> None:
    function, shapes, found = planned("mlp", tmp_path, (DATA,))
    plan = found[DATA]
    made = tuple(n for op in plan.graph.ops[:-1] for n in op.outputs if n)
    params, *inputs = numbers_like(shapes)

    def products(recomputed: tuple[str, ...]) -> int:
        model = parallelize(function, replace(plan, recomputed=recomputed), shapes)
        step = jax.grad(lambda p: (model(p, *inputs) ** 2).mean())
        return str(jax.make_jaxpr(step)(params)).count("dot_general")

    forward = sum(op.kind == "MatMul" for op in plan.graph.ops)
    assert products(made) >= products(()) + forward - 1
    assert products(made[-1:]) < products(made)


def test_another_function_is_refused(tmp_path: Path) -> None:
    _, _, found = planned("mlp", tmp_path, (DATA,))
    other, shapes = BLOCKS["residual"]
    with pytest.raises(MismatchError, match="only the plan has"):
        parallelize(other, found[DATA], shapes)


def test_stages_are_refused(tmp_path: Path) -> None:
    function, shapes, found = planned("mlp", tmp_path, (DATA,))
    stage: PipelineStage = found[DATA].pipeline.stages[0]
    two = replace(found[DATA].pipeline, schedule="1f1b", micro_batches=2, stages=(stage, stage))
    with pytest.raises(JaxPlanError, match="2 pipeline stages"):
        parallelize(function, replace(found[DATA], pipeline=two), shapes)
