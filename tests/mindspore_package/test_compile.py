"""MindSpore's own parallel passes take our files, and make of them what our plans say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from math import prod
from pathlib import Path
from typing import Any

import pytest

ANY_WAY = pytest.mark.parametrize("how", ["checkpoint", "json", "apply"])

Operators = dict[tuple[str, str], list[list[list[int]]]]
"""Cuts by path of the cell and primitive."""


@ANY_WAY
def test_mindspore_compiles_the_plan(large_case: Path, how: str, tmp_path: Path) -> None:
    found = compiled(large_case, how, tmp_path / "found.json")
    made, wanted = operators(found["strategies"]), listed(found["wanted"])
    assert not found["missing"]
    own = {place: made.pop(place, None) for place in listed(found["custom"])}
    assert set(made) == set(wanted)
    keys = json.loads((large_case / "strategy.json").read_text())["parallel_strategy_item"]
    for place, cuts in wanted.items():
        carried = how == "apply" or any(key.startswith(f"{place[1]}_{place[0]}.") for key in keys)
        if carried:
            assert sorted(made[place]) == sorted(cuts), place
        else:
            assert all(batch_parallel(each) for each in made[place]), place
    check_layouts(large_case, found["layouts"])
    for place, taken in own.items():
        if how == "apply":
            assert taken is None, "MindSpore has layouts for it, no strategy"
            assert found["seen"] == [local_size(found, place)]
        else:
            assert taken is not None
            assert all(batch_parallel(each) for each in taken), place


def local_size(found: dict[str, Any], place: tuple[str, str]) -> list[int]:
    """What a device has of the 16 rows and 256 columns that the network's own primitive gets."""
    path, kind = place
    ((inputs, _),) = found["custom"][path][kind]
    pieces = [prod(found["axes"][axis] for axis in dim) for dim in inputs[0]]
    return [size // count for size, count in zip((16, 256), pieces, strict=True)]


def compiled(case: Path, how: str, result: Path) -> dict[str, Any]:
    module = "tests.mindspore_package.compile_case"
    done = subprocess.run(
        [sys.executable, "-m", module, str(case), how, str(result)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=result.parent,  # MindSpore leaves folders behind
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(result.read_text())
    return found


def operators(strategies: dict[str, Any]) -> Operators:
    """From `Default/up-Product/MatMul-op0` to (up, MatMul); what only MindSpore has left out."""
    out: Operators = defaultdict(list)
    for name, cuts in strategies.items():
        _, *path, last = name.split("/")
        kind = last.split("-")[0]
        if kind not in {"_VirtualDataset", "Reshape"}:
            out[".".join(each.rpartition("-")[0].replace("-", ".") for each in path), kind] += [
                cuts
            ]
    return out


def listed(wanted: dict[str, dict[str, Any]]) -> Operators:
    return {(path, kind): cuts for path, kinds in wanted.items() for kind, cuts in kinds.items()}


def batch_parallel(cuts: list[list[int]]) -> bool:
    """What an operator gets of which the file says nothing: dimension 0 alone is cut."""
    return all(prod(each[1:]) == 1 for each in cuts)


def check_layouts(case: Path, found: dict[str, Any]) -> None:
    """Without the optimizer's share, which is not part of the compiled forward pass."""
    ours = json.loads((case / "strategy.json").read_text())["parallel_layout_item"]
    assert set(ours) <= set(found)
    for name, layout in ours.items():
        if not layout["opt_weight_shard_size"]:
            assert found[name] == [layout["dev_matrix"], layout["tensor_map"]], name
        else:
            assert cuts_of(*found[name]) == cuts_of(layout["dev_matrix"], layout["tensor_map"]), (
                name
            )


def cuts_of(matrix: list[int], tensor_map: list[int]) -> list[int]:
    return [1 if axis == -1 else matrix[-1 - axis] for axis in tensor_map]
