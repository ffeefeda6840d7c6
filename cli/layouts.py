"""`planner layouts`: the fastest conventional layouts of a model, all of them priced at once."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.command_options import LayoutsCommand
from cli.declared import command
from cli.errors import UserError
from cli.files import Writer, check_folder, check_outputs, check_picture, write_paths
from cli.options import Argument
from cli.progress import Progress
from planner.requests.options.simulations import RankingOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planner.request import InfeasibleError
    from planner.whatif.layout_ranking import Ranking
    from report.layouts import LayoutsReport

NONE_FITS = 1
EPILOG = """\b
Examples:
  planner layouts llama3.1-405b --devices 16384 --batch 2048 --sequence 8192 --cluster dgx-h100
  planner layouts llama3-70b --devices 256 --batch 1024 --hold 'tp=8,zero=1' --top 20
  planner layouts deepseek-v3 --devices 2048 --batch 15360 --csv all.csv --plot all.svg
  planner layouts deepseek-v3 --devices 2048 --batch 15360 --cluster dgx-h100 --hold mtp=0
  planner layouts llama3-70b --devices 256 --batch 1024 --optimizer muon
  planner layouts llama3-70b --devices 2048 --batch 2048 --cluster h100 --tokens 15e12 --days 60
  planner layouts llama3-70b --devices 256 --batch 1024 --cluster h100 --recipe megatron -o recipe

A row is what `planner simulate --layout` takes. Degrees are tp (tensor), cp (context), pp
(pipeline), vpp (chunks), dp (data) and ep (expert parallel); of each set of them the fastest way to
share out states and to compute again stands in the list. docs/step.md tells how a step is
priced; `planner search` looks for layouts of single operators instead.

\b
Exit status: 0 done, 1 no layout fits into memory, 2 a fault in the command or the model."""

Subject = Annotated[
    str,
    Argument(
        value="MODEL",
        help="A config.json, or a name that `planner sizes --list` prints.",
    ),
]


@command
def layouts(model: Subject, asked: RankingOptions, here: LayoutsCommand) -> None:
    """Rank the conventional parallel layouts of a model on a machine."""
    check_outputs({"--csv": here.csv, "--plot": here.plot}, [Path(model)])
    check_picture(here.plot, "--plot")
    _check_recipe(here, asked.top)
    from planner.request import InfeasibleError  # noqa: PLC0415

    try:
        report, files = _found(model, asked, here)
    except InfeasibleError as error:
        _say_infeasible(error, as_json=here.as_json)
        raise typer.Exit(NONE_FITS) from error
    if here.as_json:
        from planner.requests.plan_json import dumps  # noqa: PLC0415

        print(dumps(report.record([str(path) for path in files])))
        return
    from cli.text import page, show  # noqa: PLC0415  brings in rich

    with page() as out:
        show(report.parts(), out)
        for path in files:
            out.print(f"\nwrote {path}")


def _found(
    model: str, asked: RankingOptions, here: LayoutsCommand
) -> tuple[LayoutsReport, list[Path]]:
    """The layouts, and the files that were written."""
    with Progress() as progress:
        progress(f"reading {Path(model).name}")
        if here.server is None:
            found = _ranked(asked, model, here.prices, progress)
            return found.report(), [*_written(found, here.csv, here.plot), *_recipe(found, here)]
        from cli.remote_questions import remote_layouts  # noqa: PLC0415

        report, texts = remote_layouts(here.server, model, asked, here, progress)
    from cli.recipe_files import written_texts  # noqa: PLC0415  brings in the cost model

    return report, [] if here.output is None else written_texts(texts, here.output)


def _check_recipe(here: LayoutsCommand, top: int) -> None:
    if bool(here.recipe) != (here.output is not None):
        raise UserError(
            "a recipe needs a framework and a folder", "--recipe", "give --recipe megatron -o DIR"
        )
    if not 1 <= here.row <= top:
        raise UserError(f"--row {here.row} is no row of {top}", "--row", "choose one of the list")
    if here.output is not None:
        check_folder(here.output, f"-o {here.output}")
    if here.server is not None and (here.csv or here.plot or here.prices):
        raise UserError(
            "a service sends the layouts of the list alone, at its own prices",
            "--csv, --plot, --prices", "leave --server out, or leave them out",
        )  # fmt: skip


def _recipe(found: Ranking, here: LayoutsCommand) -> list[Path]:
    """The files of a framework for one layout of the list."""
    if here.output is None:
        return []
    from cli.recipe_files import written_recipe  # noqa: PLC0415  brings in the cost model

    chosen = found.best[min(here.row, len(found.best)) - 1]
    return written_recipe(here.recipe, replace(found.job, layout=chosen.layout), here.output)


def _ranked(asked: RankingOptions, model: str, prices: Path | None, progress: Progress) -> Ranking:
    from planner.requests.training_models import model_name  # noqa: PLC0415  brings in the cost model
    from planner.whatif.layout_ranking import ranked  # noqa: PLC0415  takes a second

    table = None
    if prices is not None:
        from cli.whatif_request import price_text  # noqa: PLC0415
        from planner.whatif.analysis import read_prices  # noqa: PLC0415

        table = read_prices(price_text(prices))
    return ranked(asked, _configuration(model), model_name(model), progress, table)


def _configuration(model: str) -> Mapping[str, object]:
    from importers.sizes import configuration  # noqa: PLC0415  brings in the published models

    if Path(model).suffix not in {"", ".json"} and Path(model).is_file():
        raise UserError(
            f"{Path(model).name} is no description by sizes", "MODEL",
            "name its config.json or one of `planner sizes --list`; `planner search` plans files",
        )  # fmt: skip
    return configuration(model)


def _say_infeasible(error: InfeasibleError, *, as_json: bool) -> None:
    from cli.text import page, show  # noqa: PLC0415
    from planner.requests.plan_json import dumps, infeasible  # noqa: PLC0415

    with page(sys.stderr) as out:
        show((error.reason(), *error.remedy()), out)
    if as_json:
        print(dumps(infeasible(error)))


def _written(found: Ranking, table: Path | None, plot: Path | None) -> list[Path]:
    from cli.layouts_table import write_table  # noqa: PLC0415
    from planner.whatif.plot import save_layouts  # noqa: PLC0415

    writers: dict[Path, Writer] = {}
    if table is not None:
        writers[table] = lambda path: write_table(found, path)
    if plot is not None:
        kind = plot.suffix[1:].lower()
        writers[plot] = lambda path: save_layouts(found.priced, path, kind)
    return write_paths(writers)
