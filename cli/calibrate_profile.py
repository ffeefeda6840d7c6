"""`planner calibrate profile`: what profilers say of training steps, and constants of them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cli.calibrate_links import base_of
from cli.command_options import JSON, Output
from cli.declared import command
from cli.errors import UserError
from cli.files import check_outputs, write_files, writer_of
from cli.machine_files import named_machine
from cli.options import Argument
from planner.requests.options.option import Group, Option
from planner.requests.options.searches import SearchOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from costmodel.traces.fitting import Priced, ProfiledConstant
    from costmodel.traces.records import Trace
    from ir.plan import Plan

EPILOG = """\b
Examples:
  planner calibrate profile trace.json.gz --cluster dgx-h100
  planner calibrate profile trace.json --cluster host.yaml --plan plan/plan.json
  planner calibrate profile op_summary.csv --cluster atlas-800t-a2 -o mine.yaml

\b
Kept with shapes (record_shapes=True of torch.profiler), a trace tells rates of single products.
Exit status: 0 read, 2 a fault in the command or a trace, or a trace of another job."""

HEAVIEST = 10

Traces = Annotated[
    list[Path],
    Argument(
        value="TRACE...",
        help="Chrome's JSON of torch.profiler or of JAX (packed or not); op_summary or a "
        "communication table of msprof; step_trace_time.csv of Ascend's profiler; a CSV of nsys "
        "stats.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileCommand:
    """Of `planner calibrate profile`."""

    # fmt: off
    plan: Annotated[Path | None, Option(
        group=Group.MODEL, value="FILE", help="The plan that ran, to compare with.",
    )] = None
    steps: Annotated[int | None, Option(
        group=Group.MODEL, value="N", least=1, usual="as the trace says, else 1",
        help="Training steps in each trace.",
    )] = None
    output: Annotated[Path | None, Output(
        value="FILE", help="Write the machine with what was measured as a cluster file.",
    )] = None
    as_json: Annotated[bool, JSON] = False
    # fmt: on


@command
def profile(traces: Traces, *, asked: SearchOptions, here: ProfileCommand) -> None:
    """Read profiles of training steps: kernels by class, constants of the machine, the heaviest.

    Every constant comes with a 95 % interval and the number of calls that it rests on.
    """
    check_outputs({"--output": here.output}, traces)
    machine = named_machine(asked.cluster, "--cluster")
    from costmodel.operators.model import OperatorModel  # noqa: PLC0415  brings in numpy
    from costmodel.traces.fitting import constants_of, priced  # noqa: PLC0415

    found = [_read(path, here.steps) for path in traces]
    plan = None if here.plan is None else _compared(here.plan, found)
    chip = machine.cluster(None if machine.max_devices == 1 else 1).chip
    constants = constants_of(found, chip)
    rows = [priced(k, t, OperatorModel(chip)) for t in found for k in t.heaviest(HEAVIEST)]
    rows = sorted(rows, key=lambda row: -row.measured_s)[:HEAVIEST]
    written = _write(machine, constants, asked.cluster, found, here.output)
    if here.as_json:
        import json  # noqa: PLC0415

        print(json.dumps(_facts(found, plan, constants, rows, written), indent=1))
    else:
        _print(found, plan, constants, rows, written)


def _read(path: Path, steps: int | None) -> Trace:
    from costmodel.traces.reading import read_trace  # noqa: PLC0415

    found = read_trace(path)
    return found if steps is None else replace(found, steps=steps)


def _compared(path: Path, traces: Sequence[Trace]) -> Plan:
    from costmodel.traces.comparing import check_same_job  # noqa: PLC0415
    from ir.plan_file import read_plan  # noqa: PLC0415  brings in pydantic

    plan = read_plan(path, staged=True)
    for trace in traces:
        check_same_job(trace, plan)
    return plan


def _write(
    machine: Any, constants: Sequence[ProfiledConstant], cluster: str, traces: Sequence[Trace],
    output: Path | None,
) -> list[Path]:  # fmt: skip
    if output is None:
        return []
    told = [each for each in constants if each.name.startswith(("products", "streams", "launch"))]
    if not told:
        raise UserError(
            "the traces tell no rate of the chip",
            "--output",
            "profile with shapes: record_shapes=True of torch.profiler, or op_summary of msprof",
        )
    from costmodel.traces.machine_text import profiled_text  # noqa: PLC0415

    text = profiled_text(machine, told, base_of(cluster), [each.name for each in traces])
    return write_files(output.parent, {output.name: writer_of(text)})


def _classes(traces: Sequence[Trace], plan: Plan | None) -> list[tuple[str, float, float | None]]:
    """Class of kernels, seconds of a step measured (mean of the traces) and planned."""
    from costmodel.traces.comparing import planned_causes, planned_seconds  # noqa: PLC0415

    summed_up = all(trace.causes_s for trace in traces)
    told = planned_causes if summed_up else planned_seconds
    planned = {} if plan is None else told(plan)
    count = len(traces)
    found: dict[str, float] = {}
    for trace in traces:
        sent_s = sum(each.seconds for each in trace.messages) / trace.steps
        for group, seconds in {**trace.seconds, **({"messages": sent_s} if sent_s else {})}.items():
            found[group] = found.get(group, 0.0) + seconds / count
    names = sorted({*found, *planned}, key=lambda group: -found.get(group, 0.0))
    return [
        (group, found.get(group, 0.0), planned.get(group, 0.0) if plan else None) for group in names
    ]


def _facts(
    traces: Sequence[Trace], plan: Plan | None, constants: Sequence[ProfiledConstant],
    rows: Sequence[Priced], written: Sequence[Path],
) -> dict[str, Any]:  # fmt: skip
    names = ("name", "format", "steps", "ranks", "device", "span_s", "busy_s", "message_s")
    return {
        "status": "ok",
        "traces": [{name: getattr(trace, name) for name in names} for trace in traces],
        "classes": [
            {"class": group, "measured_s": seconds, "planned_s": planned}
            for group, seconds, planned in _classes(traces, plan)
        ],
        "constants": [asdict(each) for each in constants],
        "heaviest": [asdict(row) for row in rows],
        "written": [str(path) for path in written],
    }


def _print(
    traces: Sequence[Trace], plan: Plan | None, constants: Sequence[ProfiledConstant],
    rows: Sequence[Priced], written: Sequence[Path],
) -> None:  # fmt: skip
    from cli.profile_text import profile_parts  # noqa: PLC0415
    from cli.text import tell  # noqa: PLC0415  brings in rich

    tell(profile_parts(traces, _classes(traces, plan), constants, rows, written))
