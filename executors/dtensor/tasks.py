"""A plan with its numbers in files, for processes that run it, and what they leave behind."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from executors.placement import Array
from ir.layout import Layout
from ir.plan import Plan
from ir.plan_file import plan_to_json, read_plan

_PLAN, _VALUES, _TASK = "plan.json", "values.npz", "task.json"


@dataclass(frozen=True, slots=True)
class RankTask:
    """One plan to run."""

    plan: Plan
    values: Mapping[str, Array]
    training: bool
    parted: tuple[tuple[str, str], ...]
    """Operator and direction that run without DTensor's rules."""


@dataclass(frozen=True, slots=True)
class Left:
    """What one rank has of one output."""

    layout: Layout
    dims: tuple[int, ...]
    part: Array


def write_task(task: RankTask, folder: Path) -> None:
    """Write a task into a new folder."""
    folder.mkdir()
    (folder / _PLAN).write_text(plan_to_json(task.plan))
    write_arrays(folder / _VALUES, task.values)
    record = {"training": task.training, "parted": list(task.parted)}
    (folder / _TASK).write_text(json.dumps(record))


def read_task(folder: Path) -> RankTask:
    """A task from its folder."""
    record = json.loads((folder / _TASK).read_text())
    parted = tuple((str(name), str(way)) for name, way in record["parted"])
    values = read_arrays(folder / _VALUES)
    return RankTask(read_plan(folder / _PLAN), values, bool(record["training"]), parted)


def write_left(
    folder: Path, rank: int, left: Mapping[str, Left], not_run: Mapping[str, str]
) -> None:
    """Write what a rank has at the end."""
    write_arrays(folder / f"rank{rank}.npz", {n: x.part for n, x in left.items()})
    outputs = {
        n: {"dims": x.dims, "split": x.layout.dims, "partial": x.layout.partial}
        for n, x in left.items()
    }
    record = {"outputs": outputs, "not_run": dict(not_run)}
    (folder / f"rank{rank}.json").write_text(json.dumps(record))


def read_left(folder: Path, rank: int) -> tuple[dict[str, Left], dict[str, str]]:
    """What a rank had at the end, and what it could not run."""
    record: dict[str, Any] = json.loads((folder / f"rank{rank}.json").read_text())
    parts = read_arrays(folder / f"rank{rank}.npz")
    left = {
        n: Left(
            Layout(tuple(tuple(d) for d in x["split"]), tuple(x["partial"])),
            tuple(x["dims"]),
            parts[n],
        )
        for n, x in record["outputs"].items()
    }
    return left, dict(record["not_run"])


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write arrays; names are kept in an array of their own: some are no names of files."""
    names: Iterable[str] = arrays
    numbered: dict[str, Any] = {f"a{i}": array for i, array in enumerate(arrays.values())}
    np.savez(path, names=np.array(list(names), dtype=np.str_), **numbered)


def read_arrays(path: Path) -> dict[str, Array]:
    """What `write_arrays` wrote."""
    with np.load(path) as file:
        return {str(name): file[f"a{i}"] for i, name in enumerate(file["names"])}
