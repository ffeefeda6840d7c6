"""`planner show`: the summary from the file alone, one operator, and the report."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cli.plan_text import plan_parts
from cli.text import page, show
from ir.plan import Plan
from ir.plan_file import plan_to_json

Planner = Callable[..., Any]


@pytest.fixture
def path(plan: Plan, tmp_path: Path) -> Path:
    """The plan made by hand, as a file."""
    target = tmp_path / "plan.json"
    target.write_text(plan_to_json(replace(plan, digest=plan.graph.digest())))
    return target


OPERATOR = """\
MatMul op0
  at m.layers.0.proj
  computes 250 ms in a step, 25.0 % of all operators
  server: dimension 0 of operand 0
  card0: dimension 1 of operand 1, leaves the result terms of a sum

Operands
ids 8x16 int64: [server,-] of 4x16
m.layers.0.proj.weight 1024x1024 bfloat16: [-,card] of 1024x256
  at rest [server*card0,card1]

Results
h0 8x16x1024 bfloat16: [-,-,-]+card of 8x16x1024

Collectives
collective  count  bytes  exposed  hidden  over        for
all-gather      2   10 B   500 ms     0 s  server (2)  forward h0
"""


def by_hand(plan: Plan) -> Plan:
    """With what an operator can have."""
    first = plan.operators[0]
    layout = replace(plan.tensors[0].layout, dims=(("server",), ()))
    op = replace(first, split=(("server", 0), ("card0", 1)), inputs=(layout, first.inputs[1]))
    item = replace(plan.collectives[3], nbytes=10.0, tensor="h0")
    return replace(
        plan, operators=(op, *plan.operators[1:]), collectives=(*plan.collectives[:3], item)
    )


def test_the_summary_is_that_of_the_search(mlp: Path, planner: Planner, tmp_path: Path) -> None:
    searched = planner("search", mlp, "--devices", 8, "--target", "generic", "-o", tmp_path).out
    shown = planner("show", tmp_path / "plan.json")
    assert shown.code == 0
    assert searched.startswith(shown.out)
    assert searched[len(shown.out) :].lstrip("\n").startswith("Written\n")


def test_the_summary_comes_from_the_file_alone(path: Path, plan: Plan, planner: Planner) -> None:
    stream = io.StringIO()
    with page(stream) as out:
        show(plan_parts(plan, []), out)
    assert planner("show", path).out == stream.getvalue()


def test_json_is_that_of_the_search(mlp: Path, planner: Planner, tmp_path: Path) -> None:
    searched = planner("search", mlp, "--devices", 8, "-o", tmp_path, "--json").json
    shown = planner("show", tmp_path / "plan.json", "--json").json
    assert shown == {**searched, "files": []}


@pytest.mark.fast
@pytest.mark.parametrize("name", ["op0", "m.layers.0.proj", "layers.0.proj"])
def test_one_operator_reads_like_this(name: str, path: Path, plan: Plan, planner: Planner) -> None:
    changed = by_hand(plan)
    path.write_text(plan_to_json(replace(changed, digest=plan.graph.digest())))
    run = planner("show", path, "--op", name)
    assert run.code == 0
    assert run.out == OPERATOR


def test_one_operator_as_json(path: Path, planner: Planner) -> None:
    facts = planner("show", path, "--op", "op0", "--json").json
    assert facts["name"] == "op0"
    assert facts["compute_s"] == 0.25
    assert [port["tensor"] for port in facts["operands"]] == ["ids", "m.layers.0.proj.weight"]
    assert facts["results"][0]["layout"] == "[-,-,-]+card"


def test_neighbours_are_named(path: Path, planner: Planner) -> None:
    facts = planner("show", path, "--op", "op1", "--json").json
    assert facts["results"][0]["neighbours"] == ["read by end [all,-,-]"]
    facts = planner("show", path, "--op", "end", "--json").json
    assert facts["operands"][0]["neighbours"] == ["made by op1 [-,-,-]+card"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("op7", "the closest are op1, op0"),
        ("m.layer.0.proj", "m.layers.0.proj"),
        ("zzzzzzzzz", "--format table"),
    ],
)
def test_an_unknown_operator_gets_the_closest(
    name: str, words: str, path: Path, planner: Planner
) -> None:
    run = planner("show", path, "--op", name)
    assert (run.code, run.out) == (2, "")
    assert f"the plan has no operator {name!r}" in run.err
    assert words in run.err


def test_a_scope_of_several_operators_names_them(path: Path, plan: Plan, planner: Planner) -> None:
    ops = tuple(replace(op, scope="m.block") for op in plan.graph.ops)
    changed = replace(plan, graph=replace(plan.graph, ops=ops))
    path.write_text(plan_to_json(replace(changed, digest=changed.graph.digest())))
    run = planner("show", path, "--op", "m.block")
    assert run.code == 2
    assert "3 operators have the scope 'm.block'" in run.err
    assert "name one of op0, op1, end" in run.err


def test_the_report_is_written_and_named(path: Path, planner: Planner) -> None:
    target = path.parent / "deep" / "report.html"
    run = planner("show", path, "--html", target)
    assert run.code == 0
    assert run.out.endswith(f"Written\n{target}\n")
    assert target.read_text().startswith("<!doctype html>")
    assert planner("show", path, "--html", target, "--json").json["files"] == [str(target)]


@pytest.mark.parametrize("text", ["", "{}", '{"format": "parallel-plan", "version": 2}'])
def test_what_is_no_plan_is_refused(text: str, planner: Planner, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(text)
    run = planner("show", tmp_path / "plan.json", "--html", tmp_path / "x.html", "--json")
    assert run.code == 2
    assert json.loads(run.out)["status"] == "error"
    assert [p.name for p in tmp_path.iterdir()] == ["plan.json"]
