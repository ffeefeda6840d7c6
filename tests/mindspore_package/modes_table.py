"""Whether MindSpore refuses a plan's files in the modes that exported scripts set up.

    python -m tests.mindspore_package.modes_table FOLDER MINDSPORE_PYTHON [NAME...]

FOLDER is what `export_networks` wrote. Exit status 1 where MindSpore refuses a file.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from cli.mindspore import _files
from executors.mindspore.own_network import Source, _environment, _job, _reasons
from exporters.errors import ExportError
from exporters.formats import FORMATS, writes
from exporters.mindspore.context import MODES
from exporters.settings import Settings
from ir.plan import Plan
from tests.mindspore_package.networks_table import SCRIPT, planned

NETWORKS = ("Mlp", "LeNet", "Bert")
FILES: Mapping[str, tuple[str, ...]] = {
    "checkpoint": ("checkpoint",),
    "apply": ("checkpoint", "apply"),
    "operators": ("operators",),
}
DEVICES = 8
_SEARCHING = ("recursive_programming", "dynamic_programming")
"""MindSpore takes the file in no other search than sharding propagation, and says so."""
_WHOLE = ("stand_alone",)
_BY_BATCH = ("data_parallel", "hybrid_parallel")


def main(folder: Path, python: Path, names: list[str]) -> int:
    """Print a row for each network and mode."""
    typer.echo(f"| network | mode | {' | '.join(FILES)} |\n|---|---|{'---|' * len(FILES)}")
    wrong = 0
    for name in names or NETWORKS:
        plan = planned(folder / f"{name}_graph.mindir", DEVICES)
        for mode in MODES:
            cells = [_cell(plan, name, mode, route, python) for route in FILES]
            typer.echo(f"| {name} | {mode} | {' | '.join(cells)} |")
            wrong += sum(cell.startswith("refused") for cell in cells)
    return int(wrong > 0)


def _cell(plan: Plan, name: str, mode: str, route: str, python: Path) -> str:
    with tempfile.TemporaryDirectory() as place:
        if route == "operators" and mode in _SEARCHING:
            return "-"
        folder, source = Path(place), Source(SCRIPT, name)
        try:
            files = _files(plan, source, route) | {"mindspore_script.py": _setup(plan, mode)}
        except ExportError as error:
            return f"not written: {error.violations[0].what}"
        for own, write in files.items():
            write(folder / own)
        job = _job(plan, source, route, folder) | {"files": FILES[route]}
        if mode in (*_WHOLE, *_BY_BATCH):  # the network communicates itself, and so would its loss
            job |= {"loss": [], "training": False}
        job["inputs"] = [_arriving(each, mode, plan.devices) for each in job["inputs"]]
        (folder / "job.json").write_text(json.dumps(job))
        done = subprocess.run(
            [str(python.absolute()), "-m", "tests.mindspore_package.compile_mode", "job.json",
             "found.json"],
            capture_output=True, text=True, check=False, cwd=folder, env=_environment(),
            timeout=600,
        )  # fmt: skip
        if done.returncode or not (folder / "found.json").exists():
            return f"stopped: {done.returncode} {done.stderr.strip()[-200:]}"
        said = json.loads((folder / "found.json").read_text())["error"]
        reasons = "; ".join(_reasons(done.stderr))
        return f"refused: {said.splitlines()[0]} {reasons}"[:400] if said else "compiles"


def _setup(plan: Plan, mode: str) -> Any:
    form = FORMATS["mindspore-script"]
    assert form.make is not None
    made = form.make(plan, Settings({"mode": mode}, form.settings))
    return writes(made.files[""])


def _arriving(given: Mapping[str, Any], mode: str, devices: int) -> dict[str, Any]:
    """An input with the cuts in which it arrives in a mode."""
    whole = [1] * len(given["dims"])
    if mode in _WHOLE:
        return {**given, "cuts": whole}
    return {**given, "cuts": [devices, *whole[1:]]} if mode in _BY_BATCH else dict(given)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]))
