"""How far runs are from what was measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from costmodel.training.calibration import shipped_calibration
from costmodel.training.families import families
from costmodel.training.generic import GENERIC
from costmodel.training.measured_spans import distances, spans_of, unmeasured
from costmodel.training.predict import predict
from costmodel.training.table import RunTable
from tests.costmodel.training.runs import LLAMA, run

pytestmark = pytest.mark.fast

SPANS = spans_of(
    RunTable.of([run(tp=2, dp=4), run(tp=8, micro_batch=4), run(cp=2, seq_len=32768)]), 3
)


@pytest.mark.parametrize(
    ("layout", "doublings", "said"),
    [
        ({"tp": 4, "dp": 2}, 0, ""),
        ({"tp": 16}, 1, "tensor parallel degree 16, in measured runs at most 8"),
        ({"micro_batch": 16}, 2, "sequences per micro-batch 16, in measured runs at most 4"),
        (
            {"cp": 2, "seq_len": 8192},
            2,
            "context parallelism 8192, in measured runs at least",
        ),
        ({"seq_len": 1024}, 1, "sequence length 1024, in measured runs at least 2048"),
        ({"pp": 4, "vpp": 2}, 3, "pipeline stages 4, in measured runs at most 1"),
        ({"tp": 2, "dp": 4, "zero_stage": 2}, 2, "ZeRO stage 2, in measured runs at most 0"),
        ({"tp": 2, "zero_stage": 3}, 0, ""),
    ],
)
def test_doublings_beyond_what_was_measured(
    layout: dict[str, Any], doublings: float, said: str
) -> None:
    table = RunTable.of([run(**layout)])
    assert distances(SPANS, table, 1).tolist() == pytest.approx([doublings])
    told = list(unmeasured(SPANS, table))
    assert bool(told) == bool(doublings)
    assert any(said in what for what in told) or not said


def test_many_runs_are_as_far_as_each_alone() -> None:
    runs = [run(tp=16), run(tp=2), run(micro_batch=64, pp=8)]
    alone = [float(distances(SPANS, RunTable.of([each]), 1)[0]) for each in runs]
    assert distances(SPANS, RunTable.of(runs), 3).tolist() == pytest.approx(alone)


def test_an_interval_widens_with_the_distance_and_the_time_stays() -> None:
    near = replace(run(LLAMA, "h100", dp=8, seq_len=4096), profile="megatron-core")
    far = replace(near, layout=replace(near.layout, dp=1, cp=8))
    known, beyond = predict([near, far])
    assert known.unmeasured == ()
    assert beyond.unmeasured
    assert beyond.high_s / beyond.step_s > 1.02 * known.high_s / known.step_s
    assert known.step_s < known.upper_s < known.high_s


def test_every_family_says_what_it_spans() -> None:
    known = shipped_calibration()
    assert set(known.spans) == set(known.machines) == set(families()) | {GENERIC}
    assert all(least <= most for spans in known.spans.values() for least, most in spans.values())
