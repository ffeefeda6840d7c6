"""Rows of a table: what is read, what is assumed, what is refused."""

from __future__ import annotations

import pytest

from costmodel.training.records import Attention, LayoutError, Recompute, TrainingLayout
from costmodel.training.rows import read_row
from costmodel.training.stacks import software_flags
from costmodel.training.table import RunTable

pytestmark = pytest.mark.fast

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
    inside = "use-flash-attn [Check] num-experts=16, use-mc2; num-experts=8"
    before = "use-flash-attn; num-experts=8"
    assert read_row(ROW | {"notes": inside}) == read_row(ROW | {"notes": before})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden": ""}, "'hidden' is empty"),
        ({"layers": "forty"}, r"column 'layers' is 'forty', not a whole number from 1"),
        ({"vocab": "128k"}, "column 'vocab' is '128k', not a whole number"),
        ({"hidden": "51,20"}, "column 'hidden' is '51,20'"),
        ({"tp": "-8"}, "not a whole number"),
        ({"heads": "1e400"}, "not a whole number"),
        ({"seq_len": "inf"}, "not a whole number"),
        ({"devices": "17"}, "are not 17 devices"),
        ({"pp": "64", "devices": "1024"}, "64 pipeline stages"),
        ({"vpp": "30", "pp": "2", "dp": "1"}, "2 stages of 30 chunks for 40 layers"),
        ({"vpp": "2"}, "vpp is 2, but there is no pipeline"),
        (
            {"vpp": "2", "pp": "4", "tp": "2", "global_batch": "12"},
            "a multiple of 4 micro-batches, one for each stage; 3 is none",
        ),
        ({"tp": "16", "dp": "1"}, "tensor parallel 16 does not divide 40 heads"),
        ({"kv_heads": "80"}, "kv_heads 80 does not divide 40 heads"),
        ({"kv_heads": "7"}, "kv_heads 7 does not divide 40 heads"),
        ({"cp": "3", "devices": "48"}, "context parallel 3 does not divide 4096 tokens"),
        ({"global_batch": "63"}, "63 is no multiple of micro_batch 2 x dp 2"),
        ({"micro_batch": "64"}, "no multiple of micro_batch 64 x dp 2"),
        ({"ep": "2"}, "ep is 2, but no experts are stated"),
        ({"notes": "num-experts=24", "ep": "16"}, "16 does not divide 24 experts"),
        ({"notes": "num-experts=64", "ep": "32"}, "32 does not divide tp x cp x dp = 16"),
        ({"notes": "num-experts=4; moe-router-topk=8"}, "8 experts for each token, of 4"),
        ({"notes": "num-layer-list=9,9", "pp": "2", "dp": "1"}, "has 18 layers, the model 40"),
        ({"notes": "num-layer-list=20,20"}, "of 2 stages, the pipeline of 1"),
        ({"notes": "kv-channels=0"}, "kv-channels in 'notes' is 0"),
        ({"notes": "moe-router-topk=0; num-experts=8"}, "moe-router-topk in 'notes' is 0"),
        ({"sequence_parallel": "maybe"}, "sequence_parallel is 'maybe'; known: yes, no"),
        ({"global_batch": "1"}, "global batch of 1"),
        ({"hardware": "abacus"}, "is not in"),
        ({"dtype": "int3"}, "known: fp32"),
        ({"recompute": "sometimes"}, "known: none"),
        ({"recompute": "!"}, "known: none"),
        ({"recompute": "full (block)"}, "of how many layers is not stated"),
        ({"zero_stage": "7"}, "known: 0 to 3"),
        ({"zero_stage": "-1"}, "known: 0 to 3"),
        ({"zero_stage": "hsdp"}, "known: 0 to 3"),
        ({"hidden": "8", "heads": "40"}, "hidden 8 is less than 40 heads"),
        ({"devices": "1_6"}, "column 'devices' is '1_6'"),
        ({"notes": "num-experts=eight"}, "num-experts=eight is no number"),
        ({"notes": "num-experts=8.5"}, "num-experts in 'notes' is 8.5"),
        ({"notes": "num-experts=-8"}, "num-experts in 'notes' is -8"),
        ({"notes": "kv-channels=1e99"}, "kv-channels=1e99 is no number"),
        ({"notes": "num-experts=8; n-shared-experts=-2"}, "n-shared-experts in 'notes' is -2"),
        ({"notes": "num-experts=8; first-k-dense-replace=40"}, "40 of 40 layers are dense"),
        ({"notes": "num-layer-list=a,b"}, "num-layer-list=a,b is no list of whole numbers"),
        ({"notes": "noop-layers=0,40"}, "noop-layers=0,40 are not layers of 40"),
        ({"notes": "noop-layers=1,1"}, "noop-layers=1,1 are not layers of 40"),
        ({"notes": "INCONSISTENT: dp*tp*pp*cp != devices"}, "inconsistent"),
        ({"dp": "", "devices": ""}, "neither 'dp' nor 'devices'"),
    ],
)
def test_a_row_that_cannot_be_is_refused(change: dict[str, str], message: str) -> None:
    with pytest.raises(LayoutError, match=message):
        read_row(ROW | change)


_SIZES = (
    "devices", "hidden", "layers", "heads", "kv_heads", "ffn_hidden", "vocab", "seq_len",
    "global_batch", "micro_batch", "tp", "pp", "vpp", "dp", "cp", "ep",
)  # fmt: skip


@pytest.mark.parametrize("column", _SIZES)
def test_a_stated_0_is_not_read_as_unstated(column: str) -> None:
    for text in ("0", "0.0", "-0"):
        with pytest.raises(LayoutError, match=f"column '{column}' is '{text}', not a whole"):
            read_row(ROW | {column: text})


@pytest.mark.parametrize(
    "column",
    [
        "devices", "kv_heads", "ffn_hidden", "vocab", "micro_batch", "pp", "vpp", "dp", "cp", "ep",
        "zero_stage", "sequence_parallel", "recompute", "dtype",
    ],
)  # fmt: skip
def test_what_says_that_it_is_not_stated_is_as_an_empty_cell(column: str) -> None:
    for text in ("n/a", "N/A", "-", " - ", "not stated"):
        assert read_row(ROW | {column: text}) == read_row(ROW | {column: ""})


@pytest.mark.parametrize(
    ("column", "plain", "words"),
    [
        ("hidden", "5120", ("5,120", "5120.0", " 5120 ")),
        ("pp", "1", ("none", "off", "No")),
        ("ep", "1", ("none",)),
        ("zero_stage", "1", ("ZeRO-1", "zero1", "ZeRO stage 1", "stage 1", "1.0")),
        ("zero_stage", "3", ("fsdp", "FSDP2", "zero-3")),
        ("zero_stage", "0", ("none", "off", "no", "ddp", "")),
        ("sequence_parallel", "yes", ("on", "y", "Enabled", "true", "1")),
        ("sequence_parallel", "no", ("off", "n", "disabled", "false", "none", "0")),
        ("recompute", "none", ("no", "off", "0", "false", "Disabled", "no recompute")),
        (
            "recompute",
            "full",
            ("on", "1", "yes", "full (uniform)", "full/uniform", "uniform", "Full recomputation",
             "activation checkpointing"),
        ),
        (
            "recompute",
            "selective",
            ("selective (core attn)", "Selective recompute", "core_attn", "minimal"),
        ),
    ],
)  # fmt: skip
def test_words_with_one_meaning_are_understood(
    column: str, plain: str, words: tuple[str, ...]
) -> None:
    usual = read_row(ROW | {column: plain}).run
    for word in words:
        assert read_row(ROW | {column: word}).run == usual, word


def test_blocks_in_the_cell_take_their_number_from_the_notes() -> None:
    notes = {"notes": "recompute-num-layers=10"}
    layout = read_row(ROW | notes | {"recompute": "full; block"}).run.layout
    assert (layout.recompute, layout.recompute_share) == (Recompute.FULL, 0.25)
    assert read_row(ROW | notes | {"recompute": "full"}).run.layout.recompute_share == 1.0


def test_idle_layers_fill_stages() -> None:
    """64 chunks of 61 layers and 3 that do nothing, as in DeepSeek-V3 with MindSpeed."""
    change = {"layers": "64", "heads": "128", "kv_heads": "128", "pp": "8", "vpp": "8", "tp": "1"}
    row = ROW | change | {"notes": "noop-layers=47,62,63"}
    assert read_row(row).run.model.layers == 61
    with pytest.raises(LayoutError, match="8 stages of 8 chunks for 61 layers"):
        read_row(row | {"layers": "61", "notes": ""})


def test_embedding_and_head_may_be_stages() -> None:
    assert read_row(ROW | {"layers": "2", "pp": "4", "tp": "2"}).run.layout.pp == 4
    with pytest.raises(LayoutError, match="4 pipeline stages for 1 layers"):
        read_row(ROW | {"layers": "1", "pp": "4", "tp": "2"})


def test_no_experts_may_be_stated() -> None:
    mixtral = ROW | {"model": "Mixtral-8x7B", "notes": ""}
    assert read_row(mixtral).run.model.experts == 8
    assert read_row(mixtral | {"notes": "num-experts=0"}).run.model.experts == 0


def test_what_a_row_leaves_out_is_assumed_and_said() -> None:
    found = read_row(ROW | {"vocab": "", "ffn_hidden": "", "recompute": "", "micro_batch": ""})
    assert set(found.assumed) == {"vocab", "ffn_hidden", "recompute", "micro_batch"}
    assert (found.run.model.vocab, found.run.model.ffn) == (32000, 13824)


@pytest.mark.parametrize(
    ("source", "stage"),
    [("NVIDIA-NeMo/Megatron-Bridge", 1), ("pytorch/torchtitan", 3), ("llm-foundry", 3),
     ("MaxText", 3), ("vTrain", 0)],
)  # fmt: skip
def test_unstated_sharding_is_what_the_recipes_of_a_stack_do(source: str, stage: int) -> None:
    row = ROW | {"source": source, "hardware": "NVIDIA A100 80GB", "notes": ""}
    assert read_row(row).run.layout.zero_stage == stage
    assert ("zero_stage" in read_row(row).assumed) == (stage > 0)
    assert read_row(row | {"zero_stage": "0"}).run.layout.zero_stage == 0


def test_software_that_nobody_names_makes_the_interval_wider() -> None:
    named, other, like = (
        read_row(ROW | {"hardware": "NVIDIA H100", "source": source, "zero_stage": "1"})
        for source in ("Megatron-Bridge", "a paper", "a program with FSDP2")
    )
    profiles = [each.run.profile for each in (named, other, like)]
    assert profiles == ["megatron-core", "pytorch", "torchtitan"]
    assert named.run.layout == other.run.layout
    assert min(other.guesses, like.guesses) >= named.guesses + 10


@pytest.mark.parametrize(
    ("servers", "joined"), [("", 0), ("0", 0), ("0.5", 0), ("2", 0), ("4", 4), ("16", 1)]
)
def test_servers_with_fewer_devices_than_usual(servers: str, joined: int) -> None:
    """16 devices in as many servers: those of H100 usually have eight."""
    row = ROW | {"hardware": "NVIDIA H100", "dp": "", "devices": "16", "servers": servers}
    run = read_row(row | {"interconnect": "400 Gb/s per node"}).run
    assert run.layout.devices == 16
    assert run.server == joined
    assert RunTable.of([run]).machine.server == (joined or 8)
    assert run.port_bytes_per_s == pytest.approx(50e9 / (joined or 8))


@pytest.mark.parametrize("servers", ["two", "-1", "17"])
def test_servers_that_cannot_be(servers: str) -> None:
    row = ROW | {"hardware": "NVIDIA H100", "dp": "", "devices": "16", "servers": servers}
    with pytest.raises(LayoutError, match="servers"):
        read_row(row)


def test_what_policies_of_maxtext_keep() -> None:
    row = ROW | {"hardware": "NVIDIA H100", "source": "MaxText"}
    kept = {
        policy: read_row(row | {"recompute": policy}).run
        for policy in ("minimal", "minimal_flash", "save_dot_with_context_except_mlp", "full")
    }
    assert [run.layout.recompute for run in kept.values()] == [
        Recompute.SELECTIVE, Recompute.NONE, Recompute.FULL, Recompute.FULL,
    ]  # fmt: skip
    keeping = [policy for policy, run in kept.items() if "keeps-attention" in run.flags]
    assert keeping == ["save_dot_with_context_except_mlp"]


def test_replicas_follow_from_devices() -> None:
    assert read_row(ROW | {"dp": ""}).run.layout.dp == 2


def test_ports_from_the_text_of_the_network() -> None:
    text = "8x A100 NVLink per node; 800 Gb/s inter-node per node (value in the configs)"
    run = read_row(ROW | {"hardware": "NVIDIA A100", "interconnect": text}).run
    assert run.port_bytes_per_s == pytest.approx(12.5e9)


def test_boards_of_one_family_differ() -> None:
    assert read_row(ROW | {"hardware": "Ascend 910B (Atlas 800T A2)"}).run.machine == "ascend-910b3"


def test_the_name_of_a_public_model_stands_for_its_sizes() -> None:
    empty = {"model": "DeepSeekV3 (dropless)", "hidden": "", "layers": "n/a", "heads": ""}
    empty["kv_heads"] = ""
    model = read_row(ROW | empty).run.model
    assert (model.hidden, model.layers, model.heads, model.experts) == (7168, 61, 128, 256)
    stated = read_row(ROW | empty | {"layers": "4"}).run.model
    assert stated.layers == 4


def test_a_layout_without_a_row_does_what_its_software_does() -> None:
    layout = TrainingLayout(global_batch=64, micro_batch=1, seq_len=4096, pp=4)
    assert "early-stop" in software_flags("fsdp", "a100-80g", "7B", layout)
    assert "scatter-stages" in software_flags("megatron", "a100-80g", "7B", layout)
    assert "graphs" in software_flags("megatron-core", "gb200", "7B", layout)
    flags = software_flags("mindformers", "ascend-910b", "7B", layout)
    assert flags == {"split-experts", "sums-apart"}


def test_attention_is_separate_kernels_only_where_the_software_was_so() -> None:
    """PaxML of 2023 is like MaxText but for attention, unless a row says that it was fused."""
    row = {**ROW, "source": "PaxML", "hardware": "NVIDIA A100 80GB", "notes": ""}
    assert read_row(row).run.attention is Attention.UNFUSED
    assert read_row({**row, "attention": "cudnn"}).run.attention is Attention.FLASH
    assert read_row({**row, "source": "MaxText"}).run.attention is Attention.FLASH
