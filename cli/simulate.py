"""`planner simulate`: a step event by event, of a plan or of a conventional layout."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from cli import options
from cli import simulation_options as choices
from cli.errors import UserError
from cli.files import (
    Writer,
    check_folder,
    check_outputs,
    check_picture,
    write_paths,
    writer_of,
)
from cli.remote import Server, remote_simulation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cli.simulation_arguments import Given
    from costmodel.simulation.result import Simulation
    from planner.requests.conventional_layouts import LayoutOptions

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


def simulate(  # noqa: PLR0913  one parameter per option
    subject: choices.Subject,
    *,
    layout: choices.Layout = None,
    cluster: choices.OtherCluster = None,
    precision: choices.Precision = None,
    software: choices.Software = None,
    optimizer: choices.LayoutOptimizer = None,
    servers: choices.ParameterServers = None,
    bandwidth: choices.Bandwidths = None,
    overlap: choices.Overlap = "auto",
    contention: choices.ContentionMode = "fair",
    fusion: choices.Fusions = None,
    prefetch: choices.Prefetch = 1,
    interference: choices.Interference = 0.0,
    jitter: choices.Jitter = None,
    spread: choices.Spread = None,
    stragglers: choices.Stragglers = None,
    samples: choices.Samples = 20,
    seed: choices.Seed = 0,
    trace: choices.Trace = None,
    plot: choices.Plot = None,
    recipe: choices.Recipe = "",
    output: choices.RecipeFolder = None,
    server: Server = None,
    as_json: options.Json = False,
) -> None:
    """Run one step event by event: what overlaps, what waits, what is in memory when."""
    from cli.simulation_arguments import Given, reported  # noqa: PLC0415  brings in the cost model

    given = Given(
        cluster, servers, tuple(bandwidth or ()), overlap, contention, tuple(fusion or ()),
        prefetch, interference, jitter, spread, stragglers, samples, seed,
    )  # fmt: skip
    check_outputs({"--trace": trace, "--plot": plot}, [Path(subject)])
    check_picture(plot, "--plot", here=server is None)
    said = {"precision": precision, "software": software, "optimizer": optimizer}
    asked = _layout(given, layout, {name: text for name, text in said.items() if text is not None})
    _check_recipe(recipe, output, asked, server or servers)
    if servers is not None:
        wanted = {"--trace": trace, "--plot": plot}
        given.check_served([name for name, path in wanted.items() if path is not None])
        _served(server, subject, asked, given, as_json=as_json)
        return
    if server is not None:
        _simulate_there(server, subject, given, asked, trace, plot, as_json=as_json)
        return
    if asked is None:
        found = given.simulated_plan(Path(subject))
    else:
        found = given.simulated_layout(subject, asked)
    with reported():
        files = _written(found, trace, plot)
    if asked is not None and output is not None:
        from cli.recipe_files import written_recipe  # noqa: PLC0415

        files += written_recipe(recipe, given.run_of(subject, asked), output)
    if as_json:
        from planner.requests.plan_json import dumps  # noqa: PLC0415
        from planner.requests.simulations import answer  # noqa: PLC0415

        print(dumps(answer(found, files)))
        return
    from cli.simulation_text import print_simulation  # noqa: PLC0415  brings in rich
    from cli.text import page  # noqa: PLC0415

    with page() as out:
        print_simulation(found, files, out)


def _check_recipe(
    recipe: str, output: Path | None, layout: LayoutOptions | None, elsewhere: str | None
) -> None:
    """Raise `UserError` where a recipe cannot be written."""
    if not recipe and output is None:
        return
    if layout is None or elsewhere is not None or not recipe or output is None:
        raise UserError(
            "a recipe is of a layout that is simulated here, and needs a framework and a folder",
            "--recipe",
            "give --layout, --recipe megatron and -o DIR; leave --server and --servers out",
        )
    check_folder(output, f"-o {output}")


def _layout(given: Given, layout: str | None, said: Mapping[str, str]) -> LayoutOptions | None:
    """The layout in place of a plan, if one was given, with what was said of it."""
    if layout is None:
        for name in said:
            raise UserError(
                f"--{name} is for layouts",
                f"--{name}",
                f"leave --{name} out, or add --layout 'dp=16,...' MODEL",
            )
        return None
    from cli.simulation_arguments import layout_options  # noqa: PLC0415

    return layout_options(layout, given.cluster, said)


def _simulate_there(
    server: str,
    subject: str,
    given: Given,
    layout: LayoutOptions | None,
    trace: Path | None,
    plot: Path | None,
    *,
    as_json: bool,
) -> None:
    from cli.remote_text import print_simulation as print_figures  # noqa: PLC0415
    from planner.requests.plan_json import dumps  # noqa: PLC0415

    kind = None if plot is None else plot.suffix.lstrip(".").lower()
    result, timeline, picture = remote_simulation(
        server, subject, asdict(given), layout, trace=trace is not None, plot=kind
    )
    writers: dict[Path, Writer] = {}
    if trace is not None:
        writers[trace] = writer_of(timeline)
    if plot is not None:
        writers[plot] = writer_of(picture)
    files = write_paths(writers)
    if as_json:
        print(dumps({**result, "files": [str(path) for path in files]}))
    else:
        print_figures(result, files)


def _served(
    server: str | None, subject: str, layout: LayoutOptions | None, given: Given, *, as_json: bool
) -> None:
    """Workers and parameter servers instead of collectives."""
    from cli.simulation_arguments import served_run  # noqa: PLC0415
    from planner.requests.plan_json import dumps  # noqa: PLC0415

    assert given.servers is not None
    if server is not None:
        asked = asdict(given)
        found, _, _ = remote_simulation(server, subject, asked, layout, trace=False, plot=None)
    elif layout is None:
        found = given.served_plan(Path(subject))
    else:
        found = served_run(subject, layout, given.servers)
    if as_json:
        print(dumps(found))
        return
    from cli.simulation_text import print_served  # noqa: PLC0415
    from cli.text import page  # noqa: PLC0415

    with page() as out:
        print_served(found, out)


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
