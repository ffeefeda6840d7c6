"""Sharding propagation in MindSpore's order, beside what MindSpore 2.10.0 chose.

`tests/data/mindspore_sharding_propagation.json` has drawn networks with one or two given
strategies, and those that the real package gave the other operators on 8 devices, each network in a
process of its own: the package keeps costs from one network to the next.
"""

from __future__ import annotations

import json
from pathlib import Path

from planner.request import SearchRequest
from planner.search import search
from tests.planner.mindspore_nets import Network
from tests.planner.test_mindspore_cases_searches import cuts_in
from topology.catalogue import named_cluster

PATH = Path(__file__).parents[1] / "data" / "mindspore_sharding_propagation.json"
MOST_DIFFERENT = 1
"""Operators that are cut otherwise: one that takes over a layout which no strategy says."""


def test_operators_are_cut_as_mindspore_cuts_them() -> None:
    different: list[object] = []
    compared = 0
    for case in json.loads(PATH.read_text()):
        network = Network(case["net"])
        request = SearchRequest(
            pins=tuple(network.pins), solver="mindspore_propagation", cost="mindspore",
            dataset_strategy="full_batch", all_to_all=False,
        )  # fmt: skip
        found = cuts_in(search(network.graph(), named_cluster("atlas-800t-a2", 8), request))
        for name, wanted in case["strategies"].items():
            theirs, ours = tuple(map(tuple, wanted)), found[name]
            compared += 1
            if any(a != b for a, b in zip(theirs, ours, strict=False)):
                different.append((name, theirs, ours))
    assert compared > 100
    assert len(different) <= MOST_DIFFERENT, different
