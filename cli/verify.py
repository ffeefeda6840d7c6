"""`planner verify`: run a plan on virtual devices and compare it with the whole model."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

import typer

from cli import options, verify_options
from cli.errors import UserError
from cli.judges import EXECUTORS, REFERENCE, check_judge, judgement
from cli.progress import Progress
from cli.remote import Server, remote_verification
from planner.requests.option_texts import one_of
from planner.requests.verification import VerificationOptions

if TYPE_CHECKING:
    from pathlib import Path

    from executors.judgement import Judgement
    from executors.verdict import Verdict
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


def verify(  # noqa: PLR0913  one parameter per option
    model: options.Model,
    plan: options.PlanPath,
    *,
    scale: verify_options.Scale = "small",
    executor: verify_options.Executor = "reference",
    mindspore_python: verify_options.MindSporePython = None,
    devices: verify_options.VirtualDevices = None,
    seed: verify_options.Seed = 0,
    server: Server = None,
    as_json: options.Json = False,
) -> None:
    """Run a plan on virtual devices: are the numbers and the messages those that it promises?"""
    options_of_run = VerificationOptions(scale=scale, seed=seed)
    options_of_run.check()
    one_of(executor, EXECUTORS, "--executor", "executor")
    check_judge(executor, mindspore_python)
    if server is not None:
        _verify_there(server, model, plan, options_of_run, executor, as_json=as_json)
        return
    from ir.plan_file import read_plan  # noqa: PLC0415  brings in pydantic
    from planner.requests.sources import model_file  # noqa: PLC0415
    from planner.requests.verification import given_numbers, judged, scaled  # noqa: PLC0415

    found = read_plan(plan, staged=executor == REFERENCE)
    _check_devices(found, devices)
    with Progress() as progress:
        smaller, notes = scaled(found, scale)
        progress(f"reading {model.name}")
        values = given_numbers(model_file(model), found, smaller, seed)
        count = f"{len(smaller.graph.ops)} operators"
        progress(f"running {count} whole and on {found.devices} devices")
        verdict: Verdict | Judgement = (
            judged(smaller, values)
            if executor == REFERENCE
            else judgement(executor, smaller, values, mindspore_python)
        )
    _print(verdict, found, notes, as_json=as_json)
    if not verdict.passed:
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
    from cli.remote_text import print_verification  # noqa: PLC0415
    from planner.requests.plan_json import dumps  # noqa: PLC0415

    with Progress() as progress:
        found = remote_verification(server, model, plan, asdict(asked), progress)
    if as_json:
        print(dumps(found))
    else:
        print_verification(found)
    if not found["passed"]:
        raise typer.Exit(NOT_VERIFIED)


def _check_devices(plan: Plan, devices: int | None) -> None:
    if devices is not None and devices < plan.devices:
        raise UserError(
            f"the plan needs {plan.devices} devices, {devices} are given",
            "--devices",
            f"give at least {plan.devices}, or search with --devices {devices}",
        )


def _print(verdict: Verdict | Judgement, plan: Plan, notes: list[str], *, as_json: bool) -> None:
    from cli.judgement_text import judgement_record, print_judgement  # noqa: PLC0415
    from cli.text import page  # noqa: PLC0415  brings in rich
    from cli.verdict_text import print_verdict  # noqa: PLC0415
    from executors.verdict import Verdict  # noqa: PLC0415
    from planner.requests.plan_json import dumps  # noqa: PLC0415
    from planner.requests.verification import verdict_record  # noqa: PLC0415

    if isinstance(verdict, Verdict):
        record, show = verdict_record(verdict, notes), partial(print_verdict, verdict)
    else:
        record, show = judgement_record(verdict, notes), partial(print_judgement, verdict)
    if as_json:
        print(dumps(record))
        return
    with page() as out:
        show(plan, notes, out)
