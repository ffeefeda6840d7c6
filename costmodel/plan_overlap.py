"""How much of the communication of a plan computation hides, message by message.

The same windows as `costmodel.overlap`, read from the records of a plan: what a window takes beyond
its computation is exposed, and shared out over its messages by their time. Computation holds what
the device waits for the host. Of every message shows what the software profile says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

import numpy as np

from costmodel.overlap import SENT_ALONE, FloatArray, Layers, StepForm, layer_numbers
from costmodel.software import GENERIC, SoftwareProfile, software_profile
from ir.graph import Role, Tensor
from ir.plan import Plan, PlannedCollective, is_once
from ir.plan_enums import Cause
from ir.plan_file import PlanFileError
from topology.cluster import Chip, Cluster


class Kind(IntEnum):
    """Messages that travel beside computation."""

    GATHER = 0
    AGAIN = 1
    """Parameters gathered again for the backward pass."""
    REDUCE = 2
    """Gradients, in every micro-batch."""
    SYNC = 3
    """Gradients, once in a step."""
    UPDATED = 4
    """Updated parameters, once in a step."""


_OF_ACTIVATIONS = frozenset({Cause.FORWARD, Cause.ACTIVATION_GRADIENT, Cause.INSIDE})


@dataclass(frozen=True, slots=True)
class StageTimes:
    """What a stage computes in a micro-batch by layer, and the links that it has."""

    forward_s: Sequence[float]
    backward_s: Sequence[float]
    """With what is computed again."""
    layer_of: Mapping[str, int]
    """Of each parameter that hides something: the first that reads it."""
    tiers: Mapping[str, int]
    """By name of each axis of its mesh with more than one rank the tier that it crosses."""


def host_waits(
    forward_s: FloatArray, backward_s: FloatArray, issued: FloatArray, host_s: float
) -> FloatArray:
    """Seconds of each operator of a layer in which the device waits for the host, forward and
    backward, shape (2, layers).

    Args:
        forward_s: in which the kernels of each layer run, shape (layers,).
        backward_s: the same with what is computed again.
        issued: operators of each layer with kernels.
        host_s: in which the host issues one of them.
    """
    missing = np.maximum(host_s * issued - np.stack([forward_s, backward_s]), 0.0)
    return np.asarray(missing / np.maximum(issued, 1.0))


def kind_of(item: PlannedCollective, micro_batches: int) -> Kind | None:
    """Which of them a message is; None if nothing hides it."""
    if item.cause == Cause.PARAMETER_GATHER:
        return Kind.AGAIN if item.backward else Kind.GATHER
    if item.cause == Cause.UPDATED_PARAMETERS:
        return Kind.UPDATED
    if item.cause == Cause.GRADIENT_SYNC:
        return Kind.SYNC if is_once(item, micro_batches) else Kind.REDUCE
    return None


def windows_of(
    items: Iterable[PlannedCollective],
    works: Mapping[int, StageTimes],
    micro_batches: int,
    software: SoftwareProfile = GENERIC,
) -> dict[int, StageWindows]:
    """What each layer of some stages computes and sends.

    Args:
        items: messages of all stages.
        works: by stage.
        micro_batches: of a step.
        software: what of them shows.
    """
    own: dict[int, list[PlannedCollective]] = {}
    for item in items:
        own.setdefault(item.stage, []).append(item)
    return {
        stage: StageWindows(work, own.get(stage, ()), micro_batches, software)
        for stage, work in works.items()
    }


def with_hidden(
    items: Iterable[PlannedCollective], stages: Mapping[int, StageWindows]
) -> tuple[PlannedCollective, ...]:
    """Messages with how much of them computation hides; those of other stages as they are."""
    return tuple(
        replace(item, hidden_s=item.time_s * stages[item.stage].hidden_share(item))
        if item.stage in stages
        else item
        for item in items
    )


def has_overlap(plan: Plan) -> bool:
    """Whether a plan counts as hidden what travels beside its computation."""
    return plan.request.get("overlap") == "auto" and not plan.graph.is_training_step


def software_of(plan: Plan) -> SoftwareProfile:
    """The software that a plan was priced for."""
    return software_on(plan, Cluster.from_dict(plan.cluster).chip)


def software_on(plan: Plan, chip: Chip) -> SoftwareProfile:
    """The same software on a chip.

    Raises:
        PlanFileError: the plan names none that there is.
    """
    if not plan.request.get("training"):
        return GENERIC
    name, target = plan.request.get("profile", GENERIC.name), plan.request.get("target")
    own: Any = plan.request.get("calibration", ())
    try:
        factors = {str(key): float(value) for key, value in own}
        return software_profile(str(name), str(target), chip, factors)
    except (TypeError, ValueError) as error:
        raise PlanFileError(str(error)) from error


def overlapped(plan: Plan) -> Plan:
    """The plan with what computation hides of its messages, if it counts that."""
    if not has_overlap(plan):
        return plan
    pipeline = plan.pipeline
    works = {stage: _work(plan, stage) for stage in range(len(pipeline.stages))}
    stages = windows_of(plan.collectives, works, pipeline.micro_batches, software_of(plan))
    found = with_hidden(plan.collectives, stages)
    return replace(plan, collectives=found)


def hides(tensor: Tensor) -> bool:
    """Whether messages of a tensor travel beside computation."""
    return tensor.role is Role.PARAMETER and tensor.elements >= SENT_ALONE


def with_host_waits(plan: Plan) -> Plan:
    """The plan with what its operators wait for the host, if the host counts."""
    host_s = software_of(plan).host_s if has_overlap(plan) else 0.0
    if not host_s:
        return plan
    operators, times = list(plan.operators), plan.pipeline.micro_batches
    for stage, own in enumerate(plan.pipeline.stages):
        found = _work(plan, stage)
        layer_of = layer_numbers(plan.graph.ops[own.start : own.end], plan.graph.tensors)
        places = range(own.start, own.end)
        issues = [(n, la) for n, la in zip(places, layer_of, strict=True) if operators[n].compute_s]
        issued = np.bincount([layer for _, layer in issues], minlength=len(found.forward_s))
        kernels = np.array(found.forward_s), np.array(found.backward_s)
        waits = host_waits(*kernels, issued.astype(np.float64), host_s)
        for number, layer in issues:
            operators[number] = operators[number].waiting(*(waits[:, layer] * times).tolist())
    return replace(plan, operators=tuple(operators))


def _work(plan: Plan, stage: int) -> StageTimes:
    """What a stage of a plan computes."""
    own, times = plan.pipeline.stages[stage], plan.pipeline.micro_batches
    ops, tensors = plan.graph.ops[own.start : own.end], plan.graph.tensors
    numbers = layer_numbers(ops, tensors)
    layer_of = {op.name: layer for op, layer in zip(ops, numbers, strict=True)}
    count = max(numbers, default=-1) + 1
    forward, backward = [0.0] * count, [0.0] * count
    for planned in plan.operators[own.start : own.end]:
        layer = layer_of[planned.name]
        forward[layer] += (planned.compute_s - planned.backward_s) / times
        backward[layer] += (planned.backward_s + planned.recompute_s) / times
    makers = {name: layer_of[op.name] for op in ops for name in op.outputs}
    readers: dict[str, int] = {}
    for op in ops:
        for name in op.inputs:
            readers.setdefault(name, layer_of[op.name])
    for tensor in plan.tensors:
        if tensor.recompute_s and tensor.stage == stage:
            layer = makers.get(tensor.name, readers.get(tensor.name, 0))
            backward[layer] += tensor.recompute_s / times
    axes = own.mesh or plan.mesh
    return StageTimes(
        forward,
        backward,
        {name: layer for name, layer in readers.items() if hides(tensors[name])},
        {name: tier for name, size, tier in axes if size > 1},
    )


class StageWindows:
    """What each layer of a stage computes and sends."""

    def __init__(
        self,
        work: StageTimes,
        items: Sequence[PlannedCollective],
        micro_batches: int,
        software: SoftwareProfile,
    ) -> None:
        self.work, self.micro_batches, self.software = work, micro_batches, software
        count = len(work.forward_s)
        self.layers = Layers(tuple(range(-1, count - 1)))
        tiers = sorted(set(work.tiers.values()))
        self.form = StepForm(len(tiers), micro_batches)
        at = self.form.loads
        self.columns = (at.gather, at.again, at.reduce, at.sync, at.updated)
        loads = np.zeros((count, at.count))
        sent = np.zeros((count, len(Kind)))
        loads[:, at.FORWARD], loads[:, at.BACKWARD] = work.forward_s, work.backward_s
        for item in items:
            kind, layer = kind_of(item, micro_batches), work.layer_of.get(item.tensor)
            if kind is None or layer is None:
                continue
            seconds = item.time_s if kind >= Kind.SYNC else item.time_s / micro_batches
            seconds *= 1.0 - self._shown(kind)
            sent[layer, kind] += seconds
            for tier in {work.tiers[axis] for axis in item.axes if axis in work.tiers}:
                loads[layer, self.columns[kind].start + tiers.index(tier)] += seconds
        self.sent = self._beside(sent)
        self.exposed = self._exposed(self.layers.windows(at, loads))

    def _shown(self, kind: Kind) -> float:
        """Share of a message that shows though computation would hide it."""
        own = self.software
        return own.sync_shown if kind >= Kind.SYNC else own.gathers_shown

    def _beside(self, sent: FloatArray) -> FloatArray:
        """Seconds of messages by the window that they travel in, from those of the layer."""
        out = np.zeros((len(sent), len(Kind)))
        for (layer, kind), seconds in np.ndenumerate(sent):
            beside, column = self._target(layer, Kind(kind))
            if beside >= 0:
                out[beside, column] += seconds
        return out

    def _target(self, layer: int, kind: Kind) -> tuple[int, Kind]:
        """The window that a message of a layer travels in; none (-1) at an end of the step."""
        if kind is not Kind.AGAIN:
            return self.layers.before[layer], kind
        after = self.layers.after[layer]
        return (after, kind) if after >= 0 else (layer, Kind.GATHER)

    def _exposed(self, loads: FloatArray) -> FloatArray:
        """Of the messages in each window the share that is exposed, shape (layers, kinds)."""
        at = self.form.loads
        out = np.zeros((len(loads), len(Kind)))
        passes = (
            (at.FORWARD, (Kind.GATHER,), Kind.UPDATED),
            (at.BACKWARD, (Kind.AGAIN, Kind.REDUCE), Kind.SYNC),
        )
        for compute, each, once in passes:
            links = sum((loads[:, self.columns[kind]] for kind in each), start=0.0)
            compute_s = loads[:, compute]
            always_s = np.maximum(compute_s, np.max(links, axis=1, initial=0.0))
            more = links + loads[:, self.columns[once]]
            apart_s = np.maximum(compute_s, np.max(more, axis=1, initial=0.0))
            pairs = ((each, always_s - compute_s), ((once,), apart_s - always_s))
            for kinds, exposed_s in pairs:
                total = self.sent[:, list(kinds)].sum(axis=1)
                share = np.divide(exposed_s, total, out=np.zeros_like(total), where=total > 0)
                for kind in kinds:
                    out[:, kind] = np.minimum(share, 1.0)
        return out

    def hidden_share(self, item: PlannedCollective) -> float:
        """Of the time of a message of the stage, the share that is hidden."""
        if item.cause in _OF_ACTIVATIONS:
            return self.software.tensor_hidden
        kind, layer = kind_of(item, self.micro_batches), self.work.layer_of.get(item.tensor)
        if kind is None or layer is None:
            return 0.0
        beside, column = self._target(layer, kind)
        hidden = 0.0 if beside < 0 else float(1.0 - self.exposed[beside, column])
        return hidden * (1.0 - self._shown(kind))
