"""What other tools' plans say."""

from __future__ import annotations

import json

import pytest

from importers.errors import ModelError
from importers.foreign_plans import is_degrees, read_foreign

pytestmark = pytest.mark.fast

GALVATRON = {
    "pp_deg": 1, "tp_sizes_enc": "8,8,4", "tp_consecutive_flags": "1,1,1", "dp_types_enc": "0,0,1",
    "global_bsz": 16, "chunks": 1, "pp_division": "3", "checkpoint": "0,1,0", "vtp": 1,
    "default_dp_type": "ddp",
}  # fmt: skip


def test_megatron_is_read_from_arguments_and_from_json_alike() -> None:
    text = (
        "--tensor-model-parallel-size 4 \\\n  --pipeline-model-parallel-size=1 --sequence-parallel"
    )
    data = {
        "tensor_model_parallel_size": 4,
        "pipeline_model_parallel_size": 1,
        "sequence_parallel": "on",
    }
    for form in (text, json.dumps(data)):
        found = read_foreign(form, "f")
        assert found is not None
        assert (found.form, found.degrees) == ("Megatron", (("tp", 4),))
    assert read_foreign(json.dumps({"tp": 8, "dp": 2, "pp": 4}), "f") is not None


STAGED = {"pp_deg": 2, "pp_division": "2,1"}


def test_galvatron_has_degrees_for_every_layer() -> None:
    found = read_foreign(json.dumps(GALVATRON), "f")
    assert found is not None
    assert found.layers == ((("tp", 8),), (("tp", 8),), (("tp", 4), ("zero3", 1)))
    assert found.left_out == ("checkpoint (recomputed layers)",)
    every = read_foreign(json.dumps(GALVATRON | {"default_dp_type": "zero3"} | STAGED), "f")
    assert every is not None
    assert all(("zero3", 1) in layer for layer in every.layers)
    assert every.degrees == (("pp", 2),)


def test_placements_are_read_with_and_without_a_mesh() -> None:
    placed = {"w": ["Shard(0)", "Replicate()"], "v": ["R", "S(1)"]}
    plain = read_foreign(json.dumps(placed), "f")
    assert plain is not None
    assert plain.placements == (("w", (0, None)), ("v", (None, 1)))
    assert plain.mesh == ()
    whole = read_foreign(json.dumps({"mesh": {"dp": 2, "tp": 8}, "placements": placed}), "f")
    assert whole is not None
    assert (whole.mesh, whole.placements) == ((2, 8), plain.placements)


def test_batches_and_the_optimizer_are_read() -> None:
    megatron = read_foreign(
        "--tensor-model-parallel-size 4 --global-batch-size 64 --micro-batch-size 2 "
        "--sequence-parallel --use-distributed-optimizer --context-parallel-size 1", "f",
    )  # fmt: skip
    assert megatron is not None
    assert (megatron.global_batch, megatron.micro_batch, megatron.zero) == (64, 2, 1)
    assert megatron.sequence_parallel
    muon = read_foreign("--tensor-model-parallel-size 4 --optimizer dist_muon", "f")
    assert muon is not None
    assert muon.zero == 1
    galvatron = read_foreign(
        json.dumps(GALVATRON | {"default_dp_type": "zero2", "dp_types_enc": "0,0,0", "vtp": 8}), "f"
    )
    assert galvatron is not None
    assert (galvatron.global_batch, galvatron.micro_batches) == (16, 1)
    assert (galvatron.zero, galvatron.vocabulary) == (2, 8)


def test_contexts_heads_and_stages_are_read() -> None:
    megatron = read_foreign(json.dumps({"tp": 2, "context_parallel_size": 4}), "f")
    assert megatron is not None
    assert (megatron.context, megatron.ring, megatron.heads) == (4, True, 1)
    heads = read_foreign("--tp 2 --context-parallel-size 4 --cp-comm-type a2a", "f")
    assert heads is not None
    assert (heads.context, heads.ring, heads.heads) == (1, False, 4)
    more = {"pp_deg": 2, "pp_division": "2,1", "use_sp": "1,1,1", "checkpoint": "1,1,1"}
    galvatron = read_foreign(json.dumps(GALVATRON | more | {"cp_sizes_enc": "2,2,2"}), "f")
    assert galvatron is not None
    assert (galvatron.context, galvatron.by_heads, galvatron.division) == (2, True, (2, 1))
    assert (galvatron.recompute, galvatron.left_out) == ("full", ())


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (GALVATRON | {"use_sp": "1,0,1"}, "0 and 1"),
        (GALVATRON | {"cp_sizes_enc": "2,2,4"}, "2 and 4"),
        (GALVATRON | {"pp_deg": 2, "pp_division": "1,1"}, "no 2 stages of 3 layers"),
        (GALVATRON | {"pp_deg": 2, "pp_division": "0,3"}, "no 2 stages of 3 layers"),
        ({"tp": 8, "context_parallel_size": "x"}, "no degree"),
        ({"tp": 8, "context_parallel_size": 2, "cp_comm_type": "a2a+p2p"}, "no way to exchange"),
        (GALVATRON | {"dp_types_enc": "0"}, "3 degrees and 1"),
        (GALVATRON | {"tp_sizes_enc": "8,x,4"}, "no degree"),
        ({"tp": -1}, "no degree"),
        ({"w": ["R"], "v": ["R", "R"]}, "1 and 2 placements"),
        ({"mesh": [2], "placements": {"v": ["R", "R"]}}, "mesh has 1"),
        ({"mesh": [2], "placements": {"v": ["S(-1)"]}}, r"S\(-1\)\S* are no placements"),
        ({"mesh": [2], "placements": {}}, "no object of names"),
    ],
)
def test_faults_are_named(data: dict[str, object], fault: str) -> None:
    with pytest.raises(ModelError, match=fault):
        read_foreign(json.dumps(data), "f")


@pytest.mark.parametrize("text", ["", "{", "[1]", "{}", '{"a": 1}', "\x00", "--unknown 3", "a=b"])
def test_what_is_none_of_them_is_left_to_others(text: str) -> None:
    assert read_foreign(text, "f") is None


def test_degrees_are_told_from_names_of_files() -> None:
    assert is_degrees("tp=8,dp=2")
    assert is_degrees("dp=16,zero3")
    assert not is_degrees("plan.json")
    assert not is_degrees("a=b.ckpt")
