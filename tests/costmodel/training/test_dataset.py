"""What a row with measurements says of its step."""

from __future__ import annotations

import pytest

from costmodel.training.dataset import measured_medians, read_entries
from costmodel.training.rows import read_row
from costmodel.training.sizes import model_flops
from costmodel.training.table import RunTable
from tests.costmodel.training.test_rows import ROW

pytestmark = pytest.mark.fast

MAXTEXT = {
    **ROW, "source": "MaxText README", "hardware": "TPU v5e", "model": "MaxText-32B", "tp": "1",
    "pp": "1", "devices": "256", "dp": "256", "global_batch": "1024", "micro_batch": "4",
    "zero_stage": "3", "recompute": "full", "sequence_parallel": "no", "vocab": "32000",
    "dtype": "bf16", "notes": "fsdp=256 within a slice",
}  # fmt: skip


def step_s(row: dict[str, str]) -> float | None:
    (entry,) = read_entries([row])
    assert entry.read is not None
    return entry.step_s


def test_a_rate_of_arithmetic_stands_for_a_step_where_it_is_known_what_it_counts() -> None:
    assert read_row(MAXTEXT).guesses == 0
    flops = model_flops(RunTable.of([read_row(MAXTEXT).run]), whole=True)[0]
    found = step_s(MAXTEXT | {"measured_tflops_per_device": "132"})
    assert found == pytest.approx(flops / (132e12 * 256), rel=1e-12)


@pytest.mark.parametrize(
    "change",
    [
        {"source": "Megatron-LM", "hardware": "NVIDIA A100 80GB"},
        {"source": "MaxText report_202506_tpu.md"},
        {"recompute": ""},
        {"vocab": ""},
    ],
    ids=["unknown what is counted", "counted otherwise", "recompute assumed", "vocab assumed"],
)
def test_nothing_follows_from_a_rate_where_a_part_is_assumed(change: dict[str, str]) -> None:
    assert step_s(MAXTEXT | change | {"measured_tflops_per_device": "132"}) is None


def test_a_stated_step_and_a_rate_of_tokens_go_before_it() -> None:
    rates = {"measured_tflops_per_device": "132", "measured_tokens_per_s_per_device": "800"}
    tokens = 1024 * int(ROW["seq_len"])
    assert step_s(MAXTEXT | rates) == pytest.approx(tokens / (800 * 256), rel=1e-12)
    assert step_s(MAXTEXT | rates | {"measured_step_time_s": "12.5"}) == 12.5


def test_attention_that_is_not_halved_counts_more_only_where_it_is_causal() -> None:
    table = RunTable.of([read_row(MAXTEXT).run])
    scores = 12.0 * 1024 * int(ROW["seq_len"]) ** 2 * table.layers * table.heads * table.head_size
    more = model_flops(table, whole=True) - model_flops(table)
    assert more == pytest.approx(scores / 2.0, rel=1e-9)
    seen = table.with_columns({"causal": 0.0 * table.causal})
    assert model_flops(seen, whole=True) == pytest.approx(model_flops(seen), rel=1e-12)


@pytest.mark.parametrize(
    ("model", "medians"),
    [("Qwen3_235B_a22B", (21.0, 21.0, 15.0, 15.0)), ("LLaMA2-13B", (18.0, 18.0, 18.0, 18.0))],
)
def test_repeats_share_columns_and_what_their_software_does(
    model: str, medians: tuple[float, ...]
) -> None:
    """A release with a kernel for experts that earlier ones lack is no repeat of theirs."""
    bridge = ROW | {"source": "Megatron-Bridge", "hardware": "NVIDIA GB300", "dtype": "mxfp8"}
    steps = {"26.04": "20", "26.04.01": "22", "26.06": "14", "26.08": "16"}
    rows = [
        bridge | {"model": model, "notes": f"container {release}", "measured_step_time_s": step}
        for release, step in steps.items()
    ]
    assert measured_medians(read_entries(rows)) == medians


def test_a_run_with_compiled_kernels_is_no_repeat_of_one_without() -> None:
    titan = ROW | {"source": "torchtitan", "hardware": "NVIDIA H100", "tp": "1", "dp": "16"}
    rows = [
        titan | {"notes": notes, "measured_step_time_s": step}
        for notes, step in (("FSDP", "3"), ("FSDP + compile", "2"))
    ]
    assert measured_medians(read_entries(rows)) == (3.0, 2.0)
