"""The graph as a record: what it refuses, its file form, its hash."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ir.graph import GraphError, Op, OpGraph, Role, Tensor, graph_from_dict, graph_to_dict
from ir.normalise import add_ends, normalise
from tests.builders import GraphBuilder, attention_block, mlp
from tests.ir.blocks import Form, block

GRAPHS = st.builds(
    lambda form, normal: normalise(block(form)) if normal else block(form),
    st.builds(
        Form,
        key_heads=st.sampled_from([1, 2, 4]),
        mask=st.sampled_from(["none", "add", "batch", "where"]),
        guard=st.booleans(),
    ),
    st.booleans(),
)


@given(GRAPHS)
def test_a_graph_comes_back_from_its_file_form(graph: OpGraph) -> None:
    text = json.dumps(graph_to_dict(graph))
    back = graph_from_dict(json.loads(text))
    assert back == graph
    assert back.digest() == graph.digest()


def test_everything_that_a_graph_holds_comes_back() -> None:
    weight = Tensor("w", (4, 8), "bfloat16", Role.PARAMETER, "stored", (1, 0))
    part = Op("part", "Relu", ("x",), ("y",), {"alpha": 0.5, "mode": "up", "axes": (1, 2)}, "a.b")
    tensors = {
        "x": Tensor("x", (4,), "int4", Role.INPUT),
        "y": Tensor("y", (4,), "float8e4m3fn"),
        "w": weight,
        "g": Tensor("g", (4, 8), "float32"),
    }
    ops = (
        Op("whole", "Fused", ("x",), ("y",), {"label": "R"}, "a", (part,)),
        Op("back", "Expand", ("y",), ("g",), {}),
    )
    graph = OpGraph("g", tensors, ops, ("x",), ("y", "g"), {"w": "g"}, 4, ("noted",))
    assert graph_from_dict(json.loads(json.dumps(graph_to_dict(graph)))) == graph


def test_the_hash_depends_on_what_planning_reads_and_not_on_the_table_order() -> None:
    graph = mlp(2)
    turned = dataclasses.replace(graph, tensors=dict(reversed(list(graph.tensors.items()))))
    assert turned.digest() == graph.digest()
    assert mlp(2, batch=8).digest() != graph.digest()


def test_the_hash_is_the_same_in_every_process() -> None:
    program = (
        "from ir.normalise import normalise, add_ends\n"
        "from tests.ir.blocks import Form, block\n"
        "print(add_ends(normalise(block(Form(key_heads=2, mask='add', guard=True))),"
        " training=True).digest())"
    )
    root = Path(__file__).parents[2]
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(root)},
            cwd=root,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1")
    }
    assert len(digests) == 1
    assert len(digests.pop().strip()) == 64


def test_tensors_that_nobody_names_are_dropped() -> None:
    graph = mlp(2)
    assert set(graph.with_ops(graph.ops[:1]).tensors) == {
        "x",
        "layers.0.weight",
        *graph.outputs,
    } | {graph.ops[0].outputs[0]}


def refusal(graph: OpGraph) -> str:
    with pytest.raises(GraphError) as caught:
        graph.validate()
    return str(caught.value)


def changed(**fields: Any) -> OpGraph:
    return dataclasses.replace(mlp(2), **fields)


def test_an_operand_before_it_exists_is_named() -> None:
    message = refusal(changed(ops=tuple(reversed(mlp(2).ops))))
    assert "which no operator before it makes" in message


def test_a_tensor_made_twice_is_named() -> None:
    first, *rest = mlp(2).ops
    again = dataclasses.replace(first, name="again")
    assert "exists already" in refusal(changed(ops=(first, again, *rest)))


def test_two_operators_of_one_name_are_refused() -> None:
    ops = tuple(dataclasses.replace(op, name="same") for op in mlp(2).ops)
    assert "'same'" in refusal(changed(ops=ops))


def test_an_output_that_nothing_makes_is_named() -> None:
    assert "'ghost'" in refusal(changed(outputs=("ghost",)))


def test_a_tensor_that_the_table_lacks_is_named() -> None:
    graph = mlp(2)
    tensors = {n: t for n, t in graph.tensors.items() if n != graph.outputs[0]}
    assert repr(graph.outputs[0]) in refusal(changed(tensors=tensors))


@pytest.mark.parametrize(
    "damage",
    [
        lambda d: d.pop("name"),
        lambda d: d.pop("ops"),
        lambda d: d.update(ops={}),
        lambda d: d.update(tensors=[]),
        lambda d: d.update(inputs="x"),
        lambda d: d.update(batch="many"),
        lambda d: d["ops"][0].pop("kind"),
        lambda d: d["ops"][0].update(inputs=[{}]),
        lambda d: d["ops"][0].update(attributes={"axis": None}),
        lambda d: d["ops"][0].update(parts=3),
        lambda d: d["tensors"]["x"].update(dims="4"),
        lambda d: d["tensors"]["x"].update(dims=[1.5]),
        lambda d: d["tensors"]["x"].update(role="hero"),
        lambda d: d["tensors"].update(x=[]),
        lambda d: d["tensors"].pop("x"),
        lambda d: d.update(gradients={"w": "ghost"}),
    ],
)
def test_a_malformed_file_form_is_one_error(damage: Callable[[dict[str, Any]], object]) -> None:
    data = json.loads(json.dumps(graph_to_dict(mlp(2))))
    damage(data)
    with pytest.raises(GraphError):
        graph_from_dict(data)


def test_a_loss_ends_every_output_in_training_and_a_delivery_in_inference() -> None:
    graph = attention_block()
    trained, delivered = add_ends(graph, training=True), add_ends(graph, training=False)
    assert [op.kind for op in trained.ops[-1:]] == ["Loss"]
    assert trained.tensors[trained.ops[-1].outputs[0]].dims == ()
    assert [op.kind for op in delivered.ops[-1:]] == ["Output"]
    trained.validate()
    delivered.validate()


def test_outputs_without_gradient_are_delivered_in_training_too() -> None:
    build = GraphBuilder("both")
    x = build.input("x", (4, 8))
    y = build.op("Relu", (x,), (4, 8))
    best = build.op("ArgMax", (y,), (4,), name="best", axis=1)
    graph = build.build(y, best)
    tensors = {**graph.tensors, "best": dataclasses.replace(graph.tensors["best"], dtype="int64")}
    ended = add_ends(dataclasses.replace(graph, tensors=tensors), training=True)
    assert [op.kind for op in ended.ops[-2:]] == ["Loss", "Output"]


def test_the_loss_has_a_name_of_its_own() -> None:
    build = GraphBuilder("named")
    x = build.input("x", (4, 8))
    y = build.op("Relu", (x,), (4, 8), name="y")
    other = build.op("Neg", (x,), (4, 8), name="y/loss")
    ended = add_ends(build.build(y, other), training=True)
    ended.validate()
    assert ended.tensors["y/loss"].dims == (4, 8)
