"""`apply_mindspore.py`: strategies for all operators, and the function that applies them."""

from __future__ import annotations

import ast
import random
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from exporters.errors import ExportError
from exporters.mindspore.apply import apply_module, operator_strategies
from exporters.mindspore.checkpoint import strategy_checkpoint
from exporters.mindspore.names import name_rules, names_for, renamed
from ir.plan import NamedLayout, Plan
from planner.request import SearchRequest
from planner.search import search
from tests.builders import attention_block
from tests.exporters.random_plans import drawn, known_space, split_like
from tests.exporters.small_networks import (
    expert_model,
    image_model,
    language_model,
    stored_otherwise,
    wide_perceptron,
)
from topology.catalogue import named_cluster

NETWORKS = [language_model, image_model, expert_model, stored_otherwise, wide_perceptron]


@dataclass
class Primitive:
    """As much of MindSpore's as the file uses."""

    name: str
    strategy: Any = None
    result: Any = None

    def add_prim_attr(self) -> None: ...

    def shard(self, strategy: Any, result: Any = None) -> None:
        self.strategy, self.result = strategy, result


@dataclass
class Network:
    cells: dict[str, SimpleNamespace] = field(default_factory=dict)

    parameters: list[SimpleNamespace] = field(default_factory=list)

    def cells_and_names(self) -> Any:
        return self.cells.items()

    def get_parameters(self) -> list[SimpleNamespace]:
        return self.parameters


def module(text: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    exec(compile(text, "apply_mindspore.py", "exec"), found)
    return found


def network_of(strategies: Any) -> Network:
    """A network that holds every operator of a file."""
    cells = {}
    for path, kinds in strategies.items():
        held = [Primitive(kind) for kind, wanted in kinds.items() for _ in wanted]
        cells[path] = SimpleNamespace(**{f"p{i}": each for i, each in enumerate(held)}, other=3)
    return Network(cells)


@pytest.mark.parametrize("make", NETWORKS, ids=lambda f: f.__name__)
def test_every_operator_of_a_network_gets_its_strategy(make: Any) -> None:
    found = module(apply_module(known_space(make, 8).plan(split_like(0, 0, 0))))
    network = network_of(found["STRATEGIES"])
    assert found["apply"](network) == []
    for path, kinds in found["STRATEGIES"].items():
        held = [p for p in vars(network.cells[path]).values() if isinstance(p, Primitive)]
        assert [p.strategy for p in held] == [cuts for each in kinds.values() for cuts in each]


@pytest.mark.parametrize("make", NETWORKS, ids=lambda f: f.__name__)
def test_it_says_of_operators_with_parameters_what_the_checkpoint_says(make: Any) -> None:
    space = known_space(make, 8)
    for seed in range(40):
        plan = space.plan(drawn(random.Random(seed)))
        try:
            checkpoint = strategy_checkpoint(plan)
        except ExportError:
            continue
        listed = operator_strategies(plan)
        for item in checkpoint.strategies:
            kind = item.key.split("_")[0]
            assert any(item.cuts in kinds.get(kind, []) for kinds in listed.values())


def test_what_the_network_does_not_hold_is_said() -> None:
    found = module(apply_module(known_space(language_model, 8).plan(split_like(0, 0, 0))))
    network = network_of(found["STRATEGIES"])
    del network.cells["up"]
    vars(network.cells[""]).clear()
    missing = found["apply"](network)
    assert "up: the network has no such cell" in missing
    assert ": 1 GeLU in the plan, 0 in the cell" in missing


def test_one_operator_that_is_called_twice_takes_a_strategy_that_both_calls_share() -> None:
    found = module(apply_module(known_space(wide_perceptron, 8).plan(split_like(0, 0, 0))))
    assert len(found["STRATEGIES"][""]["ReLU"]) == 2
    network = network_of(found["STRATEGIES"])
    network.cells[""] = SimpleNamespace(relu=Primitive("ReLU"))
    assert found["apply"](network) == []
    assert network.cells[""].relu.strategy == ((8, 1),)
    strategies = {"": {"ReLU": [((8, 1),), ((1, 8),)]}}
    assert found["apply"](network, strategies) == [": 2 ReLU in the plan, 1 in the cell"]


def test_calls_that_differ_follow_their_neighbours_if_asked() -> None:
    """All else has its strategy all the same, whatever stands behind it in the cell."""
    found = module(apply_module(known_space(wide_perceptron, 8).plan(split_like(0, 0, 0))))
    relu, add = ((8, 1),), ((8, 1), (8, 1))
    found["SHARED"] = {"": {"ReLU": relu}}
    given = {"": {"ReLU": [relu, ((1, 8),)], "Add": [add]}}
    for follow in (False, True):
        network = network_of(given)
        network.cells[""] = SimpleNamespace(relu=Primitive("ReLU"), add=Primitive("Add"))
        (line,) = found["apply"](network, given, follow=follow)
        assert line.endswith("follows its neighbours" if follow else "the commonest strategy")
        assert network.cells[""].relu.strategy == (None if follow else relu)
        assert network.cells[""].add.strategy == add


def test_attention_is_written_part_by_part() -> None:
    """Heads are cut in the products and the softmax inside."""
    plan = _attention_plan()
    kinds = operator_strategies(plan)[""]
    assert {"Transpose", "Add"} <= set(kinds)
    assert "Reshape" not in kinds


def _attention_plan() -> Plan:
    machine = named_cluster("atlas-800t-a2", 8)
    return search(attention_block(), machine, SearchRequest(dtype="fp16"))


def test_the_file_imports_nothing_and_holds_no_name_as_code() -> None:
    plan = known_space(wide_perceptron, 8).best
    graph = replace(plan.graph, name='x"""\nimport os\n"""\\')
    tree = ast.parse(apply_module(replace(plan, graph=graph)))
    assert not [n for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom)]


def test_how_the_inputs_arrive_is_in_the_file() -> None:
    found = module(apply_module(known_space(language_model, 16).best))
    assert (found["DEVICES"], found["DATASET_STRATEGY"]) == (16, ((16, 1),))


def test_weights_that_the_plan_leaves_whole_are_kept_from_the_optimizer() -> None:
    space = known_space(wide_perceptron, 16)
    shared = NamedLayout((("server", "card0", "card1", "card2"), ()))
    plan = space.plan(split_like(0, 0, 0, 0))
    tensors = tuple(
        replace(t, layout=shared) if t.name == "layers.1.weight" else t for t in plan.tensors
    )
    found = module(apply_module(replace(plan, tensors=tensors)))
    assert found["OPTIMIZER_SHARD_SIZE"] == -1
    assert found["WHOLE"] == {"layers.0.weight", "layers.2.weight"}
    network = network_of(found["STRATEGIES"])
    network.parameters = [
        SimpleNamespace(name=n, parallel_optimizer=True)
        for n in ("layers.0.weight", "layers.1.weight")
    ]
    found["apply"](network)
    assert [p.parallel_optimizer for p in network.parameters] == [False, True]
    plain = module(apply_module(plan))
    assert (plain["OPTIMIZER_SHARD_SIZE"], plain["WHOLE"]) == (0, set())


def test_cells_are_renamed_as_their_parameters_are(tmp_path: Any) -> None:
    file = tmp_path / "names.yaml"
    file.write_text(r"[{pattern: '(up|down)\.(weight|bias)', name: 'mlp.\1_proj.\2'}]")
    plan = known_space(language_model, 8).plan(split_like(0, 0, 0))
    names = names_for(plan, name_rules(str(file)))
    listed = operator_strategies(renamed(plan, names), names)
    assert {"mlp.up_proj", "mlp.down_proj", "norm", ""} <= set(listed)
    assert "up" not in listed


def test_the_example_for_cards_uses_names_that_the_file_has() -> None:
    """`make test-mindspore` compiles it; here it parses and asks for nothing else."""
    example = Path(__file__).parents[2] / "examples" / "run_on_ascend" / "train.py"
    tree = ast.parse(example.read_text())
    asked = {
        node.slice.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and node.value.id == "plan"
        and isinstance(node.slice, ast.Constant)
    }
    found = module(apply_module(known_space(wide_perceptron, 8).best))
    assert asked <= set(found)
    assert {"apply", "DATASET_STRATEGY", "OPTIMIZER_SHARD_SIZE"} <= asked


def test_a_plan_that_mindspore_cannot_follow_is_refused() -> None:
    request = SearchRequest(target="generic")
    plan = search(wide_perceptron(), named_cluster("atlas-800t-a2", 8), request)
    with pytest.raises(ExportError, match="dialect 'free'"):
        apply_module(plan)


@pytest.mark.parametrize(
    ("split", "result"),
    [
        ((0, 0, 0), ((1, 1, 1),)),
        ((0, 0, 1), ((1, 1, 2),)),
        ((2, 0, 0), None),  # MindSpore sums by itself where the indices are cut too
        ((2, 2, 2), None),
        ((1, 1, 1), None),
    ],
)
def test_a_lookup_in_rows_that_are_cut_leaves_its_result_whole(
    split: tuple[int, ...], result: Any
) -> None:
    """Told nothing, MindSpore scatters what it looks up over the devices of the table."""
    plan = known_space(language_model, 8).plan(split_like(0, 0, 0))
    axes = [name for name, _, _ in plan.mesh]
    operators = tuple(
        replace(o, split=tuple(zip(axes, split, strict=True))) if o.kind == "Gather" else o
        for o in plan.operators
    )
    rows, columns = (tuple(n for n, f in zip(axes, split, strict=True) if f == d) for d in (0, 1))
    tensors = tuple(
        replace(t, layout=NamedLayout((rows, columns))) if t.name == "embed.weight" else t
        for t in plan.tensors
    )
    found = module(apply_module(replace(plan, operators=operators, tensors=tensors)))
    network = network_of(found["STRATEGIES"])
    assert found["apply"](network) == []
    assert network.cells["embed"].p0.result == result
