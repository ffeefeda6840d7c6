from __future__ import annotations

import itertools
import math

import pytest

from planner.requests.errors import UserError
from planner.whatif.shapes import Shapes, shapes, weights_of
from planner.whatif.sweep import Store, run
from planner.whatif.tasks import sweep_of
from planner.whatif.workbench import LocalEngine
from tests.planner.whatif.sweeps import asked


def _shapes(axes: str, mix: str = "uniform") -> Shapes:
    sweep = sweep_of(asked(axes))
    store = Store(None)
    return shapes(sweep, run(sweep, LocalEngine(1), store), mix, store)


def test_a_plan_at_its_own_size_takes_what_its_search_said_and_others_no_less() -> None:
    axes = "devices=8,batch=8,512,8192"
    found = _shapes(axes)
    points = run(sweep_of(asked(axes)), LocalEngine(1), Store(None))
    for size, point in enumerate(points):
        assert found.step_s[size][size] == pytest.approx(point.result.step_s, rel=1e-9)
        assert min(row[size] for row in found.step_s) >= point.result.bound_s * (1 - 1e-9)


def test_the_best_sets_are_the_best_of_all_sets() -> None:
    found = _shapes("devices=8,batch=8,512,8192", "0.2,0.3,0.5")
    for chosen in found.best:
        for other in itertools.combinations(range(3), len(chosen.plans)):
            expected = math.fsum(
                w * min(found.step_s[i][j] for i in other) for j, w in enumerate(found.weights)
            )
            assert chosen.expected_s <= expected * (1 + 1e-12)
    times = [chosen.expected_s for chosen in found.best]
    assert times == sorted(times, reverse=True)
    assert times[-1] >= found.ideal_s * (1 - 1e-12)
    assert found.best[0].switch_s == 0


@pytest.mark.parametrize("mix", ["", "1", "1,x,2", "1,-1,2", "0,0,0", "nan,1,1"])
def test_what_is_no_mix_is_refused(mix: str) -> None:
    with pytest.raises(UserError, match="--mix"):
        weights_of(mix, 3)


@pytest.mark.parametrize("axes", ["devices=2,4,batch=8", "devices=2", "devices=2,batch=8:800:17"])
def test_a_mix_is_of_sizes_on_one_machine(axes: str) -> None:
    with pytest.raises(UserError, match="--mix"):
        _shapes(axes)
