"""The whole loop with the real MindSpore: it exports networks, we plan them, it takes our operator
strategies in place of its own search, uses them all, and sends what the plans promise.
"""

from __future__ import annotations

import base64
import functools
import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from executors.mindspore import judge as mindspore
from executors.mindspore.case import optimizer_level, optimizer_shares
from executors.mindspore.judge import judgement_of
from exporters.mindspore.groups import from_protobuf, groups_of
from exporters.mindspore.operator_json import OperatorStrategies, to_json
from exporters.mindspore.operator_strategy import DATASET, losses, operator_strategy
from exporters.mindspore.records import StrategyItem
from importers.mindir.listing import listed_primitives
from importers.mindir.reading import import_mindir
from ir.file_primitives import FilePrimitive
from ir.graph import OpGraph
from ir.plan import Plan
from planner.request import SearchRequest
from planner.search import search
from tests.executors.drawn_plans import drawn_plan
from tests.judges.schemes import SHARDED, TENSOR
from tests.judges.schemes import plans as schemes
from topology.catalogue import named_cluster

pytestmark = pytest.mark.slow
PYTHON = Path(os.environ.get("PLANNER_MINDSPORE_PYTHON", mindspore.PYTHON))
ROOT = Path(__file__).parents[2]
NAMES = ("mlp", "transformer2", "transformer8", "resnet50")
SWITCHES = {
    "GLOG_v": "3",
    "MS_DEV_SAVE_GRAPHS": "2",
    "MS_DEV_SAVE_GRAPHS_PATH": "graphs",
    "MS_DEV_DUMP_IR_PASSES": "validate",
    "GROUP_INFO_FILE": "groups.pb",
}


@dataclass(frozen=True, slots=True)
class Model:
    """What MindSpore exported."""

    graph: OpGraph
    primitives: tuple[FilePrimitive, ...]


@functools.cache
def models() -> Mapping[str, Model]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run("export", folder, str(folder), *NAMES)
        files = {each: folder / f"{each}_graph.mindir" for each in NAMES}
        return {n: Model(import_mindir(f), listed_primitives(f)) for n, f in files.items()}


def run(what: str, folder: Path, *arguments: str) -> None:
    done = subprocess.run(
        [str(PYTHON.absolute()), "-m", "tests.mindspore_package.loop_program", what, *arguments],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        cwd=folder,  # MindSpore leaves folders behind
        env=os.environ | SWITCHES | {"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr[-3000:]


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    plan: Plan
    content: OperatorStrategies
    shared: tuple[str, ...]
    """Parameters that the optimizer shares."""


def case(name: str, plan: Plan, mark: str) -> Case:
    scope = f"network-WithLoss{mark}"
    file = operator_strategy(plan, models()[name].primitives, scope)
    assert losses(plan, file) == ()
    tensors = plan.graph.tensors
    shares = [n for n, size in optimizer_shares(plan).items() if size > 1]
    shared = tuple(sorted(tensors[n].source or n for n in shares))
    return Case(name, plan, file.content, shared)


def compiled(cases: Sequence[Case]) -> list[dict[str, Any]]:
    """What MindSpore made of the cases, all for as many devices, in one process."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        listed = []
        for mark, each in enumerate(cases):
            file = folder / f"{mark}.json"
            file.write_text(to_json(each.content))
            listed.append(
                {
                    "name": each.name,
                    "mark": str(mark),
                    "devices": each.plan.devices,
                    "training": bool(each.plan.request["training"]),
                    "file": str(file),
                    "inputs": each.content.strategies[0].cuts,
                    "shared": each.shared,
                    "level": optimizer_level(each.plan),
                }
            )
        (folder / "cases.json").write_text(json.dumps(listed))
        run("compile", folder, "cases.json", "found.json")
        found: list[dict[str, Any]] = json.loads((folder / "found.json").read_text())
        return found


def searched(name: str, devices: int, *, training: bool) -> Plan:
    """The fastest plan."""
    request = SearchRequest(training=training, fused_attention=False)
    return search(models()[name].graph, named_cluster("atlas-800t-a2", devices), request)


def by_scheme(scheme: str, name: str, devices: int, *, training: bool) -> Plan:
    request = SearchRequest(training=training, fused_attention=False)
    return schemes(models()[name].graph, devices, request, wanted=(scheme,))[scheme]


def searched_plans(devices: int) -> list[tuple[str, Plan]]:
    return [(n, searched(n, devices, training=t)) for n in NAMES for t in (False, True)]


def known_plans(devices: int) -> list[tuple[str, Plan]]:
    """Tensor-parallel and fully sharded ones."""
    found = [(n, by_scheme(TENSOR, n, devices, training=False)) for n in NAMES]
    found += [("resnet50", by_scheme(TENSOR, "resnet50", devices, training=True))]
    return found + [(n, by_scheme(SHARDED, n, devices, training=True)) for n in NAMES]


@pytest.mark.parametrize("plans_for", [searched_plans, known_plans], ids=["searched", "known"])
@pytest.mark.parametrize("devices", [8, 16])
def test_mindspore_uses_our_strategies_and_sends_what_plans_promise(
    plans_for: Callable[[int], list[tuple[str, Plan]]],
    devices: int,
    record_property: Callable[[str, object], None],
) -> None:
    plans = plans_for(devices)
    cases = [case(name, plan, str(mark)) for mark, (name, plan) in enumerate(plans)]
    strategies = messages = 0
    for each, found in zip(cases, compiled(cases), strict=True):
        assert found["error"] == "", each.name
        used, ours = found["strategies"], wanted(each.content)
        assert set(used) <= set(ours)
        assert {k for k in set(ours) - set(used) if "/Reshape-" not in k} == set()
        assert {k: cuts for k, cuts in used.items() if cuts != ours[k]} == {}
        judgement = judgement_of(each.plan, {"not_run": {}, "error": "", **found})
        assert judgement.passed, (each.name, judgement.notes[-8:])
        strategies += len(used)
        messages += sum(t.count for t in judgement.emitted)
    assert messages > 100
    record_property(
        "checks",
        f"{len(cases)} plans on {devices} devices: {strategies} strategies used, "
        f"{messages} collectives, all equal",
    )


def wanted(content: OperatorStrategies) -> dict[str, list[list[int]]]:
    return {item.key: [list(cuts) for cuts in item.cuts] for item in content.strategies}


def test_mindspore_makes_the_groups_of_the_plan() -> None:
    """It writes those of rank 0 itself, under the names that we give them; some that it makes on
    the way are not used in the end.
    """
    plan = drawn_plan(models()["mlp"].graph, 8, SearchRequest(fused_attention=False), 1)
    (found,) = compiled([case("mlp", plan, "0")])
    theirs = from_protobuf(base64.b64decode(found["groups"]))
    ours = groups_of(plan)
    assert set(ours.groups) <= set(theirs.groups)
    assert len(ours.groups) > 3
    assert ours.same == theirs.same


def test_a_file_that_lacks_an_operator_or_is_at_fault_is_refused() -> None:
    """So that what passes above says something."""
    good = case("mlp", searched("mlp", 8, training=False), "0")
    first, second, *rest = good.content.strategies
    assert first.key == DATASET
    odd = StrategyItem(second.key, 0, ((3, 1), (1, 1)))
    for items in ((first, *rest), (first, odd, *rest)):
        broken = replace(good, content=OperatorStrategies(items))
        (found,) = compiled([broken])
        assert "Load strategies failed" in found["error"]
