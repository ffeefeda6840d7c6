"""Sharding propagation in MindSpore's order, beside what MindSpore 2.10.0 chose.

`tests/data/mindspore_sharding_propagation.json` has drawn networks with one or two given
strategies, some with one of a result, and those that the real package gave the other operators on 8
devices, each network in a process of its own: the package keeps costs from one network to the next.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from planner.request import Cuts, RequestError, SearchRequest
from planner.search import search
from tests.planner.mindspore_nets import Network
from tests.planner.test_mindspore_cases_searches import cuts_in
from topology.catalogue import named_cluster

PATH = Path(__file__).parents[1] / "data" / "mindspore_sharding_propagation.json"
MOST_DIFFERENT = 8
"""Operators of 794 that are cut otherwise: most stand behind a reshape that changes the layout by
itself, or behind several.
"""


def propagated(net: Mapping[str, Any]) -> dict[str, Cuts]:
    network = Network(net)
    request = SearchRequest(
        pins=tuple(network.pins), solver="mindspore_propagation", cost="mindspore",
        dataset_strategy="full_batch", all_to_all=False,
    )  # fmt: skip
    return cuts_in(search(network.graph(), named_cluster("atlas-800t-a2", 8), request))


def product(result: list[int], reader: str) -> dict[str, Any]:
    """A product that is cut over half of the devices, the cuts of its result, and a reader."""
    first = {"op": "MatMul", "transpose_b": False, "inputs": ["x", "w"], "out": "t1"}
    first |= {"user_strategy": [[1, 2], [2, 2]], "user_out_strategy": [result]}
    second = {"op": reader, "inputs": ["t1"], "out": "t2"}
    return {"shapes": {"x": [64, 32], "w": [32, 16]}, "ops": [first, second], "data": ["x"]}


@pytest.mark.fast
@pytest.mark.parametrize(
    ("result", "reader", "cuts"),
    [
        ([2, 2], "ReLU", ((2, 2),)),
        ([1, 2], "ReLU", ((1, 2),)),
        # Copies are outermost, so rows that stay cut would have to be gathered all the same.
        ([2, 2], "Softmax", ((1, 1),)),
    ],
)
def test_readers_follow_a_result_that_is_scattered(
    result: list[int], reader: str, cuts: Cuts
) -> None:
    assert propagated(product(result, reader))["t2"] == cuts


@pytest.mark.fast
@pytest.mark.parametrize(
    ("reader", "more", "cuts"),
    [
        ("ReLU", {}, ((4, 2),)),
        ("Transpose", {"perm": [1, 0]}, ((4, 2),)),
        ("Add", {"inputs": ["t1", "t1"]}, ((4, 2), (4, 2))),
        # A parameter has no layout to agree with, and a softmax looks along rows.
        ("Add", {"inputs": ["t1", "w"]}, ((1, 2), (2,))),
        ("Softmax", {}, ((1, 1),)),
    ],
)
def test_what_works_by_elements_takes_over_a_layout_that_no_strategy_says(
    reader: str, more: dict[str, Any], cuts: Cuts
) -> None:
    turned = {"op": "Transpose", "inputs": ["x"], "perm": [1, 0], "out": "t1"}
    second = {"op": reader, "inputs": ["t1"], "out": "t2", **more}
    ops = [turned | {"user_strategy": [[2, 4]]}, second]
    assert (
        propagated({"shapes": {"x": [64, 32], "w": [64]}, "ops": ops, "data": ["x"]})["t2"] == cuts
    )


@pytest.mark.fast
def test_what_turns_dimensions_takes_over_no_layout_of_its_reader() -> None:
    turned = {"op": "Transpose", "inputs": ["x"], "perm": [1, 0], "out": "t1"}
    given = {"op": "ReLU", "inputs": ["t1"], "out": "t2", "user_strategy": [[2, 4]]}
    found = propagated({"shapes": {"x": [64, 32]}, "ops": [turned, given], "data": ["x"]})
    assert found["t1"] == ((1, 2),)


@pytest.mark.fast
def test_a_result_is_scattered_over_its_rows_alone() -> None:
    with pytest.raises(RequestError, match=r"do not scatter over rows\n.*\n  fix: use \(2, 2\)"):
        propagated(product([1, 4], "ReLU"))


def test_operators_are_cut_as_mindspore_cuts_them() -> None:
    different: list[object] = []
    compared = 0
    for case in json.loads(PATH.read_text()):
        found = propagated(case["net"])
        for name, wanted in case["strategies"].items():
            theirs, ours = tuple(map(tuple, wanted)), found[name]
            compared += 1
            if any(a != b for a, b in zip(theirs, ours, strict=False)):
                different.append((name, theirs, ours))
    assert compared == 794
    assert len(different) <= MOST_DIFFERENT, different
