"""What a row with measurements says of its step."""

from __future__ import annotations

import pytest

from costmodel.training.baseline import model_flops
from costmodel.training.dataset import measured_medians, read_entries
from costmodel.training.rows import read_row
from costmodel.training.table import RunTable
from tests.costmodel.training.test_rows import ROW

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


def test_runs_of_other_settings_are_no_repeats() -> None:
    ended = {"measured_step_time_s": "2.0"}
    notes = "MaxText; a remark", "MaxText; another remark", "MaxText; dropped"
    rows = [MAXTEXT | ended | {"id": str(i), "notes": text} for i, text in enumerate(notes)]
    rows[0]["measured_step_time_s"] = "1.0"
    assert measured_medians(read_entries(rows)) == (1.5, 1.5, 2.0)
