"""`planner validate`: predictions for a table of runs, held against what was measured."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cli.command_options import JSON, Output
from cli.declared import command
from cli.errors import UserError
from cli.files import check_outputs, write_files
from cli.options import Argument
from cli.progress import Progress
from planner.requests.options.option import Group, Option

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from costmodel.training.calibration import Calibration
    from costmodel.training.dataset import Entry
    from costmodel.training.predict import Prediction

EPILOG = """\b
Examples:
  planner validate rows.csv
  planner validate rows.csv -o predictions.csv
  planner validate mine.csv --calibration mine.yaml --json
  planner validate runs.yaml --explain my-run
  planner validate --schema

\b
ROWS is a CSV table, or runs in YAML or JSON. `planner validate --schema` lists the columns;
docs/published-runs.md explains them. Numbers with a unit in free text that nobody can follow are
named, and widen the interval.

\b
Exit status: 0 done, rows that cannot be priced included; 2 a fault in the command or the table."""

COLUMNS = (
    "id",
    "predicted_step_time_s",
    "predicted_low_s",
    "predicted_high_s",
    "predicted_memory_gb",
    "predicted_fits",
    "predicted_fit_chance",
    "relative_error",
    "skipped_reason",
)
GIBIBYTE = 2.0**30
LARGEST_FILE = 256 * 2**20
_RECORDS = {".yaml", ".yml", ".json"}
_AT_ONCE = 2000
"""Rows that are read in about a second; more have progress."""

_ROWS_HELP = "Runs: a CSV table with one on each line, or .yaml or .json; see below."
Rows = Annotated[Path, Argument(value="ROWS", help=_ROWS_HELP)]
OptionalRows = Annotated[Path | None, Argument(value="ROWS", help=_ROWS_HELP)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidateCommand:
    """Of `planner validate`."""

    # fmt: off
    output: Annotated[Path | None, Output(
        value="FILE", help="Write a prediction for every row as CSV.",
    )] = None
    calibration: Annotated[Path | None, Option(
        group=Group.MODEL, value="FILE", usual="those of the package",
        help="Constants that `planner calibrate steps` fitted to your cluster.",
    )] = None
    explain: Annotated[str | None, Option(
        group=Group.OUTPUT, value="ID",
        help="Print what was understood of one row, what was assumed, and every term of its step.",
    )] = None
    schema: Annotated[bool, Option(
        group=Group.OUTPUT, help="Print the columns of a table, or fields of a record.",
    )] = False
    as_json: Annotated[bool, JSON] = False
    # fmt: on


@command
def validate(rows: OptionalRows = None, *, here: ValidateCommand) -> None:
    """Predict step time and memory of every run of a table, and sum up how far off they are.

    Predictions never read what was measured: columns named measured_* and the parts of notes that
    begin with [check]. A row without measurements is predicted too.
    """
    output, calibration, as_json = here.output, here.calibration, here.as_json
    if here.schema:
        _print_schema(as_json=as_json)
        return
    if rows is None:
        raise UserError("no table of runs is named", "ROWS", "name one, or give --schema")
    check_outputs({"-o": output}, [rows, *([calibration] if calibration else [])])
    from costmodel.training.predict import predict  # noqa: PLC0415  brings in numpy

    table = read_rows(rows)
    known = None if calibration is None else _calibration(calibration)
    with Progress() as progress:
        entries = _entries(table, progress)
        if here.explain is not None:
            _print_explained(entries, here.explain, known, as_json=as_json)
            return
        reads = [entry.read for entry in entries if entry.read is not None]
        if len(table) > _AT_ONCE:
            progress(f"predicting {len(reads)} rows")
        found = iter(predict([read.run for read in reads], [read.guesses for read in reads], known))
    predictions = [None if entry.read is None else next(found) for entry in entries]
    if output is not None:
        write_files(output.parent, {output.name: lambda path: _write(path, entries, predictions)})
    _print_predicted(entries, predictions, output, as_json=as_json)


def _print_predicted(
    entries: Sequence[Entry],
    predictions: Sequence[Prediction | None],
    output: Path | None,
    *,
    as_json: bool,
) -> None:
    from cli.validate_text import summary_json, summary_parts  # noqa: PLC0415

    if as_json:
        print(summary_json(entries, predictions, output))
        return
    from cli.text import tell  # noqa: PLC0415  brings in rich

    tell(summary_parts(entries, predictions, output))


def _print_schema(*, as_json: bool) -> None:
    from cli.explain_row import schema_json, schema_parts  # noqa: PLC0415

    if as_json:
        print(schema_json())
        return
    from cli.text import tell  # noqa: PLC0415  brings in rich

    tell(schema_parts())


def _print_explained(
    entries: Sequence[Entry], asked: str, calibration: Calibration | None, *, as_json: bool
) -> None:
    from cli.explain_row import (  # noqa: PLC0415
        explained_entry,
        explained_json,
        explained_parts,
    )

    name, entry = explained_entry(entries, asked)
    if as_json:
        print(explained_json(name, entry, calibration))
        return
    from cli.text import tell  # noqa: PLC0415  brings in rich

    tell(explained_parts(name, entry, calibration))


def read_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a table, or of a file of records."""
    from costmodel.training.dataset import read_table  # noqa: PLC0415
    from costmodel.training.run_schema import record_rows  # noqa: PLC0415

    text = read_text(path, "ROWS")
    return (record_rows if path.suffix.lower() in _RECORDS else read_table)(text, str(path))


def _entries(rows: Sequence[Mapping[str, str]], progress: Progress) -> list[Entry]:
    """The rows read, with lines of progress if they are many."""
    from costmodel.training.dataset import read_entries  # noqa: PLC0415

    found: list[Entry] = []
    for first in range(0, len(rows), _AT_ONCE):
        if len(rows) > _AT_ONCE:
            progress(f"reading row {first + 1} of {len(rows)}")
        found += read_entries(rows[first : first + _AT_ONCE])
    return found


def read_text(path: Path, argument: str) -> str:
    """The text of a file of the user."""
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise UserError(f"{path} is larger than 256 MiB", argument, "split it")
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        what = f"cannot read {path}: {error.strerror or error}"
        raise UserError(what, argument, "name a file that exists") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not text in UTF-8", argument, "save it in UTF-8") from error


def _calibration(path: Path) -> Calibration:
    from costmodel.training.calibration import parse_calibration  # noqa: PLC0415
    from costmodel.training.records import LayoutError  # noqa: PLC0415

    try:
        return parse_calibration(read_text(path, "--calibration"))
    except LayoutError as error:
        fix = "name a file that `planner calibrate steps -o` wrote"
        raise UserError(str(error), f"--calibration {path}", fix) from error


def _write(path: Path, entries: Sequence[Entry], predictions: Sequence[Prediction | None]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for entry, found in zip(entries, predictions, strict=True):
            writer.writerow(_row(entry, found))


def _row(entry: Entry, found: Prediction | None) -> list[str]:
    if found is None:
        return [entry.name, *[""] * 7, entry.skipped]
    measured = entry.step_s
    return [
        entry.name,
        f"{found.step_s:.6g}",
        "" if found.unlike else f"{found.low_s:.6g}",
        "" if found.unlike else f"{found.high_s:.6g}",
        f"{found.memory_bytes / GIBIBYTE:.4g}",
        "yes" if found.fits else "no",
        f"{found.fit_chance:.3f}",
        "" if measured is None else f"{found.step_s / measured - 1.0:.4f}",
        "",
    ]
