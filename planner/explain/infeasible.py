"""Why nothing fits, in the user's terms, and what would: every change is applied before it is told.

The reasons are a smallest set: with any one of them gone, something fits. They are found by taking
away pins and degrees one after the other as long as nothing fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ir.graph import OpGraph
from planner.explain.fixes import Fix, Grow, Without, fixes, smallest
from planner.explain.trials import Trials
from planner.request import Deadline, InfeasibleError, SearchRequest
from report.explanation import Record
from topology.cluster import Cluster
from topology.units import format_bytes

MOST_CONSUMERS = 4
TRIALS = (24, 40)
"""Trials that are made at least and at most, per unit of effort."""
OPERATORS = 24_000
"""Operators of all trials together, per unit of effort: large models are tried less often."""

Report = Callable[[str], None]


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
        request: what was asked; its time limit is of the look.
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
    blamed: list[Without] = []
    found: list[Fix] = []
    try:
        blamed += smallest(trials, request)
        found += fixes(trials, request, error, blamed, grow)
    except KeyboardInterrupt:
        trials.end()
    dialect = [_dialect_blame(request, fix) for fix in found if fix.kind == "target"]
    offered = request.training and not graph.is_training_step
    return Infeasibility(
        needed_bytes=error.needed_bytes,
        available_bytes=error.available_bytes,
        reasons=(*(_blame(*each) for each in blamed), *dialect[:1], *_consumers(error)),
        fixes=tuple(sorted(found, key=lambda fix: _is_of_other_cards(fix, cluster))),
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


def _blame(kind: str, text: str, _: SearchRequest) -> Blame:
    return Blame(kind, text, f"{text} leaves too little to choose from", None)


def _dialect_blame(request: SearchRequest, fix: Fix) -> Blame:
    text = f"what --target {request.target} can express: {fix.change} fits"
    return Blame("target", request.target, text, None)
