"""Training runs for tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from costmodel.training.machines import Machine
from costmodel.training.mixers import Mixer, MixerKind
from costmodel.training.records import TrainingLayout, TrainingModel, TrainingRun

DENSE = TrainingModel("dense", 2048, 16, 16, 8, 128, 5632, 32000)
ROUTED = replace(
    DENSE, name="routed", experts=16, experts_per_token=2, expert_ffn=1408, shared_ffn=2816,
    dense_layers=1,
)  # fmt: skip
STATES = replace(
    DENSE, name="states", layers=8, attention_layers=2, bare_layers=5, gated=False,
    mixer=Mixer(MixerKind.MAMBA2, 3, 32, 8, 128, 64),
)  # fmt: skip
"""Every layer is one block, three of them a feed-forward block."""
DELTA = replace(
    ROUTED, name="delta", layers=8, attention_layers=2, query_gate=True, expert_hidden=512,
    mixer=Mixer(MixerKind.GATED_DELTA, 6, 32, 16, 128, 128),
)  # fmt: skip
LLAMA = TrainingModel("Llama-3-8B", 4096, 32, 32, 8, 128, 14336, 128256)
LARGE = TrainingModel("Llama-3.1-405B", 16384, 126, 128, 8, 128, 53248, 128256)


def small_run(
    model: TrainingModel = DENSE, machine: str = "h100", *, micro_batches: int = 8, **layout: object
) -> TrainingRun:
    """A run of so many micro-batches of one sequence on each replica."""
    dp = layout.get("dp", 1)
    assert isinstance(dp, int)
    made = TrainingLayout(micro_batches * dp, 1, 2048, **layout)  # type: ignore[arg-type]
    return TrainingRun(model.name, model, made, machine, "megatron-core")


def faster(found: Machine, field: str, factor: float) -> Machine:
    """A machine of which one rate or size is larger."""
    if field == "peak_flops":
        return replace(found, peak_flops={k: v * factor for k, v in found.peak_flops.items()})
    changed: dict[str, Any] = {field: getattr(found, field) * factor}
    return replace(found, **changed)
