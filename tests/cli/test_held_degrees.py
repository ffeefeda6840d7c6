"""`--tp 8 --pp 4 --dp 16`: degrees by the names that Megatron has hold in a search."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from importers.hf_config import import_config
from ir.plan_degrees import degrees_of
from ir.plan_file import read_plan
from planner.requests.errors import UserError
from planner.requests.options.searches import SearchOptions
from planner.requests.search_options import check_degrees
from planner.requests.search_request import search_request, with_restriction
from planner.search import search
from tests.importers.configurations import SMALL
from topology.catalogue import named_cluster

pytestmark = pytest.mark.fast

Planner = Callable[..., Any]


def test_degrees_have_one_spelling_in_a_request() -> None:
    asked = SearchOptions(global_batch=64)
    words = search_request(
        SearchOptions(global_batch=64, tp=8, dp=2, pipeline="4", context_parallel="2")
    )
    assert words == with_restriction(search_request(asked), "tp=8,dp=2,pp=4,cp=2", "--why-not")
    assert dict(words.degrees) == {"tp": 8, "dp": 2}


@pytest.mark.slow
@pytest.mark.parametrize(("tp", "dp"), [(8, 1), (4, 2), (2, 4), (1, 8)])
def test_a_plan_has_the_degrees_that_are_held(
    tp: int, dp: int, mlp: Path, planner: Planner, tmp_path: Path
) -> None:
    run = planner("search", mlp, "--devices", 8, "--tp", tp, "--dp", dp, "--target", "torch",
                  "-o", tmp_path)  # fmt: skip
    assert run.code == 0, run.err
    plan = read_plan(tmp_path / "plan.json")
    found = degrees_of(plan)
    assert (found.tp, found.dp) == (tp, dp)
    assert plan.request["degrees"] == [["tp", tp], ["dp", dp]]
    assert f"held to tp={tp},dp={dp}" in run.out


@pytest.mark.slow
def test_stages_are_held_by_their_short_name(mlp: Path, planner: Planner, tmp_path: Path) -> None:
    asked = ("search", mlp, "--devices", 8, "--global-batch", 64, "--target", "torch")
    for name in ("--pp", "--pipeline"):
        run = planner(*asked, name, 2, "--tp", 2, "--dp", 2, "-o", tmp_path / name)
        assert run.code == 0, run.err
    texts = [(tmp_path / name / "plan.json").read_bytes() for name in ("--pp", "--pipeline")]
    assert texts[0] == texts[1]
    found = degrees_of(read_plan(tmp_path / "--pp" / "plan.json", staged=True))
    assert (found.pp, found.tp, found.dp) == (2, 2, 2)


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        (("--tp", 0), "0 is less than 1"),
        (("--dp", "x"), "not a whole number"),
        (("--tp", 8, "--dp", 16), "degrees of 8 x 16 = 128 do not divide 8 devices"),
        (("--tp", 3), "no mesh of 8 devices has the degrees tp=3"),
        (("--pp", 2), "there is no"),
        (("--ep", 2), "nothing in the model can have ep=2"),
    ],
)
def test_what_cannot_be_held_is_one_message(
    options: tuple[object, ...], hint: str, mlp: Path, planner: Planner
) -> None:
    run = planner("search", mlp, "--devices", 8, *options)
    assert run.code == 2, run.out
    assert run.err.count("error: ") == 1
    assert hint in run.err
    assert "fix: " in run.err


def test_stages_of_any_size_need_not_divide_the_devices() -> None:
    options = {"tp": 2, "pipeline": "3", "global_batch": 8}
    with pytest.raises(UserError, match="--tp 2 --pp 3"):
        check_degrees(SearchOptions(**options), 16)  # type: ignore[arg-type]
    check_degrees(SearchOptions(**options, stage_meshes="any"), 16)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize(("ep", "tp"), [(1, None), (2, None), (4, None), (4, 2)])
def test_experts_are_spread_as_held_whatever_the_other_layers_do(ep: int, tp: int | None) -> None:
    graph = import_config(SMALL["mixtral"], "mixtral", "mixtral", {"batch": 8, "sequence": 64})
    asked = search_request(SearchOptions(target="torch", profile="generic", ep=ep, tp=tp))
    found = degrees_of(search(graph, named_cluster("dgx-h100", 8), asked))
    assert found.ep == ep
    assert tp is None or found.tp == tp
