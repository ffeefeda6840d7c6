"""What a step does, and how fast that is: the one definition of rates and of MFU.

Model FLOPs are those of PaLM's appendix B: 6 per weight of a product and token, and 12 L H Q T of
attention, all pairs of tokens counted whether a mask hides some or not. What is computed again does
not count, nor do lookups of embeddings. Of a graph they are three times those of the products,
convolutions and attention of its forward pass: two more for the gradients. The peak is that of the
type in which the products run, without sparsity.

Source: Chowdhery et al., PaLM, arXiv 2204.02311, appendix B.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ir.dtypes import short_name
from ir.graph import OpGraph
from ir.normalise import main_dtype
from ir.ops import Engine, OpView, lookup
from ir.ops.attention import MIXERS
from ir.plan import Plan
from topology.cluster import Cluster

__all__ = [
    "RATE_NAMES", "Load", "Rates", "load_of", "peak_text", "rate_words", "rates_of", "tokens_of",
]  # fmt: skip

_COUNTED = frozenset({Engine.MATRIX, Engine.CONVOLUTION, Engine.ATTENTION})
RATE_NAMES = (
    "samples_per_s", "tokens_per_s", "tokens_per_s_per_device",
    "model_flops", "model_flops_utilisation", "peak_flops", "precision",
)  # fmt: skip
"""What JSON says of a speed, the same for plans, layouts and simulations."""
_PASSES = 3
"""Forward, and the gradients of both operands."""


@dataclass(frozen=True, slots=True)
class Load:
    """What one step does, and on what."""

    devices: int
    samples: float
    """Sequences or other samples of a step."""
    tokens: float
    """0 where the model has none."""
    flops: float
    """Model FLOPs of a step, on all devices together."""
    peak_flops: float
    """Of one device, per second, in the type in which products run; 0 if it is not known."""
    memory_bytes: float
    """Of one device that the model may fill."""
    precision: str = ""
    """That type, such as `bf16`."""

    @property
    def peak_text(self) -> str:
        """The peak with its type, such as `989 TFLOP/s bf16`."""
        return peak_text(self.peak_flops, self.precision)


@dataclass(frozen=True, slots=True)
class Rates:
    """How fast a step is."""

    load: Load
    step_s: float

    @property
    def samples_per_s(self) -> float | None:
        return self.load.samples / self.step_s if self.step_s > 0 else None

    @property
    def tokens_per_s(self) -> float | None:
        """None where the model has no tokens."""
        return self.load.tokens / self.step_s if self.load.tokens and self.step_s > 0 else None

    @property
    def tokens_per_s_per_device(self) -> float | None:
        found = self.tokens_per_s
        return None if found is None else found / self.load.devices

    @property
    def utilisation(self) -> float:
        """Model FLOPs over what the devices could do in the time of the step (MFU)."""
        capacity = self.load.peak_flops * self.load.devices * self.step_s
        return self.load.flops / capacity if capacity > 0 else 0.0

    @property
    def words(self) -> tuple[str, ...]:
        """What is known, a phrase each, such as `MFU 57.4 % of 989 TFLOP/s bf16`."""
        return rate_words(self.record(), self.load.devices)

    def record(self) -> dict[str, object]:
        """The same as values of JSON; None where something is not known."""
        load = self.load
        values = (
            self.samples_per_s, self.tokens_per_s, self.tokens_per_s_per_device,
            load.flops, self.utilisation, load.peak_flops, load.precision,
        )  # fmt: skip
        return dict(zip(RATE_NAMES, values, strict=True))


def rate_words(record: Mapping[str, Any], devices: int) -> tuple[str, ...]:
    """What JSON says of a speed, a phrase for each value that is known."""
    names = (("samples_per_s", "samples/s"), ("tokens_per_s", "tokens/s")) + (
        (("tokens_per_s_per_device", "tokens/s per device"),) if devices > 1 else ()
    )
    found = [f"{_amount(record[name])} {unit}" for name, unit in names if record[name]]
    used = record["model_flops_utilisation"]
    if used > 0:
        peak = peak_text(record["peak_flops"], record["precision"])
        found.append(f"MFU {100 * used:.1f} % of {peak}")
    return tuple(found)


def peak_text(flops: float, precision: str) -> str:
    """A peak with its type, such as `989 TFLOP/s bf16`."""
    return f"{_amount(flops / 1e12)} TFLOP/s {precision}".rstrip()


def _amount(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def load_of(plan: Plan) -> Load:
    """What a step of a plan does."""
    times = plan.pipeline.micro_batches
    chip = Cluster.from_dict(plan.cluster).chip
    kind = chip.product_type(main_dtype(plan.graph))
    trains = plan.derives_gradients
    return Load(
        devices=plan.devices,
        samples=float(plan.batch),
        tokens=float(times * tokens_of(plan.graph)),
        flops=times * (_PASSES if trains else 1) * forward_flops(plan.graph),
        peak_flops=chip.peak_flops.get(kind, 0.0),
        memory_bytes=plan.estimate.memory_limit_bytes,
        precision=short_name(kind),
    )


def rates_of(plan: Plan) -> Rates:
    """How fast a step of a plan is, as the planner estimates it."""
    return Rates(load_of(plan), plan.estimate.step_time_s)


def tokens_of(graph: OpGraph) -> int:
    """Elements of the input that holds numbers of tokens; 0 without one."""
    inputs = [graph.tensors[name] for name in graph.inputs]
    found = next((t for t in inputs if len(t.dims) == 2 and t.dtype.startswith("int")), None)
    attends = any(op.kind in MIXERS for op in graph.ops)
    return found.elements if found is not None and attends else 0


def forward_flops(graph: OpGraph) -> float:
    """Of products, convolutions and attention."""
    return graph.once("forward flops", _forward_flops)


def _forward_flops(graph: OpGraph) -> float:
    return float(
        sum(
            lookup(op.kind).flops(OpView(op, graph))
            for op in graph.ops
            if lookup(op.kind).engine in _COUNTED
        )
    )
