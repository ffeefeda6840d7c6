"""`planner verify`: run a plan on virtual devices and compare it with the whole model."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

import typer

from cli import options
from cli.arguments import one_of
from cli.errors import UserError
from cli.judges import EXECUTORS, REFERENCE, check_judge, judgement
from cli.progress import Progress

if TYPE_CHECKING:
    from pathlib import Path

    from executors.judgement import Judgement
    from executors.placement import Array
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
SCALES = ("small", "full")
BACKENDS = ("reference", "onnxruntime")


def verify(  # noqa: PLR0913  one parameter per option
    model: options.Model,
    plan: options.PlanPath,
    *,
    scale: options.Scale = "small",
    executor: options.Executor = "reference",
    mindspore_python: options.MindSporePython = None,
    backend: options.Backend = "reference",
    devices: options.VirtualDevices = None,
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Run a plan on virtual devices: are the numbers and the messages those that it promises?"""
    one_of(scale, SCALES, "--scale", "scale")
    _check_backend(backend)
    one_of(executor, EXECUTORS, "--executor", "executor")
    check_judge(executor, mindspore_python)
    from ir.plan_file import read_plan  # noqa: PLC0415  brings in pydantic

    found = read_plan(plan)
    _check_devices(found, devices)
    with Progress() as progress:
        smaller, notes = _scaled(found, scale)
        progress(f"reading {model.name}")
        values = _values(model, found, smaller, seed)
        count = f"{len(smaller.graph.ops)} operators"
        progress(f"running {count} whole and on {found.devices} devices")
        verdict: Verdict | Judgement = (
            _judged(smaller, values, backend)
            if executor == REFERENCE
            else judgement(executor, smaller, values, mindspore_python)
        )
    _print(verdict, found, notes, as_json=as_json)
    if not verdict.passed:
        raise typer.Exit(NOT_VERIFIED)


def _check_backend(backend: str) -> None:
    one_of(backend, BACKENDS, "--backend", "back end")
    if backend == "onnxruntime" and find_spec("onnxruntime") is None:
        raise UserError(
            "onnxruntime is not installed",
            "--backend onnxruntime",
            "pip install 'parallel-planner[fast]', or use --backend reference",
        )


def _judged(plan: Plan, values: dict[str, Array], backend: str) -> Verdict:
    from executors.evaluation import Evaluator  # noqa: PLC0415
    from executors.fast_evaluation import FastEvaluator  # noqa: PLC0415
    from executors.verdict import NotComparableError  # noqa: PLC0415  brings in the reference
    from executors.verdict import verify as judge  # noqa: PLC0415

    try:
        runner = FastEvaluator() if backend == "onnxruntime" else Evaluator()
        return judge(plan, values, runner)
    except NotComparableError as error:
        raise UserError(str(error)) from error


def _check_devices(plan: Plan, devices: int | None) -> None:
    if devices is not None and devices < plan.devices:
        raise UserError(
            f"the plan needs {plan.devices} devices, {devices} are given",
            "--devices",
            f"give at least {plan.devices}, or search with --devices {devices}",
        )


def _scaled(plan: Plan, scale: str) -> tuple[Plan, list[str]]:
    if scale == "full":
        return plan, []
    from executors.rescaling import rescaled  # noqa: PLC0415
    from executors.shrink import ShrinkError, shrunk  # noqa: PLC0415

    try:
        small = shrunk(plan)
    except ShrinkError as error:
        raise UserError(str(error), "--scale small", "use --scale full") from error
    notes = [f"{name}: {old} became {new}" for name, (old, new) in small.sizes.items()]
    if small.layers_left_out:
        notes.append(f"{small.layers_left_out} equal layers were left out")
    return rescaled(small.plan, plan), notes


def _values(model: Path, plan: Plan, smaller: Plan, seed: int) -> dict[str, Array]:
    """Numbers of everything that no operator makes, after a check that the model is the plan's."""
    from executors.reference import given_tensors  # noqa: PLC0415
    from executors.values import numbers  # noqa: PLC0415
    from importers.model_file import model_format  # noqa: PLC0415
    from planner.same_graph import bindings, planned_graph  # noqa: PLC0415

    bind = bindings(plan)
    source = model_format(model)
    graph = source.graph(model, bind)
    planned_graph(plan, graph)
    names = given_tensors(smaller)
    return numbers(smaller.graph, names, source.numbers(model, names, graph.symbols), seed)


def _print(verdict: Verdict | Judgement, plan: Plan, notes: list[str], *, as_json: bool) -> None:
    from cli.judgement_text import judgement_record, print_judgement  # noqa: PLC0415
    from cli.plan_json import dumps  # noqa: PLC0415
    from cli.text import page  # noqa: PLC0415  brings in rich
    from cli.verdict_text import print_verdict, verdict_record  # noqa: PLC0415
    from executors.verdict import Verdict  # noqa: PLC0415

    if isinstance(verdict, Verdict):
        record, show = verdict_record(verdict, notes), partial(print_verdict, verdict)
    else:
        record, show = judgement_record(verdict, notes), partial(print_judgement, verdict)
    if as_json:
        print(dumps(record))
        return
    with page() as out:
        show(plan, notes, out)
