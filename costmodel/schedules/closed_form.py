"""How long a step of a pipeline takes by closed forms of the order of its passes.

With p stages, v chunks of layers on each, m micro-batches, and stages that take t seconds for both
passes of one of them, a step of 1F1B (v = 1) or interleaved chunks takes

    m max t + (sum t - max t) / v

(Zheng et al., Alpa, OSDI 2022, section 5, equation 2; Narayanan et al., SC 2021, section 2.2.2).
Deferred gradients of weights fill the bubble (Qi et al., Zero Bubble Pipeline Parallelism,
arXiv 2401.10241, table 2). Micro-batches that enter at both ends halve it, and a forward and a
backward pass that run interleaved hide what both send (DeepSeek-V3, arXiv 2412.19437, section
3.2.1; github.com/deepseek-ai/DualPipe).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]

DEFERRED: Mapping[str, float] = MappingProxyType({"zb-h1": 1.0, "zb-h2": 2.0})
"""Deferred gradients of weights, by schedule: see `Pipelines.deferred`."""


def pipeline_time_s(stage_times_s: Sequence[float], micro_batches: int, chunks: int = 1) -> float:
    """Seconds of a step.

    >>> pipeline_time_s([2.0, 2.0, 2.0, 2.0], 16)
    38.0
    """
    slowest = max(stage_times_s)
    return micro_batches * slowest + (sum(stage_times_s) - slowest) / chunks


class Elsewhere(NamedTuple):
    """Seconds of one micro-batch on all stages but one, any shape that ends with (N,)."""

    both: FloatArray
    """Forward and backward pass."""

    backward: FloatArray
    weight: FloatArray
    """The gradients of the weights."""

    pair: FloatArray
    """What both passes take where they run interleaved."""


@dataclass(frozen=True, slots=True)
class Pipelines:
    """The pipelines of N layouts, each array of shape (N,)."""

    stages: FloatArray
    chunks: FloatArray
    micro_batches: FloatArray
    deferred: FloatArray
    """Gradients of weights are deferred to fill the bubble: 1 with the memory of 1F1B's first stage
    on each (ZB-H1), 2 with twice as much (ZB-H2)."""

    bidirectional: FloatArray
    """1 where micro-batches enter at both ends, so that two devices have each stage (DualPipe)."""

    all_forward: FloatArray
    """1 where all forward passes come before all backward passes (GPipe)."""

    def steady_s(self, slowest: FloatArray, pair: FloatArray) -> FloatArray:
        """Seconds that a stage works on all micro-batches.

        Args:
            slowest: seconds of one of them, forward and backward.
            pair: the same where both passes run interleaved.
        """
        paired = (self.micro_batches - self.unpaired) * pair + self.unpaired * slowest
        return np.where(self.bidirectional > 0, paired, self.micro_batches * slowest)

    def idle_s(self, others: Elsewhere) -> FloatArray:
        """Seconds that a stage idles.

        With p - 1 equal ones beside it: 1F1B (p - 1)(f + B), interleaved (p - 1)(f + B) / v, ZB-H1
        (p - 1)(f + b - w), ZB-H2 (p - 1)(f + b - 2 w), DualPipe (p / 2 - 1)(FB + B - 3 w), with
        B = b + w. Of few micro-batches less is filled: see `deferred_share`.
        """
        idle = (others.both - self.deferred_share * others.weight) / self.chunks
        paired = self.half * (others.pair + others.backward - 3.0 * others.weight)
        return np.maximum(np.where(self.bidirectional > 0, paired, idle), 0.0)

    @property
    def apart(self) -> NDArray[np.bool_]:
        """Where gradients of weights come apart from those of inputs."""
        return (self.deferred > 0) | (self.bidirectional > 0)

    @property
    def deferred_share(self) -> FloatArray:
        """Gradients of weights that are not in the way of a pipeline's ends, per stage beside one.

        None delays the stages before it: one each. Those of all micro-batches but the last may fill
        the bubble: of ZB-H1 p - 1 at most, of ZB-H2 twice as many. Both orders, simulated, take
        exactly that long.
        """
        others = np.maximum(self.stages - 1.0, 1.0)
        filling = np.minimum(self.deferred, (self.micro_batches - 1.0) / others)
        return np.where(self.deferred > 0, 1.0 + filling, 0.0)

    @property
    def unpaired(self) -> FloatArray:
        """Forward and backward passes of DualPipe that run in no pairs: m - p - 1 of m do."""
        return np.minimum(self.stages + 1.0, self.micro_batches)

    @property
    def half(self) -> FloatArray:
        """Stages of DualPipe that are idle beside one, of all others."""
        return (self.stages / 2.0 - 1.0) / np.maximum(self.stages - 1.0, 1.0)

    def in_flight(self, behind: FloatArray | float) -> FloatArray:
        """Micro-batches whose activations a stage holds, `behind` stages after the first.

        1F1B: p minus the stages before. Interleaved: as many chunks as there are passes ahead, and
        one: 2 (p - 1 - behind) + (v - 1) p + 1 of v to a stage (Narayanan et al., SC 2021, section
        2.2, and Megatron-LM); on the first stage (p - 1) / (p v) of p more than 1F1B (Korthikanti
        et al., section 4.2.3). GPipe: all. ZB-H1: p on every stage, ZB-H2 2 p - 1 (Qi et al., table
        2). DualPipe: p + 1 of one of two stages, so half as many of both (DeepSeek-V3, table 2).
        """
        p, v, deferred = self.stages, self.chunks, self.deferred
        ahead = 2.0 * (p - 1.0 - behind) + (v - 1.0) * p
        deepest = np.where(v > 1, (ahead + 1.0) / v, p - behind)
        deepest = np.where(deferred > 0, deferred * p - (deferred > 1), deepest)
        deepest = np.where(self.all_forward > 0, self.micro_batches, deepest)
        deepest = np.where(self.bidirectional > 0, (p + 1.0) / 2.0, deepest)
        return np.where(p > 1, np.minimum(self.micro_batches, deepest), 1.0)
