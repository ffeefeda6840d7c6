"""Small pipelined steps for tests."""

from __future__ import annotations

from costmodel.simulation.effects import Effects
from costmodel.simulation.engine import run
from costmodel.simulation.lowering import Lowered
from costmodel.simulation.step import Block, Sharding, Stage, Step, Transfer
from costmodel.simulation.task_graph import Activity, Span


def block(
    forward_s: float, backward_s: float, weight_s: float = 0.0, layers: float = 1.0, **more: object
) -> Block:
    """Equal layers with these times each."""
    return Block(
        "layers",
        layers,
        (Span(Activity("compute forward"), forward_s),),
        (Span(Activity("compute backward"), backward_s),),
        (Span(Activity("compute backward"), weight_s),),
        **more,  # type: ignore[arg-type]
    )


def transfer(seconds: float, tier: str = "") -> Transfer:
    """What takes so long over every cut, either way."""
    return Transfer(Activity("stage transfer", "point_to_point", tier), seconds, seconds)


def even_step(
    schedule: str,
    stages: int,
    micro_batches: int,
    own: Block,
    *,
    chunks: int = 1,
    send_s: float = 0.0,
    sharding: Sharding | None = None,
    update_s: float = 0.0,
) -> Step:
    """Equal stages, each with so many equal chunks."""
    stage = tuple((own,) for _ in range(chunks))
    return Step(
        tuple(Stage(f"stage {i}", stage, update_s=update_s) for i in range(stages)),
        micro_batches,
        schedule,
        (transfer(send_s),),
        sharding=sharding or Sharding(),
    )


def step_s(step: Step, effects: Effects | None = None) -> float:
    """Seconds of a simulated step; by default nothing overlaps and nothing is shared."""
    effects = effects or Effects.none()
    lowered = Lowered(step, effects)
    return lowered.step_s(run(lowered.graph))
