"""The options of a search, in the forms that they have on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import ClassVar, TypedDict

from costmodel.software import AUTO, software_names
from planner.requests import option_texts as texts
from planner.requests.errors import UserError
from planner.requests.sources import Document


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """What may be asked of a search beside the model; `planner search --help` explains each."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}
    """A name that is no option is an error where a service reads them."""

    devices: int | None = None
    cluster: str = "atlas-800t-a2"
    """A bundled name, or a name that the caller looks up."""
    product: str | None = None
    bind: tuple[str, ...] = ()
    batch: int | None = None
    global_batch: int | None = None
    micro_batch: str = "auto"
    pipeline: str = "auto"
    recompute: str = "auto"
    zero: str = "auto"
    sequence_parallel: str = "auto"
    context_parallel: str = "auto"
    ring_attention: str = "off"
    overlap: str = "auto"
    profile: str = AUTO
    """The software that runs the plan."""
    interleave: str = "auto"
    offload: str = "off"
    stage_meshes: str = "equal"
    fully_use_devices: bool = False
    cut_positions: bool = False
    search_mode: str | None = None
    """MindSpore's name of a solver; this and the next are other names of options above and below.
    """
    pipeline_stages: int | None = None
    gradient_accumulation: int | None = None
    enable_parallel_optimizer: bool = False
    run_phase: int | None = None
    level: int | None = None
    sequence: int | None = None
    phase: str = "train"
    optimizer: str = "adamw"
    dtype: str | None = None
    memory: str | None = None
    dataset_strategy: str | None = None
    target: str = "mindspore"
    solver: str = "portfolio"
    time_limit: float = 30.0
    effort: int = 1
    attention: str = "fused"
    all_to_all: bool = True
    rule: tuple[str, ...] = ()
    rules: Document | None = None
    """A file of rules, one on each line."""
    pin: tuple[str, ...] = ()
    rest: str = "auto"
    """What becomes of operators without a pin."""
    shard: Document | None = None
    """Calls of MindSpore's `shard`, YAML or JSON."""
    keep_close_to: Document | None = None
    """An older plan.json."""
    max_changes: int | None = None
    """Operators that may be split otherwise than there."""
    cost: str = "time"


RECOMPUTE = ("auto", "none", "selective", "full")
ZERO = ("auto", "0", "1", "2", "3")
SEQUENCE_PARALLEL = ("auto", "on", "off")
RING_ATTENTION = ("auto", "off")
OVERLAP = ("auto", "none")
OFFLOAD = ("auto", "on", "off")
STAGE_MESHES = ("equal", "any")
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


class Decisions(TypedDict):
    """Fields of a request."""

    recompute: str
    zero: str
    sequence_parallel: str
    context_parallel: str
    ring_attention: str
    overlap: str
    profile: str
    interleave: str
    offload: str
    stage_meshes: str
    fully_use_devices: bool
    cut_positions: bool


def decisions(options: SearchOptions) -> Decisions:
    """What is decided for the search.

    Raises:
        UserError: a value is none of those that there are, or needs a global batch.
    """
    found = Decisions(
        recompute=texts.one_of(options.recompute, RECOMPUTE, "--recompute", "way"),
        zero=texts.one_of(options.zero, ZERO, "--zero", "stage of ZeRO"),
        sequence_parallel=texts.one_of(
            options.sequence_parallel, SEQUENCE_PARALLEL, "--sequence-parallel", "choice"
        ),
        context_parallel=_context_parallel(options.context_parallel),
        ring_attention=texts.one_of(
            options.ring_attention, RING_ATTENTION, "--ring-attention", "choice"
        ),
        overlap=texts.one_of(options.overlap, OVERLAP, "--overlap", "choice"),
        profile=texts.one_of(
            options.profile, (AUTO, *software_names()), "--profile", "software profile"
        ),
        interleave=_interleave(options.interleave),
        offload=texts.one_of(options.offload, OFFLOAD, "--offload", "choice"),
        stage_meshes=texts.one_of(options.stage_meshes, STAGE_MESHES, "--stage-meshes", "choice"),
        fully_use_devices=options.fully_use_devices,
        cut_positions=options.cut_positions,
    )
    needing = (
        ("recompute", found["recompute"], "auto"), ("zero", found["zero"], "auto"),
        ("interleave", found["interleave"], "auto"), ("offload", found["offload"], "off"),
        ("ring-attention", found["ring_attention"], "off"),
        ("stage-meshes", found["stage_meshes"], "equal"),
    )  # fmt: skip
    for name, value, usual in needing:
        if value != usual and options.global_batch is None:
            batch = options.batch
            raise UserError(
                "it is decided for a step that may be cut, and there is no global batch",
                f"--{name} {value}",
                f"--global-batch {batch or 'N'}" + (" in place of --batch" if batch else ""),
            )
    return found


def _interleave(value: str) -> str:
    if value == "auto" or texts.is_count(value):
        return value
    raise UserError(
        f"{value!r} is none of them", f"--interleave {value}", "use auto or a number of 1 or more"
    )


def _context_parallel(value: str) -> str:
    if value in {"auto", "off"} or texts.is_count(value):
        return value
    raise UserError(
        f"{value!r} is none of them", f"--context-parallel {value}",
        "use auto, off or a number of 1 or more",
    )  # fmt: skip


def with_own_names(options: SearchOptions) -> SearchOptions:
    """The options without MindSpore's names.

    Raises:
        UserError: a value is none of those that there are, or contradicts ours.
    """
    if options.search_mode is not None:
        mode = texts.one_of(options.search_mode, SEARCH_MODES, "--search-mode", "search mode")
        options = _with(options, "solver", SEARCH_MODES[mode], f"--search-mode {mode}")
    if texts.one_of(options.rest, REST, "--rest", "way") == "propagation":
        options = _with(options, "solver", REST[options.rest], f"--rest {options.rest}")
        options = replace(options, rest="auto")
    if options.run_phase is not None:
        number = _known(options.run_phase, RUN_PHASES, "--run-phase")
        options = _with(options, "phase", RUN_PHASES[number], f"--run-phase {number}")
    if options.level is not None:
        number = _known(options.level, LEVELS, "--level")
        options = _with(options, "cost", LEVELS[number], f"--level {number}")
    if options.pipeline_stages is not None:
        number = texts.at_least_one(options.pipeline_stages, "--pipeline-stages")
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


def _known(value: int, known: Mapping[int, str], where: str) -> int:
    if value in known:
        return value
    words = ", ".join(f"{number} ({name})" for number, name in known.items())
    raise UserError(f"there is no {value}", f"{where} {value}", f"use one of {words}")


def _micro_batch(options: SearchOptions, steps: int) -> int:
    """Samples of a micro-batch where gradients of so many are added up."""
    texts.at_least_one(steps, "--gradient-accumulation")
    batch = options.global_batch
    if batch is None:
        given = options.batch
        raise UserError(
            "gradients are accumulated over the micro-batches of a global batch, and there is none",
            f"--gradient-accumulation {steps}",
            f"--global-batch {given or 'N'}" + (" in place of --batch" if given else ""),
        )
    if batch % steps:
        fitting = min((d for d in range(1, batch + 1) if batch % d == 0),
                      key=lambda d: (abs(d - steps), d))  # fmt: skip
        raise UserError(
            f"a global batch of {batch} samples does not divide into {steps} micro-batches",
            f"--gradient-accumulation {steps}",
            f"--gradient-accumulation {fitting}, or --global-batch {-(-batch // steps) * steps}",
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
