"""`planner verify`: run a plan on virtual devices and compare it with the whole model."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli import options
from cli.command_options import JSON, SERVER
from cli.declared import command
from cli.errors import UserError
from cli.judges import EXECUTOR, JUDGE_PYTHON, REFERENCE, check_judge, judgement
from cli.progress import Progress
from cli.remote import remote_verification
from planner.requests.options.option import Group, Option
from planner.requests.verification import VerificationOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ir.plan import Plan

EPILOG = """\b
Examples:
  planner verify model.onnx plan/plan.json
  planner verify model.onnx plan/plan.json --scale full
  planner verify model.onnx plan/plan.json --executor jax --seed 7 --json

\b
Exit status: 0 the plan is right, 1 it is not or could not be verified, 2 a fault in the command,
the model or the plan."""

NOT_VERIFIED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyCommand:
    """Of `planner verify`."""

    # fmt: off
    executor: Annotated[str, EXECUTOR] = REFERENCE
    judge_python: Annotated[Path | None, JUDGE_PYTHON] = None
    devices: Annotated[int | None, Option(
        group=Group.MACHINE, value="N", usual="those of the plan",
        help="Virtual devices at hand; a plan needs all of its own.",
    )] = None
    server: Annotated[str | None, SERVER] = None
    as_json: Annotated[bool, JSON] = False
    # fmt: on


@command
def verify(
    model: options.Model, plan: options.PlanPath, *, asked: VerificationOptions, here: VerifyCommand
) -> None:
    """Run a plan on virtual devices: are the numbers and the messages those that it promises?"""
    executor = here.executor
    check_judge(executor, here.judge_python)
    if here.server is not None:
        _verify_there(here.server, model, plan, asked, executor, as_json=here.as_json)
        return
    from ir.plan_file import read_plan  # noqa: PLC0415  brings in pydantic
    from planner.requests.sources import model_file  # noqa: PLC0415
    from planner.requests.verification import (  # noqa: PLC0415
        given_numbers,
        judged,
        judgement_record,
        scaled,
        verdict_record,
    )

    found = read_plan(plan, staged=executor == REFERENCE)
    _check_devices(found, here.devices)
    with Progress() as progress:
        smaller, notes = scaled(found, asked.scale)
        progress(f"reading {model.name}")
        values = given_numbers(model_file(model), found, smaller, asked.seed)
        count = f"{len(smaller.graph.ops)} operators"
        progress(f"running {count} whole and on {found.devices} devices")
        record = (
            verdict_record(judged(smaller, values), notes)
            if executor == REFERENCE
            else judgement_record(judgement(executor, smaller, values, here.judge_python), notes)
        )
    _print(record, found, as_json=here.as_json)
    if record["status"] != "verified":
        raise typer.Exit(NOT_VERIFIED)


def _verify_there(
    server: str, model: Path, plan: Path, asked: VerificationOptions, executor: str, *,
    as_json: bool,
) -> None:  # fmt: skip
    if executor != REFERENCE:
        raise UserError(
            "a service has the reference executor alone", f"--executor {executor}",
            "leave --server out",
        )  # fmt: skip
    from ir.plan_file import read_plan  # noqa: PLC0415  brings in pydantic

    with Progress() as progress:
        found = remote_verification(server, model, plan, asdict(asked), progress)
    _print(found, read_plan(plan), as_json=as_json)
    if not found["passed"]:
        raise typer.Exit(NOT_VERIFIED)


def _check_devices(plan: Plan, devices: int | None) -> None:
    if devices is not None and devices < plan.devices:
        raise UserError(
            f"the plan needs {plan.devices} devices, {devices} are given",
            "--devices",
            f"give at least {plan.devices}, or search with --devices {devices}",
        )


def _print(record: Mapping[str, object], plan: Plan, *, as_json: bool) -> None:
    """A verdict as JSON or as text, whoever gave it."""
    if as_json:
        from planner.requests.plan_json import dumps  # noqa: PLC0415

        print(dumps(record))
        return
    from cli.text import tell  # noqa: PLC0415  brings in rich
    from report.verification import parts  # noqa: PLC0415

    tell(parts(record, plan.graph.name, plan.devices))
