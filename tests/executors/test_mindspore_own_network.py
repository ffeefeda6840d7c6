"""Strategies and collectives of a compiled network beside those of a plan, without MindSpore."""

from __future__ import annotations

import functools
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from executors.mindspore.judge import MindsporeError
from executors.mindspore.own_network import Planned, Source, compared, compiled
from exporters.mindspore.listed import cut_primitives
from exporters.mindspore.operator_strategy import scoped
from importers.mindir.reading import import_mindir
from ir.plan import Plan
from planner.request import SearchRequest
from planner.search import search
from topology.catalogue import named_cluster

DATA = Path(__file__).parents[1] / "data" / "mindspore_networks"
SOURCE = Source(Path("net.py"), "Bert")


@functools.cache
def plan() -> Plan:
    graph = import_mindir(DATA / "encoder.mindir")
    request = SearchRequest(training=False)
    return search(graph, named_cluster("atlas-800t-a2", 8), request)


def planned() -> list[Planned]:
    found = cut_primitives(plan())
    return [Planned(scoped(o.primitive.name, SOURCE.scope), o.cuts) for o in found]


def of_mindspore(**changed: list[list[int]]) -> dict[str, Any]:
    """What MindSpore says where it does as planned, but for some operators."""
    used = {p.name: [list(cuts) for cuts in p.cuts] for p in planned() if "/Reshape-" not in p.name}
    used |= {name: cuts for name, cuts in changed.items() if name in used}
    return {"strategies": used, "order": list(used), "missing": [], "collectives": []}


@pytest.mark.fast
def test_a_network_that_has_all_strategies_is_as_planned() -> None:
    found = compared(plan(), planned(), of_mindspore(), SOURCE.scope, "apply")
    assert len(found.arrivals) == sum("/Reshape-" not in p.name for p in planned())
    assert all(each.arrived for each in found.arrivals)


@pytest.mark.fast
def test_the_one_that_differs_is_named() -> None:
    name = next(p.name for p in planned() if p.name.endswith("norm-LayerNorm/LayerNorm-op0"))
    other = of_mindspore(**{name: [[1, 2, 1], [1], [1]]})
    found = compared(plan(), planned(), other, SOURCE.scope, "operators")
    assert [each.name for each in found.arrivals if not each.arrived] == [name]
    assert not found.passed


def test_functions_that_stand_in_the_first_cell_are_told_by_their_order() -> None:
    """As `+` in a cell within another one: all have the name of the first."""
    made = of_mindspore()
    adds = [name for name in made["strategies"] if "/Add-op" in name]
    moved = {name: f"Default/network-Bert/Add-op{i}" for i, name in enumerate(adds)}
    made["strategies"] = {moved.get(n, n): cuts for n, cuts in made["strategies"].items()}
    made["order"] = [moved.get(n, n) for n in made["order"]]
    found = compared(plan(), planned(), made, SOURCE.scope, "apply")
    assert len(adds) == 5
    assert all(each.arrived for each in found.arrivals)


@pytest.mark.fast
def test_what_stops_the_other_interpreter_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(MindsporeError, match="MindSpore stopped"):
        compiled(plan(), SOURCE, "apply", {}, Path(sys.executable))


def test_a_job_holds_what_a_device_gets(tmp_path: Path) -> None:
    """The program is handed the inputs with their cuts, as JSON."""
    seen = tmp_path / "seen.json"
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\ncp job.json {seen}\nexit 1\n")
    program.chmod(0o755)
    with pytest.raises(MindsporeError):
        compiled(plan(), SOURCE, "operators", {}, program)
    job = json.loads(seen.read_text())
    assert job["devices"] == 8
    assert [each["dims"] for each in job["inputs"]] == [[8, 64]]
