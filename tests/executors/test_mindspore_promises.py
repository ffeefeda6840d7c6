"""What the real MindSpore is asked about a plan; `make test-judges` asks it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from executors.mindspore.case import case_of
from executors.mindspore.judge import MindsporeError, judge, judgement_of
from executors.mindspore.messages import promised
from ir.plan import Plan
from planner.request import SearchRequest
from tests.builders import mlp
from tests.executors.drawn_plans import drawn_plan

pytestmark = pytest.mark.fast


def plans() -> list[Plan]:
    request = SearchRequest(training=False)
    return [drawn_plan(mlp(2, 16, 32, 64), 8, request, seed) for seed in range(4)]


def test_a_case_has_every_operator_with_its_cuts() -> None:
    for plan in plans():
        case = case_of(plan, "some", pinned=True)
        assert json.loads(json.dumps(case)) == case
        assert {op.name for op in plan.graph.ops} <= {op["name"] for op in case["ops"]}
        assert set(case["tensors"]) == {
            n for op in case["ops"] for n in (*op["inputs"], *op["outputs"]) if n
        }
        assert case["devices"] == 8


def test_messages_are_promised_where_a_plan_lists_them() -> None:
    found = [(promised(plan), plan.collectives) for plan in plans()]
    assert any(messages for messages, _ in found)
    assert all(listed for messages, listed in found if messages)


def test_what_is_not_sent_is_named_with_whose_it_is(tmp_path: Path) -> None:
    plan = next(plan for plan in plans() if promised(plan))
    silent = judgement_of(plan, {"not_run": {}, "error": "", "collectives": []})
    assert sum(each.count for each in silent.predicted) == len(promised(plan))
    assert silent.emitted == ()
    assert any(note.startswith("only the plan has") for note in silent.notes)
    stopped = judgement_of(plan, {"not_run": {}, "error": "broken", "collectives": []})
    assert stopped.not_run == {"the network": "broken"}
    with pytest.raises(MindsporeError, match="is missing"):
        judge(plan, {}, python=tmp_path / "no-python")
