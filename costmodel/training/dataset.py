"""Tables of runs with measurements: reading them whole, and what each row measured."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from costmodel.training.cells import as_number, cell
from costmodel.training.notes import read_notes
from costmodel.training.records import LayoutError
from costmodel.training.rows import read_row
from costmodel.training.run_schema import COLUMNS, REQUIRED
from costmodel.training.sizes import expert_parts, model_flops
from costmodel.training.sources import source_of
from costmodel.training.stacks import counts_whole_attention
from costmodel.training.table import RunTable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from costmodel.training.rows import ReadRow

__all__ = ["Entry", "TableError", "measured_medians", "read_entries", "read_table"]

_MOST_ROWS = 1_000_000
_MOST_CELL = 100_000
_EXTRA = "\0"
"""Column of the number of cells that a row has beyond the header; no table has such a name."""


_LEAST, _MOST = 1e-9, 1e15
"""Of any measurement in its unit: an error beside it stays a number that can be read."""
_MEASURED = (
    "measured_step_time_s", "measured_tokens_per_s_per_device", "measured_tflops_per_device",
    "measured_memory_gb",
)  # fmt: skip
"""Measured columns that are read."""


class TableError(ValueError):
    """A file that is no table of runs: what is wrong, where and how to mend it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of a table: the run, or why it cannot be priced; and what was measured."""

    name: str
    read: ReadRow | None
    skipped: str
    """Why there is no run; empty otherwise."""

    configuration: tuple[str, ...]
    """All that tells configurations apart, settings in notes included; repeats of one share it."""

    step_s: float | None
    """Measured step time, `None` if the row has none."""

    memory_bytes: float | None
    """Measured memory of the fullest device, `None` if the row has none."""

    ran: bool | None
    """Whether the run fitted in memory; `None` if the row does not say."""

    unread: tuple[str, ...] = ()
    """What the row states but nobody can follow, in sentences."""

    source: str = ""
    """The table or release of a publication that the row is of; see `source_of`."""


def read_table(text: str, where: str) -> list[dict[str, str]]:
    """The rows of a table by column.

    Args:
        text: the file, comma-separated with a header; case and blanks of its names do not matter.
        where: name of the file for errors.

    Raises:
        TableError: the header lacks a column or has one twice, or the file is no table.
    """
    if "\0" in text:
        raise TableError(
            f"the table holds NUL characters\n  at:  {where}\n  fix: save it as CSV in UTF-8"
        )
    csv.field_size_limit(_MOST_CELL)
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        reader.fieldnames = _columns(list(reader.fieldnames or []), where)
        rows: list[dict[str, str]] = []
        for row in reader:
            if len(rows) == _MOST_ROWS:
                raise TableError(f"more than {_MOST_ROWS:,} rows\n  at:  {where}\n  fix: split it")
            rows.append(_cells(row))
    except csv.Error as error:
        long = "field limit" in str(error)
        what = f"a cell of more than {_MOST_CELL:,} characters" if long else str(error)
        raise TableError(
            f"no comma-separated table: {what}\n  at:  {where}, line {reader.line_num}\n"
            "  fix: save it as CSV in UTF-8; close every quotation mark"
        ) from error
    return rows


def _cells(row: Mapping[Any, Any]) -> dict[str, str]:
    """The cells of a row by column; those beyond the header together."""
    found = {str(key): value or "" for key, value in row.items() if key is not None}
    beyond = [text for text in row.get(None, ()) if text.strip()]
    return found | ({_EXTRA: str(len(beyond))} if beyond else {})


def _columns(header: Sequence[str], where: str) -> list[str]:
    """The names of the columns, in lower case and without blanks around them."""
    names = [_name(text) for text in header]
    missing = [name for name in REQUIRED if name not in names]
    for mark, called in ((";", "semicolons"), ("\t", "tabs"), ("|", "vertical bars")):
        split = {_name(part) for part in ",".join(header).split(mark)}
        if missing and len(split.intersection(REQUIRED)) > 1:
            raise TableError(
                f"the columns are separated by {called}\n  at:  {where}\n"
                "  fix: save it with commas between the columns"
            )
    if missing:
        raise TableError(
            f"the table has no column {', '.join(map(repr, missing))}\n  at:  {where}\n"
            f"  fix: give it these columns; all that are read: {', '.join(COLUMNS)}"
        )
    read = [name for name in names if name in COLUMNS or name.startswith("measured_")]
    twice = sorted({name for name in read if read.count(name) > 1})
    if twice:
        raise TableError(
            f"the table has column {', '.join(map(repr, twice))} more than once\n  at:  {where}\n"
            "  fix: keep one of each"
        )
    return names


def _name(text: str) -> str:
    return "_".join(text.lower().split())


def read_entries(rows: Sequence[Mapping[str, str]]) -> tuple[Entry, ...]:
    """Read every row; those that cannot be priced say why."""
    entries = []
    for row in rows:
        try:
            read, skipped = _read(row), ""
        except LayoutError as error:
            read, skipped = None, str(error)
        entries.append(
            Entry(
                name=row.get("id", ""),
                read=read,
                skipped=skipped,
                configuration=_configuration(row, read),
                step_s=_step_s(row) or _step_of_flops(row, read),
                memory_bytes=_memory_bytes(row),
                ran=_ran(row),
                unread=(*(read.unread if read else ()), *_unread_measurements(row)),
                source=source_of(row),
            )
        )
    return tuple(entries)


def _read(row: Mapping[str, str]) -> ReadRow:
    """A row whose cells stand below their columns."""
    if _EXTRA in row:
        raise LayoutError(f"the row has {row[_EXTRA]} cells more than the header has columns")
    return read_row(row)


def _unread_measurements(row: Mapping[str, str]) -> tuple[str, ...]:
    """Cells of measured columns that are no number which can be one."""
    return tuple(
        f"{name} is {cell(row, name)[:40]!r}, no number from {_LEAST:g} to {_MOST:g}"
        for name in _MEASURED
        if cell(row, name) and _measured(row, name) is None
    )


def measured_medians(entries: Sequence[Entry]) -> tuple[float | None, ...]:
    """The measured step of each row, where repeats of a configuration stand for their median."""
    repeats: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for entry in entries:
        if entry.step_s is not None:
            repeats[entry.configuration].append(entry.step_s)
    known = {configuration: median(steps) for configuration, steps in repeats.items()}
    return tuple(None if entry.step_s is None else known[entry.configuration] for entry in entries)


_OF_EXPERTS = {
    "ep-overlap", "fixed-experts", "fused-experts", "sends-once", "short-copies", "split-experts",
}  # fmt: skip
"""What software does for routed experts, which makes no difference to a dense model."""


def _configuration(row: Mapping[str, str], read: ReadRow | None) -> tuple[str, ...]:
    """What repeats of a run share: its columns, and what its software does.

    A release with a kernel that an earlier one lacks is no repeat of it.
    """
    aside = {"id", "source", "notes"}
    columns = (row.get(name, "").strip() for name in COLUMNS if name not in aside)
    if read is None:
        return tuple(columns)
    run = read.run
    if not run.model.experts:
        return (*columns, *sorted(run.flags - _OF_EXPERTS))
    parts = expert_parts(RunTable.of([run]))[0]
    return (*columns, *sorted(run.flags - {"split-experts"}), f"{parts:g} parts of an expert")


def _measured(row: Mapping[str, str], column: str) -> float | None:
    """A number that can be one of a measured column, `None` for anything else."""
    value = as_number(cell(row, column))
    return value if _LEAST <= value <= _MOST else None


def _step_s(row: Mapping[str, str]) -> float | None:
    stated = _measured(row, "measured_step_time_s")
    if stated is not None:
        return stated
    rate = _measured(row, "measured_tokens_per_s_per_device")
    sizes = [_measured(row, name) for name in ("global_batch", "seq_len", "devices")]
    if rate is None or None in sizes:
        return None
    batch, length, devices = (size or 1.0 for size in sizes)
    return batch * length / (rate * devices)


def _step_of_flops(row: Mapping[str, str], read: ReadRow | None) -> float | None:
    """Seconds by a stated rate of arithmetic, where all of the run and what the rate counts are
    known.
    """
    rate, devices = (_measured(row, name) for name in ("measured_tflops_per_device", "devices"))
    if rate is None or devices is None or read is None or read.guesses:
        return None
    if not counts_whole_attention(row, read_notes(row.get("notes", ""))):
        return None
    flops = float(model_flops(RunTable.of([read.run]), whole=True)[0])
    return flops / (rate * 1e12 * devices)


def _memory_bytes(row: Mapping[str, str]) -> float | None:
    stated = _measured(row, "measured_memory_gb")
    return None if stated is None else stated * 2.0**30


def _ran(row: Mapping[str, str]) -> bool | None:
    notes = row.get("notes", "").lower()
    if "borderline oom" in notes:
        return None
    if "out of memory" in notes or "oom" in notes.replace(";", " ").split():
        return False
    measured = [key for key in row if key.startswith("measured_")]
    return True if any(_measured(row, key) is not None for key in measured) else None
