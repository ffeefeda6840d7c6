"""`--pin` from the outside: what it holds, what it says, and one clear error for a bad one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.errors import UserError
from ir.plan_file import read_plan
from planner.requests.option_texts import MAX_SHOWN, pins
from planner.solvers import SOLVERS

Planner = Callable[..., Any]


def test_names_may_hold_equals_signs_and_pins_are_said_once() -> None:
    assert pins(["a=b=((2,4),(4,1))", " c = [[1, 2], []]", "a=b=((2,4),(4,1))"]) == (
        ("a=b", ((2, 4), (4, 1))),
        ("c", ((1, 2), ())),
    )
    assert pins([]) == ()


@pytest.mark.parametrize(
    "text",
    ["", "x", "=((1,),)", "x=", "x=2", "x=(2,4)", "x=((2.5,))", "x=((0,1),)", "x=((-1,),)",
     "x=((2,4)", "x=((2,4),(a,))", "x=((True,),)", "x=" + "(" * 5000, "x=" + "1" * 20_000],
)  # fmt: skip
def test_a_text_that_pins_nothing_is_refused(text: str) -> None:
    with pytest.raises(UserError, match=r"(?s)pins no operator.*fix: write the operator's name"):
        pins([text])


def test_a_long_text_is_not_repeated() -> None:
    with pytest.raises(UserError) as error:
        pins(["x=" + "1" * 20_000])
    assert len(str(error.value)) < MAX_SHOWN + 300


@pytest.mark.parametrize("solver", ["portfolio", "propagation", "recursive_bisection"])
def test_a_pinned_operator_is_in_the_summary_and_in_the_plan(
    solver: str, mlp: Path, planner: Planner, tmp_path: Path
) -> None:
    run = planner(
        "search", mlp, "--devices", 4, "--solver", solver, "-o", tmp_path / "plan",
        "--pin", "MatMul *=((1,2),(2,2))",
    )  # fmt: skip
    assert run.code == 0, run.err
    assert "- pinned by --pin 'MatMul *=((1,2),(2,2))': 2 x MatMul" in run.out
    plan = read_plan(tmp_path / "plan" / "plan.json")
    assert plan.request["pins"] == [["MatMul *", [[1, 2], [2, 2]]]]
    assert plan.bound.solver == solver
    sizes = {name: size for name, size, _ in plan.mesh}
    for op in plan.operators:
        if op.kind == "MatMul":
            layouts = [layout for layout in op.inputs if layout is not None]
            shards = [[len(dim) and sizes[dim[0]] for dim in layout.dims] for layout in layouts]
            assert shards == [[0, 2], [2, 2]]
    shown = planner("show", tmp_path / "plan" / "plan.json")
    assert "pinned by --pin" in shown.out


def test_pinning_costs_what_it_forbids(mlp: Path, planner: Planner) -> None:
    free = planner("search", mlp, "--devices", 4, "--json").json
    held = planner("search", mlp, "--devices", 4, "--json", "--pin", "MatMul *=((1,1),(1,1))").json
    assert held["step_time_s"] > free["step_time_s"]
    assert held["bound_s"] >= free["bound_s"]


@pytest.mark.parametrize(
    ("text", "what", "fix"),
    [
        ("nonsense", "pins no operator", "write the operator's name"),
        ("MatMull=((1,1),(1,1))", "the model has no operator 'MatMull'", "fix: use a name"),
        ("MatMul *=((4,1),)", "has other inputs than 1 with 2 dims", "give one cut for each"),
        (
            "MatMul *=((4,1),(1,))",
            "has other inputs than 2 with 2, 1 dims",
            "such as ((1,1),(1,1))",
        ),
        ("MatMul *=((3,1),(1,1))", "3 pieces of x do not divide the 4 devices", "that exist: (("),
        ("MatMul *=((2,2),(1,1))", "which goes with it, 1 ways", "that exist: (("),
        ("*=((2,2),)", "'*' names operators of", "put the kind before the name"),
    ],
)
def test_a_bad_pin_is_one_clear_error(
    text: str, what: str, fix: str, mlp: Path, planner: Planner, tmp_path: Path
) -> None:
    out = tmp_path / "plan"
    run = planner("search", mlp, "--devices", 4, "--pin", text, "-o", out)
    assert (run.code, run.out) == (2, "")
    assert run.err.count("error: ") == 1
    assert what in run.err
    assert fix in run.err
    assert "  at:  --pin" in run.err
    assert "Traceback" not in run.err
    assert not list(out.glob("*")) if out.exists() else True


def test_help_and_documentation_name_every_solver(planner: Planner) -> None:
    said = planner("search", "--help-all").out
    page = (Path(__file__).parents[2] / "docs" / "concepts.md").read_text(encoding="utf-8")
    assert [name for name in SOLVERS if name not in said.replace("-\n", "")] == []
    assert [name for name in SOLVERS if f"`{name}`" not in page] == []
