"""`planner solve`: a public instance of the planning problem, as the planner solves its own."""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.command_options import JSON, Output
from cli.declared import command
from cli.files import check_folder, write_files, writer_of
from cli.options import Argument
from cli.progress import Progress
from planner.requests.option_texts import time_limit_s
from planner.requests.options.option import Group, Option

if TYPE_CHECKING:
    from planner.reduction.network import Network
    from planner.solvers.network_search import Answer

NO_ANSWER = 1

EPILOG = """\b
Examples:
  planner solve asplos-2025-iopddl-A.json.gz --time-limit 60
  planner solve instance.json --time-limit 30 --seed 7 -o solution.json
  planner solve instance.json --effort 2 --json

\b
Exit status: 0 solved, 1 no choice that fits was found, 2 a fault in the command or the instance."""


Instance = Annotated[Path, Argument(value="INSTANCE", help="An instance, .json or .json.gz.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class SolveCommand:
    """Of `planner solve`."""

    # fmt: off
    time_limit: Annotated[float | None, Option(
        group=Group.SEARCH, value="S", unit="seconds", usual="60, or none with --effort",
        help="Seconds after which the best answer so far is given, reading included.",
    )] = None
    effort: Annotated[int | None, Option(
        group=Group.SEARCH, value="N", least=1, usual="as much as the time allows",
        help="How much is tried, in units of work and not of time: the same answer anywhere.",
    )] = None
    threads: Annotated[int, Option(
        group=Group.SEARCH, value="N", least=1, help="Cores that may be used.",
    )] = 2
    seed: Annotated[int, Option(
        group=Group.SEARCH, value="N", help="Other random numbers for the search.",
    )] = 0
    output: Annotated[Path | None, Output(
        value="FILE", help="Where the solution is written as JSON.",
    )] = None
    as_json: Annotated[bool, JSON] = False
    # fmt: on


@command
def solve(instance: Instance, here: SolveCommand) -> None:
    """Choose one candidate for every node of an instance: least cost within memory.

    Reads the JSON of the ASPLOS/EuroSys 2025 contest on intra-operator parallelism (IOPDDL), plain
    or packed with gzip. Ctrl-C ends the search with the best answer so far.
    """
    started = time.monotonic()
    effort, output = here.effort, here.output
    limit = 60.0 if here.time_limit is None and effort is None else here.time_limit
    if limit is not None:
        time_limit_s(limit)
    if output is not None:
        check_folder(output.parent)
    from planner.requests.instances import read_instance  # noqa: PLC0415  brings in numpy
    from planner.solvers.network_search import Limits, search_network  # noqa: PLC0415  and numba

    with Progress() as progress:
        progress(f"reading {instance.name}")
        network = read_instance(instance)
        loaded_s = time.monotonic() - started

        def report(what: str, cost: float, bound: float) -> None:
            best = f"best {cost:,.0f}" if math.isfinite(cost) else "nothing that fits yet"
            low = f", bound {bound:,.0f}" if math.isfinite(bound) else ""
            progress(f"{what}: {best}{low}")

        limits = Limits(limit, effort, here.threads, here.seed)
        answer = search_network(network, limits, report, started)
    times = Times(loaded_s, time.monotonic() - started)
    _deliver(answer, network, output, times, as_json=here.as_json)
    if answer.choice is None:
        raise typer.Exit(NO_ANSWER)


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds since the command began."""

    loaded_s: float
    """When the instance was read."""
    spent_s: float
    """When the answer stood."""


def _deliver(
    answer: Answer, network: Network, output: Path | None, times: Times, *, as_json: bool
) -> None:
    if output is not None and answer.choice is not None:
        text = json.dumps(
            {
                "solution": answer.choice.tolist(),
                "cost": _number(answer.cost),
                "bound": _number(answer.bound),
            }
        )
        write_files(output.parent, {output.name: writer_of(text)})
    record = _record(answer, network, times)
    if as_json:
        print(json.dumps(record))
        return
    if answer.choice is None:
        nothing = (
            "no choice fits" if answer.proof == "infeasible" else "nothing that fits was found"
        )
        print(f"{nothing} in {times.spent_s:.1f} s")
        return
    word = "optimal" if answer.proof == "optimal" else f"at most {100 * answer.gap:.3g} % above it"
    print(f"cost {answer.cost:,.0f} in {times.spent_s:.1f} s, bound {answer.bound:,.0f}: {word}")
    print(f"memory {answer.peak:,.0f} of {network.limit:,.0f} at its peak")
    if answer.truncated:
        print("the time limit cut the search short; another run may answer differently")
    if output is not None:
        print(f"wrote {output}")


def _record(answer: Answer, network: Network, times: Times) -> dict[str, object]:
    return {
        "status": answer.proof,
        "cost": _number(answer.cost),
        "bound": _number(answer.bound),
        "gap": answer.gap if math.isfinite(answer.gap) else None,
        "peak": _number(answer.peak),
        "limit": _number(network.limit),
        "feasible": answer.choice is not None and network.is_feasible(answer.choice),
        "truncated": answer.truncated,
        "loaded_s": round(times.loaded_s, 3),
        "time_s": round(times.spent_s, 3),
        "trace": [[round(s.time_s, 3), _number(s.cost), _number(s.bound)] for s in answer.trace],
    }


def _number(value: float) -> int | float | None:
    """A number for JSON; whole ones without a point."""
    if not math.isfinite(value):
        return None
    return int(value) if value == int(value) else value
