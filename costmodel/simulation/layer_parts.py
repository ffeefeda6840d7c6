"""A layer of a layout, taken apart: what it computes, and what it sends, by kind, seen and hidden.

The estimate prices whole passes. What a kind of communication costs is what a pass takes with it
less what it takes without, so that the parts sum to what the estimate says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from costmodel.simulation.task_graph import Activity, Span
from costmodel.training.passes import Joins
from costmodel.training.step import StepTimes, step_times
from ir.plan_enums import Cause

if TYPE_CHECKING:
    from costmodel.training.constants import StepConstants
    from costmodel.training.table import RunTable

Slowed: TypeAlias = Callable[[Activity], float]
"""How much longer than the mean device the busiest one takes for some work."""


class _Kind(NamedTuple):
    """A kind of communication inside a layer."""

    work: Activity
    degree: str
    """Column of the ranks that it joins."""
    shares: tuple[str, ...]
    """Constants that say how much of it is hidden; the first hides all of it at 1."""
    column: str = ""
    """Says of a run whether it hides any."""


_KINDS = (
    _Kind(Activity("tensor parallel", "all_gather"), "tp", ("tp_hidden", "fused_hidden")),
    _Kind(Activity("experts", "all_to_all"), "ep", ("ep_hidden",), "ep_overlap"),
    _Kind(Activity("context parallel", "all_gather"), "cp", ("cp_hidden",)),
)
_FORWARD, _BACKWARD, _RECOMPUTE = (
    Activity(cause) for cause in (Cause.COMPUTE_FORWARD, Cause.COMPUTE_BACKWARD, Cause.RECOMPUTE)
)


@dataclass(frozen=True, slots=True)
class LayerParts:
    """The passes of one micro-batch through one mean layer; computation is the first part."""

    forward: tuple[Span, ...]
    backward: tuple[Span, ...]
    """Gradients of inputs and weights."""
    again: tuple[Span, ...]
    """What is computed and sent again before; empty for nothing."""
    hidden_forward: tuple[Span, ...]
    """Communication that the constants say is hidden."""
    hidden_backward: tuple[Span, ...]


def layer_parts(
    table: RunTable,
    constants: StepConstants,
    tiers: Mapping[str, str],
    slowed: Slowed,
    joins: Joins,
) -> LayerParts:
    """Take the mean layer of a run apart.

    Args:
        table: one run.
        constants: what machine and software reach.
        tiers: tier that the communication of each cause crosses.
        slowed: factor on the time of each work.
        joins: how times that run beside each other are joined.
    """
    return _Apart(table, constants, tiers, slowed, joins).parts()


@dataclass(frozen=True, slots=True)
class _Passes:
    """Seconds of the passes of a layer."""

    forward: float
    backward: float
    again: float

    @classmethod
    def of(cls, table: RunTable, constants: StepConstants, joins: Joins) -> _Passes:
        off = {"recompute_full": np.zeros(1), "recompute_core": np.zeros(1)}
        once = step_times(table.with_columns(off), constants, joins)
        whole = step_times(table, constants, joins)
        again = float((whole.layer_backward - once.layer_backward)[0])
        return cls(float(once.layer_forward[0]), float(once.layer_backward[0]), again)


@dataclass(slots=True)
class _Apart:
    table: RunTable
    constants: StepConstants
    tiers: Mapping[str, str]
    slowed: Slowed
    joins: Joins
    kinds: list[_Kind] = field(init=False)

    def __post_init__(self) -> None:
        self.kinds = [k for k in _KINDS if float(getattr(self.table, k.degree)[0]) > 1]

    def parts(self) -> LayerParts:
        falling = list(self._falling())
        times = {n: [getattr(p, n) for p in falling] for n in ("forward", "backward", "again")}
        again = self._split(_RECOMPUTE, times["again"])
        return LayerParts(
            forward=self._split(_FORWARD, times["forward"]),
            backward=self._split(_BACKWARD, times["backward"]),
            again=again if any(p.seconds for p in again) else (),
            hidden_forward=self._hidden(lambda times: times.layer_forward),
            hidden_backward=self._hidden(lambda times: times.layer_backward),
        )

    def _falling(self) -> Iterator[_Passes]:
        """The passes as they are, then without one kind of communication after the other."""
        table, constants = self.table, self.constants
        yield _Passes.of(table, constants, self.joins)
        for kind in self.kinds:
            constants = replace(constants, **{kind.shares[0]: 1.0})
            if kind.column:
                table = table.with_columns({kind.column: np.ones(1)})
            yield _Passes.of(table, constants, self.joins)

    def _split(self, computing: Activity, seconds: Sequence[float]) -> tuple[Span, ...]:
        """What is left without any communication, then each kind by what it adds.

        A host that is waited for hides some: then a kind may seem to add less than nothing.
        """
        falls = [max(a - b, 0.0) for a, b in pairwise(seconds)]
        moved = max(seconds[0] - seconds[-1], 0.0)
        scale = moved / sum(falls) if moved else 0.0
        parts = [self._part(computing, seconds[0] - moved)]
        for kind, fall in zip(self.kinds, falls, strict=True):
            if fall * scale > 0:
                parts.append(self._part(self._placed(kind), fall * scale))
        return tuple(parts)

    def _hidden(self, of: Callable[[StepTimes], np.ndarray]) -> tuple[Span, ...]:
        out = []
        now = float(of(step_times(self.table, self.constants, self.joins))[0])
        for kind in self.kinds:
            shown = replace(self.constants, **dict.fromkeys(kind.shares, 0.0))
            gone = float(of(step_times(self.table, shown, self.joins))[0]) - now
            if gone > 1e-12:
                out.append(self._part(self._placed(kind), gone))
        return tuple(out)

    def _part(self, work: Activity, seconds: float) -> Span:
        return Span(work, seconds * self.slowed(work))

    def _placed(self, kind: _Kind) -> Activity:
        work = kind.work._replace(tier=self.tiers[kind.work.cause])
        if kind.degree == "tp" and not self.table.sequence_parallel[0]:
            return work._replace(kind="all_reduce")
        return work
