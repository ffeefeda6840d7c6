"""`planner layouts`: the fastest conventional layouts of a model, all of them priced at once."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli import options
from cli import simulation_options as choices
from cli.errors import UserError
from cli.files import (
    Writer,
    check_folder,
    check_outputs,
    check_picture,
    write_paths,
)
from cli.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planner.request import InfeasibleError
    from planner.whatif.layout_ranking import Ranking, RankingOptions

NONE_FITS = 1
EPILOG = """\b
Examples:
  planner layouts llama3.1-405b --devices 16384 --batch 2048 --sequence 8192 --cluster dgx-h100
  planner layouts llama3-70b --devices 256 --batch 1024 --hold 'tp=8,zero=1' --top 20
  planner layouts deepseek-v3 --devices 2048 --batch 15360 --csv all.csv --plot all.svg
  planner layouts deepseek-v3 --devices 2048 --batch 15360 --cluster dgx-h100 --hold mtp=0
  planner layouts llama3-70b --devices 256 --batch 1024 --optimizer muon
  planner layouts llama3-70b --devices 256 --batch 1024 --cluster h100 --recipe megatron -o recipe

A row is what `planner simulate --layout` takes. Degrees are tp (tensor), cp (context), pp
(pipeline), vpp (chunks), dp (data) and ep (expert parallel); of each set of them the fastest way to
share out states and to compute again stands in the list. docs/training-model.md tells how a step is
priced; `planner search` looks for layouts of single operators instead.

\b
Exit status: 0 done, 1 no layout fits into memory, 2 a fault in the command or the model."""

Subject = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A config.json, or a name that `planner sizes --list` prints.",
    ),
]
DeviceCount = Annotated[
    int, typer.Option("--devices", metavar="N", help="Devices of the job, all of which are used.")
]
BatchSize = Annotated[
    int, typer.Option("--batch", metavar="B", help="Sequences of one step of the optimizer.")
]
Length = Annotated[int, typer.Option("--sequence", metavar="N", help="Tokens of a sequence.")]
Machine = Annotated[
    str,
    typer.Option("--cluster", metavar="NAME", help="A bundled machine, or a chip such as h100."),
]
Precision = Annotated[
    str,
    typer.Option("--precision", metavar="bf16|fp16|fp8|...", help="Type of the matrix products."),
]
Software = Annotated[
    str | None,
    typer.Option(
        "--software",
        metavar="NAME",
        help="The software whose constants are used, such as megatron-core or mindspeed.",
        show_default="the usual one of the machine",
    ),
]
Held = Annotated[
    str,
    typer.Option(
        "--hold",
        metavar="TEXT",
        help="Parts of the layout that have one value: some of tp, cp, pp, vpp, dp, ep, micro, "
        "zero, zero-group, sp, recompute=none|selective|full; also mtp=0, for a run without the "
        "layers that predict further tokens, or with another number of them.",
        show_default=False,
    ),
]
Top = Annotated[int, typer.Option("--top", metavar="K", help="Layouts that are listed.")]
Variants = Annotated[
    bool,
    typer.Option(
        "--variants", help="List layouts of equal degrees too, not the fastest of them alone."
    ),
]
Table = Annotated[
    Path | None,
    typer.Option(
        "--csv",
        metavar="FILE",
        help="Write every layout with its time and memory, those that do not fit too.",
        show_default=False,
    ),
]
Picture = Annotated[
    Path | None,
    typer.Option(
        "--plot",
        metavar="FILE",
        help="Draw time and memory of every layout (.svg or .png).",
        show_default=False,
    ),
]
Row = Annotated[
    int, typer.Option("--row", metavar="N", help="Which layout of the list they say, from 1.")
]


def layouts(  # noqa: PLR0913  one parameter per option
    model: Subject,
    *,
    devices: DeviceCount,
    batch: BatchSize,
    sequence: Length = 4096,
    cluster: Machine = "atlas-800t-a2",
    precision: Precision = "bf16",
    software: Software = None,
    optimizer: options.OptimizerName = "adamw",
    hold: Held = "",
    top: Top = 10,
    variants: Variants = False,
    table: Table = None,
    plot: Picture = None,
    recipe: choices.Recipe = "",
    output: choices.RecipeFolder = None,
    row: Row = 1,
    as_json: options.Json = False,
) -> None:
    """Rank the conventional parallel layouts of a model on a machine."""
    check_outputs({"--csv": table, "--plot": plot}, [Path(model)])
    check_picture(plot, "--plot")
    _check_recipe(recipe, output, row, top)
    from planner.request import InfeasibleError  # noqa: PLC0415

    try:
        with Progress() as progress:
            progress(f"reading {Path(model).name}")
            from planner.whatif.layout_ranking import RankingOptions  # noqa: PLC0415  takes a second

            asked = RankingOptions(
                devices=devices, batch=batch, sequence=sequence, cluster=cluster,
                precision=precision, software=software, optimizer=optimizer, held=hold, top=top,
                variants=variants,
            )  # fmt: skip
            found = _ranked(asked, model, progress)
    except InfeasibleError as error:
        _say_infeasible(error, as_json=as_json)
        raise typer.Exit(NONE_FITS) from error
    files = [*_written(found, table, plot), *_recipe(found, recipe, output, row)]
    if as_json:
        from cli.layouts_text import ranking_json  # noqa: PLC0415
        from planner.requests.plan_json import dumps  # noqa: PLC0415

        print(dumps(ranking_json(found, files)))
        return
    from cli.layouts_text import print_ranking  # noqa: PLC0415  brings in rich
    from cli.text import page  # noqa: PLC0415

    with page() as out:
        print_ranking(found, files, out)


def _check_recipe(recipe: str, output: Path | None, row: int, top: int) -> None:
    if bool(recipe) != (output is not None):
        raise UserError(
            "a recipe needs a framework and a folder", "--recipe", "give --recipe megatron -o DIR"
        )
    if not 1 <= row <= top:
        raise UserError(f"--row {row} is no row of {top}", "--row", "choose one of the list")
    if output is not None:
        check_folder(output, f"-o {output}")


def _recipe(found: Ranking, name: str, output: Path | None, row: int) -> list[Path]:
    """The files of a framework for one layout of the list."""
    if output is None:
        return []
    from cli.recipe_files import written_recipe  # noqa: PLC0415  brings in the cost model

    chosen = found.best[min(row, len(found.best)) - 1]
    return written_recipe(name, replace(found.job, layout=chosen.layout), output)


def _ranked(asked: RankingOptions, model: str, progress: Progress) -> Ranking:
    from cli.simulation_arguments import model_name  # noqa: PLC0415  brings in the cost model

    return asked.ranked(_configuration(model), model_name(model), progress)


def _configuration(model: str) -> Mapping[str, object]:
    from importers.sizes import configuration  # noqa: PLC0415  brings in the published models

    if Path(model).suffix not in {"", ".json"} and Path(model).is_file():
        raise UserError(
            f"{Path(model).name} is no description by sizes", "MODEL",
            "name its config.json or one of `planner sizes --list`; `planner search` plans files",
        )  # fmt: skip
    return configuration(model)


def _say_infeasible(error: InfeasibleError, *, as_json: bool) -> None:
    from cli.plan_text import print_infeasible  # noqa: PLC0415
    from cli.text import page  # noqa: PLC0415
    from planner.requests.plan_json import dumps, nothing_fits  # noqa: PLC0415

    with page(sys.stderr) as out:
        print_infeasible(error, out)
    if as_json:
        print(dumps(nothing_fits(error)))


def _written(found: Ranking, table: Path | None, plot: Path | None) -> list[Path]:
    from cli.layouts_text import write_table  # noqa: PLC0415
    from planner.whatif.plot import save_layouts  # noqa: PLC0415

    writers: dict[Path, Writer] = {}
    if table is not None:
        writers[table] = lambda path: write_table(found, path)
    if plot is not None:
        kind = plot.suffix[1:].lower()
        writers[plot] = lambda path: save_layouts(found.priced, path, kind)
    return write_paths(writers)
