"""A plan as MindSpore's strategy checkpoint, held against MindSpore's rules and its own files."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from exporters.mindspore.checkpoint import check_strategy, strategy_checkpoint
from exporters.mindspore.strategy import (
    StrategyCheckpoint,
    StrategyItem,
    from_json,
    from_protobuf,
    read,
    to_json,
    to_protobuf,
    with_shapes,
)
from importers.onnx import import_onnx
from ir.graph import Op, OpGraph, Role
from ir.plan import NamedLayout, Plan
from planner.request import SearchRequest
from planner.search import search
from tests.exporters.mindspore_rules import (
    Slice,
    item,
    layout,
    planned_slices,
    resting_slices,
    strategy_slices,
)
from tests.exporters.random_plans import drawn, known_space, plan_space, split_like
from tests.exporters.small_networks import (
    expert_model,
    image_model,
    language_model,
    perceptron,
    stored_otherwise,
    write_onnx_mlp,
)
from topology.catalogue import named_cluster

DATA = Path(__file__).parents[1] / "data"
SAMPLES = sorted(p for p in (DATA / "mindspore_samples").iterdir() if p.suffix != ".md")
NETWORKS = [language_model, image_model, expert_model, stored_otherwise]
ANY_NETWORK = pytest.mark.parametrize("make", NETWORKS, ids=lambda f: f.__name__)
ANY_SIZE = pytest.mark.parametrize("devices", [8, 16])


@cache
def exportable(make: Callable[[], OpGraph], devices: int) -> tuple[Plan, ...]:
    """Random plans of a network that MindSpore can follow."""
    space = known_space(make, devices)
    plans = []
    for seed in range(300):
        draw = random.Random(seed)
        plan = space.plan(drawn(draw), draw)
        plans += [plan] if not check_strategy(plan) else []
    return tuple(plans)


def file_names(graph: OpGraph) -> dict[str, str]:
    return {t.source or t.name: t.name for t in graph.parameters}


def primitives(graph: OpGraph) -> Iterator[Op]:
    for op in graph.ops:
        yield from op.parts if op.kind == "Fused" else (op,)


# What the layouts say


@ANY_NETWORK
@ANY_SIZE
def test_every_rank_keeps_the_slice_that_the_plan_gives_it(
    make: Callable[[], OpGraph], devices: int
) -> None:
    plans = exportable(make, devices)
    assert len(plans) >= 20
    for plan in plans:
        rest = {p.name: p.layout for p in plan.parameters}
        names = file_names(plan.graph)
        layouts = strategy_checkpoint(plan).layouts
        assert {names[each.name] for each in layouts} == set(rest)
        for each in layouts:
            tensor = plan.graph.tensors[names[each.name]]
            planned = planned_slices(
                plan, rest[tensor.name], tensor.dims, tensor.stored_permutation
            )
            is_slope = tensor.name == "slope"
            assert resting_slices(each) == (without_units(planned) if is_slope else planned)


@ANY_NETWORK
@ANY_SIZE
def test_layouts_are_standardised_and_cover_all_devices(
    make: Callable[[], OpGraph], devices: int
) -> None:
    for plan in exportable(make, devices):
        for each in strategy_checkpoint(plan).layouts:
            assert math.prod(each.device_matrix) == devices
            assert 1 not in each.device_matrix[1:]  # one in front: see _is_misread


def test_random_plans_reach_every_form_of_optimizer_sharding() -> None:
    layouts = [
        each
        for plan in exportable(language_model, 16)
        for each in strategy_checkpoint(plan).layouts
    ]
    shares = {(each.opt_weight_shard_size, each.opt_weight_shard_step) for each in layouts}
    assert {(0, 0), (16, 1), (8, 1), (2, 1)} <= shares
    assert any(step > 1 for _, step in shares)
    assert any(each.opt_weight_shard_size and set(each.tensor_map) != {-1} for each in layouts)


# What the strategies say


@ANY_NETWORK
@ANY_SIZE
def test_mindspore_makes_of_every_strategy_the_placement_of_the_plan(
    make: Callable[[], OpGraph], devices: int
) -> None:
    for plan in exportable(make, devices):
        checkpoint = strategy_checkpoint(plan)
        used = {p.name: p.used for p in plan.parameters}
        items = {each.key: each for each in checkpoint.strategies}
        assert len(items) == len(checkpoint.strategies)
        for op in primitives(plan.graph):
            names = [n for n in op.inputs if plan.graph.tensors[n].role is Role.PARAMETER]
            if names and op.kind != "Reshape" and make is not stored_otherwise:
                stem = "_" + names[0]
                found = items.pop(next(key for key in items if key.endswith(stem)))
                _check_placement(plan, op, found, used)
        assert not items or make is stored_otherwise


def _check_placement(
    plan: Plan, op: Op, found: StrategyItem, used: dict[str, NamedLayout | None]
) -> None:
    tensors = [plan.graph.tensors[n] for n in op.inputs]
    assert len(found.cuts) == len(tensors)
    axis, primitive = op.attributes.get("axis", 0), found.key.split("_")[0]
    shapes = [
        t.dims if t.role is Role.PARAMETER else cuts
        for t, cuts in zip(tensors, found.cuts, strict=True)
    ]
    if primitive == "PReLU":
        shapes[1] = tuple(d for d in shapes[1] if d > 1)
    transposed = bool(op.attributes.get("trans_b", op.kind == "ExpertMatMul"))
    assert isinstance(axis, int)
    slices = strategy_slices(
        primitive, found.cuts, shapes, plan.devices, axis=axis, transposed=transposed
    )
    for tensor, each in zip(tensors, slices, strict=True):
        if tensor.role is Role.PARAMETER:
            layout = used[tensor.name]
            assert layout is not None
            planned = planned_slices(plan, layout, tensor.dims)
            assert each == (without_units(planned) if primitive == "PReLU" else planned)


def without_units(slices: list[Slice]) -> list[Slice]:
    """The slopes of `PReLU` are a vector."""
    return [tuple(r for r in ranges if r != (0, 1)) for ranges in slices]


@ANY_NETWORK
@ANY_SIZE
def test_cuts_are_powers_of_two_that_divide_the_dims_and_the_devices(
    make: Callable[[], OpGraph], devices: int
) -> None:
    for plan in exportable(make, devices):
        for each in strategy_checkpoint(plan).strategies:
            for cuts in each.cuts:
                assert devices % math.prod(cuts) == 0
                assert all(cut & (cut - 1) == 0 for cut in cuts)


def test_a_weight_stored_transposed_is_cut_as_it_is_stored() -> None:
    space = known_space(language_model, 8)
    columns = strategy_checkpoint(space.plan(split_like(3, 3, 3)))
    assert item(columns, "MatMul_up.weight").cuts == ((1, 1), (8, 1))
    assert layout(columns, "up.weight").tensor_map == (0, -1)
    inner = strategy_checkpoint(space.plan(split_like(2, 2, -1)))
    assert item(inner, "MatMul_up.weight").cuts == ((1, 4), (1, 4))
    assert layout(inner, "up.weight").tensor_map == (-1, 1)


def test_leading_dimensions_of_a_product_with_a_matrix_are_flattened() -> None:
    space = known_space(language_model, 8)
    found = strategy_checkpoint(space.plan(_rows_and_columns))
    assert item(found, "MatMul_up.weight").cuts == ((4, 1), (2, 1))
    assert layout(found, "up.weight").device_matrix == (4, 2)


def _rows_and_columns(name: str, found: list[tuple[int, ...]]) -> int:
    """Batch, rows and columns of the first product halved; everything else whole."""
    return found.index((0, 1, 3) if name == "op_matmul_2" else (-1, -1, -1))


def test_parts_of_a_composite_have_their_own_strategies() -> None:
    plan = known_space(language_model, 8).plan(split_like(0, 0, 1))
    found = strategy_checkpoint(plan)
    kinds = {p.kind for op in plan.graph.ops for p in op.parts}
    assert {"Mul", "Add", "Gelu"} <= kinds
    assert item(found, "Mul_final.weight").cuts == ((1,), (4, 2, 1))
    assert item(found, "Add_up.bias").cuts == ((4, 2, 1), (1,))


def test_primitives_take_every_input_that_they_have_in_mindspore() -> None:
    found = strategy_checkpoint(known_space(image_model, 8).plan(split_like(0, 0, 0)))
    assert item(found, "BatchNorm_bn.weight").cuts == ((8, 1, 1, 1), (1,), (1,), (1,), (1,))
    assert item(found, "Conv2D_stem.weight").cuts == ((8, 1, 1, 1), (1, 1, 1, 1))
    assert item(found, "PReLU_slope").cuts == ((8, 1, 1, 1), (1,))
    experts = strategy_checkpoint(known_space(expert_model, 8).plan(split_like(0, 0, 1)))
    assert item(experts, "BatchMatMul_up").cuts == ((4, 2, 1), (4, 1, 1))


def test_a_permuted_parameter_is_described_as_the_file_has_it() -> None:
    plan = known_space(stored_otherwise, 8).plan(split_like(1, 1, 1))
    found = strategy_checkpoint(plan)
    assert item(found, "Gather_embedding.kernel").cuts == ((8, 1), (1,))
    assert layout(found, "embedding.kernel").tensor_shape == (256, 64)
    assert layout(found, "embedding.kernel").tensor_map == (0, -1)


# Real files of MindSpore


@pytest.mark.parametrize("path", SAMPLES, ids=lambda p: p.name)
def test_the_file_of_the_same_perceptron_is_mindspores(path: Path) -> None:
    real = read(path)
    known = {"w1": (256, 512), "w2": (512, 128)}
    known |= {"ls.0.w": (1024, 4096), "ls.1.w": (4096, 4096), "ls.2.w": (4096, 1024)}
    cuts = {each.key.removeprefix("MatMul_"): each.cuts for each in real.strategies}
    names = tuple(sorted(cuts))
    space = plan_space(perceptron(names, tuple(known[n] for n in names), batch=256), 8)
    made = strategy_checkpoint(space.plan(lambda op, found: _assignment(op, found, cuts)))
    assert sorted(made.strategies, key=lambda i: i.key) == sorted(
        real.strategies, key=lambda i: i.key
    )
    shapes = {name: dims for name, dims in known.items() if name in names}
    theirs = with_shapes(real, shapes).layouts
    assert sorted(made.layouts, key=lambda i: i.name) == sorted(theirs, key=lambda i: i.name)


def _assignment(
    op: str, found: list[tuple[int, ...]], cuts: dict[str, tuple[tuple[int, ...], ...]]
) -> int:
    name = op.removeprefix("op_p.")
    if name not in cuts:
        return found.index((-1, -1, -1))
    (rows, inner), (_, columns) = cuts[name]
    axes = [f for f, cut in enumerate((rows, inner, columns)) for _ in range(cut.bit_length() - 1)]
    return found.index((*axes, *[-1] * (3 - len(axes))))


# Plans of the planner


@ANY_SIZE
def test_a_model_of_linear_layers_is_exported_from_its_file(tmp_path: Path, devices: int) -> None:
    write_onnx_mlp(tmp_path / "mlp.onnx")
    graph = import_onnx(tmp_path / "mlp.onnx")
    plan = search(graph, named_cluster("atlas-800t-a2", devices), SearchRequest())
    found = strategy_checkpoint(plan)
    assert [each.key for each in found.strategies] == [
        f"{kind}_fc{i}.{name}"
        for i in range(3)
        for kind, name in (("MatMul", "weight"), ("Add", "bias"))
    ]
    assert found.current_stage == 1
    assert {each.stage for each in found.strategies} == {0}
    _check_round_trip(found)


@pytest.mark.parametrize("devices", [1, 2, 4, 24])
def test_every_number_of_devices_that_mindspore_takes_is_exported(devices: int) -> None:
    plan = known_space(language_model, devices).best
    for each in strategy_checkpoint(plan).layouts:
        assert math.prod(each.device_matrix) == devices
        assert len(resting_slices(each)) == devices


@pytest.fixture(scope="session")
def bert() -> Plan:
    graph = import_onnx(DATA / "models" / "bert_base.onnx.gz")
    return search(graph, named_cluster("atlas-800t-a2", 16), SearchRequest(batch=16))


def test_a_real_model_is_exported_whole(bert: Plan) -> None:
    assert check_strategy(bert) == ()
    found = strategy_checkpoint(bert)
    assert {each.name for each in found.layouts} == {p.name for p in bert.parameters}
    _check_round_trip(found)


def _check_round_trip(checkpoint: StrategyCheckpoint) -> None:
    from_text = from_json(to_json(checkpoint))
    assert set(from_text.strategies) == set(checkpoint.strategies)
    assert set(from_text.layouts) == set(checkpoint.layouts)
    shapes = {each.name: each.tensor_shape for each in checkpoint.layouts}
    known = {name: shape for name, shape in shapes.items() if shape is not None}
    assert with_shapes(from_protobuf(to_protobuf(checkpoint)), known) == checkpoint
