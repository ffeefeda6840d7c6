"""The regret of an answer: what is held, and how alternatives are told."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import pytest

from benchmarks.regret import HELD, alternatives, cases, row_of, table

pytestmark = pytest.mark.fast


def row(held: dict[str, str], simulated_s: float, **more: Any) -> dict[str, Any]:
    case = {"model": "net", "cluster": "dgx-a100", "devices": 16, "batch": 16, "held": held}
    return {**case, "step_s": simulated_s, "simulated_s": simulated_s, **more}


def test_the_answer_comes_first_then_each_decision_then_the_same_draws() -> None:
    found = list(alternatives(5, "net"))
    assert found[0] == {}
    assert len([held for held in found if len(held) == 1]) == sum(map(len, HELD.values()))
    assert found == list(alternatives(5, "net"))
    assert found[-5:] != list(alternatives(5, "other"))[-5:]


def test_regret_is_the_time_of_the_answer_over_the_fastest_alternative() -> None:
    rows = [row({}, 1.03), row({"zero": "3"}, 1.0), row({"tp": "8"}, 1.5)]
    text = table([*rows, {**row({"pipeline": "8"}, 1.0), "error": "nothing fits"}])
    assert text.startswith("1 answers, 1 of them more than 1 % slower")
    assert "1.0300  net" in text
    assert "(zero=3)" in text
    assert table(rows[:1]).startswith("1 answers, 0 of them")


def test_a_model_stands_on_two_machines_and_what_cannot_be_says_why() -> None:
    options = Namespace(models="gpt2_small", devices="16", drawn=0)
    found = list(cases(options))
    assert len({(case["cluster"], case["devices"]) for case in found}) == 2
    assert "error" in row_of({**found[0], "held": {"tp": "7"}}, 1.0)
