"""What a request rules out is ruled out for rivals too, and named where it decides."""

from __future__ import annotations

import pytest

from planner.constraints.token_cuts import ruled_out, without
from planner.explain import why
from planner.explain.plan_problem import problem_of
from planner.explain.reasons import Subject
from planner.request import SearchRequest
from planner.search import search
from tests.builders import attention_block
from topology.catalogue import named_machine

CLUSTER = named_machine("atlas-800t-a2").cluster(16)
GRAPH = attention_block(batch=16)


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (SearchRequest(target="torch", sequence_parallel="off"), "--sequence-parallel off"),
        (SearchRequest(target="torch", fully_use_devices=True), "--fully-use-devices"),
        (SearchRequest(target="torch", context_parallel="2"), "--context-parallel 2"),
    ],
)
def test_rivals_keep_what_was_ruled_out(request_: SearchRequest, text: str) -> None:
    plan = search(GRAPH, CLUSTER, request_)
    case = problem_of(plan)
    assert [hold.text for hold in case.posed.holds] == [text]
    left = without(case.lowered, ruled_out(request_, plan.graph)).problem.sizes
    allowed = [len(own) for own in case.posed.allowed()]
    assert allowed == list(left)
    assert sum(allowed) < sum(case.lowered.problem.sizes)
    held = case.posed.holds[0].allowed
    number = min(held)
    subject = Subject(case, number)
    fine = {subject.cuts(i) for i in held[number].tolist()}
    cuts = next(c for c in map(subject.cuts, range(subject.size)) if c and c not in fine)
    found = why(plan, subject.node.name, cuts=cuts).rivals[0]
    assert found.delta_s is None
    assert {reason.name for reason in found.reasons if reason.kind == "pin"} <= {text}


def test_what_is_open_holds_nothing() -> None:
    plan = search(GRAPH, CLUSTER, SearchRequest(target="torch"))
    assert problem_of(plan).posed.holds == ()
