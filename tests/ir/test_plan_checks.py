"""A plan.json that was edited by hand is refused with one clear message."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from ir.plan import Plan
from ir.plan_file import PlanFileError, plan_from_json, plan_to_json
from planner.request import SearchRequest
from planner.search import search
from tests.builders import mlp
from topology.catalogue import named_cluster

pytestmark = pytest.mark.fast

Change = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="module")
def plan() -> Plan:
    return search(mlp(2), named_cluster("dgx-h100", 4), SearchRequest(target="generic"))


def test_what_was_written_is_read(plan: Plan) -> None:
    text = plan_to_json(plan)
    assert plan_from_json(text) == plan
    assert plan_to_json(plan_from_json(text)) == text


CHANGES: list[tuple[Change, str]] = [
    (lambda d: d.update(version=2), "has version 2, this program reads version 1"),
    (lambda d: d["mesh"][0].__setitem__(1, 3), "do not multiply to 4 ranks"),
    (lambda d: d["mesh"][0].__setitem__(1, 0), "size below 1"),
    (lambda d: d["mesh"].append(d["mesh"][0]), "distinct names"),
    (lambda d: d.update(mesh=[]), "distinct names"),
    (lambda d: d.update(rank_order=[0, 1, 2, 2]), "each once"),
    (lambda d: d["tensors"][0].update(name="strange"), "no tensor 'strange'"),
    (lambda d: d["tensors"][0].update(dims=[1, 1]), "other dims"),
    (lambda d: d["tensors"][0]["layout"].update(dims=[["rack"], []]), "no axis 'rack'"),
    (lambda d: d["tensors"][0]["layout"].update(dims=[[]]), "has 1 dimensions"),
    (lambda d: d["tensors"][0].update(host_bytes=-1.0), "cannot hold -1.0 bytes"),
    (lambda d: d["tensors"][0].update(host_bytes=float("nan")), "cannot hold nan bytes"),
    (lambda d: d["tensors"][0].update(host_s=-1.0), "is no time"),
    (lambda d: d["tensors"][0].update(host_s=1.0), "nothing of it is on the host"),
    (lambda d: d["operators"][0].update(inputs=[]), "other operands or results"),
    (lambda d: d["operators"][0].update(split=[["rack", 0]]), "splits an axis"),
    (lambda d: d["operators"][0].update(compute_s=-1), "is no time"),
    (lambda d: d["operators"][0].update(name="other"), "not those of its graph"),
    (lambda d: d["operators"][0]["outputs"][0].update(partial=["rack"]), "no axis 'rack'"),
    (lambda d: d["collectives"][0].update(axes=["rack"]), "runs over an axis"),
    (lambda d: d["collectives"][0].update(time_s=float("nan")), "not finite"),
    (lambda d: d["estimate"].update(step_time_s=1.0), "the causes sum to"),
    (lambda d: d["estimate"].update(peak_memory_bytes=1.0), "the causes sum to"),
    (lambda d: d["estimate"].update(peak_memory_bytes=float("inf")), "not finite"),
    (lambda d: d["graph"].update(name="other"), "not the one that was planned"),
    (lambda d: d.update(digest="0"), "not the one that was planned"),
    (lambda d: d.update(notes=["\ud800"]), "half a character"),
    (lambda d: d.update(more=1), "schema"),
    (lambda d: d.pop("bound"), "schema"),
]


@pytest.mark.parametrize(("change", "words"), CHANGES)
def test_a_change_by_hand_is_refused(change: Change, words: str, plan: Plan) -> None:
    data = json.loads(plan_to_json(plan))
    change(data)
    with pytest.raises(PlanFileError) as caught:
        plan_from_json(json.dumps(data), "a/plan.json")
    assert words in str(caught.value)
    assert str(caught.value).startswith("a/plan.json")


def test_a_number_that_no_program_reads_is_refused() -> None:
    with pytest.raises(PlanFileError, match="not JSON"):
        plan_from_json('{"format": ' + "9" * 5000 + "}")
