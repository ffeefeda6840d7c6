"""The table of docs/mindspore.md: what arrives of plans in networks that MindSpore compiles.

    python -m tests.mindspore_package.networks_table FOLDER MINDSPORE_PYTHON [NAME...]

FOLDER is what `export_networks` wrote. Exit status 1 where a strategy of the operators' file does
not arrive, the step with sharding propagation is more than 1 % longer, or MindSpore refuses a file.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import typer

from cli.mindspore import _files, _planned, compiled_s
from executors.mindspore.judge import MindsporeError
from executors.mindspore.own_network import Compiled, Source, compared, compiled
from exporters.mindspore.operator_json import OperatorStrategies
from exporters.mindspore.records import StrategyItem
from exporters.mindspore.strategy_files import read_strategies
from importers.mindir.reading import import_mindir
from importers.onnx import import_onnx
from ir.plan import Plan
from planner.request import SearchRequest
from planner.search import search
from topology.catalogue import named_cluster

SCRIPT = Path(__file__).parent / "tutorial_networks.py"
DEVICES = (8, 16)
LONGEST = 0.01
"""Share by which the step may be longer than planned where the rest follows its neighbours."""
_COLUMNS = (
    "network", "export", "devices", "apply", "messages", "step", "propagation", "messages", "step",
    "operators", "step", "follow",
)  # fmt: skip


def main(folder: Path, python: Path, names: list[str]) -> int:
    """Print a row for each network, export and number of devices."""
    typer.echo(f"| {' | '.join(_COLUMNS)} |\n{'|---' * len(_COLUMNS)}|")
    wrong = 0
    found = sorted(p.name.removesuffix("_graph.mindir") for p in folder.glob("*_graph.mindir"))
    for name in names or found:
        for file in (folder / f"{name}_graph.mindir", folder / f"{name}.onnx"):
            for devices in DEVICES if file.exists() else ():
                cells, good = _row(name, file, devices, python)
                export = file.suffix[1:]
                typer.echo(f"| {name} | {export} | {devices} | {' | '.join(cells)} |")
                wrong += not good
    return int(wrong > 0)


def planned(file: Path, devices: int) -> Plan:
    graph = import_mindir(file) if file.suffix == ".mindir" else import_onnx(file)
    return search(graph, named_cluster("atlas-800t-a2", devices), SearchRequest())


def _row(name: str, file: Path, devices: int, python: Path) -> tuple[list[str], bool]:
    plan = planned(file, devices)
    applied, followed = (_found(plan, name, r, python) for r in ("apply", "propagation"))
    cells = [*_cells(plan, applied, sent=True), *_cells(plan, followed, sent=True)]
    good = not isinstance(applied, str) and not isinstance(followed, str)
    if not isinstance(followed, str):
        step_s = compiled_s(plan, followed.arrivals)
        good &= step_s is not None and step_s <= (1 + LONGEST) * plan.estimate.step_time_s
    if file.suffix == ".mindir":
        whole = _found(plan, name, "operators", python)
        good &= not isinstance(whole, str) and all(each.arrived for each in whole.arrivals)
        cells += _cells(plan, whole, sent=False)
    else:
        cells += ["-", "-"]
    left = () if isinstance(applied, str) else _kinds(applied)
    return [*cells, ", ".join(dict.fromkeys(left))], good


def _cells(plan: Plan, found: Compiled | str, *, sent: bool) -> list[str]:
    """How many operators are as planned, whether the messages are, and the step."""
    if isinstance(found, str):
        return [found, *[""] * (1 + sent)]
    judged = found.judgement
    messages = ["as planned" if judged is None or judged.passed else "differ"] if sent else []
    return [_count(found), *messages, _step(plan, found)]


def _found(plan: Plan, name: str, route: str, python: Path) -> Compiled | str:
    """What became of the plan's files, or the first line of MindSpore's refusal."""
    source = Source(SCRIPT, name)
    files = _files(plan, source, route)
    with tempfile.TemporaryDirectory() as folder:
        try:
            made = compiled(plan, source, route, files, python, kept=Path(folder))
        except MindsporeError as error:
            return "refused: " + " ".join(str(error).split())[:300]
        (graph,) = Path(folder).glob("step_parallel_end_*.ir")
        _check_names(made["strategies"], graph)
    return compared(plan, list(_planned(plan, source.scope)), made, source.scope, route)


def _check_names(saved: Mapping[str, list[list[int]]], graph: Path) -> None:
    """Our reader gives operators the names and strategies that MindSpore saves.

    Within a scope those of one kind may be numbered in another order: MindSpore numbers them when
    it first asks for a name.
    """
    sides = (saved.items(), ((i.key, [list(c) for c in i.cuts]) for i in _strategies(graph)))
    theirs, ours = (Counter((n.rpartition("-op")[0], str(c)) for n, c in side) for side in sides)
    if theirs - ours:
        raise AssertionError(f"{graph.name} is read otherwise than MindSpore saves it")


def _strategies(graph: Path) -> tuple[StrategyItem, ...]:
    found = read_strategies(graph)
    assert isinstance(found, OperatorStrategies)
    return found.strategies


def _step(plan: Plan, found: Compiled) -> str:
    """By how much the step of what MindSpore compiled is longer than the plan's."""
    step_s = compiled_s(plan, found.arrivals)
    return "unknown" if step_s is None else f"{step_s / plan.estimate.step_time_s - 1:+.1%}"


def _count(found: Compiled) -> str:
    return f"{sum(each.arrived for each in found.arrivals)} of {len(found.arrivals)}"


def _kinds(found: Compiled) -> Iterator[str]:
    for each in found.arrivals:
        if not each.arrived:
            yield each.name.rpartition("/")[2].rpartition("-op")[0]


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]))
