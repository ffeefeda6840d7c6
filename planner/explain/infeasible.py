"""Why nothing fits, in the user's terms, and what would: every change is applied before it is told.

The reasons are a smallest set: with any one of them gone, something fits. They are found by taking
away pins and degrees one after the other as long as nothing fits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from costmodel.memory import Optimizer
from ir.batch import BatchError, find_batch
from ir.dialects import TARGETS, Dialect
from ir.graph import OpGraph
from ir.plan_estimate import Estimate
from planner.constraints.degrees import degrees_text
from planner.constraints.pins import pin_text
from planner.explain.trials import Trials
from planner.pipeline.feasibility_probe import FeasibilityProbe
from planner.pipeline.infeasibility import next_job_size
from planner.request import Deadline, InfeasibleError, RequestError, SearchRequest
from planner.requests.errors import UserError
from report.explanation import Record
from topology.cluster import Cluster
from topology.errors import TopologyError
from topology.units import format_bytes

GIB = 2**30
MOST_CONSUMERS = 4
MOST_HALVINGS = 12
"""How often the batch is halved."""
MORE = 1.3
"""Factor on the memory while nothing fits."""
MOST_MEMORY = 8
"""Amounts of memory that are tried."""
MOST_DOUBLINGS = 6
"""How often the devices are doubled."""
ALWAYS_DECIDED = ("sequence_parallel", "context_parallel")
DECISIONS = (
    "recompute", "zero", "micro_batch", "pipeline", "interleave", "offload", *ALWAYS_DECIDED,
)  # fmt: skip
"""What a request may fix; all but the last ones only of a step that is cut."""
TRIALS = (24, 40)
"""Trials that are made at least and at most, per unit of effort."""
OPERATORS = 24_000
"""Operators of all trials together, per unit of effort: large models are tried less often."""

Report = Callable[[str], None]
Grow = Callable[[int], Cluster]
"""The same machine with so many devices; raises where it has not so many."""


@dataclass(frozen=True, slots=True)
class Blame(Record):
    """One reason why nothing fits."""

    kind: str
    """`pin`, `degree`, `decision` (such as `--zero 0`), `memory` or `target`."""
    name: str
    """The pin or degree as it was written; what holds the memory."""
    text: str
    nbytes: float | None
    """Per device, of a consumer of memory."""


@dataclass(frozen=True, slots=True)
class Fix(Record):
    """One change with which something fits; it was tried."""

    kind: str
    """`pin`, `degree`, `decision`, `memory`, `batch`, `target`, `devices` or `optimizer`."""
    change: str
    """As an option, such as `--batch 32`."""
    step_time_s: float
    """Of the plan that was found then."""
    peak_memory_bytes: float
    text: str


@dataclass(frozen=True, slots=True)
class Infeasibility(Record):
    """Why nothing fits, and what would."""

    needed_bytes: float
    """Per device, of the smallest plan found."""
    available_bytes: float
    reasons: tuple[Blame, ...]
    """The smallest set; pins and degrees first, then the largest consumers of memory."""
    fixes: tuple[Fix, ...]
    """The cheapest first: what costs nothing, then time, then machines."""
    recompute: str
    """Whether computing again was offered to the search."""
    complete: bool
    """All changes were tried before the effort was used up."""
    interrupted: bool = False
    """The user did not wait for all of them (Ctrl-C)."""
    out_of_time: bool = False
    """The time limit came before all of them were tried."""


def why_infeasible(
    graph: OpGraph,
    cluster: Cluster,
    request: SearchRequest,
    error: InfeasibleError,
    grow: Grow,
    *,
    report: Report = lambda _: None,
) -> Infeasibility:
    """The reasons, and changes that were tried and fit; Ctrl-C and the time limit end that with
    those found so far.

    Args:
        graph: as imported.
        cluster: the machine.
        request: what was asked; its time limit is of the look. Of one with a global batch the
            changes are those that its search has tried.
        error: what the search for it raised.
        grow: makes the machine larger.
        report: receives progress.
    """
    fewest, most = TRIALS
    count = min(max(OPERATORS // max(len(graph.ops), 1), fewest), most) * request.effort
    deadline = Deadline.after(request.time_limit_s)
    trials = Trials(graph, cluster, report, count, deadline)
    if error.interrupted:
        trials.end()
    blamed: list[_Without] = []
    fixes: list[Fix] = []
    try:
        blamed += _smallest(trials, request)
        if request.global_batch is None:
            fixes += _fixes(trials, request, error, blamed, grow)
        else:
            fixes += _dropped(trials, blamed)
    except KeyboardInterrupt:
        trials.end()
    dialect = [_dialect_blame(request, fix) for fix in fixes if fix.kind == "target"]
    offered = request.training and not graph.is_training_step
    return Infeasibility(
        needed_bytes=error.needed_bytes,
        available_bytes=error.available_bytes,
        reasons=(*(_blame(*each) for each in blamed), *dialect[:1], *_consumers(error)),
        fixes=tuple(sorted(fixes, key=lambda fix: _is_of_other_cards(fix, cluster))),
        recompute="offered, and not enough" if offered else "nothing is kept for a backward pass",
        complete=not trials.is_over,
        interrupted=trials.interrupted,
        out_of_time=trials.is_late,
    )


def _is_of_other_cards(fix: Fix, cluster: Cluster) -> bool:
    """Whether a change needs more memory than the card has."""
    return fix.kind == "memory" and fix.peak_memory_bytes > float(cluster.usable_memory_bytes)


def _consumers(error: InfeasibleError) -> Iterator[Blame]:
    """The largest consumers of memory."""
    for cause, nbytes in sorted(error.contributors.items(), key=lambda kv: -kv[1])[:MOST_CONSUMERS]:
        yield Blame("memory", cause, f"{cause}: {format_bytes(nbytes)} per device", nbytes)


_Held: TypeAlias = tuple[str, int]
"""Which pin or degree of a request."""
_Without: TypeAlias = tuple[str, str, SearchRequest]
"""Kind and text of what is to blame, and the request without it."""


def _smallest(trials: Trials, request: SearchRequest) -> list[_Without]:
    """Pins and degrees without any of which something fits: kind, text, the request without it."""
    every = _every(request)
    held = list(every)
    if not held or not trials.fits(_only(request, [])):
        return []
    for each in list(held):
        rest = [other for other in held if other != each]
        trials.report(f"without {_text(request, each)}")
        if not trials.is_over and not trials.fits(_only(request, rest)):
            held = rest
    return [
        (each[0], _text(request, each), _only(request, [o for o in every if o != each]))
        for each in held
    ]


def _every(request: SearchRequest) -> list[_Held]:
    """All that the request holds the search to."""
    held: list[_Held] = [("pin", i) for i in range(len(request.pins))]
    held += [("degree", i) for i in range(len(request.degrees))]
    held += [("decision", i) for i, name in enumerate(DECISIONS) if _is_decided(request, name)]
    return held


def _is_decided(request: SearchRequest, name: str) -> bool:
    """Whether a request fixes a decision; that nothing rests on the host is usual."""
    usual = {"auto", "off"} if name == "offload" else {"auto"}
    open_to_it = name in ALWAYS_DECIDED or request.global_batch is not None
    return open_to_it and getattr(request, name) not in usual


def _only(request: SearchRequest, held: Sequence[_Held]) -> SearchRequest:
    opened: dict[str, Any] = {
        name: "auto"
        for i, name in enumerate(DECISIONS)
        if ("decision", i) not in held and _is_decided(request, name)
    }
    return replace(
        request,
        **opened,
        pins=tuple(pin for i, pin in enumerate(request.pins) if ("pin", i) in held),
        degrees=tuple(own for i, own in enumerate(request.degrees) if ("degree", i) in held),
    )


def _text(request: SearchRequest, held: _Held) -> str:
    kind, number = held
    if kind == "pin":
        return pin_text(*request.pins[number])
    if kind == "decision":
        name = DECISIONS[number]
        return f"--{name.replace('_', '-')} {getattr(request, name)}"
    return degrees_text([request.degrees[number]])


def _blame(kind: str, text: str, _: SearchRequest) -> Blame:
    return Blame(kind, text, f"{text} leaves too little to choose from", None)


def _dialect_blame(request: SearchRequest, fix: Fix) -> Blame:
    text = f"what --target {request.target} can express: {fix.change} fits"
    return Blame("target", request.target, text, None)


def _fixes(
    trials: Trials,
    request: SearchRequest,
    error: InfeasibleError,
    blamed: Sequence[_Without],
    grow: Grow,
) -> Iterator[Fix]:
    yield from _dropped(trials, blamed)
    yield from _in_stages(trials, request)
    yield from _enough_memory(trials, request, error)
    yield from _other_target(trials, request)
    yield from _smaller_batch(trials, request)
    if request.training and request.optimizer.keeps_moments:
        sgd = replace(request, optimizer=Optimizer.SGD)
        yield from _tried(trials, "optimizer", "--optimizer sgd", sgd)
    yield from _more_devices(trials, request, grow)


def _tried(
    trials: Trials,
    kind: str,
    change: str,
    request: SearchRequest,
    cluster: Cluster | None = None,
) -> Iterator[Fix]:
    """The change, if something fits with it."""
    if trials.is_over:
        return
    trials.report(f"trying {change}")
    found = trials.estimate(request, cluster)
    if found is not None:
        yield _fix(kind, change, found)


def _fix(kind: str, change: str, found: Estimate) -> Fix:
    step_s, peak = found.step_time_s, found.peak_memory_bytes
    text = f"{change}: a step of {step_s:.4g} s in {format_bytes(peak)} per device"
    return Fix(kind, change, step_s, peak, text)


def _in_stages(trials: Trials, request: SearchRequest) -> Iterator[Fix]:
    """Stages, where micro-batches alone are not enough."""
    if trials.is_over or not trials.states_fit(request):
        return
    asked = trials.in_micro_batches(request)
    if asked is not None:
        change = "--pipeline auto"
        yield from _tried(trials, "decision", change, replace(asked, pipeline="auto"))


def _other_target(trials: Trials, request: SearchRequest) -> Iterator[Fix]:
    """Other targets; those that can express the same are tried once."""
    same: dict[Dialect, list[str]] = {}
    for target, dialect in TARGETS.items():
        if dialect != TARGETS.get(request.target):
            same.setdefault(dialect, []).append(target)
    for first, *others in same.values():
        asked = replace(request, target=first, all_to_all=True)
        for found in _tried(trials, "target", f"--target {first}", asked):
            yield found
            for other in others:
                change = f"--target {other}"
                yield replace(found, change=change, text=change + found.text[len(found.change) :])


def _dropped(trials: Trials, blamed: Sequence[_Without]) -> Iterator[Fix]:
    """Each pin or degree that is enough to leave out; else one after the other until it is."""
    alone = [
        fix for kind, text, rest in blamed for fix in _tried(trials, kind, f"without {text}", rest)
    ]
    if alone or not blamed:
        yield from alone
        return
    dropped: list[str] = []
    while blamed and not trials.is_over:
        kind, text, rest = blamed[0]
        dropped.append(text)
        found = [*_tried(trials, kind, f"without {' and '.join(dropped)}", rest)]
        if found:
            yield from found
            return
        blamed = _smallest(trials, rest)


def _enough_memory(trials: Trials, request: SearchRequest, error: InfeasibleError) -> Iterator[Fix]:
    """The least memory found with which something fits."""
    if not math.isfinite(error.needed_bytes) or trials.is_over:
        return
    trials.report("trying --memory")
    room = trials.room(request)
    if room is None:
        return
    unit, name = (GIB, "GiB") if error.needed_bytes >= 4 * GIB else (2**20, "MiB")
    least, known = error.available_bytes, error.needed_bytes
    if trials.in_micro_batches(request) is None or not trials.states_fit(request):
        least, known = _least_memory(room, error)
    below, amount = math.ceil(least / unit) - 1, math.ceil(known / unit)
    best: tuple[int, Fix] | None = None
    for _ in range(MOST_MEMORY):
        change = f"--memory {amount}{name}"
        trials.report(f"trying {change}")
        found = trials.within(room, float(amount * unit))
        if found is not None:
            best = amount, _fix("memory", change, found)
        else:
            below = amount
        amount = math.ceil(amount * MORE) if best is None else (below + best[0]) // 2
        if amount == below:
            break
    if best is not None:
        yield best[1]


def _least_memory(room: FeasibilityProbe, error: InfeasibleError) -> tuple[float, float]:
    """Bytes that every plan needs, and those of the smallest choice that is known."""
    least = room.least()
    known = (least.peak_bytes, error.needed_bytes)
    return (
        max(least.bound_bytes, error.available_bytes),
        min(nbytes for nbytes in known if nbytes >= least.bound_bytes),
    )


def _smaller_batch(trials: Trials, request: SearchRequest) -> Iterator[Fix]:
    """The largest of the halves of the batch that fits."""
    if trials.is_over or not trials.states_fit(request):
        return
    if trials.in_micro_batches(request) is not None:
        return  # The search split it as far as it goes.
    batch = request.batch or trials.graph.batch or _batch_of(trials.graph)
    for _ in range(MOST_HALVINGS):
        if batch < 2 or batch % 2:
            return
        batch //= 2
        found = [*_tried(trials, "batch", f"--batch {batch}", replace(request, batch=batch))]
        if found:
            yield from found
            return


def _batch_of(graph: OpGraph) -> int:
    try:
        return find_batch(graph)
    except BatchError:
        return 0


def _more_devices(trials: Trials, request: SearchRequest, grow: Grow) -> Iterator[Fix]:
    """The smallest of some larger jobs that fits."""
    devices = trials.cluster.devices
    for _ in range(MOST_DOUBLINGS):
        devices = next_job_size(devices + 1) if devices < 8 else devices * 2
        try:
            larger = grow(devices)
        except (TopologyError, RequestError, UserError):
            return
        found = [*_tried(trials, "devices", f"--devices {devices}", request, larger)]
        if found:
            yield from found
            return
