from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.requests.errors import UserError
from planner.whatif.goodput import (
    Failures,
    aftermath,
    availability,
    daly_interval_s,
    goodput,
    useful_share,
    young_interval_s,
)
from planner.whatif.sweep import Store, run
from planner.whatif.tasks import Result, sweep_of
from planner.whatif.workbench import LocalEngine
from tests.planner.whatif.sweeps import asked

SECONDS = st.floats(1.0, 1e4)


@given(checkpoint=SECONDS, mtbf=st.floats(1e3, 1e7), restart=SECONDS)
def test_dalys_interval_is_near_the_best_there_is(
    checkpoint: float, mtbf: float, restart: float
) -> None:
    if checkpoint > mtbf / 10:
        return
    own = useful_share(daly_interval_s(checkpoint, mtbf), checkpoint, restart, mtbf)
    tried = [checkpoint * 1.1**n for n in range(-60, 150)]
    best = max(useful_share(t, checkpoint, restart, mtbf) for t in tried)
    assert own >= best * (1 - 1e-3)


@given(checkpoint=st.floats(0.01, 10.0))
def test_daly_becomes_young_where_failures_are_rare(checkpoint: float) -> None:
    mtbf = 1e10
    young = young_interval_s(checkpoint, mtbf)
    assert math.isclose(daly_interval_s(checkpoint, mtbf), young, rel_tol=1e-3)
    assert useful_share(young, checkpoint, 60.0, mtbf) > 0.999


def test_a_simulated_job_gets_as_much_done_as_the_formula_says() -> None:
    import random  # noqa: PLC0415

    chance = random.Random(0)
    mtbf, checkpoint, restart, interval = 1000.0, 20.0, 30.0, 180.0
    now = done = 0.0
    fails = chance.expovariate(1 / mtbf)
    while done < 4e5:
        if now + interval + checkpoint <= fails:
            now, done = now + interval + checkpoint, done + interval
            continue
        now, fails = fails, fails + chance.expovariate(1 / mtbf)
        while now + restart > fails:  # a failure while it begins again
            now, fails = fails, fails + chance.expovariate(1 / mtbf)
        now += restart
    assert useful_share(interval, checkpoint, restart, mtbf) == pytest.approx(done / now, rel=0.02)


@pytest.mark.fast
def test_spares_keep_a_job_whole() -> None:
    shares = [availability(16, 1e6, 1e5, spares) for spares in range(6)]
    assert shares == sorted(shares)
    assert shares[0] == pytest.approx((1e6 / 1.1e6) ** 16)
    assert shares[-1] > 0.99
    assert availability(1, 1e6, 1e5, 0) == pytest.approx(1e6 / 1.1e6)


def test_more_devices_fail_more_often() -> None:
    failures = Failures(1e8)
    small, large = (goodput(failures, n, 8, 1e10) for n in (8, 8192))
    assert small.mtbf_s == 1024 * large.mtbf_s
    assert small.useful > large.useful
    assert small.interval_s > large.interval_s


@pytest.mark.parametrize("device_mtbf_s", [0.0, math.inf])
def test_failures_that_cannot_be_are_refused(device_mtbf_s: float) -> None:
    with pytest.raises(UserError, match="fix:"):
        Failures(device_mtbf_s)


def test_without_a_server_the_job_goes_on_with_the_plan_of_the_rest() -> None:
    what = asked("devices=16,batch=64", target="generic")
    (point,) = run(sweep_of(what), LocalEngine(1), Store(None))
    found = aftermath(what, point, Failures(1e7, repair_s=1e6), Store(None))
    assert found.fallback is not None
    assert found.fallback.devices == 8
    (rest,) = run(
        sweep_of(asked("devices=8,batch=64", target="generic")), LocalEngine(1), Store(None)
    )
    assert found.fallback.rate == pytest.approx(rest.result.samples / rest.result.step_s)
    assert found.fallback.moved_bytes + found.fallback.lost_bytes >= 0
    assert found.useful_rate <= max(found.rate, found.fallback.rate)
    assert isinstance(point.result, Result)
    alone = run(sweep_of(asked("devices=8")), LocalEngine(1), Store(None))[0]
    assert aftermath(asked("devices=8"), alone, Failures(1e7), Store(None)).fallback is None


def test_a_job_with_stages_goes_on_with_stages() -> None:
    what = asked("devices=16,batch=64", pipeline="2")
    (point,) = run(sweep_of(what), LocalEngine(1), Store(None))
    assert "pp=2" in point.result.outline
    found = aftermath(what, point, Failures(1e7), Store(None)).fallback
    assert found is not None
    assert "pp=2" in found.outline
    assert found.moved_bytes + found.lost_bytes > 0
