from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from costmodel.training.memory import MemoryConstants, memory_use
from costmodel.training.predict import predict
from costmodel.training.records import Recompute, TrainingLayout, TrainingModel, TrainingRun
from costmodel.training.sizes import model_parameters
from planner.whatif import layouts
from planner.whatif.layouts import FloatArray, fastest, priced_layouts, rows_of, table_of
from tests.costmodel.simulation.runs import DELTA, ROUTED, STATES

LLAMA = TrainingModel("Llama-2-7B", 4096, 32, 32, 32, 128, 11008, 32000)
MIXTRAL = TrainingModel(
    "Mixtral-8x7B", 4096, 32, 32, 8, 128, 14336, 32000, experts=8, experts_per_token=2,
    expert_ffn=14336,
)  # fmt: skip


def _job(model: TrainingModel = LLAMA, batch: int = 64, machine: str = "h100") -> TrainingRun:
    return TrainingRun("job", model, TrainingLayout(batch, 1, 4096), machine, "megatron-core")


LATENT = replace(
    ROUTED, name="latent", kv_rank=512, query_rank=1536, rotary_size=64, head_size=192, further=1
)


@pytest.mark.parametrize("model", [LLAMA, MIXTRAL, LATENT, DELTA, STATES], ids=lambda m: m.name)
def test_layouts_cost_what_predict_says(model: TrainingModel) -> None:
    job = _job(model)
    found = priced_layouts(job, 16)
    chance = random.Random(1)
    picked = chance.sample(range(len(found.step_s)), 60)
    runs = [replace(job, layout=found.layout(i, job)) for i in picked]
    for index, one in zip(picked, predict(runs), strict=True):
        assert one.step_s == pytest.approx(found.step_s[index], rel=1e-12)
        assert one.fits == found.fits[index]


def test_robust_ranking_is_by_the_upper_quarter_and_prefers_what_was_measured() -> None:
    found = priced_layouts(_job(), 16)
    upper = found.upper_s[found.ranked(robust=True)]
    assert np.all(np.diff(upper) >= 0)
    assert np.all(found.upper_s > found.step_s)
    cut = found.layouts[:, layouts.COLUMNS.index("cp")] == 16
    wider = found.upper_s / found.step_s
    assert wider[cut].min() > wider.min() * 1.005


def _drawn(chance: random.Random, devices: int, batch: int, model: TrainingModel) -> TrainingLayout:
    tp = chance.choice([1, 2, 4, 8])
    pp = chance.choice([p for p in (1, 2, 4) if tp * p <= devices])
    dp = devices // (tp * pp)
    micro = chance.choice([m for m in (1, 2, 4) if batch % (dp * m) == 0])
    recompute = chance.choice(list(Recompute))
    chunks = model.layers // pp
    share = chance.randint(1, chunks) / chunks if recompute is Recompute.FULL else 1.0
    return TrainingLayout(
        batch, micro, 4096, tp=tp, pp=pp, dp=dp, zero_stage=chance.choice([0, 1, 2, 3]) * (dp > 1),
        sequence_parallel=tp > 1 and chance.random() < 0.5, recompute=recompute,
        recompute_share=share,
    )  # fmt: skip


@pytest.mark.parametrize("machine", ["h100", "a100-80g"])
def test_no_layout_that_anybody_draws_is_faster_and_fits(machine: str) -> None:
    job = _job(machine=machine)
    best = fastest(job, 16)
    assert best is not None
    (own,) = predict([best])
    assert own.fits
    assert best.layout.devices == 16
    chance = random.Random(2)
    drawn = [replace(job, layout=_drawn(chance, 16, 64, LLAMA)) for _ in range(300)]
    fitting = [each.step_s for each in predict(drawn) if each.fits]
    assert len(fitting) > 30
    assert own.step_s <= min(fitting) * (1 + 1e-9)


@pytest.mark.parametrize("flags", [frozenset(), frozenset({"split-experts"})], ids=["", "split"])
@pytest.mark.parametrize("devices", [1, 8, 24])
@pytest.mark.parametrize("model", [LLAMA, MIXTRAL, LATENT, DELTA, STATES], ids=lambda m: m.name)
def test_all_devices_together_hold_every_parameter(
    model: TrainingModel, devices: int, flags: frozenset[str]
) -> None:
    """Weights, gradients and optimizer states of all stages are those of the model at least."""
    job = replace(_job(model, 48), flags=flags)
    table = table_of(job, rows_of(job, devices, {}))
    every = MemoryConstants(context_bytes=0.0)
    first, middle, last = (memory_use(table, every, (at,)) for at in ("first", "middle", "last"))
    ranks, inner = table.tp * table.cp * table.dp, np.maximum(table.pp - 2.0, 0.0)
    total = model_parameters(table)
    for name, width in (("parameters", 2.0), ("gradients", 4.0), ("optimizer", 8.0)):
        held = getattr(first, name) + inner * getattr(middle, name)
        held = held + np.where(table.pp > 1, getattr(last, name), 0.0)
        assert np.all(held * ranks >= width * total * (1.0 - 1e-12)), name


def test_nothing_fits_that_needs_more_than_all_devices_have() -> None:
    """A mixture of 47 billion parameters, on 8 devices of 80 GB."""
    found = priced_layouts(_job(MIXTRAL, 8), 8)
    assert np.all(found.memory_bytes * 8 >= 14 * 46.7e9)
    assert not found.fits.any()


def test_nothing_fits_on_too_few_devices() -> None:
    assert fastest(_job(MIXTRAL), 1) is None


@pytest.mark.parametrize(
    ("layers", "pp", "chunks", "further"),
    [(126, 16, 8, 0), (61, 2, 8, 0), (61, 4, 4, 0), (47, 3, 1, 0), (61, 2, 8, 1), (60, 4, 4, 2)],
)
def test_chunks_may_be_short_of_a_layer(layers: int, pp: int, chunks: int, further: int) -> None:
    job = _job(replace(LLAMA, layers=layers, further=further), batch=pp * 4)
    found = priced_layouts(job, pp, {"pp": pp, "vpp": chunks})
    assert len(found.step_s)
    layouts = [found.layout(i, job) for i in range(0, len(found.step_s), 7)]
    for layout, one in zip(
        layouts, predict([replace(job, layout=x) for x in layouts]), strict=True
    ):
        assert layout.vpp == chunks
        assert one.step_s > 0
    priced = predict([replace(job, layout=x) for x in layouts])
    assert [one.step_s for one in priced] == pytest.approx(found.step_s[::7].tolist())
    assert [one.fits for one in priced] == found.fits[::7].tolist()


def test_every_part_of_the_work_is_said_before_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    begun: list[str] = []

    def found(*given: object) -> Iterator[FloatArray]:
        begun.append(said[-1])
        yield from blocks(*given)  # type: ignore[arg-type]

    def priced(*given: object) -> tuple[FloatArray, FloatArray, FloatArray]:
        begun.append(said[-1])
        return some(*given)  # type: ignore[arg-type]

    blocks, some = layouts._blocks, layouts._of_some
    monkeypatch.setattr(layouts, "_blocks", found)
    monkeypatch.setattr(layouts, "_of_some", priced)
    priced_layouts(_job(), 16, report=said.append)
    assert begun[0] == "looking for the layouts of 16 devices"
    assert begun[1].startswith("pricing ")
    assert sum(line.endswith(" layouts found") for line in said) > 1
