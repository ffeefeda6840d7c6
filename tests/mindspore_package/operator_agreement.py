"""Whether MindSpore and the planner agree on one strategy of an operator."""

from __future__ import annotations

import itertools
import json
import math
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Case = Mapping[str, Any]
Found = Mapping[str, Any]
"""What `compile_operators` says of a case."""

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

OTHERWISE: Mapping[tuple[str, str], str] = {
    ("BatchNorm", "forward"): "MindSpore 2.10.0 exchanges no statistics",
    ("BatchNorm", "backward"): "nor what their gradients need",
    ("Transpose", "gradients"): "MindSpore sums no gradient of a parameter that is turned",
    ("GridSampler2D", "gradients"): "nor of a grid",
}
"""By primitive and kind of message what MindSpore sends otherwise, and why."""


def same_layouts(case: Case, found: Found) -> bool:
    """Device matrix and tensor maps that MindSpore prints, and the pieces that every rank holds by
    the plan's axes; of what it does not print the layouts of the parameters.
    """
    if "matrix" not in found:
        return case["primitive"] in UNPRINTED and _same_parameters(case, found)
    maps = _maps(case, found)
    alike = _normal(found["matrix"], maps) == _normal(case["matrix"], case["maps"])
    held = [_pieces(found["matrix"], each) for each in maps]
    planned = [_planned_pieces(case["mesh"], axes) for axes in case.get("axes", ())]
    return alike and list(found["matrix"]) == case["matrix"] and planned in ([], held)


def _same_parameters(case: Case, found: Found) -> bool:
    inputs = case["maps"][: len(case["inputs"])]
    wanted = [_normal(case["matrix"], [tensor_map]) for tensor_map in inputs]
    return [_normal(matrix, [m]) for matrix, m in found["known"]] == wanted


def _maps(case: Case, found: Found) -> list[list[int]]:
    """Of the inputs and of as many results as the planner has."""
    results = len(case["maps"]) - len(found["inputs"])
    return [list(each) for each in (*found["inputs"], *found["results"][:results])]


def _normal(
    matrix: Sequence[int], maps: Sequence[Sequence[int]]
) -> tuple[list[int], list[list[int]]]:
    """Without axes of one device, as MindSpore stores layouts."""
    kept = [axis for axis, size in enumerate(reversed(matrix)) if size > 1]
    place = {axis: index for index, axis in enumerate(kept)}
    sizes = [size for size in matrix if size > 1]
    return sizes or [1], [[place.get(axis, -1) for axis in each] for each in maps]


def _pieces(matrix: Sequence[int], tensor_map: Sequence[int]) -> list[list[tuple[int, int]]]:
    """For each rank which piece of how many it holds of every dimension."""
    return [
        [(place[-1 - a], matrix[-1 - a]) if a >= 0 else (0, 1) for a in tensor_map]
        for place in itertools.product(*(range(size) for size in matrix))
    ]


def _planned_pieces(
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


def different_messages(case: Case, found: Found) -> list[tuple[str, str]]:
    """Primitive and kind of the messages that are not those of the plan."""
    ours, theirs = case["sent"], found["sent"]
    different = [way for way in ours if sorted(ours[way]) != sorted(theirs[way])]
    return [(case["primitive"], way) for way in different]


def compiled(path: Path, together: int, limit_s: float = 600) -> tuple[list[Case], list[Found]]:
    """The cases of a file, and what MindSpore made of each; it leaves folders behind."""
    path = path.absolute()
    result = path.with_name(f"{path.stem}-found.json")
    module = "tests.mindspore_package.compile_operators"
    done = subprocess.run(
        [sys.executable, "-m", module, str(path), str(together), str(result)],
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
        cwd=path.parent,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert done.returncode == 0, result.with_suffix(".log").read_text()[-3000:]
    return json.loads(path.read_text()), json.loads(result.read_text())
