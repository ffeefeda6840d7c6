"""The options of a search, checked, and without MindSpore's names for them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from planner.requests import option_texts as texts
from planner.requests.errors import UserError
from planner.requests.options.option import check_values, flag_of
from planner.requests.options.searches import FROM_ONE_BATCH, SearchOptions

REST: Mapping[str, str] = MappingProxyType(
    {"semi-auto": "portfolio", "auto": "portfolio", "propagation": "propagation"}
)
"""What becomes of operators that are given nothing, and the solver that does it."""
SEARCH_MODES: Mapping[str, str] = MappingProxyType(
    {
        "sharding_propagation": "propagation",
        "dynamic_programming": "dynamic_programming",
        "recursive_programming": "recursive_programming",
    }
)
"""MindSpore's `search_mode`, and the solver that does as much."""
RUN_PHASES: Mapping[int, str] = MappingProxyType({0: "train", 1: "infer"})
"""MindSpore's `run_phase`."""
LEVELS: Mapping[int, str] = MappingProxyType({0: "communication", 1: "memory", 2: "time"})
"""Objective levels of MindSpore's `shard`: most computation for each communication, least memory,
most speed. All plans do the same computation, so the first is the least communication."""


_CUTS = (
    "pipeline", "micro_batch", "recompute", "zero", "interleave", "offload", "ring_attention",
    "stage_meshes",
)  # fmt: skip
"""What is decided for a step that is cut."""


def with_one_batch(options: SearchOptions) -> SearchOptions:
    """The options with the samples of a step as `global_batch` where it is cut into micro-batches
    and stages from the start, else as `batch`.

    Raises:
        UserError: two numbers of samples are given, or none for a step that is cut.
    """
    batch, alias = options.batch, options.global_batch
    if batch is not None and alias is not None:
        what, where = "both are the samples of a step", f"--batch {batch} --global-batch {alias}"
        raise UserError(what, where, "leave one of the two out")
    usual = SearchOptions()
    given = [name for name in _CUTS if getattr(options, name) != getattr(usual, name)]
    kept = given == ["pipeline"] and options.pipeline in {*FROM_ONE_BATCH, "off"}
    if alias is None and (not given or kept):
        return options
    name = next(iter(given), "pipeline")
    if batch is None and alias is None:
        raise UserError(
            "it cuts the batch of a step, and there is none",
            f"{flag_of(SearchOptions, name)} {getattr(options, name)}", "add --batch N",
        )  # fmt: skip
    pipeline = "auto" if options.pipeline in {None, *FROM_ONE_BATCH} else options.pipeline
    samples = alias if batch is None else batch
    return replace(options, batch=None, global_batch=samples, pipeline=pipeline)


def check_degrees(options: SearchOptions, devices: int) -> None:
    """Raise `UserError` for degrees to hold whose product does not divide the devices."""
    stages = options.pipeline if options.stage_meshes == "equal" else None
    named = (("--tp", options.tp), ("--dp", options.dp),
             ("--pp", int(stages) if stages and texts.is_count(stages) else None))  # fmt: skip
    given = {flag: degree for flag, degree in named if degree is not None}
    product = math.prod(given.values())
    if len(given) > 1 and devices % product:
        raise UserError(
            f"degrees of {' x '.join(map(str, given.values()))} = {product} do not divide "
            f"{devices} devices",
            " ".join(f"{flag} {degree}" for flag, degree in given.items()),
            f"choose degrees whose product divides {devices}",
        )


def with_own_names(options: SearchOptions) -> SearchOptions:
    """The options without MindSpore's names.

    Raises:
        UserError: a value is none of those that there are, or contradicts ours.
    """
    check_values(options)
    if options.search_mode is not None:
        mode = options.search_mode
        options = _with(options, "solver", SEARCH_MODES[mode], f"--search-mode {mode}")
    if options.rest == "propagation":
        options = _with(options, "solver", REST[options.rest], f"--rest {options.rest}")
        options = replace(options, rest="auto")
    if options.run_phase is not None:
        number = options.run_phase
        options = _with(options, "phase", RUN_PHASES[number], f"--run-phase {number}")
    if options.level is not None:
        number = options.level
        options = _with(options, "cost", LEVELS[number], f"--level {number}")
    if options.pipeline_stages is not None:
        number = options.pipeline_stages
        options = _with(options, "pipeline", str(number), f"--pipeline-stages {number}")
    if options.enable_parallel_optimizer:
        options = _with(options, "zero", "1", "--enable-parallel-optimizer")
    if options.gradient_accumulation is not None:
        micro = _micro_batch(options, options.gradient_accumulation)
        said = f"--gradient-accumulation {options.gradient_accumulation}"
        options = _with(options, "micro_batch", str(micro), said)
    return replace(
        options, search_mode=None, run_phase=None, level=None, pipeline_stages=None,
        enable_parallel_optimizer=False, gradient_accumulation=None,
    )  # fmt: skip


def _micro_batch(options: SearchOptions, steps: int) -> int:
    """Samples of a micro-batch where gradients of so many are added up."""
    batch = options.batch or options.global_batch
    if batch is None:
        raise UserError(
            "gradients are accumulated over micro-batches, and there is no batch",
            f"--gradient-accumulation {steps}", "add --batch N",
        )  # fmt: skip
    if batch % steps:
        fitting = min((d for d in range(1, batch + 1) if batch % d == 0),
                      key=lambda d: (abs(d - steps), d))  # fmt: skip
        raise UserError(
            f"a batch of {batch} samples does not divide into {steps} micro-batches",
            f"--gradient-accumulation {steps}",
            f"--gradient-accumulation {fitting}, or --batch {-(-batch // steps) * steps}",
        )
    return batch // steps


def _with(options: SearchOptions, name: str, value: str, said: str) -> SearchOptions:
    """The options with one of ours, unless it is given too and says otherwise."""
    given, usual = getattr(options, name), getattr(SearchOptions(), name)
    if given not in {usual, value}:
        own = f"--{name.replace('_', '-')} {given}"
        raise UserError("it says the same option twice", f"{said} {own}", f"leave {said} out")
    changes: dict[str, str] = {name: value}
    return replace(options, **changes)  # type: ignore[arg-type]
