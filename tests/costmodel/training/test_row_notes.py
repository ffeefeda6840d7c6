"""What the notes of a row and the software that it names say."""

from __future__ import annotations

import pytest

from costmodel.training.records import Attention, LayoutError, Recompute, TrainingLayout
from costmodel.training.rows import read_row
from costmodel.training.sizes import expert_parts
from costmodel.training.stacks import software_flags
from costmodel.training.table import RunTable
from tests.costmodel.training.test_rows import ROW

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("notes", "told"),
    [
        ("offset=[1,1,0,0]", "offset=1,1,0,0 does not make 4 stages of 40 layers"),
        ("offset=[1,-1]", "offset=1,-1 does not make 4 stages of 40 layers"),
        ("recompute=[50,0,0,0]", "recompute=50,0,0,0 are not parts of 40 layers"),
        ("recompute=[-1,2,0,0]", "recompute=-1,2,0,0 are not parts of 40 layers"),
        ("FSDP sharding group 3", "a sharding group of 3 does not divide 2 replicas"),
        ("offset=[[1,0,0,0],[0,-1]]", "is no list of whole numbers"),
        ("select_recompute=[x,y]", "select_recompute=[x,y] is no list of whole numbers"),
        ("recompute-num-layers=all", "recompute-num-layers=all is no number"),
        ("etp=3", "experts over 3 tensor parallel ranks"),
    ],
)
def test_notes_that_do_not_fit_the_row_are_named_and_not_followed(notes: str, told: str) -> None:
    change = {"pp": "4", "tp": "2"}
    found, plain = read_row(ROW | change | {"notes": notes}), read_row(ROW | change | {"notes": ""})
    assert found.run.layout == plain.run.layout
    (what,) = found.unread
    assert told in what
    assert found.guesses == plain.guesses + 1


@pytest.mark.parametrize("notes", ["FSDP sharding group 2", "fsdp=2 within a slice; DP over DCN"])
def test_notes_say_how_many_share_states(notes: str) -> None:
    assert read_row(ROW | {"notes": notes}).run.layout.zero_group == 2


@pytest.mark.parametrize("notes", ["use_fsdp=1", "fsdp=1", "--use-torch-fsdp2=1 within a slice"])
def test_a_switch_is_no_group_that_shares_states(notes: str) -> None:
    assert read_row(ROW | {"notes": notes}).run.layout.zero_group == 0


@pytest.mark.parametrize("notes", ["offset=0", "offset=[1,-1,0,0]", "recompute=[6,3,2,3]", "etp=2"])
def test_notes_that_fit_are_followed_in_silence(notes: str) -> None:
    assert read_row(ROW | {"pp": "4", "tp": "2", "notes": notes}).unread == ()


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


def test_adapters_leave_weights_frozen() -> None:
    assert "frozen" in read_row(ROW | {"notes": "PET/LoRA fine-tune"}).run.flags


@pytest.mark.parametrize(("release", "whole"), [("1.1.0", True), ("1.2.0", False)])
def test_earlier_releases_compute_scores_that_nobody_sees(release: str, whole: bool) -> None:
    for source, square in (("mindspore-lab/mindformers", whole), ("Ascend/MindSpeed-LLM", False)):
        row = ROW | {"source": f"{source}@v{release}"}
        assert ("whole-square" in read_row(row).run.flags) is square


@pytest.mark.parametrize(
    ("source", "notes", "old"),
    [
        ("NVIDIA-NeMo docs", "NeMo24.07 container", True),
        ("NVIDIA-NeMo docs", "container 25.09", False),
        ("NVIDIA-NeMo report_202412_nemo.md", "", True),
        ("NVIDIA-NeMo report_202510_nemo.md", "", False),
        ("NVIDIA-NeMo/Megatron-Bridge@v0.2.0", "", False),
        ("mindformers report_202312_cards.md", "", False),
        ("NVIDIA-NeMo/Megatron-Bridge@v24.7", "", True),
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
        ("Megatron-Bridge", "num-experts=8; etp=8", True),
        ("Megatron-Bridge", "num-experts=8; etp=1", False),
    ],
)
def test_who_splits_the_widths_of_experts(source: str, notes: str, split: bool) -> None:
    row = ROW | {"source": source, "notes": notes, "sequence_parallel": "yes"}
    run = read_row(row).run
    assert expert_parts(RunTable.of([run])).tolist() == [run.layout.tp if split else 1]


def test_experts_that_do_not_fit_as_stated_are_priced_as_they_fit_and_named() -> None:
    """8 devices: 8 tensor parallel ranks split the width, or 8 the experts, or 2 and 4."""
    row = ROW | {"tp": "8", "dp": "1", "devices": "8", "source": "MindSpeed-LLM"}
    for notes, ep, parts in (("", "8", 1), ("; etp=4", "4", 2), ("; etp=2", "4", 2)):
        found = read_row(row | {"ep": ep, "notes": f"num-experts=8{notes}"})
        assert expert_parts(RunTable.of([found.run])).tolist() == [parts]
        assert any("they are priced with" in what for what in found.unread) == (notes != "; etp=2")


def test_what_a_row_says_of_shared_experts_goes_before_its_name() -> None:
    notes = "moe-intermediate-size=320"
    for more, width in (("", 20480), ("; n-shared-experts=2", 640)):
        row = ROW | {"model": "Qwen2-57B-A14B", "notes": notes + more}
        assert read_row(row).run.model.shared_ffn == width


@pytest.mark.parametrize(
    ("change", "fixed"),
    [
        ({"model": "Qwen3_30B_a3B (tokendrop)"}, True),
        ({"notes": "moe_config={'expert_num': 8, 'capacity_factor': 1.1}"}, True),
        ({"model": "DeepSeekV3 (dropless)"}, False),
        ({"notes": "FSDP 64 x EP 4, dropped; older"}, True),
        ({"notes": "dropless"}, False),
    ],
)
def test_experts_of_fixed_size_are_marked(change: dict[str, str], fixed: bool) -> None:
    assert ("fixed-experts" in read_row(ROW | change).run.flags) is fixed


def test_tokens_cross_once_where_the_software_sends_them_so() -> None:
    bridge = {"source": "NVIDIA-NeMo/Megatron-Bridge", "hardware": "NVIDIA B200"}
    assert "sends-once" in read_row(ROW | bridge).run.flags
    assert "sends-once" not in read_row(ROW).run.flags
    later = {"notes": "container 25.09"}, {"notes": "container 25.04"}
    assert ["sends-once" in read_row(ROW | bridge | each).run.flags for each in later] == [
        True, False,
    ]  # fmt: skip


def test_what_recipes_set_holds_from_their_first_release_on() -> None:
    row = ROW | {"source": "NeMo", "hardware": "NVIDIA GB200", "model": "DeepSeek-V3"}
    later, before, unsaid = (
        read_row(row | {"notes": notes}).run.flags
        for notes in ("container 25.09", "container 25.04", "")
    )
    assert later < unsaid
    assert later - before == {"ep-overlap", "graphs", "sends-once"}


@pytest.mark.parametrize(
    ("policy", "notes", "keeps", "offloads"),
    [
        ("custom", "", True, True),
        ("", "", True, True),
        ("save_qkv_proj", "", True, False),
        ("qkv_proj_offloaded", "", True, True),
        ("custom", "remat custom offloads queries", True, True),
        ("full", "remat full offloads the input of a layer", False, True),
        ("full", "act CPU offload=False", False, False),
    ],
)
def test_what_recomputation_begins_at(policy: str, notes: str, keeps: bool, offloads: bool) -> None:
    run = read_row(ROW | {"source": "MaxText", "recompute": policy, "notes": notes}).run
    assert run.layout.recompute is Recompute.FULL
    assert ("keeps-attention" in run.flags, "offloads" in run.flags) == (keeps, offloads)


def test_maxtext_states_the_batch_of_a_device() -> None:
    """8 x 2 devices with 4 sequences each are replicas of 32; Megatron's 4 are a replica's."""
    row = ROW | {"micro_batch": "4", "tp": "8", "dp": "2"}
    for source, micro in (("MaxText", 32), ("Megatron-Bridge", 4)):
        assert read_row(row | {"source": source}).run.layout.micro_batch == micro
    part = row | {"source": "MaxText", "global_batch": "32"}
    assert read_row(part).run.layout.micro_batch == 4


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("Llama4-Maverick 400B", (128, 1, 8192, 8192, 24)),
        ("Llama-4-Scout-17B-16E", (16, 1, 8192, 8192, 0)),
        ("GPT-OSS 20B", (32, 4, 2880, 0, 0)),
        ("GLM-4.5-Air", (128, 8, 1408, 1408, 1)),
        ("GLM-4.6", (160, 8, 1536, 1536, 3)),
        ("GLM-4-9B", (0, 0, 0, 0, 0)),
    ],
)
def test_names_say_what_experts_there_are(name: str, counts: tuple[int, ...]) -> None:
    model = read_row(ROW | {"model": name}).run.model
    assert counts == (
        model.experts, model.experts_per_token, model.expert_ffn, model.shared_ffn,
        model.dense_layers,
    )  # fmt: skip


def test_the_buffer_of_an_expert_is_read() -> None:
    notes = "num-experts=8; moe-router-topk=2; moe_config={'capacity_factor': 1.5, 'x': 2}"
    assert read_row(ROW | {"notes": notes}).run.model.expert_capacity == 1.5
    assert read_row(ROW | {"notes": "num-experts=8"}).run.model.expert_capacity == 1.0


@pytest.mark.parametrize(("vpp", "hidden"), [("10", True), ("1", False)])
def test_a_recipe_may_hold_for_interleaved_stages_only(vpp: str, hidden: bool) -> None:
    row = ROW | {
        "source": "NVIDIA-NeMo/Megatron-Bridge", "hardware": "NVIDIA GB300",
        "model": "Qwen3_235B_A22B", "pp": "4", "tp": "1", "dp": "4", "vpp": vpp, "ep": "4",
    }  # fmt: skip
    assert ("ep-overlap" in read_row(row).run.flags) is hidden


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
        ("offset=[[0, 0, 0, -1], [0, 1, 0, 0]]", (10, 11, 10, 9), Recompute.NONE, 1.0),
        ("recompute=[[3, 2, 1, 2], [3, 1, 1, 1]]", (), Recompute.FULL, 14 / 40),
        ("num-layer-list=8,10,11,11", (8, 10, 11, 11), Recompute.NONE, 1.0),
        ("recompute_config: recompute=[6, 3, 2, 3]", (), Recompute.FULL, 14 / 40),
        ("recompute=[0, 0, 0, 0] select_recompute=[8, 4, 4, 1]", (), Recompute.SELECTIVE, 17 / 40),
    ],
)
def test_what_each_stage_holds_and_computes_again(
    notes: str, stages: tuple[int, ...], policy: Recompute, share: float
) -> None:
    """An offset is what a stage has beyond the equal share; lists are layers of each stage, or of
    each of its chunks.
    """
    row = ROW | {"tp": "2", "pp": "4", "dp": "2", "notes": notes}
    layout = read_row(row).run.layout
    assert layout.stage_layers == stages
    assert layout.recompute is policy
    assert layout.recompute_share == pytest.approx(share)


@pytest.mark.parametrize(
    ("model", "notes", "groups"),
    [
        ("DeepSeekV3", "num-experts=256", (8, 4)),
        ("DeepSeekV3", "num-experts=256; moe-router-num-groups=4; moe-router-group-topk=2", (4, 2)),
        ("DeepSeekV3", "num-experts=256; n-group=1; topk-group=1", (1, 1)),
        ("DeepSeekV3", "num-experts=64", (0, 0)),
        ("DeepSeek-V2-60B", "num-experts=160; moe-router-topk=6", (8, 3)),
        ("Kimi_K2", "num-experts=384", (0, 0)),
        ("Qwen3_30B_a3B", "", (0, 0)),
    ],
)
def test_groups_that_limit_routing_are_those_of_the_notes_or_the_name(
    model: str, notes: str, groups: tuple[int, int]
) -> None:
    found = read_row(ROW | {"model": model, "notes": notes}).run.model
    assert (found.expert_groups, found.groups_per_token) == groups


@pytest.mark.parametrize(
    ("notes", "told"),
    [
        ("moe-router-num-groups=3; moe-router-group-topk=2", "3 groups do not divide 8 experts"),
        ("moe-router-num-groups=4; moe-router-group-topk=5", "visits 5 groups of experts, of 4"),
        ("moe-router-num-groups=8; moe-router-group-topk=1", "fewer than the 2 experts of a token"),
        ("moe-router-num-groups=8", "needs both: groups, and how many a token visits"),
        ("moe-router-num-groups=8; moe-router-group-topk=all", "=all is no number"),
    ],
)
def test_groups_that_cannot_be_skip_the_row(notes: str, told: str) -> None:
    with pytest.raises(LayoutError, match=told):
        read_row(ROW | {"notes": f"num-experts=8; moe-router-topk=2; {notes}"})


@pytest.mark.parametrize(
    ("notes", "hidden"),
    [
        ("overlap-moe-expert-parallel-comm", True),
        ("overlap_moe_expert_parallel_comm=True", True),
        ("moe_a2a_overlap=true", True),
        ("moe-fb-overlap", True),
        ("moe_a2a_overlap=False", False),
        ("overlap-grad-reduce", False),
    ],
)
def test_a_row_may_say_that_the_exchange_between_experts_overlaps(notes: str, hidden: bool) -> None:
    assert ("ep-overlap" in read_row(ROW | {"notes": notes}).run.flags) is hidden


def test_a_row_may_say_that_it_does_not_do_as_the_recipe() -> None:
    row = ROW | {
        "source": "Megatron-Bridge", "hardware": "NVIDIA GB300", "model": "Kimi_K2", "ep": "4",
        "tp": "1", "pp": "1", "dp": "16", "devices": "16",
    }  # fmt: skip
    assert "ep-overlap" in read_row(row).run.flags
    assert "ep-overlap" not in read_row(row | {"notes": "moe_a2a_overlap=false"}).run.flags


@pytest.mark.parametrize(
    ("notes", "order", "unread"),
    [
        ("DualPipe", "dualpipe", 0),
        ("pretrained with DualPipe, 8-way", "dualpipe", 0),
        ("schedule=dualpipe", "dualpipe", 0),
        ("pipeline-schedule=zb-h1", "zb-h1", 0),
        ("ZB-H2", "zb-h2", 0),
        ("GPipe", "gpipe", 0),
        ("1F1B", "", 0),
        ("pipeline_parallel_schedule=Interleaved1F1B", "", 0),
        ("schedules-method=dualpipev", "", 1),
        ("DualPipeV", "", 1),
        ("pipeline_parallel_schedule=ZBVZeroBubble", "", 1),
        ("no schedule stated", "", 0),
    ],
)
def test_the_order_of_passes_is_read(notes: str, order: str, unread: int) -> None:
    row = ROW | {"pp": "4", "tp": "2", "dp": "2", "devices": "16", "notes": notes}
    found = read_row(row)
    assert found.run.layout.schedule == order
    assert len(found.unread) == unread
    assert read_row(row | {"pp": "1", "dp": "8"}).run.layout.schedule == ""


def test_an_order_that_the_layout_does_not_allow_skips_the_row() -> None:
    row = ROW | {"pp": "4", "tp": "2", "dp": "2", "devices": "16", "global_batch": "8"}
    with pytest.raises(LayoutError, match="not 4 stages and 4 micro-batches"):
        read_row(row | {"notes": "DualPipe", "micro_batch": "1"})
