"""The plan: what was decided, what it costs, and the evidence. The record that plan.json is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from ir.graph import OpGraph
from ir.plan_enums import Cause, Schedule
from ir.plan_estimate import Baseline, Bound, Estimate, Objective, Space

FORMAT = "parallel-plan"
VERSION = 1
LEAVES = -2
"""Operand of a communication that brings a tensor into the layout in which it leaves a stage."""


@dataclass(frozen=True, slots=True)
class NamedLayout:
    """A layout with the names of the mesh axes.

    >>> str(NamedLayout((("server",), ()), ("card",)))
    '[server, -] +card'
    """

    dims: tuple[tuple[str, ...], ...]
    """Axes that split each dimension, outermost first; empty leaves it whole. `/n` is no axis: in
    the midst of a redistribution what follows splits each of n pieces.
    """
    partial: tuple[str, ...] = ()
    """Axes over which every device holds a term of a sum."""

    def shards(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Number of pieces of each dimension, given the sizes of the mesh axes."""
        return tuple(math.prod(sizes.get(axis, 1) for axis in dim) for dim in self.dims)

    def __str__(self) -> str:
        body = ", ".join("*".join(dim) or "-" for dim in self.dims)
        return f"[{body}]" + (" +" + "*".join(self.partial) if self.partial else "")


@dataclass(frozen=True, slots=True)
class PlannedOperator:
    """How one operator is split."""

    name: str
    kind: str
    label: str
    scope: str
    split: tuple[tuple[str, int], ...]
    """For each mesh axis the factor of the sharding rule that it splits; -1 repeats the operator,
    -2 repeats it with gradients that are terms of a sum.
    """
    inputs: tuple[NamedLayout | None, ...]
    """Layout of every operand; none for constants and absent operands."""
    outputs: tuple[NamedLayout | None, ...]
    compute_s: float
    """Computation of one step, forward and backward."""
    backward_s: float = 0.0
    """The part of `compute_s` that is the backward pass."""
    recompute_s: float = 0.0
    """Before its backward pass, to compute again what was not kept; not in `compute_s`."""
    stage: int = 0
    """Stage of the pipeline that runs it, where there is one."""
    waits_s: tuple[float, float] = (0.0, 0.0)
    """Of `compute_s` what the device waits for the host, in the forward and the backward pass."""

    @property
    def kernels_s(self) -> tuple[float, float]:
        """Seconds of a step in which its kernels run, forward and backward."""
        forward_s, backward_s = self.waits_s
        return self.compute_s - self.backward_s - forward_s, self.backward_s - backward_s

    def waiting(self, forward_s: float, backward_s: float) -> Self:
        """The same kernels with other times in which the device waits for the host."""
        own = self.kernels_s
        return replace(
            self,
            compute_s=math.fsum((*own, forward_s, backward_s)),
            backward_s=own[1] + backward_s,
            waits_s=(forward_s, backward_s),
        )


@dataclass(frozen=True, slots=True)
class PlannedTensor:
    """Layout of a parameter at rest, of an input, or of a tensor with several readers."""

    name: str
    role: str
    dims: tuple[int, ...]
    dtype: str
    layout: NamedLayout
    used: NamedLayout | None = None
    """For a parameter: its layout in the first operator that reads it."""
    gradient: NamedLayout | None = None
    """Layout of its gradient, where it has one and the target keeps terms of sums."""
    update_s: float = 0.0
    """For a parameter: the optimizer's work."""
    recompute_s: float = 0.0
    """To compute the tensor again for the backward pass, where it is not kept."""
    zero: int = 0
    """For a parameter of a step with micro-batches: the stage of ZeRO up to which what belongs to
    it is shared out over its copies. 1: optimizer state, 2: gradient, 3: the parameter at rest."""
    states: NamedLayout | None = None
    """For a parameter: the layout of its optimizer state, where that is not its own at rest."""
    stage: int = 0
    """Stage of the pipeline that holds it, where there is one; of an input the first that reads it.
    """
    host_bytes: float = 0.0
    """For a parameter: optimizer state that each device keeps in the memory of its host."""
    host_s: float = 0.0
    """Once in a step, in which that comes to the device for the update and goes back."""


@dataclass(frozen=True, slots=True)
class PlannedCollective:
    """One predicted communication."""

    kind: str
    axes: tuple[str, ...]
    """Mesh axes of the group: ranks that differ in these alone."""
    group_size: int
    nbytes: float
    """Bytes of each device, counted as the kind does (docs/step.md)."""
    count: int
    """How often in one step."""
    time_s: float
    """All of them."""
    tier: str
    """Outermost tier that it crosses."""
    cause: str
    tensor: str
    operator: str
    """The operator that needs it; empty for a parameter's own update."""
    operand: int = -1
    """Which operand of that operator; -1 where it is none, `LEAVES` where the tensor leaves for the
    next stage.
    """
    before: NamedLayout | None = None
    """Layout of the tensor that it starts from; none inside operators."""
    after: NamedLayout | None = None
    """Layout of the tensor that it leaves."""
    backward: int = 0
    """How many of `count` belong to the backward pass."""
    stage: int = 0
    """Stage of the pipeline that it is part of, where there is one."""
    hidden_s: float = 0.0
    """Of `time_s`, in which it travels beside computation and costs nothing."""

    @property
    def exposed_s(self) -> float:
        """Seconds that the step is longer for it."""
        return self.time_s - self.hidden_s


@dataclass(frozen=True, slots=True)
class PipelineStage:
    """What runs on one mesh of a pipeline."""

    start: int
    end: int
    """Operators from `start` to before `end`."""
    forward_s: float
    """Of one micro-batch, with what it receives."""
    backward_s: float
    """The same, with what is computed again."""
    once_s: float
    """Once in a step: gradients of copies of parameters, updates."""
    peak_memory_bytes: float
    """Of a device, with all micro-batches that are on the way."""
    in_flight: int
    """Micro-batches whose activations it keeps."""
    blocks: tuple[tuple[int, int], ...] = ()
    """Operators that the backward pass computes again as a whole, as ranges like `start` and `end`:
    of what a block makes only what leaves it is kept."""
    mesh: tuple[tuple[str, int, int], ...] = ()
    """Axes like those of the plan, where its part of the machine has a mesh of another size."""
    sync_s: float = 0.0
    """Of `once_s`: sums of gradients inside the stage, before anything is updated."""
    update_s: float = 0.0
    """Of `once_s`: updates, gathers of their results, state from and to the host. What is left are
    sums of gradients with other stages."""


@dataclass(frozen=True, slots=True)
class SharedParameter:
    """A parameter that several stages hold; once in a step they add up their gradients of it."""

    tensor: str
    stages: tuple[int, ...]
    """Those that hold it."""
    layouts: tuple[NamedLayout, ...]
    """At rest in each of them."""
    nbytes: float
    """Of the gradient on a device, at most."""
    time_s: float
    """In which they add it up, once in a step; part of the time of each stage."""
    tier: str
    """Links that it crosses."""
    updates_s: tuple[float, ...] = ()
    """Of its update in each of them; where it is not told, as in the first one."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A step as micro-batches that go through stages; every stage has a mesh of its own.

    Parts of the machine have ranks in a row, each as many as its mesh has places: that of the plan
    unless a stage has its own. Stage s runs on part s mod p; with chunks there are several stages
    on each part.
    """

    schedule: str
    """A `Schedule`, or another one that somebody wrote into a file."""
    micro_batches: int
    """Of one step; the graph of the plan is of one of them."""
    micro_batch: int
    """Samples of each."""
    stages: tuple[PipelineStage, ...]
    sends: tuple[PlannedCollective, ...] = ()
    """What goes from stage to stage: `operator` is the first that reads it there."""
    chunks: int = 1
    """Stages that share a part of the machine and take turns on it."""
    shared: tuple[SharedParameter, ...] = ()
    """Parameters that several stages hold."""

    @property
    def is_single(self) -> bool:
        """Whether a step is one batch on one mesh, of which outputs tell no pipeline."""
        return self.schedule == Schedule.SINGLE

    @property
    def parts(self) -> int:
        """Parts of the machine; stage s runs on part s mod so many."""
        return len(self.stages) // self.chunks

    @property
    def global_batch(self) -> int:
        return self.micro_batches * self.micro_batch


SINGLE = Pipeline(Schedule.SINGLE, micro_batches=1, micro_batch=0, stages=())
"""That a step is one batch on one mesh; a plan fills in the one stage."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A complete, self-contained answer: export, simulation and explanation need no other file."""

    graph: OpGraph
    digest: str
    """Hash of the graph that was planned."""
    cluster: Mapping[str, object]
    mesh: tuple[tuple[str, int, int], ...]
    """Axes outermost first: name, size, tier."""
    rank_order: tuple[int, ...]
    """Physical device of each rank; ranks fill the mesh row-major."""
    request: Mapping[str, object]
    operators: tuple[PlannedOperator, ...]
    tensors: tuple[PlannedTensor, ...]
    recomputed: tuple[str, ...]
    """Tensors that the backward pass computes again instead of keeping them."""
    collectives: tuple[PlannedCollective, ...]
    estimate: Estimate
    space: Space
    bound: Bound
    baselines: tuple[Baseline, ...] = ()
    notes: tuple[str, ...] = field(default=())
    """What was assumed, for the reader."""
    objective: Objective | None = None
    """None if the time of a step was minimised."""
    pipeline: Pipeline = SINGLE
    """Its stages; a step of one batch on one mesh has one, which sums up the rest of the plan."""
    memory_bytes: tuple[float, ...] = ()
    """In use while each operator runs: forward in order, then backward in reverse order."""
    whole_batch_bytes: float | None = None
    """Bytes per device that the batch needs as one, where it was split into micro-batches because
    that does not fit."""

    def __post_init__(self) -> None:
        if self.pipeline.is_single:
            stages = (_only_stage(self),)
            single = replace(SINGLE, micro_batch=self.graph.batch, stages=stages)
            object.__setattr__(self, "pipeline", single)

    @property
    def parameters(self) -> tuple[PlannedTensor, ...]:
        return tuple(t for t in self.tensors if t.role == "parameter")

    @property
    def input_layouts(self) -> dict[str, NamedLayout]:
        """How the inputs that the plan lays out arrive, in the order of the model."""
        found = {t.name: t.layout for t in self.tensors if t.role == "input"}
        return {name: found[name] for name in self.graph.inputs if name in found}

    @property
    def axis_sizes(self) -> dict[str, int]:
        return {name: size for name, size, _ in self.mesh}

    @property
    def trains(self) -> bool:
        return bool(self.request.get("training"))

    @property
    def derives_gradients(self) -> bool:
        """Whether it trains a graph that is the forward pass alone."""
        return self.trains and not self.graph.is_training_step

    @property
    def devices(self) -> int:
        return len(self.rank_order)

    @property
    def batch(self) -> int:
        """Samples of one step, 0 when unknown."""
        return self.pipeline.global_batch


def is_once(item: PlannedCollective, micro_batches: int) -> bool:
    """Whether a communication runs once in a step and not in every micro-batch: the reduction of
    gradients that are added up in place, and what brings parts of a parameter together after the
    update.
    """
    at_end = item.cause == Cause.GRADIENT_SYNC and (item.count == 1 or micro_batches == 1)
    return at_end or item.cause == Cause.UPDATED_PARAMETERS


def _only_stage(plan: Plan) -> PipelineStage:
    """The stage of a plan of one batch on one mesh."""
    whole_s, back_s, sync_s, gather_s = 0.0, 0.0, 0.0, 0.0
    for item in plan.collectives:
        if not is_once(item, 1):
            whole_s += item.exposed_s
            back_s += item.exposed_s * item.backward / max(item.count, 1)
        elif item.cause == Cause.GRADIENT_SYNC:
            sync_s += item.exposed_s
        else:
            gather_s += item.exposed_s
    whole_s += sum(o.compute_s + o.recompute_s for o in plan.operators)
    back_s += sum(o.backward_s + o.recompute_s for o in plan.operators)
    remade_s = sum(t.recompute_s for t in plan.tensors)
    update_s = gather_s + sum(t.update_s + t.host_s for t in plan.tensors)
    return PipelineStage(
        start=0,
        end=len(plan.operators),
        forward_s=whole_s - back_s,
        backward_s=back_s + remade_s,
        once_s=sync_s + update_s,
        peak_memory_bytes=plan.estimate.peak_memory_bytes,
        in_flight=1,
        sync_s=sync_s,
        update_s=update_s,
    )
