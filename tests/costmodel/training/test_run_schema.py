"""The record of a run: its fields say what notes say, in tables and in files of records."""

from __future__ import annotations

import json
from typing import Any

import pytest

from costmodel.training.calibration import shipped_calibration
from costmodel.training.dataset import read_entries
from costmodel.training.predict import predict
from costmodel.training.records import Attention, LayoutError
from costmodel.training.rows import read_row
from costmodel.training.run_schema import COLUMNS, FIELDS, REQUIRED, record_rows
from costmodel.training.sources import source_of
from costmodel.training.step import step_times
from costmodel.training.step_terms import step_terms
from costmodel.training.table import RunTable
from tests.costmodel.training.runs import run
from tests.costmodel.training.test_rows import ROW
from topology.errors import ClusterError

pytestmark = pytest.mark.fast

MOE = ROW | {"model": "some", "tp": "2", "dp": "8", "ffn_hidden": "4096"}


@pytest.mark.parametrize(
    ("fields", "notes"),
    [
        ({"experts": "64", "experts_per_token": "6"}, "num-experts=64; moe-router-topk=6"),
        ({"experts": "64", "expert_ffn": "1408"}, "num-experts=64; moe-intermediate-size=1408"),
        ({"experts": "64", "shared_experts": "2"}, "num-experts=64; n-shared-experts=2"),
        ({"experts": "64", "dense_layers": "1"}, "num-experts=64; first-k-dense-replace=1"),
        ({"head_size": "64"}, "kv-channels=64"),
        ({"mtp_layers": "1"}, "mtp-num-layers=1"),
        ({"zero_stage": "3", "zero_group": "4"}, "zero-group=4"),
        ({"experts": "64", "etp": "2"}, "num-experts=64; etp=2"),
        ({"attention": "flash"}, "use-flash-attn"),
        ({"overlap_gradients": "yes"}, "overlap-grad-reduce"),
        ({"software": "torchtitan"}, "torchtitan"),
        ({"software": "MindFormers", "release": "1.1"}, "mindformers; release=1.1"),
    ],
)
def test_a_field_says_what_notes_say(fields: dict[str, str], notes: str) -> None:
    row = MOE | {"source": "", "notes": ""}
    stated = {key: value for key, value in fields.items() if key == "zero_stage"}
    told = read_row(row | stated | {"notes": notes}).run
    asked = read_row(row | fields).run
    assert asked == told
    plain = read_row(row | stated).run
    assert (asked.model, asked.flags, asked.layout, asked.profile, asked.attention) != (
        plain.model, plain.flags, plain.layout, plain.profile, plain.attention
    )  # fmt: skip


def test_a_field_goes_before_the_notes() -> None:
    row = MOE | {"notes": "num-experts=8; overlap-grad-reduce; use-flash-attn"}
    asked = {"experts": "16", "overlap_gradients": "no", "attention": "math"}
    found = read_row(row | asked).run
    assert found.model.experts == 16
    assert "overlap" not in found.flags
    assert found.attention is Attention.UNFUSED


def test_gradients_that_are_exchanged_in_turn_take_longer_and_bytes_are_those_stated() -> None:
    row = ROW | {"tp": "1", "dp": "16"}
    plain, waits = (read_row(row | {"overlap_gradients": on}).run for on in ("yes", "no"))
    hidden, shown = (
        float(
            step_times(
                RunTable.of([each]), shipped_calibration().constants["megatron-ampere"]
            ).gradients[0]
        )
        for each in (plain, waits)
    )
    assert hidden < shown
    assert read_row(row | {"gradient_dtype": "bf16"}).run.gradient_bytes == 2
    with pytest.raises(LayoutError, match="gradient_dtype"):
        read_row(row | {"gradient_dtype": "posit"})


def test_stated_numbers_go_before_words() -> None:
    row = ROW | {"interconnect": "HDR100; NVLink 600 GB/s"}
    found = read_row(row | {"port_gbit_s": "400", "link_gbyte_s": "200"})
    assert found.run.port_bytes_per_s == 50e9
    assert found.run.link_bytes_per_s == 200e9
    assert found.unread == ()
    assert "number of ports" not in found.assumed
    with pytest.raises(LayoutError, match="port_gbit_s"):
        read_row(row | {"port_gbit_s": "fast"})


def test_a_number_that_is_not_understood_widens_the_interval() -> None:
    plain, strange = (
        read_row(ROW | {"interconnect": text}) for text in ("HDR", "HDR; fabric of 90 Tb/s")
    )
    assert strange.guesses == plain.guesses + 1
    assert any("90 Tb/s" in what for what in strange.unread)


def test_windows_are_of_the_row_first() -> None:
    model = read_row(ROW | {"window": "1024", "window_every": "6"}).run.model
    assert (model.window, model.global_every) == (1024, 6)
    assert read_row(ROW | {"window": "none"}).run.model.window == 0


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_records_are_rows(form: str) -> None:
    record: dict[str, Any] = {
        key: int(value) if value.isdigit() else value for key, value in ROW.items()
    }
    record |= {"sequence_parallel": True, "notes": None, "stage_layers": [20, 20]}
    record |= {"tp": 4, "pp": 2, "dp": 2}
    text = json.dumps({"runs": [record]})
    if form == "yaml":
        text = "runs:\n- " + "\n  ".join(f"{k}: {json.dumps(v)}" for k, v in record.items())
    (entry,) = read_entries(record_rows(text, "here"))
    assert entry.skipped == ""
    assert entry.read is not None
    assert entry.read.run.layout.stage_layers == (20, 20)
    assert entry.read.run.layout.sequence_parallel


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("runs: 3", "runs is no list"),
        ("runs: [3]", "no mapping"),
        ("runs:\n- hiden: 3", "unknown field 'hiden'"),
        ("- 1", "no mapping"),
    ],
)
def test_a_file_that_is_no_record_is_refused(text: str, said: str) -> None:
    with pytest.raises(ClusterError, match=said):
        record_rows(text, "here")


def test_every_field_is_named_once_and_the_needed_ones_come_first() -> None:
    names = [field.name for field in FIELDS]
    assert len(set(names)) == len(names)
    assert tuple(names[: len(REQUIRED)]) == REQUIRED
    assert not [name for name in COLUMNS if name.startswith("measured_")]


def test_terms_add_up_to_the_step() -> None:
    for each in (run(tp=2, dp=4), run(tp=4, pp=4, dp=2, zero_stage=1)):
        terms = step_terms(each)
        assert sum(terms.values()) == pytest.approx(predict([each])[0].step_s)
        assert terms["optimizer"] > 0


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("a/b@HEAD data/x.csv row 3 (measured)", "a/b@HEAD data/x.csv row 9 (measured)", True),
        ("a/b@HEAD data/x.csv row 3", "a/b@HEAD data/y.csv row 3", False),
        ("a/b@v1.2 README + run.sh", "a/b@v1.2 docs/other.md", True),
        ("a/b@v1.2 README", "a/b@v1.3 README", False),
        ("a/b@HEAD scripts/train/README.md (40GB)", "a/b@HEAD scripts/train/README.md (80GB)", 0),
        ("arXiv 2205.05198 table 5", "arXiv 2205.05198 table 6", False),
    ],
)
def test_a_source_is_a_table_or_a_release(one: str, other: str, same: bool) -> None:
    assert (source_of({"source": one}) == source_of({"source": other})) == bool(same)
    first = {"source": one, "notes": "container 25.09"}
    second = {"source": one, "notes": "container 25.11"}
    released = "@v" in one
    assert (source_of(first) == source_of(second)) == released
