"""The real MindSpore inserts the collectives that plans promise, on a dozen networks."""

from __future__ import annotations

import functools
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from executors.mindspore import judge as mindspore
from executors.mindspore.judge import MindsporeError, compiled, judge, judgement_of
from executors.mindspore.messages import Message, emitted
from executors.reference import given_tensors
from executors.values import numbers
from ir.batch import BatchError
from ir.plan import NamedLayout, Plan, PlannedOperator
from planner.request import SearchRequest
from planner.search import search
from tests.builders import GraphBuilder
from tests.cases.nets import bert
from tests.executors.drawn_plans import drawn_plan
from tests.exporters.small_networks import language_model
from tests.judges.mindspore_graphs import GRAPHS
from tests.judges.schemes import DATA, SHARDED, STATES, TENSOR
from tests.judges.schemes import plans as schemes
from topology.catalogue import named_cluster

PYTHON = Path(os.environ.get("PLANNER_MINDSPORE_PYTHON", mindspore.PYTHON))
DEVICES = 8
DRAWN = (0, 1, 2)
NETS = "tests.judges.mindspore_nets"
REQUEST = SearchRequest(fused_attention=False)
"""Attention in small operators, as the networks have it."""


@functools.cache
def plans() -> Mapping[str, Plan]:
    """The searched plan of each graph, `<graph>_0`, and drawn ones."""
    cluster = named_cluster("atlas-800t-a2", DEVICES)
    out: dict[str, Plan] = {}
    for name, make in GRAPHS.items():
        out[f"{name}_0"] = search(make(), cluster, REQUEST)
        out |= {f"{name}_{s + 1}": drawn_plan(make(), DEVICES, REQUEST, s) for s in DRAWN}
    return out


def results(found: Mapping[str, Plan], **how: Any) -> Mapping[str, dict[str, Any]]:
    """What MindSpore made of plans; one process compiles them."""
    done = compiled(list(found.values()), {}, python=PYTHON, names=list(found), **how)
    return dict(zip(found, done, strict=True))


@pytest.mark.slow
def test_mindspore_sends_what_plans_promise() -> None:
    done = results(plans(), pinned=True)
    found = {name: judgement_of(plan, done[name]) for name, plan in plans().items()}
    assert {n: (j.not_run, j.notes[-5:]) for n, j in found.items() if not j.passed} == {}
    assert all(j.comparisons for j in found.values())


@pytest.mark.slow
def test_plans_that_people_use_need_no_pins() -> None:
    """Searched ones, and the schemes that a graph has: without a batch to follow it has none."""
    used = {name: plan for name, plan in plans().items() if name.endswith("_0")}
    for name, make in GRAPHS.items():
        with suppress(BatchError):
            found = schemes(make(), DEVICES, REQUEST, wanted=(DATA, TENSOR, SHARDED, STATES))
            used |= {f"{name}_{s.split()[0]}": plan for s, plan in found.items()}
    assert len(used) == 48
    done = results(used)
    judged = {name: judgement_of(plan, done[name]) for name, plan in used.items()}
    assert {n: (j.not_run, j.notes[-5:]) for n, j in judged.items() if not j.passed} == {}


@pytest.mark.slow
def test_the_translation_is_what_an_engineer_writes() -> None:
    ours, theirs = results(plans()), results(plans(), module=NETS)
    assert {n: r["error"] for done in (ours, theirs) for n, r in done.items() if r["error"]} == {}
    assert [name for name in ours if counted(ours[name]) != counted(theirs[name])] == []


def counted(result: Mapping[str, Any]) -> Counter[tuple[Any, ...]]:
    return Counter((c["kind"], tuple(c["ranks"]), c["nbytes"]) for c in result["collectives"])


def test_the_plans_are_no_trivial_ones() -> None:
    kinds = Counter(c.kind for plan in plans().values() for c in plan.collectives)
    assert min(kinds[k] for k in ("all_gather", "all_reduce", "all_to_all", "reduce_scatter")) > 50
    shared = [t for plan in plans().values() for t in plan.parameters if t.layout != t.used]
    assert len(shared) > 10


@pytest.mark.slow
def test_without_exchanges_everything_is_gathered() -> None:
    request = replace(REQUEST, all_to_all=False)
    graphs = ("perceptron", "convolutions", "embedded_perceptron", "mismatched_edges")
    drawn = [drawn_plan(GRAPHS[name](), DEVICES, request, 3) for name in graphs]
    for plan, result in zip(drawn, compiled(drawn, {}, python=PYTHON, pinned=True), strict=True):
        judgement = judgement_of(plan, result)
        assert judgement.passed, judgement.notes
        assert not any(t.kind == "all_to_all" for t in judgement.emitted)


@pytest.mark.slow
@pytest.mark.parametrize("training", [True, False])
def test_models_with_composites_and_constants(training: bool) -> None:
    request = SearchRequest(training=training)
    found = [
        drawn_plan(graph, DEVICES, request, seed)
        for graph in (language_model(), bert(16, 32, 64, 128, layers=1))
        for seed in (0, 1)
    ]
    values = {n: a for p in found for n, a in numbers(p.graph, given_tensors(p), {}).items()}
    done = compiled(found, values, python=PYTHON, pinned=True)
    for plan, result in zip(found, done, strict=True):
        judgement = judgement_of(plan, result)
        assert judgement.passed, (judgement.notes, judgement.not_run)


@pytest.mark.slow
def test_a_layout_that_was_changed_shows() -> None:
    plan = plans()["perceptron_0"]
    changed = replaced(plan, "op_relu_1", NamedLayout((("card0", "card1", "card2"), ())))
    kept = judge(plan, {}, python=PYTHON)
    judgement = judge(changed, {}, python=PYTHON)
    assert kept.passed
    assert not judgement.passed
    assert judgement.differences
    assert any(note.startswith("only MindSpore has") for note in judgement.notes)


@pytest.mark.slow
def test_a_group_of_other_ranks_shows() -> None:
    """As large and with as many bytes, so that only its ranks tell."""
    plan = plans()["perceptron_1"]
    index, item = next(
        (i, c)
        for i, c in enumerate(plan.collectives)
        if c.cause == "gradient sync" and c.kind == "all_reduce" and c.group_size == 4
    )
    free = tuple(name for name, _, _ in plan.mesh if name not in item.axes)
    other = replace(item, axes=(*item.axes[1:], *free))
    collectives = (*plan.collectives[:index], other, *plan.collectives[index + 1 :])
    judgement = judge(replace(plan, collectives=collectives), {}, python=PYTHON)
    assert any(" of ranks " in each.kind for each in judgement.differences)


def replaced(plan: Plan, name: str, layout: NamedLayout) -> Plan:
    """The plan with other layouts of an operator, and nothing else changed."""

    def mended(operator: PlannedOperator) -> PlannedOperator:
        if operator.name != name:
            return operator
        return replace(operator, inputs=(layout,), outputs=(layout,))

    return replace(plan, operators=tuple(mended(each) for each in plan.operators))


@pytest.mark.slow
def test_what_cannot_be_translated_is_named() -> None:
    build = GraphBuilder("strange")
    x = build.op("MatMul", (build.input("x", (16, 8)), build.weight("w", (8, 8))), (16, 8))
    x = build.op("CumSum", (x,), (16, 8), axis=1)
    graph = build.build(build.op("Relu", (x,), (16, 8)))
    judgement = judge(drawn_plan(graph, DEVICES, REQUEST, 0), {}, python=PYTHON)
    assert list(judgement.not_run) == ["op_cumsum_1"]
    assert not judgement.passed


def test_a_plan_for_another_target_is_not_judged() -> None:
    request = SearchRequest(target="generic")
    judgement = judge(drawn_plan(GRAPHS["perceptron"](), DEVICES, request, 0), {}, python=PYTHON)
    assert "--target mindspore" in judgement.not_run["the plan"]
    assert not judgement.passed


def test_a_missing_environment_is_named(tmp_path: Path) -> None:
    with pytest.raises(MindsporeError, match=r"make \.venv-mindspore"):
        judge(plans()["perceptron_0"], {}, python=tmp_path / "python")


def test_a_process_that_stops_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho no such module >&2\nexit 3\n")
    broken.chmod(0o755)
    with pytest.raises(MindsporeError, match="no such module"):
        judge(plans()["perceptron_0"], {}, python=broken)


def messages(found: Sequence[Message]) -> list[Message]:
    return sorted(each.bare for each in found)


def test_gathers_in_a_row_are_one() -> None:
    """Two at once of 2 and 4 ranks, where the second takes what the first left."""
    rows = [
        {"kind": "all_gather", "ranks": [0, 1], "nbytes": 16, "scope": "a", "source": "7"},
        {"kind": "all_gather", "ranks": [0, 2, 4, 6], "nbytes": 64, "scope": "b", "source": "8"},
    ]
    chained = [{**rows[0], "after": -1}, {**rows[1], "after": 0}]
    whole = Message("all_gather", tuple(range(8)), 64)
    assert messages(emitted(chained)) == [whole]
    apart = [{**rows[0], "after": -1}, {**rows[1], "after": -1}]
    assert len(emitted(apart)) == 2
    sliced = [{**rows[0], "after": -1}, {**rows[1], "nbytes": 32, "after": 0}]
    assert len(emitted(sliced)) == 2
