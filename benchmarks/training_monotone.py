"""Whether a better machine ever slows the estimate of a step: random runs, constants and machines.

Usage: python -m benchmarks.training_monotone [--runs 6000] [--seed 1]

Every order of passes, with sharded parameters, experts, mixers without softmax, layers for further
tokens, uneven stages, ports of all speeds and hosts that hold passes up. Four rates of the machine
are made better by three factors each.
"""

from __future__ import annotations

import argparse
import random
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np

from costmodel.schedules.orders import SCHEDULES
from costmodel.training import machines as machine_module
from costmodel.training.constants import StepConstants
from costmodel.training.machines import Machine, machines
from costmodel.training.mixers import Mixer, MixerKind
from costmodel.training.records import (
    Attention,
    Recompute,
    TrainingLayout,
    TrainingModel,
    TrainingRun,
)
from costmodel.training.step import step_times
from costmodel.training.table import RunTable

RATES = ("link_bytes_per_s", "port_bytes_per_s", "peak_flops", "memory_bytes_per_s")
FACTORS = (1.05, 1.5, 4.0)
_AT_ONCE = 60
"""Runs that share constants and a machine."""

_DENSE = TrainingModel("dense", 2048, 16, 16, 8, 128, 5632, 32000)
_ROUTED = replace(
    _DENSE, name="routed", experts=16, experts_per_token=2, expert_ffn=1408, shared_ffn=2816,
    dense_layers=1,
)  # fmt: skip
_DELTA = replace(
    _ROUTED, name="delta", layers=32, attention_layers=8, query_gate=True, expert_hidden=512,
    mixer=Mixer(MixerKind.GATED_DELTA, 24, 32, 16, 128, 128),
)  # fmt: skip
_MODELS = (
    _DENSE,
    _ROUTED,
    _DELTA,
    TrainingModel("Llama-3.1-405B", 16384, 126, 128, 8, 128, 53248, 128256),
    replace(_DENSE, name="tied", gated=False, tied=True),
    replace(_ROUTED, name="predicting", further=1),
    replace(_DENSE, name="latent", kv_rank=512, query_rank=1536, rotary_size=64, head_size=192),
)
_CHIPS = (
    ("h100", "fsdp"), ("a100-80g", "megatron"), ("ascend-910b", "mindspeed"),
    ("h800", "megatron-core"),
)  # fmt: skip
_FLAGS = ("fused-tp", "overlap", "early-stop", "old-release", "gather-once", "ep-overlap", "frozen",
          "split-experts", "scatter-stages", "sends-once")  # fmt: skip


def main() -> None:
    """Print how many estimates a better machine slows, and by how much."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=6000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    draw, compared, slower, worst = random.Random(options.seed), 0, 0, 0.0
    for _ in range(-(-options.runs // _AT_ONCE)):
        more = _slowed(draw)
        compared, slower = compared + len(more), slower + int(np.sum(more > 1e-12))
        worst = max(worst, float(more.max()))
    print(f"{compared} comparisons, {slower} slower on the better machine, by {worst:.2%} at most")


def _slowed(draw: random.Random) -> np.ndarray:
    """By how much better machines slow some runs, all changes after one another."""
    constants, port = _constants(draw), draw.choice((0.02, 0.1, 0.3, 1.0))
    start = {name: better(each, "port_bytes_per_s", port) for name, each in machines().items()}
    runs = [_run(draw) for _ in range(_AT_ONCE)]
    now = _times(runs, constants, start)
    changes = [(rate, factor) for rate in RATES for factor in FACTORS]
    changed = ({name: better(each, *change) for name, each in start.items()} for change in changes)
    return np.concatenate([_times(runs, constants, each) / now - 1.0 for each in changed])


def better(found: Machine, rate: str, factor: float) -> Machine:
    """A machine of which one rate is larger."""
    if rate == "peak_flops":
        return replace(found, peak_flops={k: v * factor for k, v in found.peak_flops.items()})
    changed: dict[str, Any] = {rate: getattr(found, rate) * factor}
    return replace(found, **changed)


def _times(
    runs: list[TrainingRun], constants: StepConstants, known: dict[str, Machine]
) -> np.ndarray:
    with patch.object(machine_module, "machines", lambda: known):
        return step_times(RunTable.of(runs), constants).total


def _run(draw: random.Random) -> TrainingRun:
    model, schedule = draw.choice(_MODELS), draw.choice(tuple(SCHEDULES))
    both = schedule == "dualpipe"
    pp = draw.choice((2, 4, 6, 8, 16) if both else (1, 2, 3, 4, 8, 16))
    if model.mixer is None:
        more = draw.choice((0, 0, 1, 3))
        model = replace(model, layers=pp * draw.choice((1, 2, 3, 7)) + more)
    turns = draw.choice((1, 2, 5))
    micro_batches = 2 * pp * turns if both or schedule == "interleaved" else draw.choice((1, 3, 64))
    dp, zero, micro = draw.choice((1, 2, 4, 8, 64)), draw.choice((0, 1, 2, 3, 3)), 1 + turns % 2
    layout = TrainingLayout(
        micro * dp * micro_batches,
        micro,
        draw.choice((512, 1024, 4096, 32768)),
        tp=draw.choice((1, 2, 8)),
        pp=pp,
        vpp=2 if schedule == "interleaved" and model.layers >= 2 * pp else 1,
        dp=dp,
        cp=draw.choice((1, 1, 2)),
        ep=min(dp, 8) if model.experts else 1,
        zero_stage=zero,
        zero_group=draw.choice((0, dp)) if zero == 3 else 0,
        sequence_parallel=draw.random() < 0.5,
        recompute=draw.choice(list(Recompute)),
        stage_layers=_stages(draw, model.layers, pp) if model.mixer is None else (),
        schedule=schedule,
    )
    flags = frozenset(flag for flag in _FLAGS if draw.random() < 0.2)
    attention = draw.choice(list(Attention))
    chip, profile = draw.choice(_CHIPS)
    return TrainingRun("run", model, layout, chip, profile, attention=attention, flags=flags)


def _stages(draw: random.Random, layers: int, pp: int) -> tuple[int, ...]:
    """Layers of uneven stages, in one of three cases."""
    if layers % pp == 0 and draw.random() < 0.6:
        return ()
    each = [layers // pp] * pp
    each[0] += layers % pp
    for _ in range(3):
        source, target = draw.randrange(pp), draw.randrange(pp)
        if each[source] > 1:
            each[source] -= 1
            each[target] += 1
    return tuple(each)


def _constants(draw: random.Random) -> StepConstants:
    return StepConstants(
        matmul=draw.uniform(0.4, 0.95),
        memory=draw.uniform(0.4, 0.95),
        attention=draw.uniform(0.2, 0.7),
        expert_bytes=draw.choice((0.0, 8.0)),
        expert_host_s=draw.choice((0.0, 2e-5)),
        host_s=draw.choice((0.0, 3e-5, 3e-4, 2e-3)),
        host_micro_s=draw.choice((0.0, 1e-3)),
        host_tp_s=draw.choice((0.0, 1e-4)),
        tp_hidden=draw.choice((0.0, 0.3)),
        dp_hidden=draw.choice((0.0, 0.9)),
        fetch_shown=draw.choice((0.0, 0.1, 0.5)),
        pp_shown=draw.random(),
        bubble=draw.choice((1.0, 0.9, 1.2)),
    )


if __name__ == "__main__":
    main()
