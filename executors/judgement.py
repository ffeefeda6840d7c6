"""What an outside judge says of a plan: the numbers that it computed and the messages that it sent,
beside those that the plan promises.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from executors.verdict import Output
from ir.plan import Plan, PlannedCollective

BYTES_TOLERANCE = 0.02
"""Of the bytes of a kind: what a judge may send more or less than predicted."""


@dataclass(frozen=True, slots=True, order=True)
class Traffic:
    """Messages of one kind over groups of one size, of one step, as one device sends them."""

    kind: str
    """As in `ir.plan.PlannedCollective.kind`."""
    group_size: int
    nbytes: float
    """Counted as the kind does (docs/step.md), all messages together."""
    count: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """Predicted beside emitted, for one kind and size of group."""

    kind: str
    group_size: int
    predicted_bytes: float
    emitted_bytes: float
    predicted_count: int
    emitted_count: int


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a judge says of one plan."""

    judge: str
    """Its name and version, such as `XLA (jax 0.10.2, cpu)`."""
    outputs: tuple[Output, ...]
    """Every output and gradient, beside the whole model's; empty where the judge does not run."""
    predicted: tuple[Traffic, ...]
    emitted: tuple[Traffic, ...]
    not_run: Mapping[str, str] = field(default_factory=dict)
    """What the judge could not do: operator, and why."""
    tolerance: float = 0.0
    """Errors of outputs that are rounding."""
    bytes_tolerance: float = BYTES_TOLERANCE
    counts_matter: bool = False
    """Whether the number of messages must be equal too; a judge that combines them cannot say."""
    memory_bytes: float | None = None
    """Of one device, by the judge's own account."""
    notes: tuple[str, ...] = ()
    """What was normalised before the comparison."""

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """Every kind and group that either side has, in order."""
        sides = [_summed(self.predicted), _summed(self.emitted)]
        out: list[Comparison] = []
        for kind, size in sorted({*sides[0], *sides[1]}):
            (before, first), (after, second) = (s.get((kind, size), (0.0, 0)) for s in sides)
            out.append(Comparison(kind, size, before, after, first, second))
        return tuple(out)

    @property
    def differences(self) -> tuple[Comparison, ...]:
        """Those in which the judge contradicts the plan."""
        return tuple(c for c in self.comparisons if not self._agrees(c))

    def _agrees(self, item: Comparison) -> bool:
        if self.counts_matter and item.predicted_count != item.emitted_count:
            return False
        gap = abs(item.predicted_bytes - item.emitted_bytes)
        return gap <= self.bytes_tolerance * max(item.predicted_bytes, item.emitted_bytes)

    @property
    def passed(self) -> bool:
        """Whether the judge confirms the plan in all that it looked at."""
        fine = all(output.error <= self.tolerance for output in self.outputs)
        return fine and not self.not_run and not self.differences


def _summed(traffic: Iterable[Traffic]) -> dict[tuple[str, int], tuple[float, int]]:
    out: dict[tuple[str, int], tuple[float, int]] = {}
    for item in traffic:
        nbytes, count = out.get((item.kind, item.group_size), (0.0, 0))
        out[item.kind, item.group_size] = nbytes + item.nbytes, count + item.count
    return out


def predicted_traffic(plan: Plan) -> tuple[Traffic, ...]:
    """The messages of a plan, those of one kind and group size together."""
    return traffic_of(plan.collectives)


def traffic_of(items: Sequence[PlannedCollective]) -> tuple[Traffic, ...]:
    """Planned messages, those of one kind and group size together; neighbours are pairs."""
    sizes = ((c, 2 if c.kind == "point_to_point" else c.group_size) for c in items)
    return summed(Traffic(c.kind, size, c.nbytes * c.count, c.count) for c, size in sizes)


def summed(traffic: Iterable[Traffic]) -> tuple[Traffic, ...]:
    """Those of one kind and group size together."""
    return tuple(Traffic(*key, *rest) for key, rest in sorted(_summed(traffic).items()))
