"""Gradients of parameters that several stages hold, added up once in a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist

from executors.dtensor.at_rest import StageParameters
from executors.dtensor.stages import Stage
from executors.syncs import late_syncs
from ir.layout import Layout
from ir.plan import NamedLayout, Plan
from ir.plan_stages import stage_plan


@dataclass(frozen=True, slots=True)
class _Shared:
    parameter: str
    """By the plan."""
    kept: StageParameters
    group: Any
    alike: bool
    """Whether it rests alike in all stages."""


@dataclass(slots=True)
class SharedGradients:
    """The shared parameters of one rank."""

    shared: Sequence[_Shared]

    @classmethod
    def of(cls, plan: Plan, stages: Sequence[Stage]) -> SharedGradients:
        """Those of a plan; all ranks make their groups together."""
        parts = plan.pipeline.parts
        size, rank = plan.devices // parts, dist.get_rank()
        found = []
        for each in plan.pipeline.shared:
            where = sorted({stage % parts for stage in each.stages})
            groups = [dist.new_group([p * size + i for p in where]) for i in range(size)]
            own = next((s for s in stages if each.tensor in s.kept.parameters), None)
            if own is not None and len(where) > 1:
                rests = {_rest(plan, stage, each.tensor) for stage in each.stages}
                found.append(_Shared(each.tensor, own.kept, groups[rank % size], len(rests) == 1))
        return cls(found)

    def add_up(self, parameters: Mapping[str, Any]) -> None:
        """Add up gradients in place."""
        for each in self.shared:
            kept = each.kept
            held = parameters[kept.parameters[each.parameter]]
            if held.grad is None:
                continue
            local = held.grad._local_tensor  # noqa: SLF001
            if each.alike:
                dist.all_reduce(local, group=each.group)
                continue
            grid, mover = kept.step.grid, kept.step.mover
            tensor = grid.wrapped(local, tuple(held.shape), kept.rest(each.parameter))
            whole = mover.to(tensor, Layout(((),) * held.ndim))._local_tensor  # noqa: SLF001
            dist.all_reduce(whole, group=each.group)
            local.copy_(grid.part_of(whole, kept.rest(each.parameter)))


def _rest(plan: Plan, stage: int, name: str) -> NamedLayout:
    sync = late_syncs(plan, stage).get(name)
    if sync is not None:
        return sync.rest
    return next(t.layout for t in stage_plan(plan, stage).tensors if t.name == name)
