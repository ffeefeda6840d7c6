"""`planner whatif`: the same model on many machines, at many sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from cli import options
from cli import whatif_options as sweeps
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
from cli.remote import Server, SweepWishes, remote_sweep

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


def whatif(  # noqa: PLR0913  one parameter per option
    model: options.Model,
    *,
    devices: sweeps.DeviceList = None,
    cluster: sweeps.Clusters = "atlas-800t-a2",
    vary: sweeps.Vary = None,
    batch: sweeps.GlobalBatch = None,
    pipeline: sweeps.Pipeline = None,
    micro_batch: sweeps.MicroBatch = None,
    bind: options.Bind = None,
    sequence: options.SequenceLength = None,
    phase: options.Phase = "train",
    optimizer: options.OptimizerName = "adamw",
    dtype: options.Dtype = None,
    memory: options.Memory = None,
    dataset_strategy: options.DatasetStrategy = None,
    target: options.Target = "mindspore",
    solver: options.Solver = "portfolio",
    time_limit: options.TimeLimit = 30.0,
    effort: options.Effort = 1,
    attention: options.Attention = "fused",
    engine: sweeps.EngineName = "local",
    address: sweeps.Address = None,
    workers: sweeps.Workers = None,
    output: sweeps.Folder = None,
    csv: sweeps.Csv = None,
    plot: sweeps.Plot = None,
    prices: sweeps.PriceTable = None,
    tokens: sweeps.Tokens = None,
    days: sweeps.Days = None,
    around: sweeps.Around = None,
    mix: sweeps.Mix = None,
    exact_changes: sweeps.ExactChanges = None,
    mtbf: sweeps.MeanTime = None,
    restart: sweeps.Restart = 600.0,
    checkpoint_rate: sweeps.CheckpointRate = 1.0,
    repair: sweeps.Repair = 24.0,
    spares: sweeps.Spares = 0,
    server: Server = None,
    as_json: options.Json = False,
) -> None:
    """Plan the same model on many machines and at many sizes, and compare."""
    _check_outputs(output, csv, plot)
    check_picture(plot, "--plot", here=server is None)
    from planner.requests.search_options import SearchOptions  # noqa: PLC0415  half a second of imports
    from planner.whatif.composed import SweepOptions  # noqa: PLC0415

    asked = SearchOptions(
        batch=batch, pipeline=pipeline or "auto", micro_batch=micro_batch or "auto",
        bind=tuple(bind or ()), sequence=sequence, phase=phase, optimizer=optimizer,
        dtype=dtype, memory=memory, dataset_strategy=dataset_strategy, target=target,
        solver=solver, time_limit=time_limit, effort=effort, attention=attention,
    )  # fmt: skip
    swept = SweepOptions(
        devices=devices, cluster=cluster, vary=tuple(vary or ()), tokens=tokens, days=days,
        cut=pipeline is not None or micro_batch is not None, around=around, mix=mix, mtbf=mtbf,
        restart=restart, checkpoint_rate=checkpoint_rate, repair=repair, spares=spares,
        exact_changes=exact_changes,
    )  # fmt: skip
    if server is not None:
        _check_there(server, engine, address)
        wishes = _wishes(output, csv, plot, prices, workers)
        with Progress() as progress:
            told, made = remote_sweep(server, model, asked, swept, wishes, progress)
        _tell(told, _written_there(made, output, csv, plot), "", as_json=as_json)
        return
    from cli.whatif_request import Given  # noqa: PLC0415

    given = Given(
        model=model, options=asked, swept=swept, engine=engine, address=address,
        workers=workers, folder=output, prices=prices,
    )  # fmt: skip
    with Progress() as progress:
        report = given.report(progress)
    files = _written(report, csv, plot)
    from planner.whatif.report import answer  # noqa: PLC0415

    peak = "" if report.best is None else report.best.result.peak
    _tell(answer(report), files, peak, as_json=as_json)


def _check_there(server: str, engine: str, address: str | None) -> None:
    """A service would connect to whatever address it is told: it works with its own processes."""
    for option, is_given in (("--engine", engine != "local"), ("--address", address is not None)):
        if is_given:
            raise UserError(
                "a service works with its own processes", f"{option} beside --server {server}",
                f"leave one of {option} and --server out",
            )  # fmt: skip


def _wishes(
    folder: Path | None, csv: Path | None, plot: Path | None, prices: Path | None,
    workers: int | None,
) -> SweepWishes:  # fmt: skip
    from cli.whatif_request import price_text  # noqa: PLC0415

    files = [*(["csv"] if csv else ()), *(["plans"] if folder else ())]
    files += [plot.suffix.lstrip(".").lower()] if plot else []
    text = None if prices is None else price_text(prices)
    return SweepWishes(files=tuple(files), prices=text, workers=workers or 1)


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


def _check_outputs(folder: Path | None, csv: Path | None, plot: Path | None) -> None:
    """Find out before the work begins whether everything can be written."""
    if folder is not None:
        check_folder(folder)
    for path in (csv, plot):
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
            report.points, report.prices, path, kind, report.changes
        )
    return write_paths(writers)
