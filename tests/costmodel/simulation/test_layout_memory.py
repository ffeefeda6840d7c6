"""Memory of conventional layouts: the peak of every simulated stage is that of the estimate."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.simulation.effects import Effects
from costmodel.simulation.layout_simulation import simulate_layout
from costmodel.simulation.layout_stages import stage_layers
from costmodel.simulation.layout_step import LayoutConstants
from costmodel.training.constants import StepConstants
from costmodel.training.memory import MemoryConstants, charged_bytes, held_logits, memory_use
from costmodel.training.records import TrainingRun
from costmodel.training.table import RunTable
from tests.costmodel.simulation.runs import LLAMA, small_run
from tests.costmodel.simulation.test_layout_law import layouts

KEPT = (
    MemoryConstants(),
    MemoryConstants(logit_bytes=2.0, context_bytes=0.0, activations=0.3),
    MemoryConstants(logit_bytes=16.0, split_logit_bytes=4.0, products_kept=1.0, selective_kept=0.5),
)
FLAGS = ("offloads", "fused-loss", "swap-attention", "reuse-master")


def peaks(run: TrainingRun, kept: MemoryConstants) -> list[float]:
    found = simulate_layout(run, Effects(), constants=LayoutConstants(StepConstants(), kept))
    return [curve.peak_bytes for curve in found.memory]


@settings(max_examples=30)
@given(layouts(), st.sampled_from(KEPT), st.frozensets(st.sampled_from(FLAGS)))
def test_peaks_are_those_of_the_estimate(
    run: TrainingRun, kept: MemoryConstants, flags: frozenset[str]
) -> None:
    run = replace(run, flags=run.flags | flags)
    table, found = RunTable.of([run]), peaks(run, kept)
    assert max(found) == pytest.approx(float(charged_bytes(table, kept)[0]), rel=1e-9)
    for name, peak in (("first", found[0]), ("last", found[-1])):
        assert peak == pytest.approx(float(charged_bytes(table, kept, (name,))[0]), rel=1e-9)


@pytest.mark.parametrize(
    ("schedule", "more"), [("gpipe", 15 * 4), ("zb-h1", 3 * 2), ("zb-h2", 6 * 2), ("1f1b", 0)]
)
def test_logits_wait_for_the_gradients_that_need_them(schedule: str, more: float) -> None:
    """Of 16 micro-batches on 4 stages: with GPipe the softmax of all others in 32 bits; where the
    gradients of weights come late, the gradients of logits in 16 bits until then.

    Source: Qi et al., arXiv 2401.10241, figure 3: how late they come on the last stage.
    """
    run = small_run(LLAMA, pp=4, micro_batches=16, schedule=schedule)
    silent = replace(run, model=replace(run.model, layers=4, ffn=1, heads=1, kv_heads=1))
    kept = MemoryConstants(activations=0.0, context_bytes=0.0)
    each = held_logits(RunTable.of([silent]), kept).at_work[0] / kept.logit_bytes
    states = memory_use(RunTable.of([silent]), kept, ("last",))
    without = float((states.parameters + states.gradients + states.optimizer)[0])
    assert peaks(silent, kept)[-1] - without == pytest.approx((10 + more) * each, rel=1e-9)


@pytest.mark.parametrize(("pp", "split"), [(2, [5, 4]), (3, [3, 3, 3]), (4, [2, 3, 2, 2])])
def test_stages_of_the_estimate_are_those_of_the_simulation(pp: int, split: list[int]) -> None:
    """Nine layers; one more than there are stages in between is in the first."""
    run = small_run(replace(LLAMA, layers=9), pp=pp)
    table = RunTable.of([run])
    assert stage_layers(run) == split
    assert (table.first_layers[0], table.last_layers[0]) == (split[0], split[-1])
    assert table.most_layers[0] == max(split)
    assert max(peaks(run, KEPT[0])) == pytest.approx(charged_bytes(table, KEPT[0])[0])


@pytest.mark.parametrize("kept", KEPT[:2])
@pytest.mark.parametrize(("vpp", "schedule"), [(1, ""), (2, ""), (1, "zb-h1"), (1, "gpipe")])
@pytest.mark.parametrize(("layers", "further"), [(32, 1), (45, 1), (44, 2)])
def test_what_predicts_further_tokens_is_held_as_the_estimate_says(
    layers: int, further: int, vpp: int, schedule: str, kept: MemoryConstants
) -> None:
    """Of the last of several chunks, one micro-batch; 45 layers make equal chunks with the head."""
    model = replace(LLAMA, layers=layers, further=further)
    run = small_run(model, pp=4, vpp=vpp, schedule=schedule)
    table, found = RunTable.of([run]), peaks(run, kept)
    assert max(found) == pytest.approx(float(charged_bytes(table, kept)[0]), rel=1e-9)
    last = charged_bytes(table, kept, ("last",))[0]
    assert found[-1] == pytest.approx(last, rel=1e-9)
    without = replace(table, further=np.zeros(1))
    assert last > charged_bytes(without, kept, ("last",))[0]
