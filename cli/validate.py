"""`planner validate`: predictions for a table of runs, held against what was measured."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.command_options import JSON
from cli.declared import command
from cli.errors import UserError
from cli.files import check_outputs, write_files
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

\b
ROWS.csv has the columns id, hardware, model, hidden, layers, heads, seq_len and global_batch, and
may have source, devices, interconnect, kv_heads, ffn_hidden, vocab, micro_batch, tp, pp, vpp, dp,
cp, ep, zero_stage, sequence_parallel, recompute, dtype, notes, measured_step_time_s,
measured_tokens_per_s_per_device, measured_tflops_per_device (where it is known what the software
counts) and measured_memory_gb. docs/training-model.md explains them.

\b
Exit status: 0 done, rows that cannot be priced included; 2 a fault in the command or the table."""

COLUMNS = (
    "id",
    "predicted_step_time_s",
    "predicted_low_s",
    "predicted_high_s",
    "predicted_memory_gb",
    "predicted_fits",
    "relative_error",
    "skipped_reason",
)
GIBIBYTE = 2.0**30
LARGEST_FILE = 256 * 2**20
_AT_ONCE = 2000
"""Rows that are read in about a second; more have progress."""

Rows = Annotated[
    Path,
    typer.Argument(metavar="ROWS.csv", help="Runs, one on each line; see below for the columns."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidateCommand:
    """Of `planner validate`."""

    # fmt: off
    output: Annotated[Path | None, Option(
        group=Group.OUTPUT, value="FILE", flags=("-o", "--output"),
        help="Write a prediction for every row as CSV.",
    )] = None
    calibration: Annotated[Path | None, Option(
        group=Group.MODEL, value="FILE", usual="those of the package",
        help="Constants that `planner calibrate steps` fitted to your cluster.",
    )] = None
    as_json: Annotated[bool, JSON] = False
    # fmt: on


@command
def validate(rows: Rows, here: ValidateCommand) -> None:
    """Predict step time and memory of every run of a table, and sum up how far off they are.

    Predictions never read what was measured: columns named measured_* and the parts of notes that
    begin with [check]. A row without measurements is predicted too.
    """
    output, calibration = here.output, here.calibration
    check_outputs({"-o": output}, [rows, *([calibration] if calibration else [])])
    from costmodel.training.dataset import read_table  # noqa: PLC0415  brings in numpy
    from costmodel.training.predict import predict  # noqa: PLC0415

    table = read_table(read_text(rows, "ROWS.csv"), str(rows))
    known = None if calibration is None else _calibration(calibration)
    with Progress() as progress:
        entries = _entries(table, progress)
        reads = [entry.read for entry in entries if entry.read is not None]
        if len(table) > _AT_ONCE:
            progress(f"predicting {len(reads)} rows")
        found = iter(predict([read.run for read in reads], [read.guesses for read in reads], known))
    predictions = [None if entry.read is None else next(found) for entry in entries]
    if output is not None:
        write_files(output.parent, {output.name: lambda path: _write(path, entries, predictions)})
    from cli.validate_text import print_summary, summary_json  # noqa: PLC0415

    if here.as_json:
        print(summary_json(entries, predictions, output))
        return
    from cli.text import page  # noqa: PLC0415  brings in rich

    with page() as out:
        print_summary(entries, predictions, output, out)


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
        return [entry.name, *[""] * 6, entry.skipped]
    measured = entry.step_s
    return [
        entry.name,
        f"{found.step_s:.6g}",
        "" if found.unlike else f"{found.low_s:.6g}",
        "" if found.unlike else f"{found.high_s:.6g}",
        f"{found.memory_bytes / GIBIBYTE:.4g}",
        "yes" if found.fits else "no",
        "" if measured is None else f"{found.step_s / measured - 1.0:.4f}",
        "",
    ]
