"""What a person reads of a plan: each fact counted once, for text, JSON, HTML and page alike."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ir.causes import cause_text
from ir.degrees import Degrees
from ir.normalise import main_dtype
from ir.plan import Plan
from ir.plan_degrees import degrees_of
from ir.plan_enums import Cause
from ir.plan_estimate import Estimate
from ir.plan_name import plan_name
from ir.plan_stages import mesh_text, overlap_text, split_text, tier_names
from ir.published import expected_s, expected_text, published_note
from ir.throughput import Rates, rates_of
from report.operators import OperatorGroup, ParameterGroup, recomputed_groups
from report.operators import operator_groups as groups_of_operators
from report.operators import parameter_groups as groups_of_parameters
from topology.units import format_bytes, format_seconds

COMPUTE = (Cause.COMPUTE_FORWARD, Cause.COMPUTE_BACKWARD, Cause.RECOMPUTE, Cause.UPDATE)
"""Causes that stand first, in this order."""


@dataclass(frozen=True, slots=True)
class TimeCause:
    """One cause of the time of a step."""

    cause: str
    """As the plan has it, such as `all_gather in server`."""
    exposed_s: float
    """Of a step; those of all causes sum to it."""
    hidden_s: float
    """Beside computation, where it costs nothing."""
    purposes: Mapping[str, float]
    """Exposed seconds by what the collectives are for, the longest first."""

    @property
    def label(self) -> str:
        return cause_text(self.cause)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Collectives of one kind over the links of one tier, in a step."""

    tier: str
    kind: str
    count: int
    nbytes: float
    """Of a device."""
    exposed_s: float
    hidden_s: float


@dataclass(frozen=True, slots=True)
class Figure:
    """A number that stands above all tables."""

    key: str
    value: float | None
    text: str
    label: str


@dataclass(frozen=True)
class PlanReport:
    """A plan as it is told. What is costly to count is counted when it is asked for."""

    plan: Plan

    @property
    def estimate(self) -> Estimate:
        return self.plan.estimate

    @property
    def step_s(self) -> float:
        return self.estimate.step_time_s

    @property
    def trains(self) -> bool:
        return bool(self.plan.request.get("training"))

    @property
    def chip(self) -> str | None:
        """Name of the chip, if the plan says it."""
        chip = self.plan.cluster.get("chip")
        return str(chip.get("name")) if isinstance(chip, Mapping) else None

    @cached_property
    def rates(self) -> Rates:
        """Throughput and MFU."""
        return rates_of(self.plan)

    @cached_property
    def degrees(self) -> Degrees:
        """What most products and attention are split by; as text `tp=8,dp=2`."""
        return degrees_of(self.plan)

    @property
    def expected_s(self) -> tuple[float, float] | None:
        """Least and most seconds by published runs; None where no run is like it."""
        return expected_s(self.estimate)

    @property
    def certainty(self) -> str:
        """How far the step is backed by published runs."""
        expected = expected_text(self.estimate)
        return f"90 % of comparable published runs: {expected}" if expected else "uncalibrated"

    @property
    def name(self) -> str:
        """What the field calls the plan, such as `DP 8 x TP 8, ZeRO-1`."""
        return plan_name(self.plan)

    @property
    def memory(self) -> str:
        """Peak of a device and its limit."""
        peak, limit = self.estimate.peak_memory_bytes, self.estimate.memory_limit_bytes
        of = f" of {format_bytes(limit)}" if math.isfinite(limit) else ""
        return f"peak memory {format_bytes(peak)}{of}"

    @property
    def proof(self) -> str:
        """How far the plan may be from the fastest one."""
        bound = self.plan.bound
        if bound.proof == "optimal":
            return "proven optimal"
        if math.isfinite(bound.bound_s) and bound.bound_s > 0:
            return f"at most {self.gap} above the lower bound"
        return "no lower bound"

    @property
    def job(self) -> tuple[str, ...]:
        """Batch, element type, optimizer."""
        batch = (f"batch {self.plan.batch}",) if self.plan.batch else ()
        optimizer = (str(self.plan.request.get("optimizer")),) if self.trains else ()
        return (*batch, main_dtype(self.plan.graph), *optimizer)

    @property
    def place(self) -> str:
        """Devices, target and mesh."""
        plan, stages = self.plan, len(self.plan.pipeline.stages)
        mesh = f"{stages} stages of mesh" if stages > 1 else "mesh"
        return (
            f"{plan.devices} x {self.chip or 'device'} ({plan.cluster.get('name')}), "
            f"for {plan.request.get('target')}, {mesh} {mesh_text(plan)}"
        )

    @property
    def what(self) -> str:
        """What a step is."""
        return "one training step" if self.trains else "one forward pass"

    @property
    def about(self) -> tuple[str, ...]:
        """What the plan is of, a phrase each."""
        return tuple(filter(None, (self.name, self.what, *self.job, self.split, self.place)))

    @property
    def figures(self) -> tuple[Figure, ...]:
        """Step, throughput, memory and how good the plan is."""
        peak, limit = self.estimate.peak_memory_bytes, self.estimate.memory_limit_bytes
        used = f", {100 * peak / limit:.1f} % of the limit" if math.isfinite(limit) else ""
        first, *others = self.rates.words or ("",)
        samples, step_s = self.rates.samples_per_s, self.step_s
        found = (
            Figure("step_s", step_s, format_seconds(step_s), f"step time, {self.certainty}"),
            Figure("samples_per_s", samples, first, ", ".join(("throughput", *others))),
            Figure("peak_bytes", peak, format_bytes(peak), f"peak memory{used}"),
            Figure("gap", self.plan.bound.gap, self.gap, "above the proven bound"),
        )
        return tuple(each for each in found if each.text)

    @property
    def split(self) -> str:
        """How a batch that does not fit as one was split; empty where it fits."""
        return split_text(self.plan)

    @cached_property
    def time(self) -> tuple[TimeCause, ...]:
        """The step by cause: computation, then the longest."""
        found, hidden = self.estimate.time_by_cause, self.estimate.hidden_by_cause
        purposes = self._purposes()
        others = [cause for cause in {**found, **hidden} if cause not in COMPUTE]
        others.sort(key=lambda cause: (-found.get(cause, 0.0), -hidden.get(cause, 0.0)))
        return tuple(
            TimeCause(c, found.get(c, 0.0), hidden.get(c, 0.0), purposes.get(c, {}))
            for c in (*(c.value for c in COMPUTE if c in found), *others)
        )

    def _purposes(self) -> dict[str, dict[str, float]]:
        found: dict[str, dict[str, float]] = {}
        for item in self.plan.collectives:
            row = found.setdefault(f"{item.kind} in {item.tier}", {})
            row[item.cause] = row.get(item.cause, 0.0) + item.exposed_s
        return {c: dict(sorted(row.items(), key=lambda kv: -kv[1])) for c, row in found.items()}

    def _sum(self, *causes: str) -> float:
        return math.fsum(self.estimate.time_by_cause.get(cause, 0.0) for cause in causes)

    @property
    def computing_s(self) -> float:
        """Of a step, in which the slowest pipeline rank computes."""
        return self._sum(*COMPUTE)

    @property
    def waiting_s(self) -> float:
        """Of a step, in which it is idle (pipeline bubble)."""
        return self._sum(Cause.OTHER_STAGES)

    @property
    def exposed_s(self) -> float:
        """Of a step, in which it does nothing but send, receive and copy."""
        others = [cause for cause in self.estimate.time_by_cause if cause not in COMPUTE]
        return self._sum(*others) - self.waiting_s

    @property
    def overlap(self) -> str:
        """What the step counts of communication, and how much of it hides."""
        return overlap_text(self.plan)

    @cached_property
    def traffic(self) -> tuple[Traffic, ...]:
        """Collectives by tier and kind, the outermost tier first."""
        found: dict[tuple[str, str], Traffic] = {}
        for item in self.plan.collectives:
            key = item.tier, item.kind
            old = found.get(key, Traffic(*key, 0, 0.0, 0.0, 0.0))
            found[key] = Traffic(
                *key,
                old.count + item.count,
                old.nbytes + item.nbytes * item.count,
                old.exposed_s + item.exposed_s,
                old.hidden_s + item.hidden_s,
            )
        order = {name: i for i, name in enumerate(tier_names(self.plan))}
        return tuple(
            sorted(
                found.values(),
                key=lambda t: (order.get(t.tier, 99), -t.exposed_s - t.hidden_s, t.kind),
            )
        )

    @cached_property
    def operators(self) -> tuple[OperatorGroup, ...]:
        """Equal operators together, by the time that they take."""
        return groups_of_operators(self.plan)

    @property
    def operators_s(self) -> float:
        """What the times of operators are parts of: a step of every part of the machine."""
        return self.step_s * self.plan.pipeline.parts

    @property
    def model_operators(self) -> int:
        """Operators of the model that those of the plan stand for."""
        return sum(max(1, len(op.parts)) for op in self.plan.graph.ops)

    @property
    def elements(self) -> int:
        """Of all parameters."""
        return sum(math.prod(tensor.dims) for tensor in self.plan.parameters)

    @cached_property
    def parameters(self) -> tuple[ParameterGroup, ...]:
        return groups_of_parameters(self.plan)

    @cached_property
    def recomputed(self) -> tuple[tuple[str, int], ...]:
        """What the backward pass computes again, and how many tensors of it."""
        return recomputed_groups(self.plan)

    @property
    def sharding(self) -> str:
        """How many parameters are shared out over their copies, and how far."""
        counts = Counter(tensor.zero for tensor in self.plan.parameters)
        told = ", ".join(f"{count} at stage {level}" for level, count in sorted(counts.items()))
        return f"ZeRO: of {sum(counts.values())} parameters {told}"

    @property
    def host_bytes(self) -> float:
        """What each device keeps in the memory of its host at most."""
        found = [0.0] * self.plan.pipeline.parts
        for tensor in self.plan.parameters:
            found[tensor.stage % len(found)] += tensor.host_bytes
        return max(found)

    @property
    def gap(self) -> str:
        """How far the step may be above the fastest of the space."""
        bound = self.plan.bound
        if bound.proof == "optimal":
            return "0 %"
        return f"{100 * bound.gap:.2g} %" if math.isfinite(bound.gap) else "unknown"

    @property
    def notes(self) -> tuple[str, ...]:
        """What was assumed, and what the seconds rest on."""
        return (*self.plan.notes, published_note(self.estimate))


def faster(time_s: float | None, step_s: float | None) -> str:
    """How much faster a plan is than a scheme; a ratio that rounds to one is as fast.

    >>> faster(3.0, 2.0), faster(2.0, 2.0), faster(None, 2.0)
    ('1.50 x faster', 'as fast', '')
    """
    if not time_s or not step_s:
        return ""
    ratio = f"{time_s / step_s:.2f}"
    return "as fast" if ratio == "1.00" else f"{ratio} x faster"


def compared(report: PlanReport) -> Sequence[str]:
    """How the plan compares with the first scheme that has a time."""
    plain = next((b for b in report.plan.baselines if b.step_time_s is not None), None)
    if plain is None or plain.step_time_s is None:
        return ()
    if not plain.fits:
        ratio = plain.step_time_s / report.step_s
        return (f"{plain.name} would take {ratio:.2f} x the time, but does not fit into memory",)
    told = faster(plain.step_time_s, report.step_s)
    return (f"{told} {'as' if told == 'as fast' else 'than'} {plain.name}",)
