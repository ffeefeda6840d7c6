"""Predictions: intervals, families, and fitting that finds constants again."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import yaml

import data
from costmodel.training.calibration import (
    Ends,
    general_constants,
    neighbours_of,
    parse_calibration,
    shipped_calibration,
)
from costmodel.training.families import block_of, families, family_of
from costmodel.training.fitting import fit
from costmodel.training.generic import GENERIC
from costmodel.training.neighbours import KNOWN
from costmodel.training.own_cluster import calibration_yaml
from costmodel.training.predict import predict
from costmodel.training.records import LayoutError
from costmodel.training.sizes import model_flops
from costmodel.training.step import step_times
from costmodel.training.table import RunTable
from tests.costmodel.training.runs import GPT, LLAMA, ROUTED, run

RUNS = [
    run(GPT, tp=tp, dp=dp, micro_batch=mb) for tp in (1, 2, 4) for dp in (1, 4) for mb in (1, 4)
]


def test_the_prediction_lies_in_its_interval() -> None:
    for found in predict(RUNS):
        assert found.low_s < found.step_s < found.high_s
        assert found.memory_bytes > 0
        assert found.inherited == ""


@pytest.mark.parametrize("profile", ["megatron", "megatron-core", "mindspeed"])
def test_there_is_no_interval_where_no_run_had_the_precision(profile: str) -> None:
    half = replace(run(LLAMA, "h100"), profile=profile, precision="bf16")
    (own,), (wide,) = predict([half]), predict([replace(half, precision="fp32")])
    assert own.low_s < own.high_s
    assert not own.unlike
    assert math.isnan(wide.low_s)
    assert math.isnan(wide.high_s)
    assert wide.unlike == "uncalibrated: no published run had products in fp32"
    assert wide.step_s > own.step_s


def test_an_interval_is_not_widened_beyond_all_use() -> None:
    """Where rows of a block contradict one another many times, guesses do not multiply that."""
    odd = replace(run(LLAMA, machine="ascend-910a"), profile="mindformers")
    ends = Ends((-4.0, 24.0), (-4.0, 24.0))
    known = replace(shipped_calibration(), interval={block_of(odd): ends})
    (plain,), (guessed,) = predict([odd], (), known), predict([odd], [9], known)
    assert plain.high_s > 10 * plain.step_s
    assert guessed.high_s == pytest.approx(plain.high_s)
    assert plain.step_s / 10 < guessed.low_s < plain.low_s


def test_runs_like_measured_ones_have_narrower_intervals() -> None:
    """Ends of the block for known and for new runs, times the deviation of the run."""
    layout: dict[str, Any] = {"seq_len": 8192, "zero_stage": 3, "dp": 8, "sequence_parallel": True}
    known = replace(LLAMA, kv_heads=8, ffn=14336, vocab=128256)
    runs = [
        replace(run(model, "h100", **layout), profile="megatron-core", precision="fp8")
        for model in (known, replace(known, hidden=6144, heads=48, ffn=24576))
    ]
    machines = np.array([each.machine for each in runs])
    similar = neighbours_of("megatron-core-hopper").deviation(RunTable.of(runs), machines)
    assert similar[0] < KNOWN < 0.65 * similar[1]
    ends = shipped_calibration().interval["megatron-core-hopper"]
    for found, deviation, (low, high) in zip(
        predict(runs), similar, (ends.known, ends.new), strict=True
    ):
        assert found.low_s == pytest.approx(found.step_s * np.exp(low * deviation))
        assert found.high_s == pytest.approx(found.step_s * np.exp(high * deviation))


def test_guesses_widen_the_interval() -> None:
    plain, guessed = predict([RUNS[0], RUNS[0]], [0, 3])
    assert guessed.step_s == plain.step_s
    assert guessed.high_s > plain.high_s
    assert guessed.low_s < plain.low_s


def test_chips_without_rows_inherit_and_say_so() -> None:
    strange = replace(RUNS[0], profile="mindspeed", machine="h100")
    (found,) = predict([strange])
    assert "mindspeed" in found.inherited
    assert found.high_s / found.step_s > predict([RUNS[0]])[0].high_s / predict([RUNS[0]])[0].step_s


@pytest.mark.parametrize(
    ("profile", "guesses"), [("maxtext", 0), ("pytorch", 10), ("megatron-core", 10)]
)
def test_constants_of_others_leave_room_for_what_others_were_off(
    profile: str, guesses: int
) -> None:
    """However well a family knows its own runs, others were measured to be further from it."""
    (found,) = predict([replace(run(tp=8), profile=profile, machine="h100")], [guesses])
    assert found.low_s <= found.step_s * np.exp(-0.30)
    assert found.high_s >= found.step_s * np.exp(0.54)
    (own,) = predict([replace(run(tp=8), profile="megatron-core", machine="h100")])
    assert own.low_s > own.step_s * np.exp(-0.30)


@pytest.mark.fast
def test_software_that_nobody_names_counts_once() -> None:
    """Its constants are others' because nobody names it: the interval is not widened for both."""
    inside = run(dp=8, zero_stage=3)
    unnamed = replace(inside, profile="pytorch", machine="h100")
    known = replace(unnamed, profile="fsdp")
    ten, own = predict([unnamed], [10])[0], predict([known])[0]
    assert ten.step_s == own.step_s
    widened = np.log(ten.high_s / ten.step_s) / np.log(own.high_s / own.step_s)
    assert widened == pytest.approx(max(2.2, 0.54 / np.log(own.high_s / own.step_s)))


def test_every_family_has_constants() -> None:
    assert set(shipped_calibration().constants) == {*families(), GENERIC}


def test_a_run_belongs_to_the_family_of_its_stack_and_chips() -> None:
    core = replace(run(ROUTED, machine="h100"), profile="megatron-core")
    assert family_of(core)[0].name == "megatron-core-routed"
    assert family_of(replace(core, model=LLAMA))[0].name == "megatron-core-hopper"
    assert block_of(run(tp=8)) == "megatron-ampere, one server"
    assert block_of(run(tp=8, dp=2)) == "megatron-ampere, several servers"


@pytest.mark.fast
def test_a_fit_finds_the_constants_that_made_the_times() -> None:
    start = general_constants()
    truth = replace(start, matmul=0.6, host_s=1e-3, memory=0.6)
    times = step_times(RunTable.of(RUNS), truth).total
    found = fit(RunTable.of(RUNS), times, ("matmul", "host_s", "memory"), start, tightness=5.0)
    assert found.matmul == pytest.approx(0.6, rel=0.03)
    assert found.host_s == pytest.approx(1e-3, rel=0.05)
    assert found.memory == pytest.approx(0.6, rel=0.1)


def test_priors_hold_constants_that_no_row_moves() -> None:
    start = general_constants()
    times = step_times(RunTable.of(RUNS), start).total
    found = fit(RunTable.of(RUNS), times * 1.3, ("matmul", "ep_hidden"), start)
    assert found.ep_hidden == pytest.approx(start.ep_hidden, abs=1e-3)


def test_model_flops_are_six_per_parameter_and_token_and_attention() -> None:
    """Narayanan et al., SC21: 72 B L s h^2 (1 + s / 6 h + V / 12 L h)."""
    square = replace(GPT, causal=False)
    table = RunTable.of([run(square)])
    h, layers, s, v, b = 2048.0, 24.0, 2048.0, 51200.0, 64.0
    expected = 72 * b * layers * s * h**2 * (1 + s / (6 * h) + v / (12 * layers * h))
    assert model_flops(table)[0] == pytest.approx(expected, rel=1e-12)


def test_a_calibration_survives_its_file() -> None:
    known = shipped_calibration()
    again = parse_calibration(calibration_yaml(known))
    assert predict(RUNS, (), again)[0].step_s == pytest.approx(predict(RUNS)[0].step_s, rel=1e-4)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it is no YAML with families"),
        ("id,model\nx,y", "it is no YAML with families"),
        ("a: [", "no calibration"),
        ("families: {x: {constants: {speed: 1}}}", "unknown constants"),
        ("families: {x: {constants: {matmul: .nan}}}", "not finite"),
        ("families: {x: {constants: {matmul: -1}}}", "negative"),
        ("families: {}", "no constants of"),
    ],
)
def test_no_calibration(text: str, said: str) -> None:
    with pytest.raises(LayoutError, match=said):
        parse_calibration(text)


@pytest.mark.parametrize(
    ("interval", "said"),
    [
        (None, "'interval' is missing"),
        ([0.1, float("nan")], "no ends"),
        ([0.1, -0.1], "no ends"),
        ([0.1], "no calibration"),
    ],
)
def test_no_interval(interval: list[float] | None, said: str) -> None:
    file = yaml.safe_load(calibration_yaml(shipped_calibration()))
    own = file.pop("interval")
    if interval is not None:
        file["interval"] = {**own, next(iter(own)): interval}
    with pytest.raises(LayoutError, match=said):
        parse_calibration(yaml.safe_dump(file))


def test_a_calibration_of_an_earlier_version_is_told_as_such() -> None:
    file = yaml.safe_load(calibration_yaml(shipped_calibration()))
    file["spread"] = file.pop("interval")
    with pytest.raises(LayoutError, match="earlier version"):
        parse_calibration(yaml.safe_dump(file))


@pytest.mark.fast
def test_one_pair_of_ends_stands_for_known_and_new_runs() -> None:
    """So that calibrations of a user's own from before both were told apart still hold."""
    text = calibration_yaml(shipped_calibration())
    file = yaml.safe_load(text)
    block = "megatron-volta"
    assert parse_calibration(text).interval[block] == shipped_calibration().interval[block]
    file["interval"][block] = [-1.0, 2.0]
    ends = parse_calibration(yaml.safe_dump(file)).interval[block]
    assert ends.known == ends.new == (-1.0, 2.0)


def test_the_host_of_unfused_layers_begins_at_what_was_measured_in_eager_pytorch() -> None:
    """Steps on one GPU in which the host, not the device, decides: what a pass of a layer takes."""
    layers = {"gpt2-xl": 48, "vit-large": 24}
    passes = []
    for row in csv.DictReader(io.StringIO(data.read_text("calibration/gpu_steps.csv"))):
        count = layers.get(row["model"])
        plain = row["compiled"] == "0" and row["dtype"] == "bfloat16" and row["recompute"] == "full"
        if count and plain and float(row["host_s"]) >= 0.98 * float(row["step_s"]):
            alone_s = float(row["step_10_s"]) - float(row["update_s"])
            passes.append(alone_s / (3 * count))
    assert len(passes) >= 4
    prior = families()["megatron-ampere"].priors["host_s"]
    assert prior == pytest.approx(float(np.median(passes)), rel=0.05)
