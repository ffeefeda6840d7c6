"""Plans on four processes: outputs and gradients are those of the whole model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from executors.backward import gradient_name
from executors.dtensor.processes import ProcessError, run_tasks
from executors.dtensor.tasks import RankTask
from executors.judgement import Judgement
from executors.placement import Array
from executors.reference import given_tensors
from executors.torch import TOLERANCE, judge_all
from executors.values import numbers
from executors.verdict import compared
from ir.graph import OpGraph
from ir.plan import Plan
from planner.request import SearchRequest
from tests.executors.drawn_plans import drawn_plan
from tests.judges import dtensor_nets as nets
from tests.judges.schemes import DATA, SHARDED, TENSOR, TWO_D, plans

TRAINING = SearchRequest(target="torch", training=True)
NETS: dict[str, Callable[[], OpGraph]] = {
    "perceptron": lambda: nets.mlp(3, 8, 16, 32),
    "attention": lambda: nets.attention_block(4, 8, 4, 8),
    "transformer": lambda: nets.transformer(4, 8, 32, 16, 4, 32),
    "convolutions": lambda: nets.convolutions(4, 8, 8, 8),
    "heads": lambda: nets.heads_of_their_own(4, 25, 8),
}


def values_of(plan: Plan) -> dict[str, Array]:
    return numbers(plan.graph, given_tensors(plan), {})


@pytest.fixture(scope="module")
def judged() -> dict[tuple[str, str], tuple[Plan, Judgement]]:
    """Every net under every scheme, and under layouts that were drawn, by the same processes."""
    cases = {(n, s): p for n in NETS for s, p in plans(NETS[n](), 4, TRAINING).items()}
    for seed in range(4):
        cases["transformer", f"drawn {seed}"] = drawn_plan(NETS["transformer"](), 4, TRAINING, seed)
    found = judge_all([(plan, values_of(plan)) for plan in cases.values()])
    return dict(zip(cases, zip(cases.values(), found, strict=True), strict=True))


def test_outputs_and_gradients_are_those_of_the_whole_model(
    judged: dict[tuple[str, str], tuple[Plan, Judgement]],
) -> None:
    assert len(judged) >= 24
    for case, (plan, judgement) in judged.items():
        assert not judgement.not_run, case
        names = {output.name for output in judgement.outputs}
        weights = [t.name for t in plan.graph.parameters]
        assert names > {gradient_name(name) for name in weights}, case
        assert max(output.error for output in judgement.outputs) < 1e-9, case


def test_what_is_sent_is_what_the_plans_list(
    judged: dict[tuple[str, str], tuple[Plan, Judgement]],
) -> None:
    for case, (_, judgement) in judged.items():
        assert judgement.passed, case


def test_plans_differ_in_what_they_send(
    judged: dict[tuple[str, str], tuple[Plan, Judgement]],
) -> None:
    for net in NETS:
        sent = {judged[net, scheme][1].emitted for scheme in (DATA, TENSOR, TWO_D, SHARDED)}
        assert len(sent) > 1


def test_numbers_that_differ_are_errors() -> None:
    expected = {"y": np.array([1.0, 2.0, 4.0])}
    (output,) = compared(expected, {"y": np.array([1.0, 2.0, 4.4])}, TOLERANCE)
    assert output.error == pytest.approx(0.1)
    (output,) = compared(expected, {"y": np.array([1.0, np.nan, 4.0])}, TOLERANCE)
    assert output.error == np.inf
    (output,) = compared(expected, {"y": np.array([1.0, 2.0])}, TOLERANCE)
    assert output.error == np.inf


def test_ranks_that_should_hold_the_same_and_do_not_are_errors() -> None:
    expected = {"y": np.array([1.0, 4.0])}
    (output,) = compared(expected, {"y": np.array([1.0, 4.0])}, TOLERANCE, {"y": 0.4})
    assert output.error == pytest.approx(0.1)


def test_a_process_that_dies_is_named_with_what_it_wrote() -> None:
    (plan,) = plans(NETS["perceptron"](), 2, TRAINING, wanted=[DATA]).values()
    broken = replace(plan, rank_order=(0, 0))
    task = RankTask(broken, values_of(plan), True, ())
    with pytest.raises(ProcessError, match=r"the process of rank \d ended with status 1") as raised:
        run_tasks([task])
    assert "Traceback" in str(raised.value)


def test_processes_that_do_not_end_in_time_are_stopped() -> None:
    (plan,) = plans(NETS["perceptron"](), 2, TRAINING, wanted=[DATA]).values()
    with pytest.raises(ProcessError, match="did not end in time"):
        run_tasks([RankTask(plan, values_of(plan), True, ())], timeout_s=0.2)
