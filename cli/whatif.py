"""`planner whatif`: the same model on many machines, at many sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from cli import options
from cli.command_options import WhatifCommand
from cli.declared import command
from cli.errors import UserError
from cli.files import (
    Writer,
    check_folder,
    check_picture,
    write_files,
    write_paths,
    writer_of,
)
from cli.progress import Progress
from cli.remote import SweepFiles, remote_sweep
from planner.requests.options.searches import SearchOptions
from planner.requests.options.sweeps import SweepOptions

if TYPE_CHECKING:
    from planner.whatif.report import Report

NO_PLAN_FITS = 1
EPILOG = """\b
Examples:
  planner whatif model.onnx --devices 8,16,32 --vary bandwidth=0.5:2:5 -o sweep
  planner whatif llama3-8b --devices 64:1024:5 --cluster atlas-800t-a2,dgx-h100 --target generic \\
      --batch 1024 --pipeline auto --tokens 1e12 --days 30 --csv sweep.csv --plot sweep.svg
  planner whatif model.onnx --devices 16 --vary bandwidth=0.25:4:5 --exact-changes 0.01
  planner whatif model.onnx --devices 16 --vary batch=64,256 --pipeline auto --mix 0.8,0.2
  planner whatif model.onnx --devices 16 --vary batch=16:256:8 --engine ray --address 10.0.0.1:6379

With --server a service works, with as many processes as it has for one job, and the files are
written here.

\b
Exit status: 0 planned, 1 no point has a plan, 2 a fault in the command or the model."""


@command
def whatif(
    model: options.Model, common: SearchOptions, swept: SweepOptions, here: WhatifCommand
) -> None:
    """Plan the same model on many machines and at many sizes, and compare."""
    _check_outputs(here)
    check_picture(here.plot, "--plot", here=here.server is None)
    if here.server is not None:
        _sweep_there(here.server, model, common, swept, here)
        return
    from cli.whatif_request import Given  # noqa: PLC0415

    given = Given(model=model, options=common, swept=swept, here=here)
    with Progress() as progress:
        report = given.report(progress)
    files = _written(report, here.csv, here.plot)
    from planner.whatif.report import answer  # noqa: PLC0415

    peak = "" if report.best is None else report.best.result.peak
    _tell(answer(report), files, peak, as_json=here.as_json)


def _sweep_there(
    server: str, model: Path, common: SearchOptions, swept: SweepOptions, here: WhatifCommand
) -> None:
    """A service works; the files are written here."""
    _check_there(server, here.engine, here.address)
    with Progress() as progress:
        told, made = remote_sweep(server, model, common, swept, _wanted_files(here), progress)
    files = _written_there(made, here.output, here.csv, here.plot)
    _tell(told, files, "", as_json=here.as_json)


def _check_there(server: str, engine: str, address: str | None) -> None:
    """A service would connect to whatever address it is told: it works with its own processes."""
    for option, is_given in (("--engine", engine != "local"), ("--address", address is not None)):
        if is_given:
            raise UserError(
                "a service works with its own processes", f"{option} beside --server {server}",
                f"leave one of {option} and --server out",
            )  # fmt: skip


def _wanted_files(here: WhatifCommand) -> SweepFiles:
    from cli.whatif_request import price_text  # noqa: PLC0415

    files = [*(["csv"] if here.csv else ()), *(["plans"] if here.output else ())]
    files += [here.plot.suffix.lstrip(".").lower()] if here.plot else []
    text = None if here.prices is None else price_text(here.prices)
    return SweepFiles(files=tuple(files), prices=text, workers=here.workers or 1)


def _written_there(
    made: Mapping[str, bytes], folder: Path | None, csv: Path | None, plot: Path | None
) -> list[Path]:
    """What a service made, where the command would have written it."""
    kinds = {
        path: "csv" if path is csv else path.suffix[1:].lower() for path in (csv, plot) if path
    }
    out = write_paths({path: writer_of(made[f"sweep.{kind}"]) for path, kind in kinds.items()})
    if folder is not None:
        for name in ("results", "plans"):
            own = {path: made[path] for path in made if path.startswith(f"{name}/")}
            writers = {Path(path).name: writer_of(own[path]) for path in own}
            write_files(folder / name, writers)
    return out


def _tell(found: Mapping[str, Any], files: Sequence[Path], peak: str, *, as_json: bool) -> None:
    """A sweep as JSON or as text, wherever it was made."""
    written = tuple(map(str, files))
    if as_json:
        from planner.requests.plan_json import dumps  # noqa: PLC0415

        print(dumps({**found, "files": list(written)}))
    else:
        from cli.text import page, show  # noqa: PLC0415  brings in rich
        from report.sweep import parts  # noqa: PLC0415
        from report.tables import Lines  # noqa: PLC0415

        wrote = tuple(f"wrote {path}" for path in written)
        with page() as out:
            show((*parts(found, peak), Lines("", ("", *wrote) if wrote else ())), out)
    if found["best"] is None:
        raise typer.Exit(NO_PLAN_FITS)


def _check_outputs(here: WhatifCommand) -> None:
    """Find out before the work begins whether everything can be written."""
    if here.output is not None:
        check_folder(here.output)
    for path in (here.csv, here.plot):
        if path is not None:
            check_folder(path.parent)


def _written(report: Report, csv: Path | None, plot: Path | None) -> list[Path]:
    """The files that were asked for, each whole or not at all."""
    writers: dict[Path, Writer] = {}
    if csv is not None:
        from planner.whatif.report import csv_text  # noqa: PLC0415

        writers[csv] = writer_of(csv_text(report.points, report.prices))
    if plot is not None:
        from planner.whatif.plot import save_plot  # noqa: PLC0415  brings in matplotlib

        kind = plot.suffix.lstrip(".").lower()
        writers[plot] = lambda path: save_plot(
            report.points, report.prices, path, kind, report.changes, report.ranking
        )
    return write_paths(writers)
