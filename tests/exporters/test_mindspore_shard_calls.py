"""Calls of shard out of a plan: what reads them holds the same operators to the same cuts."""

from __future__ import annotations

import functools
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from exporters.errors import ExportError
from exporters.formats import FORMATS
from exporters.mindspore.shard_calls import SETTINGS, shard_module
from exporters.settings import Made, Settings
from importers.mindir.reading import import_mindir
from ir.plan import Plan
from planner.request import SearchRequest
from planner.requests.shard import check_calls, pins_of_calls, read_calls
from planner.search import search
from topology.catalogue import named_cluster

pytestmark = pytest.mark.fast

MINDIR = Path(__file__).parents[1] / "data" / "mindir" / "mlp.mindir"
PINS = (
    ("Default/up-Dense/MatMul-op0", ((2, 1), (4, 1))),
    ("Default/down-Dense/MatMul-op0", ((2, 4), (1, 4))),
)


@functools.cache
def plan() -> Plan:
    asked = SearchRequest(pins=PINS, training=False, time_limit_s=None)
    return search(import_mindir(MINDIR), named_cluster("atlas-800t-a2", 8), asked)


def made(**given: str) -> Made:
    return shard_module(plan(), Settings(given, SETTINGS))


def test_the_calls_hold_products_to_the_cuts_of_the_plan() -> None:
    context, calls = read_calls(made(form="yaml").files[""], "calls.yaml")
    assert [call.target for call in calls] == ["down", "relu", "up"]
    issues = check_calls(plan().graph, calls, context, 8)
    assert [issue.code for issue in issues if issue.code.startswith("E_")] == []
    pins = dict(pins_of_calls(plan().graph, calls, context, 8))
    assert {name: pins[name] for name, _ in PINS} == dict(PINS)


def test_parameters_have_the_order_of_the_network() -> None:
    """`nn.Dense` keeps its weight with outputs first."""
    space: dict[str, Any] = {}
    text = made().files[""]
    exec(text[text.index("CALLS = ") : text.index('"""By cell')], space)
    arguments, results, parameters = space["CALLS"]["up"]
    assert arguments == ((2, 1),)
    assert results == ((2, 4),)
    assert parameters == {"self.up.weight": (4, 1), "self.up.bias": (4,)}


class Cell:
    """A stand-in for a cell, of a release whose `shard` gives a function or none."""

    def __init__(self, gives: object) -> None:
        self.gives, self.calls = gives, list[tuple[object, ...]]()

    def cells_and_names(self) -> list[tuple[str, object]]:
        return [("", self), *((name, Cell(self.gives)) for name in ("up", "relu", "down"))]

    def shard(self, *arguments: object) -> object:
        self.calls.append(arguments)
        return self.gives


@pytest.mark.parametrize("gives", [None, len])
def test_cells_are_sharded_in_old_and_new_releases(
    gives: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("mindspore", "mindspore.communication"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    vars(sys.modules["mindspore.communication"])["init"] = print
    space: dict[str, Any] = {}
    exec(made().files[""], space)
    network = Cell(gives)
    added = space["sharded"](network)
    assert added == (["down_graph", "relu_graph", "up_graph"] if gives else [])
    assert all(getattr(network, name) is gives for name in added)


def test_cells_may_be_named_and_must_be_there() -> None:
    assert "'down'" not in made(cells="up").files[""]
    with pytest.raises(ExportError, match="no cell 'none'"):
        made(cells="none")


def test_what_mindspore_does_otherwise_is_told() -> None:
    (note,) = FORMATS["mindspore-shard"].losses(plan(), None)
    assert "may differ from the plan" in note
