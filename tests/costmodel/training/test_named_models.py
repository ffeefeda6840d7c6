"""Sizes that stand by a model's name, and the multi-token prediction layers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.simulation.layout_stages import stage_layers
from costmodel.training.constants import StepConstants
from costmodel.training.ends import ends_s
from costmodel.training.memory import MemoryConstants, held_logits, layer_bytes, memory_use
from costmodel.training.records import LayoutError, TrainingModel
from costmodel.training.rows import read_row
from costmodel.training.sizes import held_parameters, model_flops, model_parameters
from costmodel.training.step import step_times, times_in_turn
from costmodel.training.table import RunTable
from planner.requests.training_models import training_model
from tests.costmodel.simulation.runs import LLAMA, ROUTED, STATES, small_run
from tests.importers.mixed_configurations import (
    NEMOTRON_3_NANO,
    NEMOTRON_3_SUPER,
    NEMOTRON_3_ULTRA,
)

BRIDGE = "Megatron-Bridge docs/performance-summary.md"
UNSIZED = {
    "id": "x", "source": BRIDGE, "hardware": "NVIDIA GB300", "devices": "64", "seq_len": "8192",
    "global_batch": "64", "micro_batch": "1", "dp": "64", "ep": "64", "notes": "container 26.08",
}  # fmt: skip


FLAGS = (frozenset[str](), frozenset({"recompute-heads"}))


def model_of(name: str, **cells: str) -> TrainingModel:
    return read_row(UNSIZED | {"model": name} | cells).run.model


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("Nemotron_3_Nano", NEMOTRON_3_NANO),
        ("NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", NEMOTRON_3_NANO),
        ("Nemotron-3-Super-120B-A12B", NEMOTRON_3_SUPER),
        ("nemotron 3 ultra", NEMOTRON_3_ULTRA),
    ],
)
def test_a_name_stands_for_what_the_configuration_says(name: str, config: dict[str, Any]) -> None:
    found = replace(model_of(name), name="", global_every=1, further=0)
    assert found == training_model(config, "")[0]


@pytest.mark.parametrize(
    ("name", "billions"),
    [("gemma4-26b", 25.2), ("Gemma-4-31B", 30.7), ("gemma4-2b", 2.3), ("gemma4-4b", 4.5)],
)
def test_gemma_4_has_the_parameters_that_its_card_states(name: str, billions: float) -> None:
    table = RunTable.of([read_row(UNSIZED | {"model": name, "ep": "1"}).run])
    assert float(model_parameters(table)[0]) / 1e9 == pytest.approx(billions, rel=0.05)


@given(hidden=st.integers(1, 64), layers=st.integers(3, 60), heads=st.sampled_from([64, 128, 192]))
@settings(max_examples=20, deadline=None)
def test_a_row_goes_before_the_name(hidden: int, layers: int, heads: int) -> None:
    pattern = ("ME*" * 20)[:layers]
    own = f"layer-pattern={pattern}; mixer-heads={heads}; num-experts=64; moe-latent-size=512"
    found = model_of("Nemotron_3_Super", hidden=str(128 * hidden), layers=str(layers), notes=own)
    assert (found.hidden, found.layers, found.experts) == (128 * hidden, layers, 64)
    assert (found.attention_layers, found.expert_hidden) == (pattern.count("*"), 512)
    assert found.mixer is not None
    assert (found.mixer.heads, found.mixer.key_heads) == (heads, 8)
    assert found.mixer.layers == pattern.count("M")


def test_layers_of_its_own_take_no_pattern_from_the_name() -> None:
    own = "mixer=mamba2; mixer-layers=3; mixer-heads=8; mixer-key-size=64; mixer-value-size=64"
    found = model_of("Nemotron_3_Nano", layers="4", notes=own)
    assert (found.attention_layers, found.bare_layers) == (1, 0)
    with pytest.raises(LayoutError, match="layers are 26, of the model of this name 52"):
        model_of("Nemotron_3_Nano", layers="26")


def test_heads_of_keys_stand_by_the_name_only_beside_its_own_heads() -> None:
    assert model_of("Nemotron_3_Nano", heads="16").kv_heads == 16
    assert model_of("Nemotron_3_Nano", kv_heads="4").kv_heads == 4


@pytest.mark.parametrize("name", ["Nemotron-3-Nano-4B", "Nemotron-3.5-Nano", "gemma-5-2b"])
def test_a_model_of_another_name_has_no_sizes(name: str) -> None:
    with pytest.raises(LayoutError, match="'hidden' is empty"):
        model_of(name)


@pytest.mark.parametrize(
    ("row", "passes"),
    [
        ({"model": "DeepSeekV3"}, 1),
        ({"model": "DeepSeekV3 (w/ MTP)"}, 1),
        ({"model": "DeepSeekV3 (w/o MTP)"}, 0),
        ({"model": "DeepSeekV3 (w/o MTP)", "notes": "mtp-num-layers=1"}, 1),
        ({"model": "DeepSeekV3", "source": "NeMo 25.04"}, 0),
        ({"model": "DeepSeekV3", "source": "vLLM", "notes": "mtp_num_layers=3"}, 3),
        ({"model": "Nemotron_3_Ultra"}, 2),
        ({"model": "Nemotron_3_Ultra", "notes": "mtp-num-layers=0"}, 0),
        ({"model": "Nemotron_3_Nano"}, 0),
        ({"model": "Kimi-K2"}, 0),
    ],
)
def test_recipes_say_what_predicts_further_tokens(row: dict[str, str], passes: int) -> None:
    assert read_row(UNSIZED | row).run.model.further == passes


@pytest.mark.parametrize("stated", ["-1", "1.5", "2000000000"])
def test_a_number_of_further_tokens_that_cannot_be_skips_the_row(stated: str) -> None:
    row = UNSIZED | {"model": "DeepSeekV3", "notes": f"mtp-num-layers={stated}"}
    with pytest.raises(LayoutError, match="mtp-num-layers in 'notes' is"):
        read_row(row)


@pytest.mark.parametrize("model", [LLAMA, ROUTED, STATES])
def test_a_further_token_takes_a_layer_and_a_pass_of_the_head(model: TrainingModel) -> None:
    constants = StepConstants()
    runs = [small_run(replace(model, further=n), pp=1, dp=8, zero_stage=1) for n in range(3)]
    table = RunTable.of(runs)
    found = step_times(table, constants)
    one, two = np.diff(found.steady)
    assert two == pytest.approx(one)
    micro_batches = runs[0].layout.micro_batches
    layers = 2.0 / float(table.mixing.blocks[0])
    passes = float(found.layer_forward[0] + found.layer_backward[0])
    least = layers * passes + float(ends_s(table, constants)[1][0])
    assert micro_batches * least < one < micro_batches * (least + passes)
    assert np.all(np.diff(times_in_turn(table, constants).total) >= np.diff(found.total) * 0.999)
    memory = memory_use(table, MemoryConstants())
    assert np.allclose(np.diff(memory.activations), memory.activations[0] * layers / model.layers)
    assert np.all(np.diff(memory.parameters) > 0)
    assert np.all(np.diff(memory.logits) > 0)
    softmax = 4.0 * runs[0].layout.seq_len * model.vocab
    assert np.allclose(np.diff(held_logits(table, MemoryConstants()).at_work), softmax)
    assert np.ptp(np.diff(model_flops(table))) < 1e-9 * model_flops(table)[0]


@given(
    each=st.integers(2, 12),
    pp=st.sampled_from([2, 4, 8, 16]),
    vpp=st.sampled_from([1, 2, 4]),
    further=st.integers(1, 2),
)
@settings(max_examples=40, deadline=None)
def test_the_last_stage_has_fewer_layers_for_what_stands_behind_them(
    each: int, pp: int, vpp: int, further: int
) -> None:
    layers = each * pp * vpp - 2 - further
    model = replace(LLAMA, layers=layers, further=further)
    table = RunTable.of([small_run(model, pp=pp, vpp=vpp, dp=1)])
    first, last, most = (
        float(stage[0]) for stage in (table.first_layers, table.last_layers, table.most_layers)
    )
    if each * vpp > 2 + further:
        assert (first, last, most) == (each * vpp, each * vpp - 2 - further, each * vpp)
        assert first + last + (pp - 2) * most == layers
    assert min(first, last) >= 0
    assert first + last <= layers or pp == 2


@given(layers=st.integers(2, 130), pp=st.integers(2, 16), further=st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_stages_that_do_not_divide_evenly_spare_the_last_one_too(
    layers: int, pp: int, further: int
) -> None:
    layers = max(layers, pp)
    run = small_run(replace(LLAMA, layers=layers, further=further), pp=pp)
    stages = stage_layers(run)
    assert sum(stages) == layers
    assert stages[-1] >= 1
    assert max(stages[:-1]) - min(stages[:-1]) <= 1
    assert stages[-1] == 1 or stages[-1] + further + 2 <= max(stages)
    table = RunTable.of([run])
    ends = float(table.first_layers[0]), float(table.last_layers[0]), float(table.most_layers[0])
    assert ends == (stages[0], stages[-1], max(stages))


@pytest.mark.parametrize(("pp", "tied"), [(1, False), (1, True), (4, False), (4, True)])
def test_the_last_stage_has_a_copy_of_the_embedding_for_further_tokens(pp: int, tied: bool) -> None:
    """Unless it has it anyway; and the product that joins the next token's embedding."""
    kept, split = MemoryConstants(), (8,) * pp if pp > 1 else ()
    runs = [
        small_run(replace(LLAMA, further=n, tied=tied), pp=pp, stage_layers=split) for n in (0, 1)
    ]
    table = RunTable.of(runs)
    parameters = memory_use(table, kept, ("last",)).parameters
    hidden, vocab = LLAMA.hidden, LLAMA.vocab
    copied = vocab * hidden if pp > 1 and not tied else 0
    layer = float(held_parameters(table)[0])
    assert np.diff(parameters)[0] == pytest.approx(2 * (layer + 2 * hidden**2 + copied))


@pytest.mark.parametrize(
    ("hardware", "cells", "again"),
    [
        ("NVIDIA GB200", {}, True),
        ("NVIDIA GB300", {}, False),
        ("NVIDIA GB300", {"micro_batch": "2", "global_batch": "128"}, True),
        ("NVIDIA GB200", {"recompute": "none"}, False),
        ("NVIDIA GB200", {"source": "NeMo 25.04"}, False),
        ("NVIDIA GB300", {"notes": "recompute_modules=mla_up_proj"}, True),
    ],
)
def test_recipes_say_what_is_computed_again(
    hardware: str, cells: dict[str, str], again: bool
) -> None:
    row = UNSIZED | {"model": "DeepSeekV3", "hardware": hardware} | cells
    assert ("recompute-heads" in read_row(row).run.flags) is again


def test_heads_that_are_computed_again_leave_the_result_and_what_is_compressed() -> None:
    model = replace(LLAMA, kv_rank=512, query_rank=1536, rotary_size=64, head_size=192,
                    value_size=128)  # fmt: skip
    run = small_run(model, pp=4, tp=2)
    tables = [RunTable.of([replace(run, flags=f)]) for f in FLAGS]
    (kept, work), (less, more) = (layer_bytes(table, MemoryConstants()) for table in tables)
    dropped = 2 * (2 * 192 + 128) * model.heads / 2 * run.layout.seq_len
    assert float((kept - less)[0]) == pytest.approx(dropped)
    assert float((more - work)[0]) == pytest.approx(0.7 * dropped)
    dense = [RunTable.of([replace(small_run(), flags=f)]) for f in FLAGS]
    one, other = (layer_bytes(table, MemoryConstants())[0] for table in dense)
    assert one == other
