"""Simulations, sweeps and verdicts are told from what JSON has of them, wherever they were made."""

from __future__ import annotations

import json
from typing import Any

import pytest

from costmodel.simulation.effects import Effects
from costmodel.simulation.plan_simulation import simulate_plan
from planner.difference import difference
from planner.explain import summary
from planner.requests.plan_json import dumps
from planner.requests.simulations import answer
from report import simulation, sweep, verification
from report.tables import Lines, Part, Table
from tests.service_views.plans_of import plan_of

pytestmark = pytest.mark.fast

POINT: dict[str, Any] = {
    "devices": 8, "batch": 16, "status": "ok", "message": None, "step_s": 0.5,
    "price_per_step": 0.01, "samples_per_s": 32.0, "tokens_per_s": None, "utilisation": 0.25,
    "peak_gib": 3.0, "plan": "dp=8",
}  # fmt: skip
NONE = {**POINT, "devices": 16, "status": "does not fit", "message": "too large", "peak_gib": None}
SWEEP: dict[str, Any] = {
    "model": "net", "axes": {"devices": [8, 16], "batch": [16]}, "searches": 2, "known": 0,
    "points": [POINT, NONE], "best": 0, "scaling": [], "changes": [], "pareto": [0],
    "deadline": {
        "tokens": 1e6, "days": 1.0, "point": None, "takes_days": 2.5, "needed_devices": 20,
    },
}  # fmt: skip


def lines(parts: list[Part]) -> list[str]:
    return [line for part in parts if isinstance(part, Lines) for line in part.lines]


def table(parts: list[Part], title: str) -> list[list[str]]:
    (found,) = [part for part in parts if isinstance(part, Table) and part.title == title]
    return found.texts


def test_a_simulation_reads_alike_from_its_json() -> None:
    found = answer(simulate_plan(plan_of("attention"), Effects()))
    there = json.loads(dumps(found))
    here = list(simulation.parts(found))
    assert here == list(simulation.parts(there))
    rows = table(here, "Communication of an average device")
    assert len(rows) == len(found["communication"])  # type: ignore[arg-type]


def test_a_sweep_names_its_best_point_and_what_no_point_does() -> None:
    parts = list(sweep.parts(SWEEP, "1 TFLOP/s bf16"))
    told = lines(parts)
    assert told[0] == "net: 2 points, 2 searches (0 cached), 1 with a plan"
    assert told[1] == "highest throughput: devices 8, batch 16"
    assert told[2] == "  32 samples/s, MFU 25.0 % of 1 TFLOP/s bf16, step 0.5 s, dp=8"
    assert "1e+06 samples in 1 days: no point does it, the fastest takes 2.5 days" in told
    assert table(parts, "Points") == [
        ["devices 8", "0.5", "32", "3.0", "72", "dp=8"],
        ["devices 16", "-", "-", "-", "-", "does not fit: too large"],
    ]
    none = {**SWEEP, "best": None, "points": [NONE]}
    assert lines(list(sweep.parts(none)))[1:] == ["no point has a plan:", "  too large"]


@pytest.mark.parametrize("passed", [True, False])
def test_a_verdict_says_what_it_rests_on_and_what_is_wrong(passed: bool) -> None:
    wrong = {"tensor": "h", "operator": "op", "planned": "", "sent": "all-gather"}
    found: dict[str, Any] = {
        "status": "verified" if passed else "not verified", "notes": ["smaller"], "messages": 3,
        "outputs": [{"name": "y", "dims": [2, 4], "error": 0.0 if passed else None}],
        "missing": [] if passed else ["z"], "mismatches": [] if passed else [wrong],
        "not_verified": {},
    }  # fmt: skip
    parts = list(verification.parts(found, "net", 8))
    told = lines(parts)
    word = "verified" if passed else "NOT verified"
    assert told[:2] == [f"net: {word} on 8 virtual devices", "  smaller"]
    error = "0" if passed else "not a number, or another shape"
    assert table(parts, "Outputs, split against whole") == [["y", "2x4", error]]
    assert ("- h for op: planned nothing; sent all-gather" in told) != passed


@pytest.mark.slow
def test_records_of_two_plans_and_of_an_explanation_are_plain_values() -> None:
    of = plan_of("attention")
    assert difference(of, of).is_empty
    told = summary(of).to_dict()
    assert told["step_time_s"] == of.estimate.step_time_s
    assert json.loads(json.dumps(told, allow_nan=False)) == told
