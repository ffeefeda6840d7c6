"""The walks of `docs/architecture.md` go through the code as it is."""

from __future__ import annotations

import functools
import importlib
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

import pytest

from costmodel.simulation.effects import Effects
from costmodel.simulation.plan_simulation import simulate_plan
from exporters.mindspore.checkpoint import strategy_checkpoint
from planner.explain import why
from planner.requests.options.searches import SearchOptions
from planner.requests.searches import question
from planner.requests.sources import model_file
from tests.importers.onnx_models import mlp

pytestmark = pytest.mark.fast

PAGE = Path(__file__).parents[1] / "docs/architecture.md"
ROW = re.compile(r"^\| (down|up) \| `([\w.]+)` \| `([\w.]+)` \| .+ \|$")


class Door(NamedTuple):
    """A row of a walk."""

    way: str
    room: str
    name: str


def walks() -> dict[str, list[Door]]:
    """Doors by the title of their walk."""
    out: dict[str, list[Door]] = {}
    title = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            title = line.removeprefix("## ")
        elif found := ROW.match(line):
            out.setdefault(title, []).append(Door(*found.groups()))
    return out


def code_of(name: str) -> CodeType:
    """What runs when somebody enters by a door; an error if there is none."""
    parts = name.split(".")
    for length in range(len(parts) - 1, 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        where = ".".join(parts[:length])
        for part in parts[length:]:
            found = getattr(found, part)
        if isinstance(found, property | functools.cached_property):
            found = getattr(found, "fget", None) or getattr(found, "func", None)
        while hasattr(found, "__wrapped__"):
            found = found.__wrapped__
        assert getattr(found, "__module__", None) == where, f"{name} is not defined there"
        code = getattr(found, "__code__", None)
        assert isinstance(code, CodeType), f"{name} is no function"
        return code
    raise ModuleNotFoundError(name)


@contextmanager
def watched(entered: set[CodeType]) -> Iterator[None]:
    """Adds the code of every function that is called."""
    before = sys.gettrace()

    def see(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            entered.add(frame.f_code)

    sys.settrace(see)
    try:
        yield
    finally:
        sys.settrace(before)


@pytest.fixture(scope="module")
def entered(tmp_path_factory: pytest.TempPathFactory) -> set[CodeType]:
    """Functions that one search, its export, its simulation and an explanation call."""
    file = tmp_path_factory.mktemp("model") / "mlp.onnx"
    file.write_bytes(mlp().SerializeToString())
    asked = SearchOptions(devices=8, batch=64, pin=("first=(8,1),(1,1)",))
    entered: set[CodeType] = set()
    with watched(entered):
        strategy_checkpoint(question(model_file(file), asked).plan())
        plan = question(model_file(file), replace(asked, target="generic")).plan()
        simulate_plan(plan, Effects())
        why(plan, plan.operators[0].name)
    return entered


def test_there_are_three_walks() -> None:
    assert len(walks()) == 3


@pytest.mark.parametrize("walk", walks())
def test_a_walk_passes_every_room_once_and_goes_down_before_it_comes_up(walk: str) -> None:
    doors = walks()[walk]
    rooms = [door.room for door in doors]
    assert len(set(rooms)) == len(rooms)
    ways = [door.way for door in doors]
    assert ways == sorted(ways, key=["down", "up"].index)
    assert set(ways) == {"down", "up"}
    for door in doors:
        assert door.name.startswith(door.room + ".")


@pytest.mark.slow
@pytest.mark.parametrize("walk", walks())
def test_every_door_of_a_walk_is_entered(walk: str, entered: set[CodeType]) -> None:
    missing = [door.name for door in walks()[walk] if code_of(door.name) not in entered]
    assert not missing
