"""Strategies of single operators: MindSpore takes what the planner offers, refuses what the planner
refuses, and makes the layouts of it that the planner says.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

Case = Mapping[str, Any]

TOGETHER = 48
"""Operators compiled together: a compilation has a cost of its own."""

UNPRINTED = frozenset(
    {
        "BroadcastTo", "Cast", "Conv2D", "Conv2DTranspose", "Conv3D", "Dropout", "Gather",
        "OneHot", "Squeeze",
    }
)  # fmt: skip
"""Primitives whose layouts MindSpore does not print, since it makes others of them, as it does of
convolutions whose neighbours exchange edges and of codes that are cut, or lets them follow what
they read: layouts of inputs are known from the parameters.
"""

BEYOND: Mapping[tuple[str, str], str] = {
    ("Argmax|Argmin", "needs it whole"): "MindSpore only warns that its indices are then local",
    ("BroadcastTo", "the strategy "): "it may be that of the result",
    ("Gather", "keeps whole"): "MindSpore scatters the result over rows in its own order",
    ("GatherD", "needs it whole"): "elements along the axis are looked up under a mask",
    ("GridSampler2D", "keeps whole"): "MindSpore cuts the grid as the image, whatever it means",
    ("ROIAlign", "needs it whole"): "regions of one part of the images are made zero and summed",
    ("PadV3", "the strategy has"): "the paddings may be an input",
    ("RmsNorm", "keeps whole"): "MindSpore takes the kernel apart then",
    ("TensorScatterAdd", "keeps whole"): "rows are updated under a mask",
    ("TensorScatterMul", "keeps whole"): "rows are updated under a mask",
    ("Tile", "needs it whole"): "copies are shared out",
    ("Tril|Triu", "needs it whole"): "MindSpore does not move the diagonal with the part",
}
"""What MindSpore takes and the planner does not: primitive, the planner's reason, and why."""

_WHOLE = "keeps whole|needs it whole|is cut|are cut|it takes"
REASONS: Mapping[str, str] = {
    "cannot be divisible by strategy value": "size .* is cut|needs it whole",
    "power of 2": "is cut \\d+ ways",
    "it requires \\d+ devices": "it takes \\d+ of \\d+ devices",
    "strategy size: \\d+ is not equal to inputs size": "the strategy has \\d+ inputs",
    "strategy len: \\d+ is not equal to inputs len": "the strategy of input \\d+ has",
    "shard num|not equal|must be equal|right aligned": f"in another input|has \\d+|{_WHOLE}",
    "(can not|cannot|can't) be split": _WHOLE,
    "axis dimension\\(\\d+\\) is not 1": "keeps whole",
}
"""Reasons of MindSpore's that hold for every operator, and those of the planner."""


@pytest.mark.parametrize("devices", [8, 16])
def test_mindspore_lays_operators_out_as_the_planner_says(folder: Path, devices: int) -> None:
    cases, found = compiled(folder / f"offered-{devices}.json", TOGETHER)
    assert len({case["kind"] for case in cases}) > 100
    for case, each in zip(cases, found, strict=True):
        assert "refused" not in each, (case, each)
        check_layouts(case, each)
        if "matrix" in each:
            theirs = [pieces(each["matrix"], m) for m in maps_of(case, each)]
            ours = [planned_pieces(case["mesh"], axes) for axes in case["axes"]]
            assert theirs == ours, (case, each)


def check_layouts(case: Case, found: Mapping[str, Any]) -> None:
    """Those that MindSpore prints, else those of the parameters."""
    if "matrix" in found:
        assert list(found["matrix"]) == case["matrix"], (case, found)
        theirs = normal(found["matrix"], maps_of(case, found))
        assert theirs == normal(case["matrix"], case["maps"]), (case, found)
        return
    assert case["primitive"] in UNPRINTED, case
    inputs = case["maps"][: len(case["inputs"])]
    wanted = [normal(case["matrix"], [tensor_map]) for tensor_map in inputs]
    assert [normal(matrix, [m]) for matrix, m in found["known"]] == wanted, (case, found)


def test_mindspore_takes_and_refuses_what_the_planner_does(folder: Path) -> None:
    cases, found = compiled(folder / "probed-8.json", 1)
    unused = set(BEYOND)
    for case, each in zip(cases, found, strict=True):
        reasons = "; ".join(case["ours"])
        if not reasons:
            assert "refused" not in each, (case, each)
            check_layouts(case, each)
        elif "refused" in each:
            theirs = " ".join(each["refused"])
            for pattern, ours in REASONS.items():
                assert not re.search(pattern, theirs) or re.search(ours, reasons), (case, each)
        else:
            keys = {key for key in BEYOND if is_beyond(key, case["primitive"], reasons)}
            assert keys, (case, each)
            unused -= keys
    assert not unused


def is_beyond(key: tuple[str, str], primitive: str, reasons: str) -> bool:
    return primitive in key[0].split("|") and key[1] in reasons


def maps_of(case: Case, found: Mapping[str, Any]) -> list[list[int]]:
    """Of the inputs and of as many results as the planner has."""
    results = len(case["maps"]) - len(found["inputs"])
    return [list(each) for each in (*found["inputs"], *found["results"][:results])]


def normal(
    matrix: Sequence[int], maps: Sequence[Sequence[int]]
) -> tuple[list[int], list[list[int]]]:
    """Without axes of one device, as MindSpore stores layouts."""
    kept = [axis for axis, size in enumerate(reversed(matrix)) if size > 1]
    place = {axis: index for index, axis in enumerate(kept)}
    sizes = [size for size in matrix if size > 1]
    return sizes or [1], [[place.get(axis, -1) for axis in each] for each in maps]


def pieces(matrix: Sequence[int], tensor_map: Sequence[int]) -> list[list[tuple[int, int]]]:
    """For each rank which piece of how many it holds of every dimension."""
    return [
        [(place[-1 - a], matrix[-1 - a]) if a >= 0 else (0, 1) for a in tensor_map]
        for place in itertools.product(*(range(size) for size in matrix))
    ]


def planned_pieces(
    mesh: Sequence[int], axes: Sequence[Sequence[int]]
) -> list[list[tuple[int, int]]]:
    """The same of a layout that lists the mesh axes of every dimension, outermost first."""
    out = []
    for place in itertools.product(*(range(size) for size in mesh)):
        ranges = []
        for dim in axes:
            index = 0
            for axis in dim:
                index = index * mesh[axis] + place[axis]
            ranges.append((index, math.prod(mesh[axis] for axis in dim)))
        out.append(ranges)
    return out


def compiled(path: Path, together: int) -> tuple[list[Case], list[Mapping[str, Any]]]:
    """The cases of a file, and what MindSpore made of each; it leaves folders behind."""
    result = path.with_name(f"{path.stem}-found.json")
    module = "tests.mindspore_package.compile_operators"
    done = subprocess.run(
        [sys.executable, "-m", module, str(path), str(together), str(result)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        cwd=path.parent,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert done.returncode == 0, result.with_suffix(".log").read_text()[-3000:]
    return json.loads(path.read_text()), json.loads(result.read_text())


@pytest.fixture
def folder(request: pytest.FixtureRequest) -> Path:
    cases: Path = request.config.getoption("--cases")
    return cases.with_name(f"{cases.name}-operators")
