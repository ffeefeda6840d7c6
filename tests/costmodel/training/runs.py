"""Runs for the tests of the training estimate."""

from __future__ import annotations

from dataclasses import replace

from costmodel.training.records import Attention, TrainingLayout, TrainingModel, TrainingRun

LLAMA = TrainingModel(
    "Llama-2-7B",
    hidden=4096,
    layers=32,
    heads=32,
    kv_heads=32,
    head_size=128,
    ffn=11008,
    vocab=32000,
)
GPT = TrainingModel(
    "GPT", hidden=2048, layers=24, heads=16, kv_heads=16, head_size=128, ffn=8192, vocab=51200,
    gated=False, tied=True,
)  # fmt: skip
ROUTED = replace(
    LLAMA, name="8x7B", experts=8, experts_per_token=2, expert_ffn=14336, ffn=14336, kv_heads=8
)


def run(model: TrainingModel = LLAMA, machine: str = "a100-80g", **layout: object) -> TrainingRun:
    """A run on one kind of server with Megatron."""
    sizes: dict[str, object] = {"global_batch": 64, "micro_batch": 1, "seq_len": 2048, **layout}
    return TrainingRun(
        "row",
        model,
        TrainingLayout(**sizes),  # type: ignore[arg-type]  # names are those of the record
        machine,
        "megatron",
        "fp16",
        Attention.UNFUSED,
    )
