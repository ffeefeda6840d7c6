"""Rows of a table: what is read, what is assumed, what is refused."""

from __future__ import annotations

import pytest

from costmodel.training.records import Attention, LayoutError, Recompute, TrainingLayout
from costmodel.training.rows import read_row
from costmodel.training.stacks import software_flags

ROW = {
    "id": "one",
    "source": "Ascend/MindSpeed-LLM@v1.0.0",
    "hardware": "Ascend 910B (Atlas 900 A2 PODc)",
    "devices": "16",
    "model": "LLaMA2-13B",
    "hidden": "5120",
    "layers": "40",
    "heads": "40",
    "kv_heads": "40",
    "ffn_hidden": "13824",
    "vocab": "32000",
    "seq_len": "4096",
    "global_batch": "64",
    "micro_batch": "2",
    "tp": "8",
    "pp": "1",
    "dp": "2",
    "recompute": "none",
    "dtype": "bf16",
    "notes": "use-flash-attn; use-mc2",
}


def test_a_full_row() -> None:
    found = read_row(ROW)
    run = found.run
    assert (run.layout.tp, run.layout.dp, run.model.ffn) == (8, 2, 13824)
    assert (run.profile, run.machine, run.precision) == ("mindspeed", "ascend-910b", "bf16")
    assert run.attention is Attention.FLASH
    assert "fused-tp" in run.flags
    assert found.assumed == ()


def test_what_was_measured_is_not_read() -> None:
    measured = {"measured_step_time_s": "1", "measured_memory_gb": "x", "measured_mfu": "9"}
    assert read_row(ROW | measured) == read_row(ROW)
    checked = ROW["notes"] + "; [check] derived model TFLOP/s/dev=115; num-experts=8"
    without = ROW["notes"] + "; num-experts=8"
    assert read_row(ROW | {"notes": checked}) == read_row(ROW | {"notes": without})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden": ""}, "'hidden' is empty"),
        ({"layers": "forty"}, "no number"),
        ({"tp": "-8"}, "not a whole number"),
        ({"heads": "1e400"}, "not a whole number"),
        ({"seq_len": "nan"}, "not a whole number"),
        ({"devices": "17"}, "are not 17 devices"),
        ({"pp": "64", "devices": "1024"}, "64 pipeline stages"),
        ({"global_batch": "1"}, "global batch of 1"),
        ({"hardware": "abacus"}, "is not in"),
        ({"dtype": "int3"}, "known: fp32"),
        ({"recompute": "sometimes"}, "known: none"),
        ({"zero_stage": "7"}, "known: 0 to 3"),
        ({"notes": "INCONSISTENT: dp*tp*pp*cp != devices"}, "inconsistent"),
        ({"dp": "", "devices": ""}, "neither 'dp' nor 'devices'"),
    ],
)
def test_a_row_that_cannot_be_is_refused(change: dict[str, str], message: str) -> None:
    with pytest.raises(LayoutError, match=message):
        read_row(ROW | change)


def test_what_a_row_leaves_out_is_assumed_and_said() -> None:
    found = read_row(ROW | {"vocab": "", "ffn_hidden": "", "recompute": "", "micro_batch": ""})
    assert set(found.assumed) == {"vocab", "ffn_hidden", "recompute", "micro_batch"}
    assert (found.run.model.vocab, found.run.model.ffn) == (32000, 13824)


def test_replicas_follow_from_devices() -> None:
    assert read_row(ROW | {"dp": ""}).run.layout.dp == 2


def test_experts_from_notes() -> None:
    notes = "num-experts=160; moe-router-topk=6; moe-intermediate-size=1536; n-shared-experts=2"
    model = read_row(ROW | {"notes": notes + "; first-k-dense-replace=1"}).run.model
    assert (model.experts, model.experts_per_token, model.expert_ffn) == (160, 6, 1536)
    assert (model.shared_ffn, model.dense_layers) == (3072, 1)
    words = "MoE 256 routed + 1 shared, top-8, moe_ffn 2048, first 3 layers dense, MLA"
    model = read_row(ROW | {"notes": words}).run.model
    assert (model.experts, model.experts_per_token, model.expert_ffn) == (256, 8, 2048)
    assert (model.shared_ffn, model.dense_layers) == (2048, 3)


def test_head_size_from_notes() -> None:
    assert read_row(ROW | {"notes": "kv-channels=256"}).run.model.head_size == 256


def test_stages_and_recomputed_layers_from_notes() -> None:
    notes = "num-layer-list=9,10,11,10; recompute-method=block recompute-num-layers=5"
    change = {"notes": notes, "recompute": "full", "pp": "4", "devices": "64"}
    layout = read_row(ROW | change).run.layout
    assert layout.stage_layers == (9, 10, 11, 10)
    assert (layout.recompute, layout.recompute_share) == (Recompute.FULL, 0.5)


def test_attention_is_what_the_stack_does_by_default() -> None:
    assert read_row(ROW | {"notes": ""}).run.attention is Attention.UNFUSED
    core = ROW | {"notes": "", "source": "NeMo", "hardware": "NVIDIA H100"}
    assert read_row(core).run.attention is Attention.FLASH
    assert (
        read_row(core | {"notes": "use_flash_attention=False"}).run.attention is Attention.UNFUSED
    )


def test_ports_from_the_text_of_the_network() -> None:
    text = "8x A100 NVLink per node; 800 Gb/s inter-node per node (value in the configs)"
    run = read_row(ROW | {"hardware": "NVIDIA A100", "interconnect": text}).run
    assert run.port_bytes_per_s == pytest.approx(12.5e9)


def test_adapters_leave_weights_frozen() -> None:
    assert "frozen" in read_row(ROW | {"notes": "PET/LoRA fine-tune"}).run.flags


def test_an_older_release_is_marked() -> None:
    old = ROW | {"source": "mindspore-lab/mindformers@v1.1.0 cards"}
    assert "old-release" in read_row(old).run.flags
    new = ROW | {"source": "mindspore-lab/mindformers@v1.10.0 cards"}
    assert "old-release" not in read_row(new).run.flags


@pytest.mark.parametrize(
    ("source", "notes", "old"),
    [
        ("NVIDIA-NeMo docs", "NeMo24.07 container", True),
        ("NVIDIA-NeMo docs", "container 25.09", False),
        ("NVIDIA-NeMo report_202412_nemo.md", "", True),
        ("NVIDIA-NeMo report_202506_nemo.md", "", False),
        ("NVIDIA-NeMo/Megatron-Bridge@v0.2.0", "", False),
        ("mindformers report_202312_cards.md", "", False),
        ("mindformers@v1.2.0", "", True),
        ("torchtitan@v0.1.0", "fsdp+compile", False),
    ],
)
def test_versions_and_months_are_not_compared(source: str, notes: str, old: bool) -> None:
    """A container 24.07 is a month, as is a report of December 2024; release 0.2 is neither."""
    row = ROW | {"source": source, "notes": notes, "hardware": "NVIDIA H100"}
    flags = read_row(row).run.flags
    assert ("old-release" in flags) is old
    if "torchtitan" in source:
        assert "fused-loss" in flags


@pytest.mark.parametrize(
    ("source", "notes", "split"),
    [
        ("MindSpeed-LLM", "num-experts=8", True),
        ("MindSpeed-LLM", "num-experts=8; expert-tensor-parallel-size=1", False),
        ("MindSpeed-LLM tests/tp2pp1ep2etp1.sh", "num-experts=8", False),
        ("Megatron-Bridge", "num-experts=8", False),
    ],
)
def test_who_splits_the_widths_of_experts(source: str, notes: str, split: bool) -> None:
    row = ROW | {"source": source, "notes": notes}
    assert ("split-experts" in read_row(row).run.flags) is split


def test_boards_of_one_family_differ() -> None:
    assert read_row(ROW | {"hardware": "Ascend 910B (Atlas 800T A2)"}).run.machine == "ascend-910b3"


def test_the_buffer_of_an_expert_is_read() -> None:
    notes = "num-experts=8; moe-router-topk=2; moe_config={'capacity_factor': 1.5, 'x': 2}"
    assert read_row(ROW | {"notes": notes}).run.model.expert_capacity == 1.5
    assert read_row(ROW | {"notes": "num-experts=8"}).run.model.expert_capacity == 1.0


def test_the_name_of_a_public_model_stands_for_its_sizes() -> None:
    empty = {"model": "DeepSeekV3 (dropless)", "hidden": "", "layers": "", "heads": ""}
    model = read_row(ROW | empty).run.model
    assert (model.hidden, model.layers, model.heads, model.experts) == (7168, 61, 128, 256)
    stated = read_row(ROW | empty | {"layers": "4"}).run.model
    assert stated.layers == 4


@pytest.mark.parametrize(("vpp", "hidden"), [("12", True), ("1", False)])
def test_a_recipe_may_hold_for_interleaved_stages_only(vpp: str, hidden: bool) -> None:
    row = ROW | {
        "source": "NVIDIA-NeMo/Megatron-Bridge", "hardware": "NVIDIA GB300",
        "model": "Qwen3_235B_A22B", "pp": "4", "tp": "1", "dp": "4", "vpp": vpp, "ep": "4",
    }  # fmt: skip
    assert ("ep-overlap" in read_row(row).run.flags) is hidden


def test_a_layout_without_a_row_does_what_its_software_does() -> None:
    layout = TrainingLayout(global_batch=64, micro_batch=1, seq_len=4096, pp=4)
    assert "early-stop" in software_flags("fsdp", "a100-80g", "7B", layout)
    assert "scatter-stages" in software_flags("megatron", "a100-80g", "7B", layout)
    assert "graphs" in software_flags("megatron-core", "gb200", "7B", layout)
    assert software_flags("mindformers", "ascend-910b", "7B", layout) == {"split-experts"}


@pytest.mark.parametrize(
    ("source", "notes", "fused"),
    [
        ("benchmarks/llama3_h100_202412_torchtitan.md", "fsdp+compile", False),
        ("benchmarks/llama3_h100_2024-12_torchtitan.md", "fsdp+compile", False),
        ("benchmarks/llama3_h200_2025-06_torchtitan.md", "fsdp+compile", True),
        ("benchmarks/llama3_h200_202506_torchtitan.md", "fsdp+compile", True),
        ("benchmarks/llama3_h200_202506_torchtitan.md", "fsdp", False),
        ("torchtitan", "fsdp+compile", True),
        ("torchtitan@v2024.12", "fsdp+compile", False),
    ],
)
def test_later_releases_compile_the_loss_with_the_model(
    source: str, notes: str, fused: bool
) -> None:
    row = ROW | {"source": source, "notes": notes, "hardware": "NVIDIA H100"}
    assert ("fused-loss" in read_row(row).run.flags) == fused
    assert "fused-loss" in software_flags("torchtitan", "h100", "", TrainingLayout(8, 1, 2048))


def test_an_activation_is_one_kernel_where_the_row_says_so() -> None:
    fused = ROW | {"notes": "use-flash-attn; use-fused-swiglu"}
    assert "split-activation" in read_row(ROW).run.flags
    assert "split-activation" not in read_row(fused).run.flags
    assert "split-activation" not in read_row(ROW | {"source": "megatron"}).run.flags
    layout = TrainingLayout(8, 1, 2048)
    assert "split-activation" not in software_flags("mindspeed", "ascend-910b", "", layout)


@pytest.mark.parametrize(
    ("notes", "stages", "policy", "share"),
    [
        ("offset=[-1, 1, 1, -1]", (9, 11, 11, 9), Recompute.NONE, 1.0),
        ("offset=[-1, 1]", (), Recompute.NONE, 1.0),
        ("offset=[-1, 1, 1, 1]", (), Recompute.NONE, 1.0),
        ("offset=0", (), Recompute.NONE, 1.0),
        ("num-layer-list=8,10,11,11", (8, 10, 11, 11), Recompute.NONE, 1.0),
        ("recompute_config: recompute=[6, 3, 2, 3]", (), Recompute.FULL, 14 / 40),
        ("recompute=[0, 0, 0, 0] select_recompute=[8, 4, 4, 1]", (), Recompute.SELECTIVE, 17 / 40),
    ],
)
def test_what_each_stage_holds_and_computes_again(
    notes: str, stages: tuple[int, ...], policy: Recompute, share: float
) -> None:
    """An offset is what a stage has beyond the equal share; lists are layers of each stage."""
    row = ROW | {"tp": "2", "pp": "4", "dp": "2", "notes": notes}
    layout = read_row(row).run.layout
    assert layout.stage_layers == stages
    assert layout.recompute is policy
    assert layout.recompute_share == pytest.approx(share)
