"""Public instances are read as they are written, and bad ones refused with node and field."""

from __future__ import annotations

import copy
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from planner.requests.instances import InstanceError, network_of, read_instance

pytestmark = pytest.mark.fast

EXAMPLE: dict[str, Any] = {
    "problem": {
        "name": "example",
        "nodes": {
            "intervals": [[5, 10], [2, 6], [4, 4]],
            "costs": [[15, 55, 75], [50, 10**18], [7]],
            "usages": [[10, 15, 10], [25, 30], [1000]],
        },
        "edges": {
            "nodes": [[0, 1], [1, 0], [2, 1]],
            "costs": [[30, 40, 50, 10**18, 70, 80], [1, 2, 3, 4, 5, 6], [0, 9]],
        },
        "usage_limit": 40,
    }
}


def test_costs_of_nodes_and_parallel_edges_add() -> None:
    net = network_of(EXAMPLE)
    assert net.evaluate([2, 0, 0]) == 75 + 50 + 7 + 70 + 3 + 0
    assert net.evaluate([0, 0, 0]) == 15 + 50 + 7 + 30 + 1 + 0
    assert not net.is_feasible([1, 0, 0]) or net.peak([1, 0, 0]) <= 40


def test_memory_is_in_use_from_the_start_of_an_interval_to_before_its_end() -> None:
    net = network_of(EXAMPLE)
    assert net.profile([0, 0, 0]).tolist() == [0, 0, 25, 25, 25, 35, 10, 10, 10, 10]
    assert net.peak([1, 0, 0]) == 40
    assert net.is_feasible([0, 0, 0])
    assert not net.is_feasible([0, 1, 0])  # forbidden


def test_a_packed_file_is_the_same(tmp_path: Path) -> None:
    plain, packed = tmp_path / "a.json", tmp_path / "a.json.gz"
    plain.write_text(json.dumps(EXAMPLE))
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    first, second = read_instance(plain), read_instance(packed)
    assert first.edge_cost.tolist() == second.edge_cost.tolist()
    assert first.limit == second.limit == 40


def _with(path: str, value: object) -> dict[str, Any]:
    record = copy.deepcopy(EXAMPLE)
    *parents, last = path.split(".")
    here: Any = record["problem"]
    for name in parents:
        here = here[int(name) if name.isdigit() else name]
    here[int(last) if last.isdigit() else last] = value
    return record


@pytest.mark.parametrize(
    ("record", "what", "where"),
    [
        ([], "the file is no object", "the file"),
        ({}, "problem is no object", "problem"),
        (_with("nodes", 3), "is no object", "problem.nodes"),
        (_with("usage_limit", -1), "the limit is -1", "usage_limit"),
        (_with("usage_limit", True), "the limit is True", "usage_limit"),
        (_with("nodes.costs", []), "0 costs, 3 usages", "problem.nodes"),
        (_with("nodes.costs.1", []), "node 1 has no candidate", "nodes.costs[1]"),
        (_with("nodes.costs.1", 5), "it is no list", "nodes.costs[1]"),
        (_with("nodes.usages.0", [1, 2]), "node 0 has 3 costs and 2 usages", "nodes.usages[0]"),
        (_with("nodes.usages.1.0", -4), "node 1 has a negative usage", "nodes.usages[1]"),
        (_with("nodes.costs.0.1", "x"), "'x' is no cost", "nodes.costs[0]"),
        (_with("nodes.costs.0.1", float("nan")), "nan is no cost", "nodes.costs[0]"),
        (_with("nodes.costs.0.1", None), "None is no cost", "nodes.costs[0]"),
        (_with("nodes.costs.0.1", [1]), "[1] is no cost", "nodes.costs[0]"),
        (_with("nodes.costs.0.1", 10**30), "is no cost", "nodes.costs[0]"),
        (_with("nodes.intervals.1", [6, 2]), "node 1 ends at 2, before", "nodes.intervals[1]"),
        (_with("nodes.intervals.1", [6]), "[6] is no pair", "nodes.intervals[1]"),
        (_with("nodes.intervals.1", [0.5, 2]), "is no pair", "nodes.intervals[1]"),
        (_with("edges.nodes.0", [0, 3]), "[0, 3] are no two different", "edges.nodes[0]"),
        (_with("edges.nodes.0", [1, 1]), "[1, 1] are no two different", "edges.nodes[0]"),
        (_with("edges.costs.0", [1, 2]), "edge 0 has 2 costs for 6 pairs", "edges.costs[0]"),
        (_with("edges.costs", []), "3 pairs and 0 costs", "problem.edges"),
    ],
)
def test_a_malformed_instance_is_refused(record: object, what: str, where: str) -> None:
    with pytest.raises(InstanceError) as caught:
        network_of(record)
    text = str(caught.value)
    assert what in text.splitlines()[0]
    assert where in text.splitlines()[1]
    assert "fix:" in text


@pytest.mark.parametrize("content", [b"", b"{", b"\x1f\x8b\x08", b"\xff\xfe", b"[" * 100_000])
def test_a_file_that_is_no_json_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    with pytest.raises(InstanceError):
        read_instance(path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InstanceError, match="cannot read"):
        read_instance(tmp_path / "none.json")
