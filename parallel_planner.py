"""Where the `planner` command starts, under a name that nobody else's folder has.

The packages of the planner have plain names, such as `cli` and `data`. A folder of these names on
PYTHONPATH comes before them, so they are looked up beside this file.

`python -P -m parallel_planner MODULE` runs a module of theirs as its own process.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

PACKAGES = frozenset({
    "cli", "service", "planner", "importers", "exporters", "executors", "costmodel", "report", "ir",
    "topology", "data",
})  # fmt: skip
_HERE = [str(Path(__file__).resolve().parent)]


class _Beside:
    """Finds the packages of the planner beside this file, and nothing else."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        own = path is None and name in PACKAGES
        return PathFinder.find_spec(name, _HERE, target) if own else None


# At import: processes that a sweep starts import the script, and do not call it.
sys.meta_path.insert(0, _Beside)


def main() -> None:
    """Run the command that was given."""
    from cli.main import app  # noqa: PLC0415  found by what stands above

    app(prog_name="planner")


if __name__ == "__main__":
    runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
