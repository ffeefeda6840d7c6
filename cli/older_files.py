"""Files of an older plan in a folder that gets a new one."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cli.export import target_writers

if TYPE_CHECKING:
    from ir.plan import Plan

RANK_TABLE = "rank_table.json"


@dataclass(frozen=True, slots=True)
class OlderFiles:
    """Files with names of strategy files that the new plan does not replace."""

    ours: tuple[Path, ...] = ()
    """As the program writes them for the plan.json in their folder."""
    others: tuple[Path, ...] = ()
    """Changed since, or somebody's own."""


def older_files(folder: Path, names: Collection[str]) -> OlderFiles:
    """The older files in a folder that is to hold a plan's files of these names.

    The program wrote a file if it would write the same bytes again for the older plan.json. So
    nothing is lost that this plan does not tell, and no record of what was written is believed.
    """
    from exporters.formats import TARGET_FILES  # noqa: PLC0415  brings in pydantic

    known = {RANK_TABLE, *(name for files in TARGET_FILES.values() for name in files)}
    there = [folder / name for name in sorted(known - set(names)) if (folder / name).is_file()]
    if not there:
        return OlderFiles()
    made = _made(folder)
    ours = tuple(path for path in there if not path.is_symlink() and _holds(path, made))
    return OlderFiles(ours, tuple(path for path in there if path not in ours))


def _holds(path: Path, made: Mapping[str, bytes]) -> bool:
    content = made.get(path.name)
    fits = content is not None and path.stat().st_size == len(content)
    return fits and path.read_bytes() == content


def _made(folder: Path) -> dict[str, bytes]:
    """What the program writes for the plan in a folder, by name; as far as that can be told."""
    from ir.plan_file import read_plan  # noqa: PLC0415

    found: dict[str, bytes] = {}
    # Whatever is wrong with older files, they are kept, and the new plan is written.
    with contextlib.suppress(Exception):
        plan = read_plan(folder / "plan.json", staged=True)
        with contextlib.suppress(Exception):
            found |= _strategy_files(plan)
        found |= _table(plan, folder / RANK_TABLE)
    return found


def _strategy_files(plan: Plan) -> dict[str, bytes]:
    writers = target_writers(plan, str(plan.request.get("target")))
    with tempfile.TemporaryDirectory() as name:
        for file, write in writers.items():
            write(Path(name) / file)
        return {file: (Path(name) / file).read_bytes() for file in writers}


def _table(plan: Plan, path: Path) -> dict[str, bytes]:
    """The rank table in a file as the program writes it, if it is one of the plan's machine."""
    from cli.machine_files import machine_text  # noqa: PLC0415
    from topology.rank_tables.machine import machine_of_table  # noqa: PLC0415
    from topology.rank_tables.writing import rank_table_text  # noqa: PLC0415

    machine = machine_of_table(machine_text(path, str(path)), str(path))
    if machine.report.table is None or machine.cluster.to_dict() != plan.cluster:
        return {}
    return {RANK_TABLE: rank_table_text(machine.report.table).encode()}
