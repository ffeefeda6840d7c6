"""Why the stages of a pipeline wait: the schedule itself, uneven stages, recomputation, transfers.

Each cause is what it adds when it is put in after those before it, so that they sum to the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from costmodel.simulation.accounting import account_of
from costmodel.simulation.effects import Effects
from costmodel.simulation.engine import run
from costmodel.simulation.lowering import Lowered
from costmodel.simulation.step import NO_TRANSFER, Block, Stage, Step
from costmodel.simulation.task_graph import Activity, Span
from topology.units import without_rounding


@dataclass(frozen=True, slots=True)
class Bubble:
    """Seconds that an average stage waits; they sum to `total_s`."""

    total_s: float
    ideal_s: float
    """Of this schedule with equal stages, nothing computed again and nothing sent."""
    imbalance_s: float
    """Because stages take different times."""
    recomputation_s: float
    """Because passes are longer by what is computed again."""
    communication_s: float
    """Because passes wait for what is sent, or are longer by what they send themselves."""


def bubble_of(step: Step, effects: Effects, waiting_s: float) -> Bubble:
    """The split of the waiting of a simulated step.

    Args:
        step: what was simulated.
        effects: how.
        waiting_s: seconds that an average stage of it waits.
    """
    silent = _silent(step)
    plain = _without_again(silent)
    ideal, uneven, again = (_waiting_s(each, effects) for each in (_balanced(plain), plain, silent))
    apart = (uneven - ideal, again - uneven, waiting_s - again)
    return Bubble(waiting_s, ideal, *(without_rounding(part, waiting_s) for part in apart))


def _waiting_s(step: Step, effects: Effects) -> float:
    lowered = Lowered(step, effects)
    timeline = run(lowered.graph)
    return account_of(timeline, lowered.step_s(timeline)).waiting_s


def _silent(step: Step) -> Step:
    """The same step on a machine that communicates in no time."""

    def mute(block: Block) -> Block:
        return replace(
            block,
            forward=_computing(block.forward),
            backward=_computing(block.backward),
            weight=_computing(block.weight),
            again=_computing(block.again),
            hidden_forward=(),
            hidden_backward=(),
            gather_s=0.0,
            sync_s=0.0,
        )

    mute_step = _mapped(step, mute)
    return replace(mute_step, transfers=(NO_TRANSFER,), receiver_posts=False, shared=())


def _without_again(step: Step) -> Step:
    return _mapped(step, lambda block: replace(block, again=()))


def _balanced(step: Step) -> Step:
    """The same work spread evenly over all chunks."""
    blocks = [b for stage in step.stages for chunk in stage.chunks for b in chunk]
    share = 1.0 / (len(step.stages) * step.chunks)

    def mean(name: str) -> tuple[Span, ...]:
        total = sum(p.seconds * b.count for b in blocks for p in getattr(b, name))
        return (Span(Activity(name), total * share),)

    even = Block("", 1.0, mean("forward"), mean("backward"), mean("weight"))
    update_s = sum(stage.update_s for stage in step.stages) / len(step.stages)
    stages = tuple(
        Stage(stage.name, ((even,),) * step.chunks, update_s=update_s) for stage in step.stages
    )
    return replace(step, stages=stages)


def _computing(parts: Iterable[Span]) -> tuple[Span, ...]:
    return tuple(p for p in parts if not p.activity.is_communication)


def _mapped(step: Step, change: Callable[[Block], Block]) -> Step:
    def chunk(blocks: Sequence[Block]) -> tuple[Block, ...]:
        return tuple(map(change, blocks))

    stages = tuple(
        replace(s, chunks=tuple(map(chunk, s.chunks)), operators=()) for s in step.stages
    )
    return replace(step, stages=stages)
