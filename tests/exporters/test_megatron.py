"""Arguments of Megatron-LM, where one layout serves all layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from exporters import megatron
from exporters.errors import ExportError
from ir.graph import Op, OpGraph
from ir.ops import OpView, lookup
from ir.plan import NamedLayout, Plan
from planner.request import SearchRequest
from planner.search import search
from tests.builders import GraphBuilder, mlp
from topology.catalogue import named_cluster

pytestmark = pytest.mark.fast

BATCH, ROWS, WIDTH = 8, 16, 64


def transformer() -> OpGraph:
    """A product into attention and out of it, and a gated part."""
    build = GraphBuilder("transformer")
    dims = (BATCH, ROWS, WIDTH)
    x = build.input("x", dims)
    y = build.op("MatMul", (x, build.weight("in", (WIDTH, WIDTH))), dims)
    y = build.op("Softmax", (y,), dims, axis=2)
    y = build.op("MatMul", (y, build.weight("out", (WIDTH, WIDTH))), dims)
    return replace(build.build(build.op("Add", (x, y), dims)), batch=BATCH)


def planned(**change: object) -> Plan:
    """A plan of the transformer over two servers of four cards."""
    request = SearchRequest(target="generic", **change)  # type: ignore[arg-type]
    plan = search(transformer(), named_cluster("dgx-h100", 8), request)
    mesh = (("server", 2, 0), ("card", 4, 1))
    return replace(plan, mesh=mesh, recomputed=())


def _split(
    plan: Plan, node: Op, layouts: Mapping[str, NamedLayout | None]
) -> tuple[tuple[str, int], ...]:
    """What the axes split in an operator whose tensors have these layouts; weights come first."""
    rule = lookup(node.kind).rule(OpView(node, plan.graph))
    found = {axis: -1 for axis, _, _ in plan.mesh}
    maps = dict(zip((*node.outputs, *node.inputs), (*rule.results, *rule.operands), strict=True))
    for name, layout in layouts.items():
        for factors, axes in zip(maps[name] or (), layout.dims if layout else (), strict=False):
            found |= dict.fromkeys(axes, factors[0])
    return tuple(found.items())


def laid_out(
    plan: Plan, weights: dict[str, tuple[NamedLayout, NamedLayout]], data: NamedLayout
) -> Plan:
    """The plan with weights in use and at rest as given, and activations alike."""
    used = {name: pair[0] for name, pair in weights.items()}
    operators = []
    for op, node in zip(plan.operators, plan.graph.ops, strict=True):
        names = (*node.outputs, *node.inputs)
        inputs = tuple(
            used.get(name, data if x is not None and len(x.dims) == 3 else x)
            for name, x in zip(node.inputs, op.inputs, strict=True)
        )
        outputs = tuple(data if x is not None and len(x.dims) == 3 else x for x in op.outputs)
        split = _split(plan, node, dict(zip(names, (*outputs, *inputs), strict=True)))
        operators.append(replace(op, split=split, inputs=inputs, outputs=outputs, compute_s=1.0))
    tensors = tuple(
        replace(t, used=weights[t.name][0], layout=weights[t.name][1])
        for t in plan.tensors
        if t.role == "parameter"
    )
    return replace(plan, operators=tuple(operators), tensors=tensors)


WHOLE = NamedLayout(((), ()))
COLUMNS, ROWS_SPLIT = NamedLayout(((), ("card",))), NamedLayout((("card",), ()))
BY_BATCH = NamedLayout((("server",), (), ()))
BY_SEQUENCE = NamedLayout((("server",), ("card",), ()))
BY_ALL = NamedLayout((("server", "card"), (), ()))


def arguments(plan: Plan) -> list[str]:
    return [x for x in megatron.to_arguments(plan).splitlines() if not x.startswith("#")]


def test_tensor_parallel_layers_become_their_arguments() -> None:
    split = {"in": (COLUMNS, COLUMNS), "out": (ROWS_SPLIT, ROWS_SPLIT)}
    plan = laid_out(planned(), split, BY_BATCH)
    assert arguments(plan) == [
        "--tensor-model-parallel-size 4",
        "--pipeline-model-parallel-size 1",
        "--micro-batch-size 4",
        "--global-batch-size 8",
        "--optimizer adam",
    ]
    assert megatron.losses(plan) == ()


def test_a_residual_split_by_sequence_is_sequence_parallelism() -> None:
    split = {"in": (COLUMNS, COLUMNS), "out": (ROWS_SPLIT, ROWS_SPLIT)}
    assert "--sequence-parallel" in arguments(laid_out(planned(), split, BY_SEQUENCE))


def test_parameters_sharded_over_data_are_fsdp() -> None:
    rest = NamedLayout((("server", "card"), ()))
    plan = laid_out(planned(), {"in": (WHOLE, rest), "out": (WHOLE, rest)}, BY_ALL)
    found = arguments(plan)
    assert "--tensor-model-parallel-size 1" in found
    assert "--use-megatron-fsdp" in found
    assert "--data-parallel-sharding-strategy optim_grads_params" in found
    assert "--micro-batch-size 1" in found


def test_a_split_sequence_without_split_weights_is_context_parallelism() -> None:
    plan = laid_out(planned(), {"in": (WHOLE, WHOLE), "out": (WHOLE, WHOLE)}, BY_SEQUENCE)
    assert "--context-parallel-size 4" in arguments(plan)


def test_what_departs_is_named_in_the_file_and_on_the_way() -> None:
    split = {"in": (COLUMNS, COLUMNS), "out": (WHOLE, NamedLayout((("server",), ())))}
    plan = laid_out(planned(), split, BY_BATCH)
    plan = replace(plan, recomputed=("x\n--exit",))
    text, losses = megatron.to_arguments(plan), megatron.losses(plan)
    assert len(losses) == 3
    assert "1 product" in losses[0]
    assert "50.0 %" in losses[0]
    assert "out" in losses[1]
    assert [x for x in text.splitlines() if x.startswith("# lost: ")] == [
        f"# lost: {' '.join(x.split())}" for x in losses
    ]
    assert all(x.startswith(("#", "--")) for x in text.splitlines())
    assert "--exit" not in arguments(plan)


def test_tensor_groups_across_servers_are_refused() -> None:
    across = NamedLayout(((), ("server",)))
    plan = laid_out(
        planned(), {"in": (across, across), "out": (across, across)},
        NamedLayout((("card",), (), ())),
    )  # fmt: skip
    with pytest.raises(ExportError, match="nests data, context, tensor") as caught:
        megatron.to_arguments(plan)
    assert "server tensor, card data" in str(caught.value)


def test_repeated_work_is_refused() -> None:
    plan = laid_out(planned(), {"in": (WHOLE, WHOLE), "out": (WHOLE, WHOLE)}, BY_BATCH)
    with pytest.raises(ExportError, match="repeated along it"):
        megatron.to_arguments(plan)


def test_what_is_no_transformer_is_refused() -> None:
    plan = search(mlp(2), named_cluster("dgx-h100", 8), SearchRequest(target="generic"))
    with pytest.raises(ExportError, match="no attention"):
        megatron.to_arguments(plan)


def test_kernels_and_experts_are_refused() -> None:
    split = {"in": (COLUMNS, COLUMNS), "out": (ROWS_SPLIT, ROWS_SPLIT)}
    plan = laid_out(planned(), split, BY_BATCH)
    tensors = {
        n: replace(t, dims=(4, 8, 64)) if t.role == "parameter" else t
        for n, t in plan.graph.tensors.items()
    }
    with pytest.raises(ExportError, match="experts or kernels"):
        megatron.losses(replace(plan, graph=replace(plan.graph, tensors=tensors)))


def test_inference_is_refused() -> None:
    with pytest.raises(ExportError, match="inference"):
        megatron.losses(planned(training=False))


def test_one_device_needs_no_split() -> None:
    plan = search(transformer(), named_cluster("dgx-h100", 1), SearchRequest(target="generic"))
    assert "--tensor-model-parallel-size 1" in arguments(plan)
    assert "--micro-batch-size 8" in arguments(plan)
