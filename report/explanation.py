"""What explanations say: records that a command prints, a file keeps and a page shows.

Field names are stable. `to_dict` gives plain JSON values; None stands for a number that does not
exist, such as the time of a plan that does not fit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, is_dataclass
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from ir.json_text import finite


class Record:
    """Gives itself as plain JSON values."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain values: lists, dicts, text, finite numbers, None."""
        record: dict[str, Any] = finite(asdict(self))  # type: ignore[call-overload]
        return record


def rebuilt(form: Any, value: Any) -> Any:
    """The value of a type that `to_dict` made `value` of; a float that was not finite is infinite.

    >>> rebuilt(tuple[float, ...], [1.5, None])
    (1.5, inf)
    """
    if isinstance(form, type) and is_dataclass(form):
        hints = get_type_hints(form)
        return form(**{n: rebuilt(hints[n], each) for n, each in value.items()})
    inner = get_args(form)
    if get_origin(form) in {Union, UnionType}:
        own = [each for each in inner if each is not NoneType]
        return None if value is None else rebuilt(own[0], value)
    if get_origin(form) in {tuple, list}:
        is_fixed = get_origin(form) is tuple and Ellipsis not in inner
        kinds = inner if is_fixed else (inner[0],) * len(value)
        return get_origin(form)(map(rebuilt, kinds, value))
    return math.inf if form is float and value is None else value


@dataclass(frozen=True, slots=True)
class CostPart(Record):
    """One part of what a candidate costs."""

    cause: str
    """As in `time_by_cause` of a plan: `compute forward`, `all_reduce in card`."""
    purpose: str
    """Of a collective: `forward`, `activation gradient`, `parameter gather`, `gradient sync`,
    `inside operators`; empty for computation."""
    tensor: str
    """The tensor that is sent; empty for the operator's own computation."""
    neighbour: str
    """Operator or tensor at the other end; empty for the operator's own computation."""
    time_s: float
    """Seconds that a step is longer for it."""
    hidden_s: float = 0.0
    """Seconds more of it that computation hides."""


@dataclass(frozen=True, slots=True)
class Reason(Record):
    """One cause without which a candidate would do better."""

    kind: str
    """`memory limit`, `pin`, `node` (the cost of one operator or tensor), `edge` (the
    redistribution of one tensor), or `search`: held to the candidate it finds a faster plan."""
    name: str
    """The pin, the operator or tensor, or `TENSOR from A to B`; empty for the limit."""
    text: str
    """The same as a sentence."""
    share_s: float | None
    """Seconds of the difference that go without it; None where nothing is possible with it."""
    left_s: float
    """Seconds that the candidate would then still cost more than the plan's; below 0 less."""
    decisive: bool
    """Without it the candidate would be as good as the plan's or better."""


@dataclass(frozen=True, slots=True)
class Candidate(Record):
    """One way to split an operator, or to lay out a tensor, and what it costs."""

    cuts: str
    """As `--pin` takes it, such as `((2,4),(4,1))`; empty for a tensor."""
    inputs: tuple[str, ...]
    """Layouts, such as `[server, card]`; `-` for an operand without one."""
    outputs: tuple[str, ...]
    """Layouts of the results; of a tensor its own one."""
    is_chosen: bool
    local_s: float
    """Its computation and the exposed redistribution at its edges, everything else as planned
    except what must follow it."""
    parts: tuple[CostPart, ...]
    """What `local_s` consists of, the largest first."""
    fixed_delta_s: float
    """Seconds more in a step, everything else as planned. This and all times by cause are those of
    one device: with stages, of the pipeline rank that runs the operator."""
    delta_s: float | None
    """Seconds more in a step, everything else chosen anew by a search of its own; None where
    nothing fits or a pin forbids it."""
    step_time_s: float | None
    """Of that step, with all other stages as planned."""
    peak_memory_bytes: float | None
    """Of that step, per device."""
    memory_bytes: float
    """What it holds of the plan's peak, with the copies at its edges."""
    memory_charge_s: float
    """What its memory costs at the price of memory: seconds that others lose by it."""
    delta_by_cause: Mapping[str, float] = field(default_factory=dict)
    """`delta_s` by cause over the whole step; sums to it."""
    also_changed: tuple[str, ...] = ()
    """Other operators and tensors that change with it when everything is chosen anew."""
    reasons: tuple[Reason, ...] = ()
    """Why it is not chosen, the weightiest first; empty for the plan's own."""


@dataclass(frozen=True, slots=True)
class Neighbour(Record):
    """The operator or tensor at the other end of an edge, and the cheapest layout there."""

    name: str
    kind: str
    """`operator`, `parameter`, `input` or `tensor`."""
    tensor: str
    """What moves between the two."""
    layout: str
    """Of the tensor at the neighbour's end, as planned."""
    time_s: float
    """What is exposed of the edge in the plan."""
    costs_s: tuple[float, ...]
    """The same with each candidate shown, the plan's first, the neighbour as planned."""
    wants: str
    """Split (or layout) that would cost least at this edge, the neighbour as planned."""
    least_s: float
    """What the edge would cost then."""


@dataclass(frozen=True, slots=True)
class MemoryStatus(Record):
    """How much the memory limit has a say."""

    limit_bytes: float
    """Per device."""
    peak_bytes: float
    """Of the plan."""
    is_binding: bool
    """Without the limit there would be a faster plan."""
    price_s_per_gib: float
    """Seconds of a step that a GiB more per device would save, at the margin."""


@dataclass(frozen=True, slots=True)
class InStage(Record):
    """Where an operator runs in a plan with micro-batches."""

    stage: int
    """From 0."""
    stages: int
    micro_batches: int
    """Of one step."""
    work_s: float
    """Busy seconds of its pipeline rank in a step, without what it receives: what the search of
    that rank minimises."""


@dataclass(frozen=True, slots=True)
class OperatorExplanation(Record):
    """Why an operator is split, or a tensor laid out, as it is."""

    name: str
    kind: str
    """`operator`, `parameter`, `input` or `tensor`."""
    label: str
    """Kind of the operator, such as `MatMul`; dims and element type of a tensor."""
    scope: str
    step_time_s: float
    """Of the plan."""
    chosen: Candidate
    rivals: tuple[Candidate, ...]
    """The next best ones, the best first."""
    neighbours: tuple[Neighbour, ...]
    """The most expensive edge first."""
    memory: MemoryStatus | None
    """None at a glance: the rest stays as planned, and no rival has a step of its own."""
    candidates: int
    """How many there are in the space."""
    place: InStage | None = None
    """None where a step is one batch on one mesh."""


@dataclass(frozen=True, slots=True)
class OperatorCost(Record):
    """What equal operators cost together."""

    name: str
    """Pattern of their names, such as `layers.*.mlp.down_proj`."""
    label: str
    example: str
    """Name of the first, for `--op`."""
    count: int
    compute_s: float
    communication_s: float
    """Of the edges into them and inside them."""
    cuts: str
    stage: int | None = None
    """In which they are, where only those of one stage are meant."""

    @property
    def time_s(self) -> float:
        """Both together."""
        return self.compute_s + self.communication_s


@dataclass(frozen=True, slots=True)
class Rival(Record):
    """Another whole plan, next to the one that was found."""

    name: str
    """What is different, such as `op_3 cut ((8,1),(1,1))`, or the name of a baseline."""
    delta_s: float | None
    """Seconds more in a step; None where it does not fit or cannot be expressed."""
    delta_by_cause: Mapping[str, float]
    reason: str
    """Why it is not chosen."""


@dataclass(frozen=True, slots=True)
class FasterLink(Record):
    """What links of one tier twice as fast would bring."""

    tier: str
    factor: float
    same_plan_s: float
    """Step time of this plan there."""
    best_s: float
    """Step time of the best plan there, on the same mesh."""
    plan_changes: bool


@dataclass(frozen=True, slots=True)
class MemoryHolder(Record):
    """Who holds memory at the plan's peak; with stages, of the pipeline rank that holds most."""

    cause: str
    """`weights`, `gradients`, `optimizer state`, `activations`, `temporaries`, `inputs`, ..."""
    nbytes: float
    largest: str
    """The operator or tensor that holds most of it."""
    largest_bytes: float


@dataclass(frozen=True, slots=True)
class StageStatus(Record):
    """What one stage of a pipeline does in a step."""

    stage: int
    """From 0."""
    part: int
    """Pipeline rank that it runs on; interleaved chunks share one."""
    operators: int
    forward_s: float
    """Of one micro-batch, with what it receives."""
    backward_s: float
    """The same, with what is computed again."""
    once_s: float
    """Once in a step: gradients of copies of parameters, updates."""
    work_s: float
    """Busy seconds of a step: all micro-batches, and what is done once."""
    waits_s: float
    """Idle seconds of its pipeline rank in a step (pipeline bubble)."""
    communication_s: float
    """Of a step, included in `work_s`: collectives, and what it receives."""
    peak_memory_bytes: float
    in_flight: int
    """Micro-batches whose activations it keeps."""
    dearest: tuple[OperatorCost, ...]
    """Its most expensive operators, equal layers together."""


@dataclass(frozen=True, slots=True)
class PlanExplanation(Record):
    """Why a plan is as it is, in the large."""

    step_time_s: float
    bound_s: float
    proof: str
    time_by_cause: Mapping[str, float]
    operators: tuple[OperatorCost, ...]
    """The most expensive first."""
    memory: MemoryStatus
    holders: tuple[MemoryHolder, ...]
    """The largest first."""
    rivals: tuple[Rival, ...]
    """The closest first."""
    links: tuple[FasterLink, ...]
    limits: tuple[str, ...] = ()
    """What holds a plan with stages back, as sentences: the slowest stage, the bubble,
    communication, memory."""
    stages: tuple[StageStatus, ...] = ()
    """Of a plan with micro-batches, in the order of the network."""


@dataclass(frozen=True, slots=True)
class CauseDelta(Record):
    """One cause of time, or of memory, in both plans."""

    group: str
    """`compute`, `collective`, `bubble` or `memory`."""
    cause: str
    """As the plans have it: `compute forward`, `all_reduce in card`, `activations`."""
    collective: str
    """Kind of the collective; empty for others."""
    tier: str
    """Outermost tier that the collective crosses; empty for others."""
    before: float
    """Seconds of a step, or bytes per device, in the plan."""
    after: float
    """The same with the restriction."""
    delta: float
    """`after` less `before`."""


@dataclass(frozen=True, slots=True)
class WhyNot(Record):
    """A plan compared with the best one under a restriction."""

    asked: str
    """The restriction, such as `tp=8,dp=2`."""
    verdict: str
    """`slower`, `faster`, `equal`, `does not fit` or `impossible`."""
    text: str
    """The same as a sentence."""
    step_time_s: float
    """Of the plan."""
    restricted_s: float | None
    """Of the best plan under the restriction; None where there is none."""
    delta_s: float | None
    """Seconds that it takes more."""
    bound_s: float | None
    """No plan under the restriction takes less."""
    time: tuple[CauseDelta, ...]
    """The difference by cause, the largest first; sums to `delta_s`."""
    memory: tuple[CauseDelta, ...]
    """The difference of the peaks by cause, the largest first."""
    peak_memory_bytes: float
    restricted_peak_bytes: float | None
    """Where nothing fits, the least that was found."""
    memory_limit_bytes: float
    changed: int
    """Operators that are split otherwise."""
    changes: tuple[str, ...]
    """The first of them."""
    notes: tuple[str, ...]
    """What the restricted search assumed."""
