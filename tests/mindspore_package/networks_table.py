"""The table of docs/mindspore.md: what arrives of plans in networks that MindSpore compiles.

    python -m tests.mindspore_package.networks_table FOLDER MINDSPORE_PYTHON [NAME...]

FOLDER is what `export_networks` wrote. Exit status 1 where a strategy of the operators' file does
not arrive, or MindSpore refuses a file.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import typer

from cli.mindspore import _files, _planned
from executors.mindspore.judge import MindsporeError
from executors.mindspore.own_network import Compiled, Source, compared, compiled
from importers.mindir.reading import import_mindir
from importers.onnx import import_onnx
from ir.plan import Plan
from planner.request import SearchRequest
from planner.search import search
from topology.catalogue import named_cluster

SCRIPT = Path(__file__).parent / "tutorial_networks.py"
DEVICES = (8, 16)
_HEAD = """| network | export | devices | apply | collectives | operators | not reached by apply |
|---|---|---|---|---|---|---|"""


def main(folder: Path, python: Path, names: list[str]) -> int:
    """Print a row for each network, export and number of devices."""
    typer.echo(_HEAD)
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
    applied = _found(plan, name, "apply", python)
    if isinstance(applied, str):
        return [applied, "", "", ""], False
    judged = applied.judgement
    sent = "as planned" if judged is None or judged.passed else "differ"
    cells, good = [_count(applied), sent], True
    if file.suffix == ".mindir":
        whole = _found(plan, name, "operators", python)
        good = not isinstance(whole, str) and all(each.arrived for each in whole.arrivals)
        cells.append(whole if isinstance(whole, str) else _count(whole))
    else:
        cells.append("-")
    return [*cells, ", ".join(dict.fromkeys(_kinds(applied)))], good


def _found(plan: Plan, name: str, route: str, python: Path) -> Compiled | str:
    """What became of the plan's files, or the first line of MindSpore's refusal."""
    source = Source(SCRIPT, name, None)
    try:
        made = compiled(plan, source, route, _files(plan, source, route), python)
    except MindsporeError as error:
        return "refused: " + " ".join(str(error).split())[:300]
    return compared(plan, list(_planned(plan, source.scope)), made, source.scope, route)


def _count(found: Compiled) -> str:
    return f"{sum(each.arrived for each in found.arrivals)} of {len(found.arrivals)}"


def _kinds(found: Compiled) -> Iterator[str]:
    for each in found.arrivals:
        if not each.arrived:
            yield each.name.rpartition("/")[2].rpartition("-op")[0]


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]))
