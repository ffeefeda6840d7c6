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
from costmodel.redistribution import UNREACHABLE_S
from ir.batch import BatchError, find_batch
from ir.graph import OpGraph
from ir.plan import Plan
from planner.asking.errors import UserError
from planner.degrees import degrees_text
from planner.dialects import TARGETS
from planner.explain.posed import QUICK
from planner.explain.records import Record
from planner.fit import next_job_size
from planner.joint import search_whole
from planner.pins import pin_text
from planner.request import InfeasibleError, RequestError, SearchRequest
from planner.search import search
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
"""What a request may fix; all but the last ones only with a global batch."""
TRIALS = (10, 40)
"""Searches that are made at least and at most, per unit of effort."""
OPERATORS = 24_000
"""Operators of all searches together, per unit of effort: large models are searched less often."""

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


@dataclass(slots=True)
class _Trials:
    graph: OpGraph
    cluster: Cluster
    report: Report
    left: int
    """Searches that may still be made."""

    @property
    def is_over(self) -> bool:
        return self.left <= 0

    def plan(self, request: SearchRequest, cluster: Cluster | None = None) -> Plan | None:
        """A plan that fits; None if none was found, or the request cannot be."""
        self.left -= 1
        quick = replace(request, solver=QUICK, time_limit_s=None)
        find = search if request.global_batch is None else search_whole
        try:
            return find(self.graph, cluster or self.cluster, quick)
        except (InfeasibleError, RequestError, BatchError, TopologyError):
            return None


def why_infeasible(
    graph: OpGraph,
    cluster: Cluster,
    request: SearchRequest,
    error: InfeasibleError,
    grow: Grow,
    *,
    report: Report = lambda _: None,
) -> Infeasibility:
    """The reasons, and changes that were tried and fit.

    Args:
        graph: as imported.
        cluster: the machine.
        request: what was asked. Of one with a global batch the changes are those that its search
            has tried.
        error: what the search for it raised.
        grow: makes the machine larger.
        report: receives progress.
    """
    fewest, most = TRIALS
    count = min(max(OPERATORS // max(len(graph.ops), 1), fewest), most) * request.effort
    trials = _Trials(graph, cluster, report, count)
    blamed = _smallest(trials, request)
    consumers = sorted(error.contributors.items(), key=lambda kv: -kv[1])[:MOST_CONSUMERS]
    memory = [
        Blame("memory", cause, f"{cause}: {format_bytes(nbytes)} per device", nbytes)
        for cause, nbytes in consumers
    ]
    if request.global_batch is None:
        fixes = [*_fixes(trials, request, error, blamed, grow)]
    else:
        fixes = [*_dropped(trials, blamed)]
    targets = [fix for fix in fixes if fix.kind == "target"]
    dialect = [_dialect_blame(request, fix) for fix in targets[:1]]
    offered = request.training and not graph.is_training_step
    return Infeasibility(
        needed_bytes=error.needed_bytes,
        available_bytes=error.available_bytes,
        reasons=(*(_blame(*each) for each in blamed), *dialect, *memory),
        fixes=tuple(fixes),
        recompute="offered, and not enough" if offered else "nothing is kept for a backward pass",
        complete=not trials.is_over,
    )


_Held: TypeAlias = tuple[str, int]
"""Which pin or degree of a request."""


def _smallest(trials: _Trials, request: SearchRequest) -> list[tuple[str, str, SearchRequest]]:
    """Pins and degrees without any of which something fits: kind, text, the request without it."""
    every = _every(request)
    held = list(every)
    if not held or trials.plan(_only(request, [])) is None:
        return []
    for each in list(held):
        rest = [other for other in held if other != each]
        trials.report(f"without {_text(request, each)}")
        if not trials.is_over and trials.plan(_only(request, rest)) is None:
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
    trials: _Trials,
    request: SearchRequest,
    error: InfeasibleError,
    blamed: Sequence[tuple[str, str, SearchRequest]],
    grow: Grow,
) -> Iterator[Fix]:
    yield from _dropped(trials, blamed)
    card = float(trials.cluster.usable_memory_bytes)
    memory = _memory_fix(trials, request, error)
    if memory is not None and error.needed_bytes <= card:
        yield memory
    for target in TARGETS:
        if TARGETS[target] != TARGETS.get(request.target):
            yield from _tried(trials, "target", f"--target {target}", _retargeted(request, target))
    yield from _smaller_batch(trials, request)
    if request.training and request.optimizer.value.startswith("adam"):
        sgd = replace(request, optimizer=Optimizer.SGD)
        yield from _tried(trials, "optimizer", "--optimizer sgd", sgd)
    yield from _more_devices(trials, request, grow)
    if memory is not None and error.needed_bytes > card:
        yield memory


def _retargeted(request: SearchRequest, target: str) -> SearchRequest:
    return replace(request, target=target, all_to_all=True)


def _tried(
    trials: _Trials,
    kind: str,
    change: str,
    request: SearchRequest,
    cluster: Cluster | None = None,
) -> Iterator[Fix]:
    """The change, if something fits with it."""
    if trials.is_over:
        return
    trials.report(f"trying {change}")
    plan = trials.plan(request, cluster)
    if plan is not None and plan.estimate.step_time_s < UNREACHABLE_S:
        step_s, peak = plan.estimate.step_time_s, plan.estimate.peak_memory_bytes
        text = f"{change}: a step of {step_s:.4g} s in {format_bytes(peak)} per device"
        yield Fix(kind, change, step_s, peak, text)


def _dropped(trials: _Trials, blamed: Sequence[tuple[str, str, SearchRequest]]) -> Iterator[Fix]:
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


def _memory_fix(trials: _Trials, request: SearchRequest, error: InfeasibleError) -> Fix | None:
    """The least memory found with which something fits: what the smallest plan needs, or more."""
    if not math.isfinite(error.needed_bytes):
        return None
    unit, name = (GIB, "GiB") if error.needed_bytes >= 4 * GIB else (2**20, "MiB")
    low, high = math.floor(error.available_bytes / unit), math.ceil(error.needed_bytes / unit)
    best: Fix | None = None
    for _ in range(MOST_MEMORY):
        amount = high if best is None else (low + high) // 2
        if best is not None and not low < amount < high:
            break
        with_more = replace(request, memory_limit_bytes=float(amount * unit))
        found = next(_tried(trials, "memory", f"--memory {amount}{name}", with_more), None)
        if found is None:
            low, high = amount, high if best is not None else math.ceil(amount * MORE)
        else:
            best, high = found, amount
    return best


def _smaller_batch(trials: _Trials, request: SearchRequest) -> Iterator[Fix]:
    """The largest of the halves of the batch that fits."""
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


def _more_devices(trials: _Trials, request: SearchRequest, grow: Grow) -> Iterator[Fix]:
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
