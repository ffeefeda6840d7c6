"""Operators with a given rule, as MindSpore gets them."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from cli.export import target_losses
from exporters.formats import FORMATS
from exporters.mindspore.apply import apply_module, operator_strategies
from exporters.mindspore.checkpoint import losses, strategy_checkpoint
from exporters.mindspore.custom import custom_operators
from ir.graph import OpGraph
from ir.plan import Plan
from planner.pipeline.plan_builder import PlanBuilder
from planner.repricing.mindspore.checkpoint import checkpoint_only_choice, lowered_again
from tests.builders import GraphBuilder
from tests.exporters.random_plans import PlanSpace, known_space, split_like
from tests.exporters.small_networks import language_model, twisted_model

pytestmark = pytest.mark.fast


def weighted_model() -> OpGraph:
    """A custom operator that reads a weight, a number and nothing, and sums over its columns."""
    build = GraphBuilder("weighted_model")
    x = build.input("x", (16, 64))
    scale = build.weight("scale.weight", (64, 32))
    x = build.op("ours::Blend", (x, scale), (16, 32), sharding_rule="b s, s t -> b t")
    return build.build(build.op("Relu", (x,), (16, 32)))


def plan_of(make: Any, *factors: int) -> Plan:
    return known_space(make, 8).plan(split_like(*factors))


@dataclass
class Primitive:
    """As much of MindSpore's as the file uses."""

    name: str
    attributes: dict[str, object] = field(default_factory=dict)
    given: tuple[object, ...] = ()

    def add_prim_attr(self, key: str, value: object) -> None:
        self.attributes[key] = value

    def shard(self, *given: object) -> None:
        self.given = given


@dataclass
class Network:
    cells: dict[str, SimpleNamespace]

    def cells_and_names(self) -> Any:
        return self.cells.items()

    def get_parameters(self) -> list[Any]:
        return []


class Layout:
    """MindSpore's: sizes and names of axes; called with axes it is the layout of a tensor."""

    def __init__(self, sizes: tuple[int, ...], names: tuple[str, ...]) -> None:
        self.sizes, self.names = sizes, names

    def __call__(self, *dims: object) -> tuple[object, ...]:
        assert all(d == "None" or d in self.names or set(d) <= set(self.names) for d in dims)  # type: ignore[call-overload]
        return dims


@pytest.fixture
def mindspore(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("mindspore")
    module.Layout = Layout  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mindspore", module)


def applied(plan: Plan, network: Network) -> list[str]:
    found: dict[str, Any] = {}
    exec(compile(apply_module(plan), "apply_mindspore.py", "exec"), found)
    missing: list[str] = found["apply"](network)
    return missing


def test_the_layouts_of_the_plan_reach_the_primitive(mindspore: None) -> None:
    plan = plan_of(twisted_model, 0, 0, 1)
    twist = Primitive("Twist")
    network = Network({"": SimpleNamespace(twist=twist), "up": SimpleNamespace()})
    missing = applied(plan, network)
    assert not any("Twist" in line for line in missing)
    assert twist.attributes == {"self_define_shard": True}
    axes = [name for name, size, _ in plan.mesh if size > 1]
    wanted = ((tuple(axes[:2]), axes[2]),)
    assert twist.given == (wanted, wanted)


def test_a_weight_is_laid_out_as_it_is_stored_and_whole_dims_are_none(mindspore: None) -> None:
    plan = plan_of(weighted_model, 0, 0, 2)
    blend = Primitive("Blend")
    network = Network({"scale": SimpleNamespace(blend=blend), "": SimpleNamespace()})
    applied(plan, network)
    first, second, third = (name for name, size, _ in plan.mesh if size > 1)
    inputs, results = blend.given
    assert inputs == (((first, second), "None"), ("None", third))
    assert results == (((first, second), third),)


def test_what_the_network_lacks_is_said() -> None:
    plan = plan_of(twisted_model, 0, 0, 1)
    missing = applied(plan, Network({"": SimpleNamespace(), "up": SimpleNamespace()}))
    assert ": 1 Twist in the plan, 0 in the cell" in missing


def test_it_has_no_strategy_and_no_key_in_the_checkpoint() -> None:
    plan = plan_of(weighted_model, 0, 0, 2)
    kinds = {kind for kinds in operator_strategies(plan).values() for kind in kinds}
    assert kinds == {"ReLU"}
    checkpoint = strategy_checkpoint(plan)
    assert checkpoint.strategies == ()
    assert [layout.name for layout in checkpoint.layouts] == ["scale.weight"]


def test_it_is_told_once_what_the_network_must_do() -> None:
    plan = plan_of(twisted_model, 0, 0, 1)
    (loss,) = [each for each in losses(plan) if "Twist" in each]
    assert loss.startswith("1 x custom::Twist, such as 'op_custom::twist_1': MindSpore splits")
    assert "primitives named 'Twist'" in loss
    assert "sums" not in loss
    assert FORMATS["mindspore-apply"].losses(plan, None) == (loss,)
    assert [each for each in target_losses(plan, "mindspore") if "Twist" in each] == [loss]


def test_a_sum_that_nobody_adds_up_is_told() -> None:
    space = known_space(weighted_model, 8)
    found = [
        loss
        for factors in ((0, 0, 0), (1, 1, 1))
        for loss in losses(with_collectives(space, factors))
    ]
    assert "add up themselves" not in found[0]
    assert found[1].endswith(
        "their results are sums over devices, which they must add up themselves"
    )


def with_collectives(space: PlanSpace, factors: tuple[int, ...]) -> Plan:
    """The plan with the messages inside operators that its splits take."""
    plan = space.plan(split_like(*factors))
    chosen = {op.name: tuple(f for _, f in op.split) for op in plan.operators}
    choice = [
        list(node.candidates.assignments).index(chosen[node.name]) if node.candidates else 0
        for node in space.lowered.nodes
    ]
    return replace(plan, collectives=PlanBuilder(space.lowered, choice).collectives())


def test_other_networks_have_none() -> None:
    plan = plan_of(language_model, 0, 0, 0)
    assert list(custom_operators(plan)) == []
    assert "CUSTOM" not in apply_module(plan)


def test_on_one_device_nothing_is_to_be_said() -> None:
    plan = known_space(twisted_model, 1).best
    assert losses(plan) == ()
    assert "CUSTOM" not in apply_module(plan)


def test_from_the_checkpoint_alone_it_is_split_by_batch() -> None:
    plan = plan_of(weighted_model, 0, 0, -1)
    lowered = lowered_again(plan)
    assert lowered is not None
    choice = checkpoint_only_choice(plan, lowered)
    assert choice is not None
    (at,) = [i for i, node in enumerate(lowered.nodes) if node.name == "op_ours::blend_0"]
    node = lowered.nodes[at]
    assert node.candidates is not None
    assert node.assignment(choice[at]) == (0, 0, 0)
