"""Strategies of single operators: MindSpore takes what the planner offers, refuses what the planner
refuses, and makes the layouts of it that the planner says.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.mindspore_package.operator_agreement import (
    OTHERWISE,
    TOGETHER,
    Case,
    Found,
    compiled,
    different_messages,
    same_layouts,
)

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
def test_mindspore_lays_operators_out_and_sends_as_the_planner_says(
    folder: Path, devices: int
) -> None:
    cases, found = compiled(folder / f"offered-{devices}.json", TOGETHER)
    assert len({case["kind"] for case in cases}) > 100
    for case, each in zip(cases, found, strict=True):
        assert "refused" not in each, (case, each)
        assert same_layouts(case, each), (case, each)
    check_messages(cases, found, {key for key in OTHERWISE if key[1] == "forward"})


def test_mindspore_sends_for_gradients_what_the_planner_says(folder: Path) -> None:
    cases, found = compiled(folder / "trained-8.json", TOGETHER)
    assert any(each["sent"]["gradients"] for each in found)
    check_messages(cases, found, set(OTHERWISE))


def check_messages(
    cases: Sequence[Case], found: Sequence[Found], otherwise: set[tuple[str, str]]
) -> None:
    """All are as planned but those that are listed, and these differ."""
    different = set()
    for case, each in zip(cases, found, strict=True):
        assert "refused" not in each, (case, each)
        own = {*different_messages(case, each)}
        assert own <= otherwise, (own, case, each)
        different |= own
    assert different == otherwise


def test_mindspore_takes_and_refuses_what_the_planner_does(folder: Path) -> None:
    cases, found = compiled(folder / "probed-8.json", 1)
    unused = set(BEYOND)
    for case, each in zip(cases, found, strict=True):
        reasons = "; ".join(case["ours"])
        if not reasons:
            assert "refused" not in each, (case, each)
            assert same_layouts(case, each), (case, each)
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


@pytest.fixture
def folder(request: pytest.FixtureRequest) -> Path:
    cases: Path = request.config.getoption("--cases")
    return cases.with_name(f"{cases.name}-operators")
