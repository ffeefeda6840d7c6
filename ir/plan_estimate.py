"""What a plan is expected to take and to hold, and the evidence for it: bounds and comparisons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Published:
    """What published training runs took, in units of what this cost model says of them."""

    of: str
    """Generation of their chips; empty where too few runs are of this one, so that all count."""
    runs: int
    low: float
    """Nine of ten took at least so many times what the model says."""
    middle: float
    high: float
    kind: str = "dense"
    """What they trained, one of `ir.published.KINDS`."""
    with_software: bool = False
    """Whether the model says it with the constants of their software; else it says steps in turn of
    kernels as they take alone."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What one step takes and holds, on the device that has most."""

    step_time_s: float
    time_by_cause: Mapping[str, float]
    """Seconds; sums to the step. Of communication what is exposed."""
    peak_memory_bytes: float
    memory_limit_bytes: float
    memory_by_cause: Mapping[str, float]
    """Bytes at the peak; sums to it."""
    communicators: int = 0
    """Communication groups that each device is in."""
    communicator_bytes: float = 0.0
    """Their buffers; what exceeds the cluster's reserve is in the peak."""
    published: Published | None = None
    """How steps that were measured compare; none where no published run is like it."""
    unlike: str = ""
    """Why no published run is like it; empty where one is, and in files of before."""
    hidden_by_cause: Mapping[str, float] = field(default_factory=dict)
    """Seconds of communication that computation hides, beside those of `time_by_cause`."""

    @property
    def hidden_s(self) -> float:
        """All of them."""
        return sum(self.hidden_by_cause.values())


@dataclass(frozen=True, slots=True)
class Space:
    """The candidate space that the bound is over."""

    dialect: str
    meshes: tuple[tuple[tuple[str, int], ...], ...]
    """Every mesh searched, as axes with sizes."""
    nodes: int
    """Decisions on one mesh."""
    candidates: int
    """Over all decisions and meshes."""
    largest: int
    """Most candidates of one node."""
    log10_plans: float
    left_out: int
    """Candidates beyond the limit per operator, all operators together."""


@dataclass(frozen=True, slots=True)
class Bound:
    """Proof of quality within the space."""

    bound_s: float
    gap: float
    """Relative distance of the step time from the bound."""
    proof: str
    solver: str
    truncated: bool = False
    """A time limit cut the search short."""


@dataclass(frozen=True, slots=True)
class Objective:
    """What a search minimised instead of the time of a step, and how well."""

    cost: str
    """`mindspore`: MindSpore's own cost, in weighted bytes (docs/mindspore-strategies.md)."""
    value: float
    bound: float
    """No strategy of the space has less."""
    proof: str


@dataclass(frozen=True, slots=True)
class Baseline:
    """What a scheme that people know by name would take, priced by the same model."""

    name: str
    fits: bool
    """Whether it can be done and fits into memory."""
    step_time_s: float | None
    """As if memory were unlimited; None where it cannot be expressed."""
    peak_memory_bytes: float | None
    reason: str = ""
    """Why it does not fit."""
