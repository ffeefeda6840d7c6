"""What is to blame where nothing fits, and changes with which something does: each was tried."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
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
from planner.pipeline.space import divisors
from planner.request import InfeasibleError, RequestError, SearchRequest
from planner.requests.errors import UserError
from report.explanation import Record
from topology.cluster import Cluster
from topology.errors import TopologyError
from topology.units import format_bytes

GIB = 2**30
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

Grow = Callable[[int], Cluster]
"""The same machine with so many devices; raises where it has not so many."""


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


_Held: TypeAlias = tuple[str, int]
"""Which pin or degree of a request."""
Without: TypeAlias = tuple[str, str, SearchRequest]
"""Kind and text of what is to blame, and the request without it."""


def smallest(trials: Trials, request: SearchRequest) -> list[Without]:
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
        return _option(name, getattr(request, name))
    return degrees_text([request.degrees[number]])


def fixes(
    trials: Trials,
    request: SearchRequest,
    error: InfeasibleError,
    blamed: Sequence[Without],
    grow: Grow,
) -> Iterator[Fix]:
    """Changes that were tried and fit, the cheapest first.

    Args:
        trials: what may still be tried.
        request: what was asked. Of one with a global batch one change is enough: each trial is a
            whole search.
        error: what the search for it raised.
        blamed: what `smallest` found.
        grow: makes the machine larger.
    """
    if request.global_batch is not None:
        yield from _fix_of_pipeline(trials, request, blamed, grow)
        return
    yield from _dropped(trials, blamed)
    yield from _in_stages(trials, request)
    yield from _enough_memory(trials, request, error)
    yield from _other_target(trials, request)
    yield from _smaller_batch(trials, request)
    yield from _less_state(trials, request)
    yield from _more_devices(trials, request, grow)


def _fix_of_pipeline(
    trials: Trials,
    request: SearchRequest,
    blamed: Sequence[Without],
    grow: Grow,
) -> Iterator[Fix]:
    """What is to blame in a request with a global batch; else the first change that is enough with
    all decisions open, the cheapest first: each trial is a whole search.
    """
    alone = [*_dropped(trials, blamed)]
    yield from alone
    decided = [each for each in _every(request) if each[0] == "decision"]
    before = "".join(f"{_option(DECISIONS[number], 'auto')} " for _, number in decided)
    asked = _only(request, [each for each in _every(request) if each not in decided])
    on_host: Iterable[Fix] = ()
    if asked.offload == "off" and trials.cluster.chip.host_bandwidth_bytes_per_s:
        on_host = _tried(trials, "decision", "--offload auto", replace(asked, offload="auto"))
    other = itertools.chain(
        on_host,
        _smaller_batch(trials, asked),
        _more_devices(trials, asked, grow),
        _less_state(trials, asked),
    )
    for fix in itertools.islice(other, 0 if alone else 1):
        yield replace(fix, change=before + fix.change, text=before + fix.text)


def _option(name: str, value: str) -> str:
    return f"--{name.replace('_', '-')} {value}"


def _less_state(trials: Trials, request: SearchRequest) -> Iterator[Fix]:
    """An optimizer without moments."""
    if request.training and request.optimizer.keeps_moments:
        sgd = replace(request, optimizer=Optimizer.SGD)
        yield from _tried(trials, "optimizer", "--optimizer sgd", sgd)


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


def _dropped(trials: Trials, blamed: Sequence[Without]) -> Iterator[Fix]:
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
        blamed = smallest(trials, rest)


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
    """The largest divisor of the batch that fits."""
    if trials.is_over or not trials.states_fit(request):
        return
    if trials.in_micro_batches(request) is not None:
        return  # The search split it as far as it goes.
    option = "batch" if request.global_batch is None else "global_batch"
    batch = getattr(request, option) or trials.graph.batch or _batch_of(trials.graph)
    for size in reversed(divisors(batch)[:-1]):
        smaller: dict[str, Any] = {option: size}
        found = [*_tried(trials, "batch", f"--batch {size}", replace(request, **smaller))]
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
