"""The words about what published runs say, and plan files in which they are impossible."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from ir.plan import Plan
from ir.plan_checks import estimate_faults
from ir.plan_estimate import Published
from ir.plan_file import plan_from_json, plan_to_json
from ir.published import expected_s, expected_text, expected_upper_s, published_note
from tests.plans import tiny_plan

pytestmark = pytest.mark.fast

OWN = Published("ascend", 86, 0.75, 1.0, 1.25)


def with_runs(published: Published | None) -> Plan:
    plan = tiny_plan()
    estimate = replace(plan.estimate, published=published)
    return replace(plan, estimate=estimate, digest=plan.graph.digest())


def test_ends_are_multiples_of_the_step_in_two_digits() -> None:
    assert expected_text(with_runs(replace(OWN, low=0.7)).estimate) == "2.1 s to 3.8 s"
    assert expected_text(with_runs(None).estimate) == ""


def test_three_of_four_steps_end_between_the_median_and_the_upper_end() -> None:
    narrow, wide = (with_runs(replace(OWN, high=high)).estimate for high in (1.25, 2.0))
    uppers = [expected_upper_s(narrow), expected_upper_s(wide)]
    assert narrow.step_time_s < uppers[0] < uppers[1] < expected_s(wide)[1]  # type: ignore[operator,index]
    slower = with_runs(replace(OWN, middle=1.2)).estimate
    assert expected_upper_s(slower) > 1.2 * slower.step_time_s  # type: ignore[operator]
    assert expected_upper_s(with_runs(None).estimate) is None


def test_the_note_says_whose_runs_they_are() -> None:
    own, others, none = (
        published_note(with_runs(each).estimate) for each in (OWN, replace(OWN, of=""), None)
    )
    assert "86 published runs of dense transformers on chips of this generation (ascend)" in own
    assert "86 published runs of dense transformers on chips of all generations" in others
    assert "measured over predicted 0.75 to 1.25" in own
    routed = published_note(with_runs(replace(OWN, kind="routed")).estimate)
    assert "86 published runs of mixtures of experts on chips" in routed
    assert none.startswith("no step was measured")
    estimate = replace(with_runs(None).estimate, unlike="38 % is in operators like Conv")
    note = published_note(estimate)
    assert note.startswith("no published run is like this step: 38 % is in operators like Conv; ")


def test_a_plan_file_keeps_them() -> None:
    for published in (OWN, None):
        plan = with_runs(published)
        assert plan_from_json(plan_to_json(plan)).estimate == plan.estimate
    why = with_runs(None)
    why = replace(why, estimate=replace(why.estimate, unlike="a reason"))
    assert plan_from_json(plan_to_json(why)).estimate.unlike == "a reason"


def test_a_file_of_before_is_read() -> None:
    text = plan_to_json(with_runs(None)).replace('"published": null', '"calibrated": false')
    assert '"calibrated"' in text
    assert plan_from_json(text).estimate.published is None


@pytest.mark.parametrize(
    "changed",
    [
        {"low": 1.1},
        {"high": 0.9},
        {"low": -1.0},
        {"high": math.inf},
        {"middle": math.nan},
        {"kind": "sparse"},
    ],
)
def test_ends_in_disorder_are_a_fault(changed: dict[str, Any]) -> None:
    estimate = with_runs(replace(OWN, **changed)).estimate
    assert [place for _, place in estimate_faults(estimate)] == ["estimate.published"]
    assert not [*estimate_faults(with_runs(OWN).estimate)]
