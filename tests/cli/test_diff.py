"""`planner diff`: in what two plans differ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ir.plan import NamedLayout, Plan
from ir.plan_file import plan_to_json

Planner = Callable[..., Any]

WHOLE = NamedLayout(((), ()))


def saved(plan: Plan, path: Path) -> Path:
    path.write_text(plan_to_json(replace(plan, digest=plan.graph.digest())))
    return path


@pytest.fixture
def changed(plan: Plan) -> Plan:
    """Faster, smaller, with whole weights and another target."""
    estimate = replace(
        plan.estimate,
        step_time_s=2.0,
        time_by_cause={"compute forward": 1.5, "all_reduce in card": 0.5},
        peak_memory_bytes=1.0 * 2**30,
        memory_by_cause={"weights": 1.0 * 2**30},
    )
    operators = tuple(
        replace(op, inputs=(op.inputs[0], WHOLE)) if op.kind == "MatMul" else op
        for op in plan.operators
    )
    tensors = tuple(replace(t, used=WHOLE) for t in plan.tensors)
    request = {**plan.request, "target": "jax"}
    return replace(plan, estimate=estimate, operators=operators, tensors=tensors, request=request)


TEXT = """\
A takes 3 s, B 2 s: B is 1.5 x faster

Request and result
        A        B
target  generic  jax

Time
cause                                       A       B    B - A
all-reduce over links between cards    500 ms  500 ms     same
all-gather over links between cards    500 ms       -  -500 ms
all-gather over links between servers     1 s       -     -1 s
compute forward                           1 s   1.5 s  +500 ms
step                                      3 s     2 s     -1 s

Peak memory of a device
cause            A      B   B - A
activations  2 GiB      -  -2 GiB
weights      1 GiB  1 GiB    same
peak         3 GiB  1 GiB  -2 GiB

Operators with other layouts
pattern               count     layouts
MatMul layers.*.proj      2  A  [all,-], [-,card] -> [-,-,-]+card
                             B  [all,-], [-,-] -> [-,-,-]+card

Parameters with other layouts
pattern               count     layouts
layers.*.proj.weight      2  A  [server*card0,card1] -> [-,card1]
                             B  [server*card0,card1] -> [-,-]
"""


def test_the_difference_reads_like_this(
    plan: Plan, changed: Plan, planner: Planner, tmp_path: Path
) -> None:
    run = planner("diff", saved(plan, tmp_path / "a.json"), saved(changed, tmp_path / "b.json"))
    assert run.code == 0
    first, second, rest = run.out.split("\n", 2)
    assert (first, second) == (f"A: {tmp_path}/a.json", f"B: {tmp_path}/b.json")
    assert rest == TEXT


@pytest.mark.fast
def test_the_other_way_round_the_other_is_faster(
    plan: Plan, changed: Plan, planner: Planner, tmp_path: Path
) -> None:
    run = planner("diff", saved(changed, tmp_path / "b.json"), saved(plan, tmp_path / "a.json"))
    assert "A takes 2 s, B 3 s: A is 1.5 x faster" in run.out


def test_a_plan_equals_itself(plan: Plan, planner: Planner, tmp_path: Path) -> None:
    path = saved(plan, tmp_path / "a.json")
    run = planner("diff", path, path)
    assert run.code == 0
    assert run.out.endswith("The plans are equal: 5 operators and parameters, time, memory.\n")
    found = planner("diff", path, path, "--json").json
    assert found["equal"] is True
    assert found["facts"] == found["operators"] == found["parameters"] == []


def test_json_says_the_same(plan: Plan, changed: Plan, planner: Planner, tmp_path: Path) -> None:
    paths = saved(plan, tmp_path / "a.json"), saved(changed, tmp_path / "b.json")
    found = planner("diff", *paths, "--json").json
    assert found["equal"] is False
    assert found["step_time_s"] == {"name": "step", "first": 3.0, "second": 2.0}
    assert found["operators"] == [
        {
            "name": "MatMul layers.*.proj",
            "count": 2,
            "compute_s": 0.5,
            "first": "[all,-], [-,card] -> [-,-,-]+card",
            "second": "[all,-], [-,-] -> [-,-,-]+card",
        }
    ]
    assert [(f["name"], f["first"], f["second"]) for f in found["facts"]] == [
        ("target", "generic", "jax")
    ]


def test_other_meshes_of_the_same_tiers_are_no_other_layouts(
    plan: Plan, planner: Planner, tmp_path: Path
) -> None:
    """Axes are compared by what they are short for."""

    def joined(layout: NamedLayout | None) -> NamedLayout | None:
        if layout is None:
            return None
        dims = tuple(tuple(a for a in d if a != "card1") for d in layout.dims)
        return NamedLayout(dims, tuple(a for a in layout.partial if a != "card1"))

    both = replace(
        plan,
        operators=tuple(replace(op, split=()) for op in plan.operators),
        tensors=tuple(replace(t, layout=WHOLE, used=WHOLE) for t in plan.tensors),
        collectives=(),
    )
    coarse = replace(
        both,
        mesh=(("server", 2, 0), ("card0", 4, 1)),
        operators=tuple(
            replace(
                op, inputs=tuple(map(joined, op.inputs)), outputs=tuple(map(joined, op.outputs))
            )
            for op in both.operators
        ),
    )
    paths = saved(both, tmp_path / "a.json"), saved(coarse, tmp_path / "b.json")
    found = planner("diff", *paths, "--json").json
    assert [f["name"] for f in found["facts"]] == ["mesh"]
    assert found["operators"] == found["parameters"] == []


def test_different_models_can_be_compared(
    plan: Plan, mlp: Path, planner: Planner, tmp_path: Path
) -> None:
    planner("search", mlp, "--devices", 8, "-o", tmp_path / "b")
    run = planner("diff", saved(plan, tmp_path / "a.json"), tmp_path / "b" / "plan.json")
    assert run.code == 0
    assert "5 operators and parameters of A are not in B." in run.out


@pytest.mark.parametrize("place", [0, 1])
def test_what_is_no_plan_is_refused(
    place: int, plan: Plan, planner: Planner, tmp_path: Path
) -> None:
    paths = [saved(plan, tmp_path / "a.json"), saved(plan, tmp_path / "b.json")]
    paths[place].write_text("{}")
    run = planner("diff", *paths)
    assert (run.code, run.out) == (2, "")
    assert f"{paths[place]} is not a plan" in run.err
