"""Pipeline schedules: in which order each device runs the passes of its micro-batches.

An order is fixed before anything runs, as in the frameworks; when a pass really starts follows from
what it waits for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple, TypeAlias


class Direction(StrEnum):
    """A pass of one micro-batch through one chunk of layers."""

    FORWARD = "F"
    BACKWARD = "B"
    """The whole backward pass, or the gradient of the input alone if `WEIGHT` comes apart."""
    WEIGHT = "W"
    """The gradients of the weights."""


class Pass(NamedTuple):
    """One entry of an order."""

    direction: Direction
    chunk: int
    """Which of the device's chunks of layers."""
    micro: int
    """Micro-batch; for two pipelines in opposite directions each counts its own."""
    whole: bool = True
    """For a backward pass: with the gradients of the weights."""
    pair: int = -1
    """Passes with the same number run interleaved, so that one's communication hides behind the
    other's computation; -1 runs alone."""


Order: TypeAlias = list[Pass]
Place: TypeAlias = tuple[int, int]
"""Stage, and which of its chunks."""


class ScheduleError(ValueError):
    """A schedule that these numbers of stages and micro-batches do not allow."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What an order is made for."""

    stages: int
    """Devices in a row."""
    chunks: int
    """Chunks of layers on each device."""
    micro_batches: int


@dataclass(frozen=True, slots=True)
class Route:
    """The way of a micro-batch through the chunks of all stages."""

    stages: int
    chunks: int
    bidirectional: bool = False
    """Chunk 1 of every stage belongs to a pipeline in the other direction."""

    def behind(self, stage: int, chunk: int) -> Place | None:
        """Where the layers behind these are; None at the end."""
        if self.bidirectional:
            after = stage - 1 if chunk else stage + 1
            return (after, chunk) if 0 <= after < self.stages else None
        if stage + 1 < self.stages:
            return stage + 1, chunk
        return (0, chunk + 1) if chunk + 1 < self.chunks else None

    def before(self, stage: int, chunk: int) -> Place | None:
        """Where the layers before these are; None at the beginning."""
        if self.bidirectional:
            ahead = stage + 1 if chunk else stage - 1
            return (ahead, chunk) if 0 <= ahead < self.stages else None
        if stage > 0:
            return stage - 1, chunk
        return (self.stages - 1, chunk - 1) if chunk > 0 else None


@dataclass(frozen=True, slots=True)
class Schedule:
    """One way to order the passes."""

    name: str
    order: Callable[[Shape, int], Order]
    """The order of one stage."""
    bidirectional: bool = False
    """Chunk 1 of stage i holds the layers of stage p - 1 - i."""
    skewed: bool = False
    """Stages do not wait for one another before the update, so that steps overlap."""

    def route(self, shape: Shape) -> Route:
        """The way of a micro-batch."""
        return Route(shape.stages, shape.chunks, self.bidirectional)


_F, _B, _W = Direction.FORWARD, Direction.BACKWARD, Direction.WEIGHT


def _gpipe(shape: Shape, stage: int) -> Order:  # noqa: ARG001
    """All forward passes, then all backward passes.

    Source: Huang et al., GPipe, arXiv 1811.06965.
    """
    micros = range(shape.micro_batches)
    return [Pass(_F, 0, m) for m in micros] + [Pass(_B, 0, m) for m in micros]


def _one_forward_one_backward(shape: Shape, stage: int) -> Order:
    """Stage i holds at most p - i micro-batches.

    Source: Narayanan et al., PipeDream-Flush, arXiv 2006.09503.
    """
    total = shape.micro_batches
    ahead = min(total, shape.stages - stage - 1)
    out = [Pass(_F, 0, m) for m in range(ahead)]
    for m in range(total - ahead):
        out += [Pass(_F, 0, ahead + m), Pass(_B, 0, m)]
    return out + [Pass(_B, 0, m) for m in range(total - ahead, total)]


def _interleaved(shape: Shape, stage: int) -> Order:
    """Each device holds v chunks of layers and visits them in turn, p micro-batches at a time.

    Source: Narayanan et al., SC21, arXiv 2104.04473, section 2.2; the number of passes ahead is
    Megatron-LM's.
    """
    if shape.chunks == 1:
        return _one_forward_one_backward(shape, stage)
    table = [
        (chunk, micro)
        for first in range(0, shape.micro_batches, shape.stages)
        for chunk in range(shape.chunks)
        for micro in range(first, first + shape.stages)
    ]
    ahead = min(len(table), 2 * (shape.stages - stage - 1) + (shape.chunks - 1) * shape.stages)
    forward = [Pass(_F, chunk, micro) for chunk, micro in table]
    backward = [Pass(_B, shape.chunks - 1 - chunk, micro) for chunk, micro in table]
    out = forward[:ahead]
    for there, back in zip(forward[ahead:], backward, strict=False):
        out += [there, back]
    return out + backward[len(table) - ahead :]


def _zero_bubble(shape: Shape, stage: int) -> Order:
    """1F1B with gradients of weights deferred by as many micro-batches as stages are before.

    Source: Qi et al., Zero Bubble Pipeline Parallelism, arXiv 2401.10241, ZB-H1.
    """
    return _put_off(shape, shape.stages - stage - 1, stage)


def _zero_bubble_2(shape: Shape, stage: int) -> Order:
    """The same with twice the micro-batches ahead, and twice the memory.

    Source: as before, ZB-H2.
    """
    return _put_off(shape, 2 * (shape.stages - stage - 1), 2 * stage)


def _put_off(shape: Shape, ahead: int, delay: int) -> Order:
    total = shape.micro_batches
    ahead = min(total, ahead)
    out = [Pass(_F, 0, m) for m in range(ahead)]
    weights = 0
    for m in range(total):
        if ahead + m < total:
            out.append(Pass(_F, 0, ahead + m))
        out.append(Pass(_B, 0, m, whole=False))
        if m >= delay:
            out.append(Pass(_W, 0, weights))
            weights += 1
    return out + [Pass(_W, 0, m) for m in range(weights, total)]


def _dual_pipe(shape: Shape, stage: int) -> Order:
    """Two pipelines in opposite directions over the same devices, forward and backward in pairs.

    Half of the micro-batches enter at each end.

    Source: DeepSeek-V3 report, arXiv 2412.19437, section 3.2.1; the eight phases are those of
    github.com/deepseek-ai/DualPipe.
    """
    return list(_DualPipe(shape, stage).order())


class _DualPipe:
    """The order of one stage; direction 0 is the one whose first stage is nearer."""

    def __init__(self, shape: Shape, stage: int) -> None:
        self.half = shape.stages // 2
        self.near = min(stage, shape.stages - 1 - stage)
        self.main = shape.micro_batches // 2 - shape.stages + self.near + 1
        self.middle = self.near == self.half - 1
        self.swapped = stage >= self.half
        self.done = {(d, c): 0 for d in (_F, _B) for c in (0, 1)}
        self.owed: list[tuple[int, int]] = []
        self.pairs = 0

    def order(self) -> Iterator[Pass]:
        ahead = self.half - self.near - 1
        yield from (self._next(_F, 0) for _ in range(2 * ahead))
        for _ in range(self.near + 1):
            yield from (self._next(_F, 0), self._next(_F, 1))
        for _ in range(ahead):
            yield from (self._next(_B, 1, whole=False), self._weight(), self._next(_F, 1))
        for number in range(self.main):
            yield from self._both(0, 1, together=number > 0 or not self.middle)
            yield from self._both(1, 0)
        for _ in range(ahead):
            yield self._next(_B, 1)
            yield from self._both(1, 0)
        yield from self._drain()

    def _drain(self) -> Iterator[Pass]:
        """Backward passes alone, the later half of them without the gradients of the weights."""
        count, deferred = self.near + 1, False
        for number in range(count):
            at_half = number == count // 2
            deferred = deferred or (at_half and self.near % 2 == 1)
            yield self._next(_B, 1, whole=not deferred)
            deferred = deferred or at_half
            yield self._next(_B, 0, whole=not deferred)
        for _ in range(self.half - self.near - 1):
            yield from (self._weight(), self._next(_B, 0, whole=False))
        for _ in range(count):
            yield self._weight()

    def _both(self, forward: int, backward: int, *, together: bool = True) -> Iterator[Pass]:
        pair = self.pairs if together else -1
        self.pairs += 1
        yield self._next(_F, forward)._replace(pair=pair)
        yield self._next(_B, backward)._replace(pair=pair)

    def _next(self, direction: Direction, way: int, *, whole: bool = True) -> Pass:
        micro = self.done[direction, way]
        self.done[direction, way] += 1
        chunk = way ^ int(self.swapped)
        if direction is _B and not whole:
            self.owed.append((chunk, micro))
        return Pass(direction, chunk, micro, whole)

    def _weight(self) -> Pass:
        return Pass(_W, *self.owed.pop(0))


SCHEDULES: Mapping[str, Schedule] = MappingProxyType(
    {
        s.name: s
        for s in (
            Schedule("gpipe", _gpipe),
            Schedule("1f1b", _one_forward_one_backward),
            Schedule("interleaved", _interleaved),
            Schedule("zb-h1", _zero_bubble),
            Schedule("zb-h2", _zero_bubble_2, skewed=True),
            Schedule("dualpipe", _dual_pipe, bidirectional=True),
        )
    }
)


def schedule_faults(name: str, stages: int, chunks: int, micro_batches: float) -> Iterator[str]:
    """Why a pipeline cannot have this order, in sentences.

    Args:
        name: of the schedule.
        stages: devices in a row.
        chunks: of layers on each stage; of DualPipe one, which stands on two stages.
        micro_batches: of a step.
    """
    if name not in SCHEDULES:
        yield f"unknown schedule {name!r}; known: {', '.join(SCHEDULES)}"
    # A turn that is not full would leave stages waiting for one another; Megatron-LM refuses it.
    if name == "interleaved" and chunks > 1 and micro_batches % stages:
        yield (
            f"interleaved chunks need a multiple of {stages} micro-batches, one for each stage; "
            f"{micro_batches:g} is none"
        )
    if name != "interleaved" and chunks > 1:
        yield f"{name} has one chunk of layers on each stage, vpp is {chunks}"
    if name == "dualpipe" and (stages % 2 or micro_batches % 2 or micro_batches < 2 * stages):
        yield (
            "dualpipe needs an even number of stages, and an even number of micro-batches that is "
            f"at least twice as large; not {stages} stages and {micro_batches:g} micro-batches"
        )


def orders(name: str, shape: Shape) -> list[Order]:
    """The order of every stage.

    Raises:
        ScheduleError: an unknown name, or numbers that the schedule does not allow.
    """
    if min(shape.stages, shape.chunks, shape.micro_batches) < 1:
        raise ScheduleError("stages, chunks and micro-batches are 1 or more")
    chunks = 1 if name == "dualpipe" and shape.chunks == 2 else shape.chunks
    for fault in schedule_faults(name, shape.stages, chunks, shape.micro_batches):
        raise ScheduleError(fault)
    return [SCHEDULES[name].order(shape, stage) for stage in range(shape.stages)]
