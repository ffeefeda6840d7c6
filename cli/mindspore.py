"""`planner mindspore`: a user's own network in the real MindSpore."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli import options
from cli.command_options import JSON
from cli.declared import Grouped, command
from cli.errors import UserError
from cli.judges import JUDGE_PYTHON, check_judge
from cli.options import Argument
from planner.requests.options.option import Group, Option

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from executors.mindspore.own_network import Arrival, Compiled, Planned, Source
    from ir.plan import Plan

DIFFERS = 1
_MOST_SHOWN = 200

app = typer.Typer(
    help="A network of your own in the real MindSpore, with the files of a plan.",
    epilog="""\b
Examples:
  planner mindspore check net.py:Net plan/plan.json --mindspore-python .venv-mindspore/bin/python
  planner mindspore check net.py:Net plan/plan.json --route operators""",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Network = Annotated[
    str,
    Argument(
        value="SCRIPT:CELL",
        help="A Python file and the cell in it that was exported: a class or a function without "
        "arguments, or a cell.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedNetwork:
    """Of `planner mindspore check`."""

    # fmt: off
    route: Annotated[str, Option(
        group=Group.QUESTION, choices=("apply", "propagation", "checkpoint", "operators"),
        noun="route",
        help="How the strategies come: apply_mindspore.py beside strategy.ckpt, the same with "
        "sharding propagation for what it cannot reach, the checkpoint alone, or the operators' "
        "file.",
    )] = "apply"
    judge_python: Annotated[Path | None, JUDGE_PYTHON] = None
    graphs: Annotated[Path | None, Option(
        group=Group.OUTPUT, value="DIR",
        help="Leave the graphs of MindSpore there; import-strategy reads step_parallel_end_*.ir.",
    )] = None
    as_json: Annotated[bool, JSON] = False
    # fmt: on


@app.callback()
def mindspore() -> None:
    """A network of your own in the real MindSpore."""


@app.command(
    cls=Grouped,
    epilog="""\b
Examples:
  planner mindspore check net.py:Net plan/plan.json
  planner mindspore check net.py:Net plan/plan.json --route operators --json

\b
Exit status: 0 all is as planned, 1 something differs or MindSpore refuses the files, 2 a fault in
the command or the plan.""",
)
@command
def check(network: Network, plan: options.PlanPath, here: CheckedNetwork) -> None:
    """Compile a network with a plan's files: does every strategy arrive, are the messages those
    that are planned?
    """
    from executors.mindspore.judge import MindsporeError  # noqa: PLC0415
    from executors.mindspore.own_network import compared, compiled  # noqa: PLC0415
    from ir.plan_file import read_plan  # noqa: PLC0415  brings in pydantic

    route, python = here.route, here.judge_python
    check_judge("mindspore", python)
    source = _source(network)
    found = read_plan(plan, staged=True)
    _check(found, plan)
    assert python is not None
    files = _files(found, source, route)
    try:
        made = compiled(found, source, route, files, python, kept=here.graphs)
    except MindsporeError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(DIFFERS) from error
    result = compared(found, list(_planned(found, source.scope)), made, source.scope, route)
    steps = found.estimate.step_time_s, compiled_s(found, result.arrivals)
    _print(result, steps, as_json=here.as_json)
    if not result.passed:
        raise typer.Exit(DIFFERS)


def _source(network: str) -> Source:
    from executors.mindspore.own_network import Source  # noqa: PLC0415

    if network.lower().endswith(".mindir"):
        raise UserError(
            "MindSpore's parallel passes take no network that was loaded from a MindIR: its "
            "operators have no shapes there",
            "SCRIPT:CELL",
            "pass the script with the cell that was exported; planner verify MODEL PLAN --executor "
            "mindspore compiles the plan's own network",
        )
    file, colon, cell = network.rpartition(":")
    if not colon or not cell.isidentifier():
        raise UserError(f"{network!r} names no cell", "SCRIPT:CELL", "such as net.py:Net")
    path = Path(file)
    if not path.is_file():
        raise UserError(f"there is no file {file!r}", "SCRIPT:CELL", "name a Python file")
    return Source(path, cell)


def _check(plan: Plan, path: Path) -> None:
    if plan.space.dialect != "mindspore":
        raise UserError("the plan is for another target", str(path), "plan with --target mindspore")
    if not plan.pipeline.is_single:
        raise UserError("the plan has pipeline stages", str(path), "check a plan of one stage")
    if not plan.graph.primitives:
        raise UserError(
            "the plan does not know MindSpore's primitives",
            str(path),
            "plan the MindIR or the ONNX file that mindspore.export wrote",
        )


def _files(plan: Plan, source: Source, route: str) -> dict[str, Callable[[Path], None]]:
    """Writers of the files that a route reads."""
    from exporters.formats import FORMATS, writes  # noqa: PLC0415  brings in pydantic
    from exporters.settings import Settings  # noqa: PLC0415

    if route == "operators":
        form = FORMATS["mindspore-operators"]
        settings = Settings({"scope": source.scope}, form.settings)
        return {"operators.json": writes(form.of_model(plan, settings, ()).content)}
    names = {"mindspore": "strategy.ckpt", "mindspore-apply": "apply_mindspore.py"}
    return {name: FORMATS[form].writer(plan, None) for form, name in names.items()}


def _planned(plan: Plan, scope: str) -> Iterator[Planned]:
    """The primitives of a plan, in the order of the file."""
    from executors.mindspore.own_network import Planned  # noqa: PLC0415
    from exporters.mindspore.listed import cut_primitives  # noqa: PLC0415
    from exporters.mindspore.operator_strategy import scoped  # noqa: PLC0415

    for own in cut_primitives(plan):
        name = own.primitive.name
        yield Planned(scoped(name, scope), own.cuts, name)


def compiled_s(plan: Plan, arrivals: Sequence[Arrival]) -> float | None:
    """Seconds of a step with the strategies that MindSpore used; None if that cannot be told."""
    from exporters.errors import StrategyFileError  # noqa: PLC0415
    from exporters.mindspore.checkpoint_import import pins_of_operators  # noqa: PLC0415
    from exporters.mindspore.operator_json import OperatorStrategies  # noqa: PLC0415
    from exporters.mindspore.records import StrategyItem  # noqa: PLC0415
    from planner.repricing.mindspore.compiled import compiled_step_s  # noqa: PLC0415
    from planner.request import RequestError  # noqa: PLC0415

    used = {each.planned.primitive: each.used for each in arrivals if each.planned is not None}
    items = OperatorStrategies(tuple(StrategyItem(name, 0, cuts) for name, cuts in used.items()))
    try:
        pins = pins_of_operators(plan.graph, items, plan.graph.primitives, plan.devices).pins
        return compiled_step_s(plan, pins)
    except (RequestError, StrategyFileError):  # what MindSpore cuts so has no price here
        return None


def _print(found: Compiled, steps: tuple[float, float | None], *, as_json: bool) -> None:
    from topology.units import format_seconds  # noqa: PLC0415

    rows = [_row(each) for each in found.arrivals if not each.arrived]
    judged = found.judgement
    sent = () if judged is None else judged.notes
    if as_json:
        from planner.requests.plan_json import dumps  # noqa: PLC0415

        record = {
            "status": "as planned" if found.passed else "differs",
            "operators": len(found.arrivals),
            "arrived": len(found.arrivals) - len(rows),
            "differing": rows,
            "not_found": list(found.missing),
            "collectives": None if judged is None else judged.passed,
            "notes": list(sent),
            "step_s": {"planned": steps[0], "compiled": steps[1]},
        }
        print(dumps(record))
        return
    print(f"{len(found.arrivals) - len(rows)} of {len(found.arrivals)} operators are as planned")
    for row in rows[:_MOST_SHOWN]:
        print(f"  {row['name']}: {row['used']}, planned {row['planned']}; {row['why']}")
    for line in found.missing:
        print(f"not found: {line}")
    if judged is None:
        print("collectives: not compared, as sharding propagation has no strategies for the loss")
    else:
        print(f"collectives: {'as planned' if judged.passed else 'differ'}")
    for note in () if judged is not None and judged.passed else sent:
        print(f"  {note}")
    if steps[1] is not None:
        print(
            f"step: {format_seconds(steps[0])} as planned, {format_seconds(steps[1])} as compiled"
        )


def _row(each: Arrival) -> dict[str, Any]:
    """An operator that is cut otherwise, and why."""
    first: tuple[int, ...] = each.used[0] if each.used else ()
    by_batch = bool(first) and first[0] > 1 and set(first[1:]) <= {1}
    why = "MindSpore has an operator that the plan has not"
    if each.planned is not None:
        why = "no strategy came, and MindSpore splits it by batch" if by_batch else "it was changed"
    planned = None if each.planned is None else [list(cuts) for cuts in each.planned.cuts]
    used = [list(cuts) for cuts in each.used]
    return {"name": each.name, "used": used, "planned": planned, "why": why}
