"""Rows as other sources write them: spellings, versions that are no sizes, and their order."""

from __future__ import annotations

import random
from typing import Any

import pytest

from costmodel.training.dataset import read_entries
from costmodel.training.machines import machine_of
from costmodel.training.predict import predict
from costmodel.training.records import LayoutError, TrainingModel
from costmodel.training.rows import read_row
from costmodel.training.sizes import model_parameters
from costmodel.training.table import RunTable
from tests.costmodel.training.test_rows import ROW

TITAN = ROW | {
    "source": "github:pytorch/torchtitan benchmarks/llama3_h100_202412_torchtitan.md",
    "hardware": "NVIDIA H100", "devices": "64", "tp": "1", "pp": "8", "dp": "8",
    "global_batch": "256", "micro_batch": "", "notes": "3D, 1F1B, local batch 32",
}  # fmt: skip


def model(name: str, **cells: str) -> TrainingModel:
    return read_row(ROW | {"model": name, "tp": "1", "dp": "16"} | cells).run.model


@pytest.mark.parametrize(
    ("column", "plain", "words"),
    [
        ("hidden", "5120", ("5 120", "5'120", "5\N{NARROW NO-BREAK SPACE}120", "5.12e3")),
        ("vocab", "", ("nan", "None", "null", "?", "TBD", "not reported")),
        ("servers", "", ("none", "NaN")),
        ("recompute", "", ("nan", "<NA>", "unspecified")),
        ("recompute", "full", ("full AC", "remat full")),
        ("recompute", "none", ("no AC", "w/o")),
        ("recompute", "selective", ("op SAC", "per-op SAC", "selective (op)")),
        ("zero_stage", "1", ("1.000000e+00", "+1", "1 (distributed optimizer)", "zero_1")),
        ("zero_stage", "2", ("SHARD_GRAD_OP", "2 (gradients)")),
        ("sequence_parallel", "yes", ("1.0",)),
        ("sequence_parallel", "no", ("0.0", "without")),
    ],
)
def test_spellings_of_one_value_are_one_run(
    column: str, plain: str, words: tuple[str, ...]
) -> None:
    usual = read_row(ROW | {column: plain}).run
    for word in words:
        assert read_row(ROW | {column: word}).run == usual, word


def test_an_unstated_policy_is_none_for_the_flags_too() -> None:
    maxtext = ROW | {"source": "maxtext", "hardware": "TPU v6e", "recompute": ""}
    assert read_row(maxtext | {"recompute": "n/a"}).run == read_row(maxtext).run


@pytest.mark.parametrize(
    ("hardware", "name"),
    [
        ("Ascend 910_9391", "ascend-910c"),
        ("Atlas 900 A3 SuperPoD", "ascend-910c"),
        ("Atlas 800T-A2", "ascend-910b3"),
        ("A3 Ultra (H200)", "h200"),
    ],
)
def test_names_of_boards(hardware: str, name: str) -> None:
    assert machine_of(hardware).name == name


@pytest.mark.parametrize("hardware", ["a3-megagpu-8g", "A3 Mega", "a3-ultragpu-8g"])
def test_a_machine_of_another_maker_is_not_taken_for_one_that_is_known(hardware: str) -> None:
    with pytest.raises(LayoutError, match="is not in"):
        machine_of(hardware)


@pytest.mark.parametrize(
    ("name", "other", "vocab"),
    [
        ("LLaMA-33B", "LLaMA3-8B", 32000),
        ("CodeLlama-34B", "Llama-3.1-8B", 32000),
        ("InternLM_20B", "InternLM2-20B", 103168),
        ("deepseek-33b", "deepseek-v3", 32256),
    ],
)
def test_a_size_is_no_version(name: str, other: str, vocab: int) -> None:
    unsaid = {"vocab": ""}
    assert model(name, **unsaid).vocab == vocab != model(other, **unsaid).vocab


def test_gemma_of_2b_is_not_gemma_2() -> None:
    assert (model("gemma-2b").window, model("gemma-2-2b").window) == (0, 4096)


@pytest.mark.parametrize("name", ["deepseek-33b", "deepseek1_5-7b", "DeepSeek-R1-Distill-Llama-8B"])
def test_dense_models_of_a_family_have_no_experts(name: str) -> None:
    found = model(name)
    assert (found.experts, found.kv_rank, found.head_size) == (0, 0, 128)


def test_latent_attention_has_as_many_heads_of_keys() -> None:
    shared, latent = model("deepseek-v2", kv_heads="8"), model("deepseek-v2", kv_heads="40")
    assert (shared.kv_rank, shared.value_size, shared.head_size) == (0, 0, 128)
    assert (latent.kv_rank, latent.head_size) == (512, 192)


@pytest.mark.parametrize(
    ("name", "cells", "billions"),
    [
        ("NEMOTRONH_56B", {}, 56.0),
        ("Nemotron-H-8B", {}, 8.1),
        ("Nemotron-H-47B", {}, 46.8),
        ("mamba2_8b", {"hidden": "4096", "layers": "56", "heads": "32", "kv_heads": "8"}, 8.2),
        ("ChatGLM-6B", {"hidden": "4096", "layers": "28", "heads": "32",
                        "ffn_hidden": "16384"}, 6.7),
        ("Moonlight-16B-A3B", {"hidden": "2048", "layers": "27", "heads": "16",
                               "ffn_hidden": "11264"}, 16.0),
    ],
)  # fmt: skip
def test_names_make_the_parameters_that_they_say(
    name: str, cells: dict[str, str], billions: float
) -> None:
    empty = dict.fromkeys(("hidden", "layers", "heads", "kv_heads", "ffn_hidden", "vocab"), "")
    row: dict[str, Any] = ROW | empty | {"model": name, "tp": "1", "dp": "16"} | cells
    table = RunTable.of([read_row(row).run])
    assert float(model_parameters(table)[0]) / 1e9 == pytest.approx(billions, rel=0.05)


def test_sizes_that_do_not_make_the_stated_parameters_are_named() -> None:
    assert read_row(ROW | {"params": "13B"}).unread == ()
    (said,) = read_row(ROW | {"params": "130B-A5B"}).unread
    assert "make 13B parameters, column 'params' says 130B-A5B" in said


@pytest.mark.parametrize(("name", "asks"), [("OLMoE", True), ("New-8x7B", True), ("Amoeba", False)])
def test_a_name_that_says_experts_without_any_is_a_guess(name: str, asks: bool) -> None:
    assert ("experts" in read_row(ROW | {"model": name}).assumed) is asks
    stated = ROW | {"model": name, "notes": "num-experts=8; moe-router-topk=2"}
    assert "experts" not in read_row(stated).assumed


@pytest.mark.parametrize(
    ("cells", "micro", "vpp"),
    [
        ({}, 4, 1),
        ({"global_batch": "64"}, 1, 1),
        ({"global_batch": "80"}, 1, 1),
        ({"pp": "1", "dp": "64"}, 4, 1),
        ({"notes": "Interleaved 1F1B"}, 4, 2),
        ({"notes": "schedule=Interleaved1F1B", "vpp": "4"}, 4, 4),
        ({"notes": "non-interleaved 1F1B"}, 4, 1),
        ({"notes": "Interleaved 1F1B", "layers": "12"}, 4, 1),
        ({"notes": "Interleaved 1F1B", "micro_batch": "32"}, 32, 1),
    ],
)
def test_a_pipeline_splits_its_batch_as_the_software_does(
    cells: dict[str, str], micro: int, vpp: int
) -> None:
    layout = read_row(TITAN | cells).run.layout
    assert (layout.micro_batch, layout.vpp) == (micro, vpp)


def test_a_prediction_is_of_its_row_alone() -> None:
    """To more digits than are written: in any order, in parts, and beside copies."""
    rows = [
        ROW | {"id": f"{tp}-{micro}", "tp": str(tp), "dp": str(16 // tp), "micro_batch": str(micro),
               "hardware": hardware}
        for tp in (1, 2, 8) for micro in (1, 2)
        for hardware in (ROW["hardware"], "Ascend 910B3", "NVIDIA H100")
    ]  # fmt: skip

    def priced(some: list[dict[str, str]]) -> list[tuple[str, ...]]:
        runs = [entry.read.run for entry in read_entries(some) if entry.read]
        return [
            tuple(f"{n:.12g}" for n in (p.step_s, p.low_s, p.high_s, p.memory_bytes))
            for p in predict(runs)
        ]

    usual = priced(rows)
    order = random.Random(1).sample(range(len(rows)), len(rows))
    assert priced([rows[i] for i in order]) == [usual[i] for i in order]
    assert priced(rows[:7]) + priced(rows[7:]) == usual
    assert priced(rows + rows) == usual + usual


@pytest.mark.parametrize(
    ("batch", "micro"), [("64", 8), ("128", 8), ("256", 8), ("16", 2), ("96", 2)]
)
def test_maxtext_adds_up_whole_batches_of_all_devices(batch: str, micro: int) -> None:
    """Of 32 devices, 4 to a replica, with 2 sequences each: a step accumulates as many batches of
    64 as it has; one that is no multiple of that counts by replicas.
    """
    change = {"source": "maxtext", "hardware": "TPU v5p", "devices": "32", "tp": "4", "dp": "8"}
    layout = read_row(ROW | change | {"micro_batch": "2", "global_batch": batch}).run.layout
    assert layout.micro_batch == micro


@pytest.mark.parametrize(
    ("model", "frozen"),
    [
        ("LLAMA3_70B_LoRA", True),
        ("LLAMA3-70B (QLoRA)", True),
        ("glm2_6b_ptuning2", True),
        ("LLAMA3_70B", False),
        ("Floralm-7B", False),
    ],
)
def test_a_name_says_that_a_model_is_tuned_by_few_parameters(model: str, frozen: bool) -> None:
    assert ("frozen" in read_row(ROW | {"model": model}).run.flags) == frozen
