"""Operator-strategy files: one strategy for every primitive of a MindIR file, there and back."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from exporters.errors import ExportError, StrategyFileError
from exporters.mindspore.checkpoint_import import Imported, pins_of_operators
from exporters.mindspore.file_operators import apart, merged
from exporters.mindspore.operator_json import OperatorStrategies, from_json, to_json
from exporters.mindspore.operator_strategy import (
    DATASET,
    OperatorFile,
    losses,
    operator_strategy,
    scoped,
)
from exporters.mindspore.records import StrategyItem
from importers.mindir.listing import listed_primitives
from importers.mindir.reading import import_mindir
from ir.file_primitives import FilePrimitive
from ir.graph import OpGraph
from ir.mindspore_forms.strategies import batch_pins
from ir.plan import NamedLayout, Plan
from planner.pipeline.preparation import prepare
from planner.request import SearchRequest
from planner.search import search
from tests.executors.drawn_plans import drawn_plan
from topology.catalogue import named_cluster

DATA = Path(__file__).parents[1] / "data"
SAMPLES = sorted((DATA / "mindspore_operators").glob("*.json"))
MODELS = ("mlp", "transformer", "residual")
REQUEST = SearchRequest(fused_attention=False)
DEVICES = 8


@functools.cache
def graph(name: str) -> OpGraph:
    return import_mindir(DATA / "mindir" / f"{name}.mindir")


@functools.cache
def primitives(name: str) -> tuple[FilePrimitive, ...]:
    return listed_primitives(DATA / "mindir" / f"{name}.mindir")


@functools.cache
def plan(name: str, seed: int | None = None) -> Plan:
    if seed is None:
        return search(graph(name), named_cluster("atlas-800t-a2", DEVICES), REQUEST)
    return drawn_plan(graph(name), DEVICES, REQUEST, seed)


def exported(name: str, seed: int | None = None, scope: str = "") -> OperatorFile:
    return operator_strategy(plan(name, seed), primitives(name), scope)


def back(name: str, content: OperatorStrategies) -> Imported:
    ready, _ = prepare(graph(name), named_cluster("atlas-800t-a2", DEVICES), REQUEST)
    return pins_of_operators(ready, content, primitives(name), DEVICES)


def planned_cuts(found: Plan) -> dict[str, tuple[tuple[int, ...], ...]]:
    """By operator the cuts of all operands, as the plan's layouts have them."""
    sizes = {name: size for name, size, _ in found.mesh}
    ops = {op.name: op for op in found.graph.ops}

    def cuts(layout: NamedLayout | None, rank: int) -> tuple[int, ...]:
        if layout is None:
            return (1,) * rank
        return tuple(_product(sizes[axis] for axis in dim) for dim in layout.dims)

    return {
        each.name: tuple(
            cuts(layout, len(found.graph.tensors[name].dims))
            for name, layout in zip(ops[each.name].inputs, each.inputs, strict=True)
            if name
        )
        for each in found.operators
    }


def _product(numbers: Iterable[int]) -> int:
    return math.prod(numbers)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("seed", [None, 0, 1, 2])
def test_every_primitive_of_the_file_has_cuts_that_divide_its_operands(
    name: str, seed: int | None
) -> None:
    items = {item.key: item for item in exported(name, seed).content.strategies}
    assert next(iter(items)) == DATASET
    assert set(items) >= {DATASET, *(each.name for each in primitives(name))}
    for each in primitives(name):
        cuts = items[each.name].cuts
        assert [len(own) for own in cuts] == [len(dims) for dims in each.operands]
        for own, dims in zip(cuts, each.operands, strict=True):
            assert all(size % pieces == 0 for size, pieces in zip(dims, own, strict=True))
            assert DEVICES % _product(own) == 0


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("seed", [None, 0, 1, 2])
def test_what_is_read_back_cuts_operators_as_planned(name: str, seed: int | None) -> None:
    file = exported(name, seed, "network-Net")
    found, ours = back(name, file.content), planned_cuts(plan(name, seed))
    parts = {part.name: op.name for op in plan(name, seed).graph.ops for part in op.parts or (op,)}
    moved = {parts[each] for each in file.displaced}
    differing = {n for n, cuts in found.pins.items() if ours[n] != cuts}
    assert found.notes == () or moved
    assert differing <= moved
    assert len(found.pins) > len(ours) / 2


def test_rows_that_are_cut_on_the_inside_are_told() -> None:
    file = exported("transformer", 0)
    assert "Default/up-Dense/MatMul-op0" in file.displaced
    assert any("from the outside" in note for note in losses(plan("transformer", 0), file))
    assert exported("transformer").displaced == ()


def test_the_inputs_arrive_as_the_file_says() -> None:
    content = exported("mlp").content
    assert back("mlp", content).inputs == content.strategies[0].cuts


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_files_of_the_real_package_are_read_and_written_as_they_are(path: Path) -> None:
    text = path.read_text()
    assert to_json(from_json(text)) == text.strip()


@pytest.mark.parametrize("name", ["perceptron", "transformer"])
def test_what_mindspore_saved_becomes_a_plan_that_says_the_same(name: str) -> None:
    """Reshapes aside, of which MindSpore uses no strategy."""
    folder = DATA / "mindspore_operators"
    model, listed = folder / f"{name}.mindir", listed_primitives(folder / f"{name}.mindir")
    theirs = from_json((folder / f"{name}_ops.json").read_text())
    machine = named_cluster("atlas-800t-a2", DEVICES)
    request = replace(REQUEST, training=False)
    ready, _ = prepare(import_mindir(model), machine, request)
    found = pins_of_operators(ready, theirs, listed, DEVICES)
    assert found.notes == ()
    held = replace(request, pins=tuple(found.pins.items()), dataset_strategy=found.inputs)
    ours = operator_strategy(search(import_mindir(model), machine, held), listed)
    before, after = ({i.key: i.cuts for i in c.strategies} for c in (theirs, ours.content))
    assert set(before) == set(after)
    assert {k for k in before if before[k] != after[k] and "/Reshape-" not in k} == set()


def test_layouts_are_read_as_cuts() -> None:
    layout = {"dev_matrix": [2, 4], "tensor_map": [[1], [0]], "interleaved_parallel": False}
    both = {"dev_matrix": [2, 4], "tensor_map": [[1, 0], [-1]], "interleaved_parallel": False}
    text = {
        "current_stage": 0,
        "parallel_layout_value_item": {"Default/A-op0": {"0": layout, "1": both}},
    }
    assert from_json(json.dumps(text)).strategies == (
        StrategyItem("Default/A-op0", 0, ((2, 4), (8, 1))),
    )


def test_results_are_kept() -> None:
    content = OperatorStrategies(
        (StrategyItem("Default/A-op0", 0, ((2, 1),)),),
        (StrategyItem("Default/A-op0", 0, ((1, 2),)),),
    )
    assert from_json(to_json(content)) == content


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not JSON"),
        ("[]", "none of the sections"),
        ('{"current_stage": 0}', "none of the sections"),
        ('{"parallel_strategy_item": {"a": {"parallel_strategy": [[1]]}}}', "'stage' is missing"),
        ('{"parallel_strategy_item": {"a": {"parallel_strategy": [1], "stage": 0}}}', "integers"),
        ('{"parallel_strategy_item": {"a": {"parallel_strategy": [[0]], "stage": 0}}}', "is 0"),
        ('{"parallel_strategy_item": {"a": 1, "a": 2}}', "occurs twice"),
        ('{"parallel_layout_value_item": {"a": {"0": {"dev_matrix": [2], "tensor_map": [[3]]}}}}',
         "does not have"),
    ],
)  # fmt: skip
def test_other_texts_are_refused(text: str, words: str) -> None:
    with pytest.raises(StrategyFileError, match=words):
        from_json(text)


def test_texts_cut_short_are_refused() -> None:
    text = SAMPLES[0].read_text().strip()
    for end in range(len(text)):
        with pytest.raises(StrategyFileError):
            from_json(text[:end])


def test_a_plan_of_another_model_is_refused() -> None:
    with pytest.raises(ExportError, match=r"none of the .* primitives"):
        operator_strategy(plan("mlp"), [replace(p, name=f"{p.name}9") for p in primitives("mlp")])


def test_a_plan_of_another_target_is_refused() -> None:
    found = search(
        graph("mlp"), named_cluster("atlas-800t-a2", DEVICES), replace(REQUEST, target="jax")
    )
    with pytest.raises(ExportError, match="--target mindspore"):
        operator_strategy(found, primitives("mlp"))


def test_primitives_that_the_plan_lacks_are_told() -> None:
    missing = FilePrimitive("Default/Extra-op0", "ReLU", ((4, 4),), ("",))
    file = operator_strategy(plan("mlp"), (*primitives("mlp"), missing))
    assert file.derived == ("Default/Extra-op0",)
    assert file.content.strategies[-1].cuts == ((1, 1),)
    assert "Default/Extra-op0" in losses(plan("mlp"), file)[0]


def test_a_file_of_another_model_is_refused() -> None:
    items = exported("mlp").content.strategies
    with pytest.raises(StrategyFileError, match=r"none of its .* keys"):
        back("mlp", OperatorStrategies(tuple(replace(i, key=f"{i.key}9") for i in items)))


def test_keys_that_match_nothing_and_operators_without_a_key_are_told() -> None:
    first, second, *rest = exported("mlp").content.strategies
    extra = StrategyItem("Default/Other-op0", 0, ((1,),))
    notes = back("mlp", OperatorStrategies((first, extra, *rest))).notes
    assert any("Default/Other-op0" in note for note in notes)
    assert any(second.key in note and "MindSpore refuses" in note for note in notes)


@pytest.mark.parametrize(
    ("cuts", "words"),
    [
        (((3, 1), (1, 1)), "is cut 3 ways"),
        (((1, 2), (4, 1)), "ways in another input"),
        (((8, 2), (2, 8)), "devices"),
        (((8, 1),), "has 1 inputs"),
        (((8, 1, 1), (1, 1)), "dimensions"),
    ],
)
def test_strategies_that_mindspore_refuses_are_named(
    cuts: tuple[tuple[int, ...], ...], words: str
) -> None:
    items = list(exported("mlp").content.strategies)
    place = next(i for i, item in enumerate(items) if "/MatMul-" in item.key)
    items[place] = replace(items[place], cuts=cuts)
    with pytest.raises(StrategyFileError, match=words) as caught:
        back("mlp", OperatorStrategies(tuple(items)))
    assert "MatMul-op0" in str(caught.value)


def test_what_has_no_strategy_is_cut_by_batch() -> None:
    ready, _ = prepare(graph("mlp"), named_cluster("atlas-800t-a2", DEVICES), REQUEST)
    pins = batch_pins(ready, DEVICES, {})
    assert pins
    for cuts in pins.values():
        assert cuts[0][0] == DEVICES
        assert _product(cuts[0]) == DEVICES


def test_dims_that_a_file_merged_are_cut_from_the_outside() -> None:
    dims, whole = (4, 8, 16), (32, 16)
    assert merged(dims, (4, 2, 1), whole) == (8, 1)
    assert apart(dims, whole, (8, 1)) == (4, 2, 1)
    assert merged(dims, (1, 1, 1), (16, 32)) is None
    assert apart(dims, whole, (3, 1)) is None


def test_scopes_stand_behind_the_root() -> None:
    assert scoped("Default/a/MatMul-op0", "net-Net/") == "Default/net-Net/a/MatMul-op0"
    assert scoped("Default/a/MatMul-op0", "") == "Default/a/MatMul-op0"
