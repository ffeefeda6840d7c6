"""What measured runs say of similar ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.training.calibration import (
    Calibration,
    general_constants,
    neighbours_of,
    shipped_calibration,
)
from costmodel.training.families import Family, families
from costmodel.training.machines import machine
from costmodel.training.neighbours import NEIGHBOURS_OF_NOBODY, Neighbours, columns_of
from costmodel.training.predict import constants_of, predict
from costmodel.training.records import TrainingRun
from costmodel.training.step import step_times
from costmodel.training.table import RunTable
from tests.costmodel.training.runs import GPT, LLAMA, ROUTED, run
from topology.machine_names import known_machines

SHARED = 0.04**2 + 0.06**2 + 0.08**2
OWN = 0.05**2


def of(runs: list[Any], missed: list[float], counts: list[float] | None = None) -> Neighbours:
    machines = np.array([each.machine for each in runs])
    columns = columns_of(RunTable.of(runs), len(runs))
    counted = None if counts is None else np.array(counts)
    return Neighbours.of(columns, machines, np.array(missed), counted)


def logs(known: Neighbours, *runs: Any) -> list[float]:
    machines = np.array([each.machine for each in runs])
    found: list[float] = np.log(known.factor(RunTable.of(runs), machines)).tolist()
    return found


def test_nobody_says_nothing() -> None:
    assert logs(NEIGHBOURS_OF_NOBODY, run(), run(GPT)) == [0.0, 0.0]


@given(st.floats(-0.25, 0.25), st.integers(1, 50))
def test_a_run_that_was_measured_keeps_the_share_that_is_not_its_own(
    missed: float, count: int
) -> None:
    """Rasmussen and Williams, equation 2.25, for one point measured so many times."""
    known = of([run()], [missed], [float(count)])
    expected = missed * SHARED / (SHARED + OWN / count)
    assert logs(known, run())[0] == pytest.approx(expected, abs=1e-12)
    assert logs(of([run()] * count, [missed] * count), run())[0] == pytest.approx(
        expected, abs=1e-9
    )


def deviation(known: Neighbours, *runs: Any) -> list[float]:
    machines = np.array([each.machine for each in runs])
    found: list[float] = known.deviation(RunTable.of(runs), machines).tolist()
    return found


@given(st.integers(1, 50))
def test_the_more_a_run_was_measured_the_surer_it_is(count: int) -> None:
    """Rasmussen and Williams, equation 2.26, for one point, and what is the asked run's own."""
    left = SHARED - SHARED**2 / (SHARED + OWN / count) + OWN
    known = of([run()], [0.1], [float(count)])
    assert deviation(known, run()) == pytest.approx([left**0.5])
    assert deviation(NEIGHBOURS_OF_NOBODY, run()) == pytest.approx([(SHARED + OWN) ** 0.5])


@given(st.lists(st.sampled_from([1, 2, 4, 8]), min_size=1, max_size=6))
def test_no_measured_run_makes_another_less_sure(degrees: list[int]) -> None:
    runs = [run(tp=tp, micro_batch=mb) for tp, mb in zip(degrees, degrees[::-1], strict=True)]
    asked = [run(), run(GPT), run(tp=2, micro_batch=4)]
    widths = [deviation(of(runs[:n], [0.1] * n), *asked) for n in range(1, len(runs) + 1)]
    for more, fewer in zip(widths[1:], widths, strict=False):
        assert all(one <= other + 1e-12 for one, other in zip(more, fewer, strict=True))


def test_the_less_alike_the_less_is_shared() -> None:
    alike = [run(tp=2), run(tp=2, dp=4), run(tp=2, pp=4, dp=4), run(tp=4), run(GPT, tp=2)]
    found = logs(of([run(tp=2)], [0.2]), *alike)
    assert found == sorted(found, reverse=True)
    assert found[0] > 3 * found[3] > 0
    assert found[-1] < 0.005


@pytest.mark.parametrize(
    "other",
    [
        replace(run(), machine="a100-40g"),
        replace(run(), flags=frozenset({"graphs"})),
        replace(run(), precision="fp8"),
        run(recompute="full"),
    ],
)
def test_other_settings_halve_what_is_shared(other: Any) -> None:
    known = of([run()], [0.2])
    same, different = logs(known, run(), other)
    assert different == pytest.approx(same / 2, rel=1e-9)


def test_rows_far_off_are_cut() -> None:
    assert logs(of([run()], [3.0]), run()) == logs(of([run()], [0.25]), run())


def test_no_rate_of_the_machine_matters() -> None:
    """So that a better machine is never slower for it."""
    known, table = of([run(tp=2), run()], [0.2, -0.1]), RunTable.of([run(tp=2, dp=2)])
    names = ("flops", "memory_bytes_per_s", "link_bytes_per_s", "port_bytes_per_s")
    rates = replace(table.machine, **{name: 2 * getattr(table.machine, name) for name in names})
    machine = np.array(["a100-80g"])
    assert known.factor(replace(table, machine=rates), machine) == known.factor(table, machine)


def test_many_at_once_are_what_they_are_one_by_one() -> None:
    runs = [run(tp=2**tp, dp=dp) for tp in range(4) for dp in range(1, 9)]
    known = of(runs[::3], [0.01 * number for number in range(len(runs[::3]))])
    together = logs(known, *runs)
    assert together == pytest.approx([logs(known, each)[0] for each in runs], abs=1e-12)


def test_predictions_are_formulas_times_what_similar_runs_say() -> None:
    (found,) = predict([run(LLAMA, tp=8)])
    plain = step_times(
        RunTable.of([run(LLAMA, tp=8)]), shipped_calibration().constants["megatron-ampere"]
    )
    assert found.step_s == pytest.approx(float(plain.total[0]) * found.neighbours, rel=1e-12)


def core(**layout: Any) -> TrainingRun:
    """A run of software with similar runs that are looked up."""
    usual = {"seq_len": 4096, "dp": 8, "zero_stage": 1, **layout}
    return replace(run(LLAMA, "h100", **usual), profile="megatron-core", precision="fp8")


@pytest.mark.parametrize("layout", [{"tp": 2, "dp": 4}, {"tp": 2, "pp": 4, "dp": 4}, {}])
def test_whoever_takes_the_step_apart_finds_the_predicted_time(layout: dict[str, Any]) -> None:
    one = core(**layout)
    time = float(step_times(RunTable.of([one]), constants_of(one)).total[0])
    (found,) = predict([one])
    assert abs(found.neighbours - 1) > 0.001
    assert time == pytest.approx(found.step_s, rel=1e-4)


def test_ones_own_constants_keep_what_similar_runs_say() -> None:
    shipped = shipped_calibration()
    mine = {**shipped.constants, "megatron-core-hopper": replace(general_constants(), matmul8=0.4)}
    one = core()
    (own,) = predict([one], (), Calibration(mine, shipped.interval, shipped.memory))
    (usual,) = predict([one])
    assert own.step_s > usual.step_s
    assert own.neighbours == usual.neighbours != 1.0


def test_neighbours_are_of_families_and_finite() -> None:
    assert len(neighbours_of("megatron-core-routed").weights) > 20
    assert neighbours_of("megatron-ampere") is NEIGHBOURS_OF_NOBODY
    assert neighbours_of("nobody") is NEIGHBOURS_OF_NOBODY
    assert all(np.all(np.isfinite(neighbours_of(name).weights)) for name in families())


@pytest.mark.fast
@pytest.mark.parametrize("family", list(families().values()), ids=lambda family: family.name)
def test_what_has_nothing_to_act_on_makes_no_difference(family: Family) -> None:
    """States shared with nobody, sums of one rank and exchanges with nobody, in every family."""
    name = next(n for n in known_machines() if machine(n).generation in family.generations)
    model = ROUTED if family.kind == "routed" else LLAMA
    alone = replace(run(model, name, pp=2), profile=family.profile, precision="bf16")
    settings = [replace(alone, layout=replace(alone.layout, zero_stage=n)) for n in range(4)]
    flags = ("overlap", "fused-tp", "ep-overlap")
    settings += [replace(alone, flags=alone.flags | {flag}) for flag in flags]
    times = [each.step_s for each in predict(settings)]
    assert times == pytest.approx([times[0]] * len(times), rel=1e-12)


def test_it_is_said_where_similar_runs_move_a_time() -> None:
    (found,), (formulas,) = predict([core(dp=8)]), predict([run(LLAMA, tp=8)])
    assert formulas.look_up == ""
    for change, said in ((0.005, ""), (-0.004, ""), (0.03, "+3 %"), (-0.12, "-12 %")):
        told = replace(found, neighbours=1.0 + change).look_up
        assert told.endswith(said)
        assert bool(told) == bool(said)
