"""Profiles as tables: msprof's op_summary and communication tables, Nsight Systems' CSV."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from costmodel.link_calibration.measurements import CalibrationError
from costmodel.traces.events import opened
from costmodel.traces.gathering import DTYPES, Gathered, message_kind
from costmodel.traces.records import Shapes, Trace, class_of
from costmodel.traces.step_table import is_step_table, step_trace

__all__ = ["read_table"]

_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "name": ("op name", "name", "kernel name"),
    "kind": ("op type", "type"),
    "start_us": ("task start time(us)", "start time(us)"),
    "start_ns": ("start (ns)", "start(ns)"),
    "us": ("task duration(us)", "duration(us)"),
    "ns": ("duration (ns)", "duration(ns)", "total time (ns)"),
    "total_us": ("total time(us)",),
    "calls": ("instances", "count"),
    "shapes": ("input shapes",),
    "dtypes": ("input data types",),
}
"""Columns by their names in lower case."""
_MOST_ROWS = 5_000_000
_HEAD_ROWS = 50


def read_table(path: Path) -> Trace:
    """The trace of a CSV.

    Raises:
        CalibrationError: no known columns, a row that is cut off, or no kernel in it.
    """
    with opened(path) as file:
        try:
            return _read(file, path.name)
        except csv.Error as error:
            raise CalibrationError(str(error), path.name, "export the table again") from error


def _read(file: IO[str], name: str) -> Trace:
    rows = csv.reader(file)
    columns, width, names = _columns(rows, name)
    if is_step_table(names):
        return step_trace(rows, names, name)
    found = Gathered(name)
    for number, row in enumerate(rows, 2):
        if not any(cell.strip() for cell in row):
            continue
        if number > _MOST_ROWS:
            raise CalibrationError(f"more than {_MOST_ROWS:,} rows", name, "profile fewer steps")
        if len(row) < width:
            raise CalibrationError(
                f"row {number} has {len(row)} of {width} columns: the table ends in the middle",
                name, "copy it again",
            )  # fmt: skip
        _take({key: row[i].strip() for key, i in columns.items()}, number, found)
    form = "Nsight Systems" if "ns" in columns else "msprof"
    return Trace(name=name, format=form, **found.facts())


def _columns(rows: Iterator[list[str]], name: str) -> tuple[dict[str, int], int, Sequence[str]]:
    """Places of known columns, how many columns there are, and their names; lines above the head
    are skipped.
    """
    for _ in range(_HEAD_ROWS):
        row = next(rows, None)
        if row is None:
            break
        names = [cell.strip().lower().lstrip("\ufeff") for cell in row]
        columns = {
            key: names.index(each)
            for key, known in _COLUMNS.items()
            for each in reversed(known)
            if each in names
        }
        if is_step_table(names):
            return {}, len(row), names
        times = {"us", "ns", "total_us"} & set(columns)
        if times and {"name", "kind"} & set(columns):
            return columns, len(row), names
    raise CalibrationError(
        "the table is neither msprof's op_summary, communication or step table nor one of Nsight "
        "Systems",
        name,
        "keep the line with the names of the columns",
    )


def _take(row: Mapping[str, str], number: int, found: Gathered) -> None:
    seconds = _number(row, "us", 1e-6, number, found) or _number(row, "ns", 1e-9, number, found)
    seconds = seconds or _number(row, "total_us", 1e-6, number, found)
    name, kind = row.get("name") or row.get("kind", ""), row.get("kind", "")
    calls = max(1, round(_number(row, "calls", 1.0, number, found)))
    start_s = _number(row, "start_us", 1e-6, number, found)
    start_s = start_s or _number(row, "start_ns", 1e-9, number, found)
    message = "messages" in {class_of(name), class_of(kind)} or bool(message_kind(kind or name))
    if message:
        found.message(message_kind(kind) or message_kind(name) or "other", 0.0, 0, seconds, calls)
    else:
        shapes, dtype = _shapes(row.get("shapes", "")), _dtype(row.get("dtypes", ""))
        found.kernel(name, seconds, kind, shapes, dtype)
    if start_s:
        found.when(start_s, start_s + seconds, message=message)


def _number(row: Mapping[str, str], key: str, unit: float, number: int, found: Gathered) -> float:
    text = row.get(key, "").strip('"').replace(",", "")
    if text in {"", "N/A"}:
        return 0.0
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise CalibrationError(
            f"row {number} has {text[:40]!r} where a number is due", found.where, "export it again"
        )
    return value * unit


def _shapes(text: str) -> Shapes:
    """Such as `"4096,1024;1024,1024"`."""
    parts = text.strip('"').split(";")[:8]
    dims = [[x for x in part.split(",") if x] for part in parts]
    if not all(x.strip().isdigit() and len(x) < 15 for part in dims for x in part):
        return ()
    return tuple(tuple(int(x) for x in part) for part in dims if part)


def _dtype(text: str) -> str:
    return DTYPES.get(text.strip('"').split(";")[0].strip().lower(), "")
