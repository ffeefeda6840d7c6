"""XLA computes what plans compute, and sends what they promise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from executors.jax import judge
from executors.judgement import Judgement
from executors.reference import given_tensors
from executors.values import numbers
from executors.verdict import compared, only_one_has
from ir.plan import NamedLayout, Plan
from planner.request import SearchRequest
from planner.search import search
from tests.builders import GraphBuilder
from tests.judges.schemes import DATA, SCHEMES, SEARCHED, SHARDED, STATES, TENSOR, TWO_D, plans
from tests.judges.xla_models import SMALL
from topology.catalogue import named_cluster

BOTH = (False, True)
KEPT_WHOLE = ("gpt2", STATES)
"""XLA adds up the gradient of the table of positions whole, cuts its share out of it, and has no
need to gather: one all-reduce in place of both messages, of as many bytes over the links.
"""


def _cases() -> Iterator[tuple[str, int, bool, str]]:
    """Everything where compiling is quick, else training, and forward what moves most."""
    for name, devices in (("mlp", 8), ("mlp", 16), ("attention", 16), ("mixtral", 8)):
        yield from ((name, devices, training, s) for training in BOTH for s in SCHEMES)
    for name in ("gpt2", "resnet50"):
        yield from ((name, 8, True, s) for s in SCHEMES if (name, s) != KEPT_WHOLE)
        yield from ((name, 8, False, s) for s in (TENSOR, SHARDED))


@cache
def judged_plans(name: str, devices: int, training: bool) -> dict[str, Plan]:
    return SMALL[name].plans(devices, training=training)


@pytest.mark.parametrize(("name", "devices", "training", "scheme"), list(_cases()))
def test_xla_confirms_numbers_and_bytes(
    name: str, devices: int, training: bool, scheme: str
) -> None:
    """Outputs and gradients to rounding of double precision, bytes of every kind within 2 %."""
    plan = judged_plans(name, devices, training)[scheme]
    found = judge(plan, SMALL[name].values(plan))
    assert found.passed, report(found)
    assert found.outputs
    assert found.tolerance == 1e-6


@pytest.mark.parametrize(
    ("step", "kernel", "pads"),
    [(1, 3, (1, 1)), (2, 3, (1, 0)), (2, 3, (0, 1)), (1, 5, (2, 2)), (2, 4, (1, 1))],
)
def test_xla_exchanges_the_edges_of_convolutions(
    step: int, kernel: int, pads: tuple[int, int]
) -> None:
    """Pools are slices in this judge's form, whose edges XLA does not send alone."""
    build = GraphBuilder("strips")
    dims = (2, 4, 16 * step, 64 * step)
    operands = (build.input("x", dims), build.weight("w", (4, 4, kernel, kernel)))
    before, behind = pads
    graph = build.build(
        build.op(
            "Conv", operands, (2, 4, 16, 64), kernel_shape=(kernel,) * 2, strides=(step,) * 2,
            pads=(before, before, behind, behind), dilations=(1, 1), group=1,
        )
    )  # fmt: skip
    name, cuts = graph.ops[0].name, ((1, 1, 1, 4), (1,) * 4)
    request = SearchRequest(
        training=False, target="jax", pins=((name, cuts),), dataset_strategy=((1, 1, 1, 4),)
    )
    plan = search(graph, named_cluster("atlas-800t-a2", 4), request)
    assert [item.kind for item in plan.collectives] == ["point_to_point"]
    found = judge(plan, numbers(plan.graph, given_tensors(plan), {}))
    assert found.passed, report(found)


def report(found: Judgement) -> str:
    """What a judgement complains of."""
    wrong = [o for o in found.outputs if o.error > found.tolerance]
    return "\n".join(map(str, (*found.differences, *wrong, *found.not_run.items())))


def test_every_scheme_is_a_plan_of_its_own() -> None:
    """The six plans of a model are there, and no two of them send the same."""
    found = judged_plans("mlp", 16, True)
    assert list(found) == [DATA, TENSOR, TWO_D, SHARDED, STATES, SEARCHED]
    sent = {tuple((c.kind, c.group_size, c.nbytes) for c in p.collectives) for p in found.values()}
    assert len(sent) == len(SCHEMES)


def with_input(plan: Plan, operator: str, operand: int, layout: NamedLayout) -> Plan:
    """The plan with another layout of one operand, and nothing else changed."""
    changed = [
        replace(
            op,
            inputs=tuple(layout if i == operand else x for i, x in enumerate(op.inputs)),
        )
        if op.name == operator
        else op
        for op in plan.operators
    ]
    return replace(plan, operators=tuple(changed))


@pytest.mark.parametrize("training", BOTH)
def test_a_layout_changed_behind_the_planners_back_is_reported(training: bool) -> None:
    """The second product reads what the first device made whole, not split as planned."""
    plan = judged_plans("mlp", 8, training)[DATA]
    bad = with_input(plan, "op_matmul_2", 0, NamedLayout(((), ("card",))))
    assert judge(plan, SMALL["mlp"].values(plan)).passed
    found = judge(bad, SMALL["mlp"].values(bad))
    assert found.differences
    assert not found.passed


def test_a_weight_that_rests_elsewhere_than_planned_is_reported() -> None:
    """Weights that the plan gathers lie whole on every device: nothing is gathered."""
    plan = judged_plans("attention", 16, False)[SHARDED]
    whole = tuple(
        replace(t, layout=NamedLayout(((),) * len(t.dims))) if t.role == "parameter" else t
        for t in plan.tensors
    )
    empty = replace(plan, tensors=whole, collectives=())
    found = judge(replace(empty, collectives=plan.collectives), SMALL["attention"].values(plan))
    assert found.passed, "the way of the plan goes through the layouts that it lists"
    found = judge(empty, SMALL["attention"].values(plan))
    assert not found.differences, "a plan that promises nothing and sends nothing"
    found = judge(replace(empty, tensors=plan.tensors), SMALL["attention"].values(plan))
    assert [c.kind for c in found.differences] == ["all_gather"]


@pytest.mark.parametrize("factor", [0.97, 1.03])
def test_a_promise_of_other_bytes_is_reported(factor: float) -> None:
    """3 % more or less than XLA sends are too much."""
    plan = judged_plans("mlp", 8, True)[DATA]
    other = [replace(c, nbytes=c.nbytes * factor) for c in plan.collectives]
    found = judge(replace(plan, collectives=tuple(other)), SMALL["mlp"].values(plan))
    assert [c.kind for c in found.differences] == ["all_reduce"]


def test_wrong_numbers_are_reported() -> None:
    """An output that is off by more than rounding, and one that only one side has."""
    plan = judged_plans("mlp", 8, False)[DATA]
    values = SMALL["mlp"].values(plan)
    expected = {"y": values["x"], "z": values["x"]}
    found = {"y": values["x"] + 1e-5}
    outputs = compared(expected, found, 1e-6)
    assert [o.name for o in outputs] == ["y"]
    assert outputs[0].error > 1e-6
    assert only_one_has(expected, found) == ["z"]


def test_an_operator_without_a_form_is_named() -> None:
    """What JAX cannot run fails the judgement and says why."""
    build = GraphBuilder("odd")
    x = build.input("x", (8, 4))
    y = build.op("MatMul", (x, build.weight("w", (4, 4))), (8, 4))
    graph = build.build(build.op("BitShift", (y, y), (8, 4), direction="LEFT"))
    plan = plans(graph, 8, SearchRequest(target="jax", training=False), wanted=[SEARCHED])[SEARCHED]
    found = judge(plan, {"x": np.ones((8, 4)), "w": np.ones((4, 4))})
    assert not found.passed
    assert "BitShift has no form in JAX" in found.not_run["the program"]


def test_memory_is_that_of_one_device() -> None:
    """In the plan's own type: arguments at least, and less where weights are split."""
    found: dict[str, float] = {}
    for scheme in (DATA, SHARDED):
        plan = judged_plans("mlp", 8, False)[scheme]
        values = SMALL["mlp"].constants(plan)
        found[scheme] = judge(plan, values, numbers=False, double=False).memory_bytes or 0.0
    weights = 4 * 256 * 1024 * 4
    assert found[DATA] > weights
    assert found[SHARDED] > weights / 8
