"""From checked options to a `SearchRequest`: soft pins, an older plan and degrees too."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from costmodel.memory import Optimizer
from ir.plan import Plan
from ir.plan_file import plan_from_json
from planner.candidates.operators import splits_in
from planner.constraints.degrees import parse_degrees
from planner.request import PROMISING, Cuts, RequestError, SearchRequest
from planner.requests import option_texts as texts
from planner.requests.errors import UserError
from planner.requests.option_texts import pins as hard_pins
from planner.requests.options.option import check_values, declared
from planner.requests.options.searches import SearchOptions
from planner.requests.search_options import with_one_batch
from planner.requests.sources import Document
from planner.solvers import RECURSIVE

SoftPins = tuple[tuple[str, Cuts, float], ...]


def split_pins(texts: Sequence[str]) -> tuple[list[str], SoftPins]:
    """Pins that must be kept, as text, and those with a price, `NAME=CUTS@SECONDS`.

    Raises:
        UserError: a price is no number of seconds above 0.
    """
    hard: list[str] = []
    soft: list[tuple[str, Cuts, float]] = []
    for text in texts:
        pin, at, price = text.rpartition("@")
        if not at or ")" in price or not pin.rstrip().endswith(")"):
            hard.append(text)
            continue
        weight_s = _seconds(price, text)
        soft += [(name, cuts, weight_s) for name, cuts in hard_pins([pin])]
    return hard, tuple(sorted(soft))


def _seconds(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise UserError(
            f"{text!r} is no price of a pin",
            f"--pin {where}",
            "write the seconds of a step that it may cost, such as --pin 'NAME=((2,4),(4,1))@0.01'",
        )
    return value


def kept_close(request: SearchRequest, plan: Document | None, most: int | None) -> SearchRequest:
    """The request that changes at most so many operators of an older plan.

    Raises:
        UserError: one of the two is missing, or the number is below 0.
        PlanFileError: the text is no plan.
    """
    if plan is None and most is None:
        return request
    if plan is None or most is None or most < 0:
        raise UserError(
            "an older plan and the number of operators that may change go together",
            "--keep-close-to" if most is None else f"--max-changes {most}",
            "such as --keep-close-to plan.json --max-changes 5",
        )
    old = plan_from_json(plan.text, plan.name)
    return replace(
        request,
        close_to=splits_in(old),
        close_mesh=old.mesh,
        close_parts=_parts_in(old) if request.global_batch is not None else (),
        max_changes=most,
    )


def _parts_in(old: Plan) -> tuple[tuple[str, int], ...]:
    """Operators that are not on the first part of the machine, with the part that has them."""
    parts = old.pipeline.parts
    return tuple((op.name, op.stage % parts) for op in old.operators if op.stage % parts)


def with_restriction(request: SearchRequest, text: str, where: str) -> SearchRequest:
    """The request that is held to degrees, such as `tp=8,dp=2`, or to a pin.

    With a global batch `zero3` is ZeRO's stage of all parameters that have copies, `pp` the number
    of stages and `mb` the samples of a micro-batch.

    Raises:
        RequestError: it is neither, or the request cannot have it.
    """
    if "(" in text:
        hard, soft = split_pins([text])
        pins = tuple(sorted({*request.pins, *hard_pins(hard)}))
        return replace(request, pins=pins, soft_pins=(*request.soft_pins, *soft))
    degrees = dict(parse_degrees(text, where))
    stages = degrees.pop("pp", None)
    if stages is not None:
        request = _staged(request, stages, where, text)
    samples = degrees.pop("mb", None)
    if samples is not None:
        request = _in_micro_batches(request, samples, where, text)
    parts = degrees.pop("cp", None)
    if parts is not None:
        request = replace(request, context_parallel="off" if parts == 1 else str(parts))
    if request.global_batch is not None and degrees.pop("zero3", None) is not None:
        request = replace(request, zero="3")
    return replace(request, degrees=tuple({**dict(request.degrees), **degrees}.items()))


def _in_micro_batches(request: SearchRequest, samples: int, where: str, text: str) -> SearchRequest:
    if request.global_batch is None:
        raise RequestError(
            f"a step as one batch has no micro-batches of {samples}\n  at:  {where} {text}\n"
            "  fix: search with --pipeline auto"
        )
    return replace(request, micro_batch=str(samples))


def _staged(request: SearchRequest, stages: int, where: str, text: str) -> SearchRequest:
    if request.global_batch is None:
        if stages == 1:
            return request
        raise RequestError(
            f"a step as one batch has no {stages} stages\n  at:  {where} {text}\n"
            "  fix: search with --pipeline auto"
        )
    return replace(request, pipeline="off" if stages == 1 else str(stages))


def search_request(options: SearchOptions) -> SearchRequest:
    """What the options ask, without what refers to the model or to an older plan.

    Raises:
        UserError: one of them cannot be.
    """
    check_values(options)
    options = with_one_batch(options)
    pins, soft_pins = split_pins(options.pin)
    return replace(
        _kept(options),
        training=options.phase == "train",
        optimizer=Optimizer(options.optimizer),
        batch=options.batch,
        global_batch=options.global_batch,
        pipeline=options.pipeline or PROMISING,
        memory_limit_bytes=texts.memory_bytes(options.memory),
        dataset_strategy=texts.dataset_strategy(options.dataset_strategy),
        solver=_solver(options.solver, options.global_batch),
        effort=options.effort,
        time_limit_s=texts.time_limit_s(options.time_limit),
        fused_attention=options.attention == "fused",
        bind=tuple(sorted(texts.bindings(options.bind).items())),
        rules=texts.rules(options.rule, options.rules),
        pins=texts.pins(pins),
        soft_pins=soft_pins,
        degrees=_degrees(options),
    )


def _kept(options: SearchOptions) -> SearchRequest:
    """A request with the options that it has in the form of the command line: words and flags."""
    fields = SearchRequest.__dataclass_fields__
    kept: dict[str, Any] = {
        each.name: getattr(options, each.name)
        for each in declared(SearchOptions)
        if each.name in fields
        and (each.option.choices or isinstance(each.default, bool))
        and getattr(options, each.name) is not None
    }
    return SearchRequest(**kept)


def _degrees(options: SearchOptions) -> tuple[tuple[str, int], ...]:
    """Degrees to hold in the whole model."""
    given = (("tp", options.tp), ("dp", options.dp), ("ep", options.ep))
    return tuple((name, value) for name, value in given if value is not None)


def _solver(name: str, global_batch: int | None) -> str:
    if name == RECURSIVE and global_batch is not None:
        what, fix = f"{RECURSIVE} plans without stages", "give --batch alone"
        raise UserError(what, f"--solver {RECURSIVE}", fix)
    return name
