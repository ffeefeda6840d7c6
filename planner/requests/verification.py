"""A plan put to the proof on virtual devices, and the verdict as one JSON object."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated, ClassVar

from planner.requests.errors import UserError
from planner.requests.options.option import Group, Option, check_values

if TYPE_CHECKING:
    from executors.judgement import Judgement
    from executors.placement import Array
    from executors.verdict import Output, Verdict
    from ir.plan import Plan
    from planner.requests.sources import ModelSource


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationOptions:
    """The options of a verification; `planner verify --help` explains each."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}
    """A name that is no option is an error where a service reads them."""

    # fmt: off
    scale: Annotated[str, Option(
        group=Group.QUESTION, choices=("small", "full"), noun="scale",
        help="small runs the plan with extents and layers cut to the smallest that its splits "
        "allow, full as it is.",
    )] = "small"
    seed: Annotated[int, Option(
        group=Group.QUESTION, value="N", help="Other random numbers for inputs and weights.",
    )] = 0
    # fmt: on


def verified(
    model: ModelSource,
    plan: Plan,
    options: VerificationOptions,
    report: Callable[[str], None] = lambda _: None,
) -> tuple[Verdict, list[str]]:
    """The verdict of the reference executor, and what was made smaller for it.

    Raises:
        UserError: an option is wrong, or the plan cannot be judged so.
    """
    check_values(options)
    smaller, notes = scaled(plan, options.scale)
    report(f"reading {model.name}")
    values = given_numbers(model, plan, smaller, options.seed)
    report(f"running {len(smaller.graph.ops)} operators whole and on {plan.devices} devices")
    return judged(smaller, values), notes


def judged(plan: Plan, values: dict[str, Array]) -> Verdict:
    """The verdict on a plan with these numbers."""
    from executors.verdict import NotComparableError  # noqa: PLC0415  brings in the reference
    from executors.verdict import verify as judge  # noqa: PLC0415

    try:
        return judge(plan, values)
    except NotComparableError as error:
        raise UserError(str(error)) from error


def scaled(plan: Plan, scale: str) -> tuple[Plan, list[str]]:
    """The plan with extents and layers cut as far as its splits allow, and what was cut."""
    if scale == "full":
        return plan, []
    from executors.rescaling import rescaled  # noqa: PLC0415
    from executors.shrink import ShrinkError, shrunk  # noqa: PLC0415

    try:
        small = shrunk(plan)
    except ShrinkError as error:
        raise UserError(str(error), "--scale small", "use --scale full") from error
    notes = [
        f"tested at reduced size: {name} {old} > {new}" for name, (old, new) in small.sizes.items()
    ]
    if small.layers_left_out:
        notes.append(f"{small.layers_left_out} equal layers were left out")
    notes += _fewer(plan, small.plan)
    return rescaled(small.plan, plan), notes


def _fewer(plan: Plan, small: Plan) -> list[str]:
    """How many micro-batches run, where not all do."""
    count, old = small.pipeline.micro_batches, plan.pipeline.micro_batches
    return [] if count == old else [f"{count} of {old} micro-batches are run"]


def given_numbers(model: ModelSource, plan: Plan, smaller: Plan, seed: int) -> dict[str, Array]:
    """Numbers of everything that no operator makes, after a check that the model is the plan's."""
    from executors.reference import given_tensors  # noqa: PLC0415
    from executors.step import batch_graph  # noqa: PLC0415
    from executors.values import numbers  # noqa: PLC0415
    from planner.repricing.planned_choice import planned_graph  # noqa: PLC0415

    graph = planned_graph(plan, model.graph)
    whole = replace(smaller, graph=batch_graph(smaller))
    names = given_tensors(whole)
    return numbers(whole.graph, names, model.numbers(names, graph.symbols), seed)


def verdict_record(verdict: Verdict, notes: Sequence[str]) -> dict[str, object]:
    """The answer of `planner verify --json`; an error without bound is null."""
    return {
        "status": "verified" if verdict.passed else "not verified",
        "outputs": shown_outputs(verdict.outputs),
        "missing": list(verdict.missing),
        "not_verified": dict(verdict.not_verified),
        "mismatches": [asdict(m) for m in verdict.mismatches],
        "messages": verdict.messages,
        "notes": list(notes),
    }


def judgement_record(judgement: Judgement, notes: Sequence[str]) -> dict[str, object]:
    """The answer of `planner verify --executor … --json`."""
    return {
        "status": "verified" if judgement.passed else "not verified",
        "judge": judgement.judge,
        "outputs": shown_outputs(judgement.outputs),
        "not_verified": dict(judgement.not_run),
        "messages": [
            asdict(c) | {"agrees": c not in judgement.differences} for c in judgement.comparisons
        ],
        "memory_bytes": judgement.memory_bytes,
        "notes": [*notes, *judgement.notes],
    }


def shown_outputs(outputs: Sequence[Output]) -> list[dict[str, object]]:
    """Outputs for JSON; an error without bound is null."""
    return [{**asdict(o), "error": o.error if math.isfinite(o.error) else None} for o in outputs]
