"""The summary of a plan, word for word, and the numbers of its JSON form."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from cli.plan_text import plan_parts
from cli.text import fitted, page, show
from ir.plan import Plan
from ir.plan_estimate import Baseline
from planner.request import InfeasibleError
from planner.requests.plan_json import communicators, dumps, found, infeasible

pytestmark = pytest.mark.fast

SUMMARY = """\
DP 4 x TP 2, ZeRO-3, selective recompute
tiny: one training step in 3 s (uncalibrated)
  2.67 samples/s, 42.7 tokens/s, 5.33 tokens/s per device, MFU 0.0 % of 1 TFLOP/s bf16
  peak memory 3 GiB of 4 GiB; at most 20 % above the lower bound
  batch 8, bfloat16, adamw
  8 x chip (pair), for generic, mesh server 2 x card0 2 x card1 2

Time
cause                                    time     %  for
compute forward                           1 s  33.3
all-gather over links between servers     1 s  33.3  parameter gather 500 ms, forward 500 ms
all-reduce over links between cards    500 ms  16.7  gradient sync
all-gather over links between cards    500 ms  16.7  parameter gather
step                                      3 s   100  without overlap

Peak memory of a device
cause                      memory     %
activations                 2 GiB  66.7
weights                     1 GiB  33.3
peak                        3 GiB   100
limit (75.0 % of it used)   4 GiB

Quality
No plan of the space below takes less than 2.5 s: this one is at most 20 % above (portfolio).
Space: dialect free, 7 decisions with 1,234 candidates (at most 40 each, 5 left out), 10^12 plans;
mesh server 2 x card 4.

Heaviest operators: layouts of operands -> results
operator              count    time     %  layouts
MatMul layers.*.proj      2  500 ms  16.7  [all,-], [-,card] -> [-,-,-]+card
Softmax head              1  500 ms  16.7  [all,-,-] -> [all,-,-]
In layouts `-` is a dimension that is not split, a tier such as `card` stands for all mesh axes of
that tier, `all` for all axes of the mesh, and `+card` is a partial sum over the cards.

Largest parameters: layout at rest -> as used, where different
parameter             count  dims       bytes  layouts
layers.*.proj.weight      2  1024x1024  4 MiB  [server*card0,card1] -> [-,card1]

Recomputed in the backward pass, to save memory
2 x MatMul at layers.*.proj

Notes
- a note
- no step was measured: other times rest on data sheets and assumed efficiencies

Written
plan.json
- something is lost
"""


def text_of(plan: Plan) -> str:
    stream = io.StringIO()
    with page(stream) as out:
        show(plan_parts(plan, [Path("plan.json")], losses=["something is lost"]), out)
    return stream.getvalue()


def test_the_summary_reads_like_this(plan: Plan) -> None:
    assert text_of(plan) == SUMMARY


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"proof": "optimal"}, "No plan of the space below is faster: proven by portfolio."),
        ({"truncated": True}, "The time limit cut the search short"),
        ({"bound_s": float("-inf")}, "No bound was found (portfolio)."),
    ],
)
def test_the_quality_is_told(change: dict[str, object], words: str, plan: Plan) -> None:
    changed = replace(plan, bound=replace(plan.bound, **change))  # type: ignore[arg-type]
    assert words in text_of(changed)
    assert words not in text_of(plan)


@pytest.mark.parametrize(
    ("step_s", "fits", "words"),
    [
        (6.0, True, "\n  2.00 x faster than data parallel\n"),
        (3.001, True, "\n  as fast as data parallel\n"),
        (1.5, False, "\n  data parallel would take 0.50 x the time, but does not fit into "),
    ],
)
def test_the_headline_compares(step_s: float, fits: bool, words: str, plan: Plan) -> None:
    beside = (Baseline("data parallel", fits, step_s, 2.0**30, ""),)
    assert words in text_of(replace(plan, baselines=beside))


def test_groups_of_devices_are_joined_whatever_the_order_of_their_axes(plan: Plan) -> None:
    assert communicators(plan) == [
        {
            "axes": ["server"],
            "group_size": 2,
            "groups": 4,
            "nbytes_total": 400.0,
            "kinds": ["all_gather"],
        },
        {
            "axes": ["card0", "card1"],
            "group_size": 4,
            "groups": 2,
            "nbytes_total": 30.0,
            "kinds": ["all_gather", "all_reduce"],
        },
    ]  # fmt: skip


def test_json_has_no_numbers_that_json_lacks(plan: Plan) -> None:
    endless = replace(plan, bound=replace(plan.bound, bound_s=float("-inf"), gap=float("inf")))
    data = json.loads(dumps(found(endless, [Path("a/plan.json")])))
    assert data["bound_s"] is None
    assert data["gap"] is None
    assert data["files"] == ["a/plan.json"]


def refused(error: InfeasibleError) -> str:
    stream = io.StringIO()
    with page(stream) as out:
        show((error.reason(), *error.remedy()), out)
    return stream.getvalue()


ERROR = InfeasibleError(
    "no plan fits: too much", 4 * 2**30, 2**30, {"weights": 3 * 2**30}, ("--batch 1",)
)


def test_what_does_not_fit_is_explained() -> None:
    assert refused(ERROR) == (
        "no plan fits: too much\n"
        "  needed on each device 4 GiB, available 1 GiB\n"
        "  largest contributors on each device:\n"
        "    weights: 3 GiB\n"
        "  what would make it fit:\n"
        "    --batch 1\n"
    )


@pytest.mark.parametrize(
    ("what", "line"),
    [
        ("1 TB of states do not fit", "no plan fits: 1 TB of states do not fit\n"),
        ("no plan that fits was found in time", "no plan that fits was found in time\n"),
    ],
)
def test_what_does_not_fit_is_said_once(what: str, line: str) -> None:
    assert refused(InfeasibleError(what, 2.0, 1.0, {}, ())).startswith(line)


def test_what_does_not_fit_has_the_same_keys_and_more(plan: Plan) -> None:
    assert set(found(plan, [])) < set(infeasible(ERROR))


@pytest.mark.parametrize("length", [46, 47, 200])
def test_a_long_name_loses_its_middle(length: int) -> None:
    name = ("begin" + "x" * length)[: length - 3] + "end"
    with page(io.StringIO()) as out:
        shown = fitted(name, out)
    assert len(shown) == 46
    assert (shown == name) == (length == 46)
    assert shown.startswith("begin")
    assert shown.endswith("end")
