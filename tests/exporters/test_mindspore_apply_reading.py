"""`apply_mindspore.py` read back: the plan's own cuts, and files that are none."""

from __future__ import annotations

import ast
import math
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from exporters.errors import StrategyFileError
from exporters.mindspore.apply import apply_module, operator_strategies
from exporters.mindspore.apply_import import pins_of_applied
from exporters.mindspore.apply_reading import from_python
from exporters.mindspore.checkpoint import strategy_checkpoint
from exporters.mindspore.strategy_files import read_strategies
from ir.graph import OpGraph
from ir.plan import Plan
from planner.constraints.pins import pins_of
from planner.pipeline.preparation import prepare
from planner.request import SearchRequest
from planner.search import search
from tests.builders import GraphBuilder
from tests.exporters.random_plans import drawn, known_space
from tests.exporters.small_networks import expert_model, image_model, language_model
from topology.catalogue import named_cluster

pytestmark = pytest.mark.fast

DEVICES = 8
REQUEST = SearchRequest(fused_attention=False)


def planned(graph: OpGraph) -> Plan:
    return search(graph, named_cluster("atlas-800t-a2", DEVICES), REQUEST)


def ready(graph: OpGraph) -> OpGraph:
    return prepare(graph, named_cluster("atlas-800t-a2", DEVICES), REQUEST)[0]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("make", [language_model, image_model, expert_model])
def test_what_is_written_is_read_back(make: Callable[[], OpGraph], seed: int) -> None:
    draw = random.Random(seed)
    plan = known_space(make, DEVICES).plan(drawn(draw), draw)
    content = from_python(apply_module(plan))
    wanted = operator_strategies(plan)
    assert content.devices == DEVICES
    assert content.strategies == {
        cell: {kind: tuple(cuts) for kind, cuts in kinds.items()} for cell, kinds in wanted.items()
    }


@pytest.mark.parametrize("make", [language_model, image_model])
def test_operators_are_held_to_the_plan(make: Callable[[], OpGraph]) -> None:
    graph = make()
    plan = planned(graph)
    found = pins_of_applied(ready(graph), from_python(apply_module(plan)), DEVICES)
    pins_of(ready(graph), tuple(found.pins.items()))
    sizes = {name: size for name, size, _ in plan.mesh}
    operators = {op.name: op for op in plan.operators}
    assert len(found.pins) > len(operators) // 2
    for name, cuts in found.pins.items():
        own = [layout for layout in operators[name].inputs if layout is not None]
        planned_cuts = [tuple(math.prod(sizes[a] for a in d) for d in each.dims) for each in own]
        assert [c for c, l in zip(cuts, operators[name].inputs, strict=True) if l] == planned_cuts


def perceptron() -> OpGraph:
    build = GraphBuilder("net")
    x = build.op("MatMul", (build.input("x", (64, 32)), build.weight("up.w", (32, 64))), (64, 64))
    return build.build(build.op("Relu", (x,), (64, 64)))


def module(**changes: str) -> str:
    lines = {
        "DEVICES": "8",
        "DATASET_STRATEGY": "((8, 1),)",
        "STRATEGIES": "{'up': {'MatMul': [((8, 1), (1, 1))]}}",
    } | changes
    return "".join(f"{name} = {value}\n" for name, value in lines.items() if value)


def test_one_strategy_is_for_every_operator_of_a_cell() -> None:
    found = pins_of_applied(ready(perceptron()), from_python(module()), DEVICES)
    assert list(found.pins.values()) == [((8, 1), (1, 1))]
    assert found.inputs == ((8, 1),)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"DEVICES": ""}, "it has no DEVICES"),
        ({"DEVICES": "'8'"}, "no number of devices"),
        ({"STRATEGIES": "{1: 2}"}, "no table by name"),
        ({"STRATEGIES": "{'up': {'MatMul': ((8, 1),)}}"}, "no list"),
        ({"STRATEGIES": "{'up': {'MatMul': [((0, 1), (1, 1))]}}"}, "no numbers of pieces"),
        ({"STRATEGIES": "open('x')"}, "it has no STRATEGIES"),
        ({"STRATEGIES": "{'up': open('x')}"}, "more than constants"),
        ({"DATASET_STRATEGY": "(8, 1)"}, "no tuple of tuples"),
        ({"AXES": "(('a', 2),)", "CUSTOM": "{'c': {'Own': [3]}}"}, "no axes"),
    ],
)
def test_a_module_that_is_none_is_refused(changes: dict[str, str], words: str) -> None:
    with pytest.raises(StrategyFileError, match=words) as caught:
        from_python(module(**changes))
    assert "planner export --format mindspore-apply" in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"DEVICES": "16"}, "for 16 devices, not 8"),
        ({"STRATEGIES": "{'down': {'MatMul': [((8, 1), (1, 1))]}}"}, "none of its 1 cells"),
        ({"STRATEGIES": "{'up': {'MatMul': [((3, 1), (1, 1))]}}"}, "3"),
        ({"STRATEGIES": "{'up': {'MatMul': [((1, 2), (1, 1))]}}"}, "MatMul"),
    ],
)
def test_strategies_that_do_not_fit_are_refused(changes: dict[str, str], words: str) -> None:
    with pytest.raises(StrategyFileError, match=words):
        pins_of_applied(ready(perceptron()), from_python(module(**changes)), DEVICES)


def test_a_file_is_told_by_its_suffix(tmp_path: Path) -> None:
    (tmp_path / "apply.py").write_text("x = (")
    with pytest.raises(StrategyFileError, match="no Python") as caught:
        read_strategies(tmp_path / "apply.py")
    assert "apply.py" in str(caught.value)


def test_parameters_have_the_cuts_of_their_layouts() -> None:
    plan = known_space(language_model, DEVICES).plan(drawn(random.Random(3)))
    found = ast.literal_eval(
        next(
            each.value
            for each in ast.parse(apply_module(plan)).body
            if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "PARAMETER_PLAN"
        )
    )
    layouts = {each.name: each for each in strategy_checkpoint(plan).layouts}
    assert found
    for name, cuts in found.items():
        layout = layouts[name]
        assert math.prod(cuts) * layout.copies == DEVICES
        assert layout.tensor_shape is not None
        assert all(size % cut == 0 for size, cut in zip(layout.tensor_shape, cuts, strict=True))
