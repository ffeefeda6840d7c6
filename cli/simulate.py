"""`planner simulate`: a step event by event, of a plan or of a conventional layout."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from cli.command_options import SimulateCommand
from cli.declared import Said, command
from cli.errors import UserError
from cli.files import (
    Writer,
    check_folder,
    check_outputs,
    check_picture,
    write_paths,
    writer_of,
)
from cli.options import Argument
from cli.remote import remote_simulation
from planner.requests.options.simulations import DEFAULT_CLUSTER, LayoutOptions, SimulationOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from costmodel.simulation.result import Simulation

Subject: TypeAlias = Annotated[
    str,
    Argument(
        value="PLAN|MODEL",
        help="A plan.json that `planner search -o DIR` wrote; with --layout a model: a config.json "
        "or a name that `planner sizes --list` prints.",
    ),
]

EPILOG = """\b
Examples:
  planner simulate plan/plan.json
  planner simulate plan/plan.json --bandwidth server=2 --trace trace.json --plot step.svg
  planner simulate plan/plan.json --jitter lognormal:0.03 --stragglers 1x1.5
  planner simulate --layout 'tp=8,pp=16,dp=128,batch=2048,seq=8192,zero=1,sp' \\
      --cluster dgx-h100 llama3.1-405b
  planner simulate --layout 'pp=16,dp=128,ep=64,batch=15360,schedule=dualpipe,mtp=0' \\
      --cluster h800 --precision fp8 deepseek-v3
  planner simulate --layout 'dp=16,micro=32,batch=512,seq=512' --servers 'count=4,mode=async' \\
      bert-large

With --server a service simulates, and the files that are asked for are written here.

\b
Exit status: 0 simulated, 2 a fault in the command, the plan or the model."""


@command
def simulate(
    subject: Subject, asked: SimulationOptions, said: Said[LayoutOptions], here: SimulateCommand
) -> None:
    """Simulate one step event by event: overlap, waiting times and memory over time."""
    files = {"--trace": here.trace, "--plot": here.plot}
    check_outputs(files, [Path(subject)])
    check_picture(here.plot, "--plot", here=here.server is None)
    layout = _layout(subject, asked, said)
    _check_recipe(here, layout, asked.servers)
    if asked.servers is not None:
        asked.check_served([name for name, path in files.items() if path is not None])
        _served(subject, layout, asked, here)
        return
    if here.server is not None:
        _simulate_there(here.server, subject, asked, layout, here)
        return
    from cli.simulation_arguments import layout_simulation, plan_simulation  # noqa: PLC0415

    if layout is None:
        found = plan_simulation(asked, Path(subject))
    else:
        found = layout_simulation(asked, subject, layout)
    written = _written(found, here.trace, here.plot)
    if layout is not None and here.output is not None:
        from cli.recipe_files import written_recipe  # noqa: PLC0415
        from cli.simulation_arguments import run_described  # noqa: PLC0415

        written += written_recipe(here.recipe, run_described(subject, layout), here.output)
    from planner.requests.simulations import answer  # noqa: PLC0415

    _say(answer(found, written), written, found.estimate_means, as_json=here.as_json)


def _say(found: Mapping[str, Any], files: list[Path], means: str, *, as_json: bool) -> None:
    """A simulation as JSON or as text, wherever it was made."""
    if as_json:
        from planner.requests.plan_json import dumps  # noqa: PLC0415

        print(dumps(found))
        return
    from cli.text import tell  # noqa: PLC0415  brings in rich
    from report.simulation import parts  # noqa: PLC0415

    tell(parts(found, means, files))


def _check_recipe(here: SimulateCommand, layout: LayoutOptions | None, servers: str | None) -> None:
    """Raise `UserError` where a recipe cannot be written."""
    if not here.recipe and here.output is None:
        return
    elsewhere = here.server is not None or servers is not None
    if layout is None or elsewhere or not here.recipe or here.output is None:
        raise UserError(
            "a recipe is of a layout that is simulated here, and needs a framework and a folder",
            "--recipe",
            "give --layout, --recipe megatron and -o DIR; leave --server and --servers out",
        )
    check_folder(here.output, f"-o {here.output}")


def _layout(
    subject: str, asked: SimulationOptions, said: Said[LayoutOptions]
) -> LayoutOptions | None:
    """The layout in place of a plan, if one was given, with what was said of it."""
    given = said.values
    if "layout" in given:
        return LayoutOptions(**given, cluster=asked.cluster or DEFAULT_CLUSTER)
    for name in given:
        raise UserError(
            f"--{name} is for layouts",
            f"--{name}",
            f"leave --{name} out, or add --layout 'dp=16,...' MODEL",
        )
    if Path(subject).suffix != ".json" and not Path(subject).exists():
        raise UserError(
            f"there is no plan {subject}",
            "PLAN|MODEL",
            "name a plan.json; a model takes a layout, such as --layout tp=8,dp=2,batch=64",
        )
    return None


def _simulate_there(
    server: str,
    subject: str,
    asked: SimulationOptions,
    layout: LayoutOptions | None,
    here: SimulateCommand,
) -> None:
    kind = None if here.plot is None else here.plot.suffix.lstrip(".").lower()
    result, timeline, picture = remote_simulation(
        server, subject, asdict(asked), layout, trace=here.trace is not None, plot=kind
    )
    writers: dict[Path, Writer] = {}
    if here.trace is not None:
        writers[here.trace] = writer_of(timeline)
    if here.plot is not None:
        writers[here.plot] = writer_of(picture)
    files = write_paths(writers)
    found = {**result, "files": [str(path) for path in files]}
    _say(found, files, "", as_json=here.as_json)


def _served(
    subject: str, layout: LayoutOptions | None, asked: SimulationOptions, here: SimulateCommand
) -> None:
    """Workers and parameter servers instead of collectives."""
    from cli.simulation_arguments import served_by_plan, served_run  # noqa: PLC0415
    from planner.requests.plan_json import dumps  # noqa: PLC0415

    assert asked.servers is not None
    if here.server is not None:
        found, _, _ = remote_simulation(
            here.server, subject, asdict(asked), layout, trace=False, plot=None
        )
    elif layout is None:
        found = served_by_plan(asked, Path(subject))
    else:
        found = served_run(subject, layout, asked.servers)
    if here.as_json:
        print(dumps(found))
        return
    from cli.text import tell  # noqa: PLC0415  brings in rich
    from report.simulation import served  # noqa: PLC0415

    tell((served(found),))


def _written(found: Simulation, trace: Path | None, plot: Path | None) -> list[Path]:
    """The files that were asked for, each whole or not at all."""
    writers: dict[Path, Writer] = {}
    if trace is not None:
        from costmodel.simulation.trace import trace_json  # noqa: PLC0415

        writers[trace] = writer_of(trace_json(found))
    if plot is not None:
        from costmodel.simulation.plot import save_plot  # noqa: PLC0415  brings in matplotlib

        kind = plot.suffix.lstrip(".").lower()
        writers[plot] = lambda path: save_plot(found, path, kind)
    return write_paths(writers)
