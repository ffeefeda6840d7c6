"""Rows that are left out of a fit, and the baseline that a fit has to beat."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.training_baseline import fit_utilisation, ideal_s
from benchmarks.training_crossvalidation import FamilyFit, FamilyRows, fit_families
from benchmarks.training_report import at_limit
from costmodel.training.calibration import general_constants, shipped_calibration
from costmodel.training.families import Family, families
from costmodel.training.fitting import PRIORS
from costmodel.training.neighbours import UNKNOWN_DEVIATION
from costmodel.training.records import TrainingRun
from costmodel.training.step import step_times
from costmodel.training.table import FloatArray, RunTable
from tests.costmodel.training.runs import GPT, LLAMA, run

RUNS = [
    run(GPT, tp=tp, dp=dp, micro_batch=mb) for tp in (1, 2, 4) for dp in (1, 4) for mb in (1, 4)
]


@pytest.mark.fast
def test_constants_at_a_limit_are_named() -> None:
    edge = replace(general_constants(), memory=PRIORS["memory"].high)
    assert at_limit(edge, ("memory", "matmul")) == ("memory",)


def test_leaving_a_model_out_leaves_its_rows_out() -> None:
    """Times of one model that no constant explains do not help to predict that model."""
    runs = [*RUNS, run(LLAMA, tp=8), run(LLAMA, tp=4)]
    times = step_times(RunTable.of(runs), shipped_calibration().constants["megatron-ampere"]).total
    times = times * np.array([1.0] * len(RUNS) + [2.0, 2.0])
    family = replace(families()["megatron-ampere"], fitted=("matmul", "memory", "start_s"))
    found = fitted_alone(family, runs, times, ["one"] * len(runs))
    left = found.left_out["models"]
    assert np.all(left.step_s[-2:] < 0.75 * times[-2:])
    assert np.all(left.plain_s[-2:] < 0.75 * times[-2:])


def fitted_alone(
    family: Family, runs: list[TrainingRun], times: FloatArray, sources: list[str]
) -> FamilyFit:
    rows = FamilyRows(tuple(runs), times, tuple(sources))
    (found,) = fit_families({family.name: family}, {family.name: rows})
    return found


@pytest.mark.fast
def test_a_source_that_is_left_out_is_not_seen_by_the_parent_either() -> None:
    """A second source takes 1.3 times as long: neither family learns that from its own rows."""
    parent = replace(families()["megatron-ampere"], fitted=("matmul", "memory"))
    child = replace(parent, name="child", parent=parent.name)
    runs = tuple(run(GPT, tp=tp, dp=dp) for tp in (1, 2) for dp in (1, 2, 4))
    usual = step_times(RunTable.of(runs), general_constants()).total
    sources = ("slow", "slow", "slow", "usual", "usual", "usual")
    times = usual * np.where(np.array(sources) == "slow", 1.3, 1.0)
    start = {name: PRIORS[name].value for name in parent.priors}
    families_ = {each.name: replace(each, priors=start) for each in (parent, child)}
    rows = FamilyRows(runs, times, sources)
    fits = fit_families(families_, {parent.name: rows, "child": rows})
    for found in fits:
        left = found.left_out["sources"]
        assert left.plain_s[:3] == pytest.approx(usual[:3], rel=0.05)
        assert left.others.tolist() == [3.0] * 6
        assert found.left_out["models"].others.tolist() == [0.0] * 6


@pytest.mark.parametrize(("alike", "kept"), [(True, True), (False, False)])
def test_similar_runs_are_looked_up_where_they_help_with_other_sources(
    alike: bool, kept: bool
) -> None:
    """Two sources ran the same layouts; what the formulas miss is the same in both, or opposite."""
    layouts = [run(GPT, tp=tp, dp=dp) for tp in (1, 2, 4, 8) for dp in (1, 2, 4)]
    family = replace(families()["megatron-ampere"], fitted=("matmul",))
    usual = step_times(RunTable.of(layouts), general_constants()).total
    odd = np.where(np.arange(12) % 2 == 0, 1.15, 1 / 1.15)
    times = np.concatenate([usual * odd, usual * (odd if alike else 1 / odd)])
    found = fitted_alone(family, layouts * 2, times, ["one"] * 12 + ["other"] * 12)
    assert found.looks_up is kept
    step_s, deviation = found.predicted("sources")
    left = found.left_out["sources"]
    assert step_s.tolist() == (left.step_s if kept else left.plain_s).tolist()
    assert np.all(deviation <= UNKNOWN_DEVIATION)


def test_the_baseline_is_one_utilisation() -> None:
    table = RunTable.of(RUNS)
    assert fit_utilisation(table, ideal_s(table) / 0.4) == {(0.0, 0.0): pytest.approx(0.4)}
