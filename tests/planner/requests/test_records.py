"""What a plan records of its request says the request again."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.memory import Optimizer
from ir.symbols import Symbol
from planner.request import RequestError, SearchRequest, recorded_request

pytestmark = pytest.mark.fast

OTHERS: dict[str, Any] = {
    "training": False, "optimizer": Optimizer.SGD, "dtype": "bf16", "batch": 4,
    "sequence_parallel": "on", "context_parallel": "2", "ring_attention": "auto",
    "offload": "on", "stage_meshes": "any", "fully_use_devices": True,
    "memory_limit_bytes": 1e9, "dataset_strategy": ((8, 1), (8, 1)), "target": "jax",
    "solver": "ilp", "effort": 2, "fused_attention": False, "all_to_all": False,
    "cut_positions": True, "seed": 1, "bind": (("b", 4), ("s", Symbol(16, 64, 16))),
    "rules": (("K", "a -> a"),), "rest": "semi-auto", "profile": "megatron",
    "calibration": (("link", 1.5),), "overlap": "none", "cost": "mindspore",
    "pins": (("fc", ((2, 4), (4, 1))),), "stage_starts": ("layers.1",), "degrees": (("tp", 8),),
    "scoped_degrees": (("layers.3", (("tp", 8),)),), "rests": (("w", (1, 2)),),
    "soft_pins": (("fc", ((2,),), 0.1),), "close_to": (("fc", ((2,),)),),
    "close_mesh": (("card", 8, 1),), "close_parts": (("fc", 1),), "max_changes": 0,
}  # fmt: skip
OF_CUTS: dict[str, Any] = {
    "global_batch": 8, "micro_batch": "2", "pipeline": "4", "recompute": "none", "zero": "1",
    "interleave": "2",
}  # fmt: skip
"""Told of a step that is cut alone."""
NEVER = {"threads", "time_limit_s"}


def test_every_field_is_tried() -> None:
    assert {each.name for each in fields(SearchRequest)} == {*OTHERS, *OF_CUTS, *NEVER}
    assert replace(SearchRequest(), **OTHERS, **OF_CUTS) != SearchRequest()


@given(st.sets(st.sampled_from([*OTHERS, *OF_CUTS])))
def test_a_record_as_json_is_the_request_again(names: set[str]) -> None:
    cut = {name: OF_CUTS[name] for name in names if name in OF_CUTS}
    told = cut | {"global_batch": 8} if cut else {}
    asked = SearchRequest(**told, **{name: OTHERS[name] for name in names if name in OTHERS})
    record = asked.to_dict()
    assert json.loads(json.dumps(record)) == record
    assert recorded_request(record) == asked


def test_what_is_usual_and_not_always_told_is_left_out() -> None:
    record = SearchRequest().to_dict()
    assert NEVER.isdisjoint(record)
    assert not {"pins", "rest", "max_changes", "zero", "global_batch"} & set(record)
    assert "zero" in SearchRequest(global_batch=8).to_dict()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("pins", 5), ("bind", [["b", "x"]]), ("optimizer", "nope"), ("degrees", [["tp"]]),
        ("effort", "1"), ("training", 1), ("rules", [["K", 1]]),
    ],
)  # fmt: skip
def test_a_record_that_was_changed_names_the_field(name: str, value: object) -> None:
    with pytest.raises(RequestError, match=f"at:  request.{name} of the plan"):
        recorded_request({name: value})
