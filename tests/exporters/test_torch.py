"""The forms for torch: what they carry comes back, and the module builds what they say."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters import torch
from exporters.errors import ExportError, StrategyFileError
from exporters.sharding import as_filed, sharding_of
from ir.graph import OpGraph
from ir.plan import NamedLayout, Plan
from planner.request import SearchRequest
from planner.search import search
from tests.builders import GraphBuilder
from tests.exporters.shardings import drawn_plan
from tests.exporters.small_networks import expert_model, image_model, language_model, tied
from topology.catalogue import named_cluster


def module(plan: Plan) -> dict[str, Any]:
    """The exported module, loaded without torch."""
    names: dict[str, Any] = {}
    exec(compile(torch.to_python(plan), "torch_placements.py", "exec"), names)
    return names


def resting(plan: Plan, *layouts: NamedLayout) -> Plan:
    """The plan with these layouts of its parameters at rest, used alike, and no operators."""
    pairs = zip(plan.tensors, layouts, strict=True)
    tensors = tuple(replace(t, layout=layout, used=None) for t, layout in pairs)
    graph = replace(plan.graph, ops=())
    return replace(plan, tensors=tensors, operators=(), graph=graph)


@given(st.integers(0, 2**32))
def test_what_the_file_carries_comes_back(seed: int) -> None:
    plan = drawn_plan(seed)
    text = torch.to_json(plan)
    found = torch.from_json(text)
    assert found == sharding_of(plan)
    assert torch.to_json(found) == text


@pytest.mark.parametrize("make", [language_model, image_model, expert_model, tied])
@pytest.mark.parametrize("target", ["torch", "mindspore"])
def test_searched_plans_come_back(make: Any, target: str) -> None:
    graph: OpGraph = make()
    plan = search(graph, named_cluster("atlas-800t-a2", 8), SearchRequest(target=target))
    text = torch.to_json(plan)
    assert torch.from_json(text) == sharding_of(plan)
    assert torch.to_json(torch.from_json(text)) == text


def owner(placements: tuple[str, ...], dims: Any, mesh: Any, dim: int, element: int) -> set[int]:
    """Ranks that hold an index of a dimension, by splitting one mesh dimension after the other."""
    ranks = np.array(mesh).reshape([size for _, size in dims])
    held = set()
    for place in itertools.product(*(range(size) for _, size in dims)):
        low, high = 0, 8
        for at, (_, size), placement in zip(place, dims, placements, strict=True):
            if placement == f"Shard({dim})":
                step = (high - low) // size
                low, high = low + at * step, low + (at + 1) * step
        if low <= element < high:
            held.add(int(ranks[place]))
    return held


@given(st.integers(0, 2**32))
def test_dtensor_deals_out_the_shards_of_the_plan(seed: int) -> None:
    """Unless the loss says that it does not."""
    plan = drawn_plan(seed)
    names = module(plan)
    lost = any("order" in x for x in torch.losses(plan))
    sizes = {axis: size for axis, size, _ in plan.mesh}
    for each in sharding_of(plan).parameters:
        layout = as_filed(each.rest, each.permutation)
        placements = names["PARAMETERS"][each.file_name]
        for dim, element in itertools.product(range(2), range(8)):
            found = owner(placements, names["MESH_DIMS"], names["RANKS"], dim, element)
            wanted = set()
            for rank, place in enumerate(itertools.product(*map(range, sizes.values()))):
                at = dict(zip(sizes, place, strict=True))
                index = count = 0
                count = 1
                for axis in layout.dims[dim]:
                    index, count = index * sizes[axis] + at[axis], count * sizes[axis]
                if index * 8 // count <= element < (index + 1) * 8 // count:
                    wanted.add(rank)
            assert found == wanted or lost


def test_the_mesh_is_turned_so_that_tensor_parallel_weights_can_be_sharded(plan: Plan) -> None:
    """FSDP over tensor parallelism splits by the inner axis first."""
    inner_first = NamedLayout((("card1", "server"), ()))
    turned = resting(plan, inner_first, inner_first)
    assert torch.losses(replace(turned, recomputed=())) == ()
    names = module(turned)
    dims = [name for name, _ in names["MESH_DIMS"]]
    assert dims.index("card1") < dims.index("server")
    assert sorted(names["RANKS"]) == list(range(8))


def test_an_order_that_no_mesh_expresses_is_told(plan: Plan) -> None:
    one, other = NamedLayout((("card1", "server"), ())), NamedLayout((("server", "card1"), ()))
    (loss,) = torch.losses(replace(resting(plan, one, other), recomputed=()))
    assert "another order in 1 layout (parameter 'm.layers.0.proj.weight')" in loss
    found = torch.from_json(torch.to_json(resting(plan, one, other)))
    assert [p.rest for p in found.parameters] == [one, other]


def test_ranks_that_descend_are_refused(plan: Plan) -> None:
    for write in (torch.to_json, torch.to_python):
        with pytest.raises(ExportError, match="ascending ranks"):
            write(replace(plan, rank_order=tuple(reversed(range(8)))))


def strips(kind: str) -> Plan:
    """Images that are cut along their columns, read by one operator."""
    build = GraphBuilder("strips")
    operands = [build.input("x", (2, 4, 16, 64))]
    operands += [build.weight("w", (4, 4, 2, 2))] if kind == "Conv" else []
    made = build.op(kind, operands, (2, 4, 8, 32), kernel_shape=(2, 2), strides=(2, 2))
    graph = build.build(made)
    cuts = ((1, 1, 1, 4), (1,) * 4)[: len(operands)]
    request = SearchRequest(
        target="generic", training=False, pins=((graph.ops[0].name, cuts),),
        dataset_strategy=((1, 1, 1, 4),),
    )  # fmt: skip
    return search(graph, named_cluster("atlas-800t-a2", 4), request)


@pytest.mark.parametrize("write", [torch.to_json, torch.to_python])
def test_convolutions_of_strips_are_refused(write: Any) -> None:
    with pytest.raises(ExportError, match=r"cut along positions\n  at:  1 operator \(op_conv_0\)"):
        write(strips("Conv"))


def test_pools_of_strips_are_told() -> None:
    plan = strips("MaxPool")
    assert torch.to_json(plan)
    assert "1 pool (op_maxpool_0)" in torch.losses(plan)[0]


def test_uneven_shards_are_told(plan: Plan) -> None:
    tensors = tuple(replace(t, dims=(1022, 1024)) for t in plan.tensors)
    losses = torch.losses(replace(plan, tensors=tensors))
    assert any("uneven" in loss for loss in losses)
    assert not any("uneven" in loss for loss in torch.losses(plan))


@pytest.mark.parametrize(
    ("layout", "words"),
    [
        ({"placements": ["Replicate()"] * 2, "ndim": 2}, "3 placements"),
        ({"placements": ["Replicate()"] * 3}, "'ndim'"),
        ({"placements": ["Replicate()"] * 3, "ndim": True}, "'ndim'"),
        ({"placements": ["Replicate()"] * 3, "ndim": 3}, "3 dimensions"),
        ({"placements": ["Shard(2)", "Replicate()", "Replicate()"], "ndim": 2}, "no placement"),
        ({"placements": ["Shard(-1)", "Replicate()", "Replicate()"], "ndim": 2}, "no placement"),
        ({"placements": [0, 0, 0], "ndim": 2}, "no placement"),
        ({"placements": ["Shard(0)"] * 3, "ndim": 2, "order": {"0": ["card0"]}}, "the order"),
        ({"placements": ["Shard(0)"] * 3, "ndim": 2, "order": {"7": ["card0"]}}, "the order"),
        ({"placements": ["Shard(0)"] * 3, "ndim": 2, "order": []}, "no object"),
    ],
)
def test_a_layout_that_cannot_be_is_refused(layout: dict[str, Any], words: str, plan: Plan) -> None:
    data = json.loads(torch.to_json(plan))
    next(iter(data["parameters"].values()))["rest"] = layout
    with pytest.raises(StrategyFileError, match=words):
        torch.from_json(json.dumps(data))


@pytest.mark.parametrize("names", [None, [], ["server"], ["server", "card0", "rack"], 3])
def test_a_mesh_of_other_dimensions_is_refused(names: object, plan: Plan) -> None:
    data = json.loads(torch.to_json(plan))
    data["placed"]["mesh_dim_names"] = names
    with pytest.raises(StrategyFileError, match="dimensions of the mesh"):
        torch.from_json(json.dumps(data))


def test_a_file_for_jax_is_refused(plan: Plan) -> None:
    with pytest.raises(StrategyFileError, match="not of the format 'parallel-plan-torch'"):
        torch.from_json('{"format": "parallel-plan-jax"}')
