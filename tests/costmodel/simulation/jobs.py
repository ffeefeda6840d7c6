"""Small pipelined jobs for tests."""

from __future__ import annotations

from costmodel.simulation.effects import Effects
from costmodel.simulation.engine import run
from costmodel.simulation.job import Block, Job, Sharding, Stage
from costmodel.simulation.pipeline import pipeline_programme
from costmodel.simulation.programme import Part, Work


def block(
    forward_s: float, backward_s: float, weight_s: float = 0.0, layers: float = 1.0, **more: object
) -> Block:
    """Equal layers with these times each."""
    return Block(
        "layers",
        layers,
        (Part(Work("compute forward"), forward_s),),
        (Part(Work("compute backward"), backward_s),),
        (Part(Work("compute backward"), weight_s),),
        **more,  # type: ignore[arg-type]
    )


def even_job(
    schedule: str,
    stages: int,
    micro_batches: int,
    own: Block,
    *,
    chunks: int = 1,
    send_s: float = 0.0,
    sharding: Sharding | None = None,
    update_s: float = 0.0,
) -> Job:
    """Equal stages, each with so many equal chunks."""
    stage = tuple((own,) for _ in range(chunks))
    return Job(
        tuple(Stage(f"stage {i}", stage, update_s=update_s) for i in range(stages)),
        micro_batches,
        schedule,
        copies=1,
        send_s=send_s,
        sharding=sharding or Sharding(),
    )


def step_s(job: Job, effects: Effects | None = None) -> float:
    """Seconds of a simulated step; by default nothing overlaps and nothing is shared."""
    effects = effects or Effects.none()
    step = pipeline_programme(job, effects)
    return step.step_s(run(step.programme))
