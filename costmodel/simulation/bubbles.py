"""Why the stages of a pipeline wait: the schedule itself, uneven stages, recomputation, transfers.

Each cause is what it adds when it is put in after those before it, so that they sum to the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from costmodel.simulation.accounting import account_of
from costmodel.simulation.effects import Effects
from costmodel.simulation.engine import run
from costmodel.simulation.job import Block, Job, Stage
from costmodel.simulation.pipeline import pipeline_programme
from costmodel.simulation.programme import Part, Work
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


def bubble_of(job: Job, effects: Effects, waiting_s: float) -> Bubble:
    """The split of the waiting of a simulated job.

    Args:
        job: what was simulated.
        effects: how.
        waiting_s: seconds that an average stage of it waits.
    """
    silent = _silent(job)
    plain = _without_again(silent)
    ideal, uneven, again = (_waiting_s(each, effects) for each in (_balanced(plain), plain, silent))
    apart = (uneven - ideal, again - uneven, waiting_s - again)
    return Bubble(waiting_s, ideal, *(without_rounding(part, waiting_s) for part in apart))


def _waiting_s(job: Job, effects: Effects) -> float:
    step = pipeline_programme(job, effects)
    timeline = run(step.programme)
    return account_of(timeline, step.step_s(timeline)).waiting_s


def _silent(job: Job) -> Job:
    """The same job on a machine that communicates in no time."""

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

    return replace(_mapped(job, mute), send_s=0.0)


def _without_again(job: Job) -> Job:
    return _mapped(job, lambda block: replace(block, again=()))


def _balanced(job: Job) -> Job:
    """The same work spread evenly over all chunks."""
    blocks = [b for stage in job.stages for chunk in stage.chunks for b in chunk]
    share = 1.0 / (len(job.stages) * job.chunks)

    def mean(name: str) -> tuple[Part, ...]:
        total = sum(p.seconds * b.count for b in blocks for p in getattr(b, name))
        return (Part(Work(name), total * share),)

    even = Block("", 1.0, mean("forward"), mean("backward"), mean("weight"))
    update_s = sum(stage.update_s for stage in job.stages) / len(job.stages)
    stages = tuple(
        Stage(stage.name, ((even,),) * job.chunks, update_s=update_s) for stage in job.stages
    )
    return replace(job, stages=stages)


def _computing(parts: Iterable[Part]) -> tuple[Part, ...]:
    return tuple(p for p in parts if not p.work.is_communication)


def _mapped(job: Job, change: Callable[[Block], Block]) -> Job:
    def chunk(blocks: Sequence[Block]) -> tuple[Block, ...]:
        return tuple(map(change, blocks))

    stages = tuple(replace(s, chunks=tuple(map(chunk, s.chunks))) for s in job.stages)
    return replace(job, stages=stages)
