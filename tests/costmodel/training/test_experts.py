"""What copies for experts cost beside their products, and where one kernel does it all."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.training.constants import StepConstants
from costmodel.training.families import families
from costmodel.training.layers import experts_issued, layer_times
from costmodel.training.machines import machine
from costmodel.training.passes import IN_TURN
from costmodel.training.records import TrainingModel
from costmodel.training.rows import read_row
from costmodel.training.stacks import software_flags
from costmodel.training.step import step_times
from costmodel.training.table import RunTable
from tests.costmodel.training.runs import GPT, LLAMA, ROUTED, run
from tests.costmodel.training.test_rows import ROW

FREE = StepConstants(expert_bytes=0.0)
DEAR = replace(FREE, expert_bytes=30.0)
FUSED, SHORT = frozenset({"fused-experts"}), frozenset({"short-copies"})


def added_bytes(
    model: TrainingModel, precision: str = "bf16", flags: frozenset[str] = frozenset(), tp: int = 1
) -> float:
    """Bytes that `expert_bytes` adds to the forward pass of a routed layer."""
    one = run(model, "gb200", tp=tp, seq_len=4096, sequence_parallel=tp > 1)
    table = RunTable.of([replace(one, precision=precision, flags=flags)])
    free, dear = (layer_times(table, constants)[1].stream for constants in (FREE, DEAR))
    return float((dear - free)[0]) * machine("gb200").memory_bytes_per_s * FREE.memory


@given(
    st.integers(1, 8), st.sampled_from([768, 2048, 32768]), st.booleans(), st.sampled_from([1, 4])
)
def test_every_element_of_a_copy_costs_so_many_bytes(
    visits: int, width: int, gated: bool, tp: int
) -> None:
    """What both products take in: the hidden state, and what the activation writes."""
    model = replace(ROUTED, experts_per_token=visits, expert_ffn=width, gated=gated)
    elements = 4096 * visits / tp * (model.hidden + width)
    assert added_bytes(model, tp=tp) == pytest.approx(30.0 * elements, rel=1e-6)


def test_split_widths_leave_the_hidden_state_of_copies_whole() -> None:
    split = frozenset({"split-experts"})
    more = 30.0 * 4096 * ROUTED.experts_per_token * ROUTED.hidden * (1.0 - 1.0 / 4)
    found = added_bytes(ROUTED, flags=split, tp=4) - added_bytes(ROUTED, tp=4)
    assert found == pytest.approx(more, rel=1e-6)


@pytest.mark.parametrize(
    ("precision", "flags", "share"),
    [
        ("bf16", FUSED, 1.0),
        ("bf16", SHORT, 1.0),
        ("fp8", frozenset(), 1.0),
        ("fp8", FUSED | SHORT, 0.5),
        ("mxfp8", SHORT, 0.5),
        ("mxfp8", FUSED | SHORT, 0.0),
        ("bf16", frozenset({"fixed-experts"}), 1.0),
        ("bf16", frozenset({"fixed-experts", "batches"}), 0.0),
    ],
)
def test_shorter_operands_cost_half_and_one_kernel_nothing(
    precision: str, flags: frozenset[str], share: float
) -> None:
    found = added_bytes(ROUTED, precision, flags)
    assert found == pytest.approx(share * added_bytes(ROUTED), rel=1e-6, abs=1.0)


@pytest.mark.parametrize(
    ("precision", "flags", "own"),
    [("bf16", frozenset(), 27.0), ("mxfp8", SHORT, 27.0), ("mxfp8", FUSED | SHORT, 0.0)],
)
def test_biases_of_experts_are_added_in_32_bits(
    precision: str, flags: frozenset[str], own: float
) -> None:
    """Copies in 8 bits make them no shorter; one kernel for all needs none of it."""
    one = replace(run(ROUTED, "gb200", seq_len=4096), precision=precision, flags=flags)
    plain, biased = (
        layer_times(RunTable.of([replace(one, model=model)]), FREE)[1].stream[0]
        for model in (ROUTED, replace(ROUTED, expert_biases=True))
    )
    moved = (biased - plain) * machine("gb200").memory_bytes_per_s * FREE.memory
    copies = 4096 * ROUTED.experts_per_token
    assert moved == pytest.approx(own * copies * ROUTED.hidden, rel=1e-6, abs=1.0)


@pytest.mark.parametrize(
    ("flags", "issued"),
    [(frozenset(), 4.0), (FUSED, 0.0), (frozenset({"fixed-experts", "batches"}), 0.0)],
)
def test_the_host_issues_each_local_expert(flags: frozenset[str], issued: float) -> None:
    """Unless one kernel has them all."""
    one = run(replace(ROUTED, experts=16), "gb200", ep=4, dp=4)
    table = RunTable.of([replace(one, precision="mxfp8", flags=flags)])
    assert experts_issued(table)[0] == issued
    quick = replace(FREE, graphed=1.0)
    slow = replace(quick, expert_host_s=0.5)
    forward = [step_times(table, each, IN_TURN).layer_forward[0] for each in (slow, quick)]
    assert forward[0] - forward[1] == pytest.approx(issued * 0.5, rel=1e-6)


def test_dense_layers_wait_for_no_expert() -> None:
    times = step_times(RunTable.of([run()]), replace(FREE, expert_host_s=1.0))
    assert times.total == pytest.approx(step_times(RunTable.of([run()]), FREE).total)


def layer_s(model: TrainingModel, hardware: str) -> float:
    """Both passes of one micro-batch through one routed layer."""
    constants = replace(FREE, **families()["megatron-core-routed"].priors)
    times = step_times(RunTable.of([run(model, hardware, seq_len=4096)]), constants)
    return float((times.layer_forward + times.layer_backward)[0])


@settings(max_examples=40)
@given(
    st.sampled_from([256, 768, 2048, 4096]),
    st.integers(1, 30),
    st.sampled_from(["h100", "gb200", "tpu-v6e"]),
    st.booleans(),
)
def test_wider_experts_take_longer(width: int, more: int, hardware: str, biases: bool) -> None:
    narrow = replace(ROUTED, expert_ffn=width, expert_biases=biases)
    wide = replace(narrow, expert_ffn=width + 128 * more)
    assert layer_s(wide, hardware) > layer_s(narrow, hardware)


@settings(max_examples=40)
@given(
    st.sampled_from([8, 16, 64]),
    st.sampled_from([2, 4, 8]),
    st.sampled_from([768, 2880, 8192]),
    st.sampled_from(["h100", "gb200", "tpu-v6e"]),
)
def test_more_experts_with_fewer_rows_never_cost_less(
    experts: int, times: int, width: int, hardware: str
) -> None:
    few = replace(ROUTED, experts=experts, expert_ffn=width)
    many = replace(few, experts=experts * times)
    assert layer_s(many, hardware) >= layer_s(few, hardware) * (1.0 - 1e-9)


@pytest.mark.parametrize("model", [LLAMA, GPT])
def test_models_without_experts_pay_nothing(model: TrainingModel) -> None:
    assert added_bytes(model) == 0.0


def test_on_gpus_coarse_experts_run_nearer_to_the_rate_of_products() -> None:
    """What is counted in bytes weighs the less the more each element is multiplied."""
    family = families()["megatron-core-routed"]
    constants = replace(FREE, **family.priors)
    assert "grouped" not in family.fitted
    slower = []
    for hidden, width in ((2048, 768), (6144, 32768)):
        model = replace(ROUTED, hidden=hidden, expert_ffn=width, experts=8)
        table = RunTable.of([run(model, "h100", micro_batch=4)])
        products = layer_times(table, constants)[1]
        slower.append(float((products.forward / products.products)[0]))
    assert slower[1] < 0.8 * slower[0]


@pytest.mark.parametrize(
    ("hardware", "notes", "fused"),
    [
        ("NVIDIA GB300", "container 26.06 NeMo Container", True),
        ("NVIDIA GB200", "container 26.08", True),
        ("NVIDIA GB300", "container 26.04.01", False),
        ("NVIDIA B200", "container 26.06", False),
        ("NVIDIA H100 80GB", "container 26.08", False),
    ],
)
def test_who_has_experts_in_one_kernel(hardware: str, notes: str, fused: bool) -> None:
    bridge = {"source": "NVIDIA-NeMo/Megatron-Bridge", "hardware": hardware, "notes": notes}
    assert ("fused-experts" in read_row(ROW | bridge).run.flags) is fused


def test_experts_of_one_batched_product_run_like_other_products() -> None:
    whole, slow = StepConstants(grouped=1.0), StepConstants(grouped=0.5)
    flags = frozenset({"fixed-experts", "batches"})
    for each, share in ((flags, 1.0), (frozenset({"fixed-experts"}), 2.0)):
        table = RunTable.of([replace(run(ROUTED, "tpu-v6e"), flags=each)])
        routed = [
            layer_times(table, constants)[1].products_backward
            - layer_times(table, replace(constants, grouped=1e9))[1].products_backward
            for constants in (whole, slow)
        ]
        if share == 1.0:
            assert not routed[0].any()
        assert routed[1] == pytest.approx(share * routed[0], rel=1e-6)


def test_maxtext_batches_what_it_drops_and_casts_in_its_products() -> None:
    row = ROW | {"source": "MaxText", "hardware": "TPU v6e", "model": "Mixtral-8x22B"}
    assert {"fixed-experts", "batches"} <= read_row(row | {"notes": "EP 4, dropped"}).run.flags
    kept = read_row(row | {"notes": "EP 4, dropless"}).run.flags
    assert "fixed-experts" not in kept
    assert "short-copies" not in kept
    assert "short-copies" in read_row(ROW | {"source": "Megatron-Bridge"}).run.flags


def test_a_layout_without_a_row_has_the_current_release() -> None:
    layout = run().layout
    assert "fused-experts" in software_flags("megatron-core", "gb300", "Qwen3_235B", layout)
    assert "fused-experts" not in software_flags("megatron-core", "h100", "Qwen3_235B", layout)
