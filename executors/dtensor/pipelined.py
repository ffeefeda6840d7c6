"""Stages of a plan as `torch.distributed.pipelining` runs them: one call is a step of all
micro-batches, forward and backward.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import torch
import torch.distributed as dist
from torch.distributed import pipelining

from executors.device_algorithms.losses import sums_losses
from executors.dtensor.module import Running
from executors.dtensor.shared import SharedGradients
from executors.dtensor.stages import Stage
from executors.judgement import Traffic, summed
from executors.torch_differences import SCHEDULES, ApplyError
from ir.dtypes import dtype_bytes
from ir.plan import Plan

Loss: TypeAlias = Callable[[Any, Any], Any]


class _Module(torch.nn.Module):  # type: ignore[misc, unused-ignore]
    """One stage as a schedule calls it: with what it receives and the number of a micro-batch."""

    def __init__(self, running: Running, pipelined: Pipelined) -> None:
        super().__init__()
        self.running, self.pipelined = running, pipelined

    def forward(self, *received: Any, number: Any) -> Any:
        """The stage's results of a micro-batch."""
        model, operands = self.pipelined.under_way
        found = self.running(model[0], [*received, *operands[int(number)]])
        if not self.running.step.leaving:
            return found
        parts = found if isinstance(found, tuple) else (found,)
        return tuple(part.contiguous() for part in parts)


@dataclass(slots=True)
class Clock:
    """Seconds in which a rank computes its stages; what is left of a step it waits for others."""

    runs: bool = False
    busy_s: float = 0.0

    def timed(self, act: Callable[[], Any]) -> Any:
        """The result of an act, whose seconds are added up while the clock runs."""
        if not self.runs:
            return act()
        start = self._now()
        found = act()
        self.busy_s += self._now() - start
        return found

    @staticmethod
    def _now() -> float:
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        return time.perf_counter()


class _TimedStage(pipelining.PipelineStage):  # type: ignore[misc, unused-ignore]
    """A stage whose passes a clock sees."""

    clock: Clock

    def forward_one_chunk(self, *args: Any, **kwargs: Any) -> Any:
        """Forward pass of a micro-batch."""
        return self.clock.timed(partial(super().forward_one_chunk, *args, **kwargs))

    def backward_one_chunk(self, *args: Any, **kwargs: Any) -> Any:
        """Backward pass of a micro-batch."""
        return self.clock.timed(partial(super().backward_one_chunk, *args, **kwargs))


class _Step(torch.autograd.Function):  # type: ignore[misc, unused-ignore]
    """The loss of a step whose gradients are there already."""

    @staticmethod
    def forward(ctx: Any, run: Callable[[], Any], *parameters: Any) -> Any:
        kept = [p.grad for p in parameters]
        for p in parameters:
            p.grad = None
        with torch.enable_grad():
            loss, scale = run()
        ctx.found = [None if p.grad is None else (p.grad, scale) for p in parameters]
        for p, gradient in zip(parameters, kept, strict=True):
            p.grad = gradient
        return loss

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> tuple[Any, ...]:
        factor = float(gradient)
        found = (None if each is None else each[0].mul_(each[1] * factor) for each in ctx.found)
        return None, *found


@dataclass(slots=True)
class Pipelined:
    """The stages of one rank."""

    plan: Plan
    running: Sequence[Running]
    schedule: Any
    shared: SharedGradients
    device: str
    last_rank: int
    """First of the ranks of the last stage, which have the loss."""
    sums: bool
    """Whether the loss is a sum over samples, not a mean."""
    inputs: Sequence[str]
    """The plan's names of the operands of the model, in order; empty where it has none."""
    clock: Clock = field(default_factory=Clock)
    terms: list[tuple[Any, ...]] = field(default_factory=list)
    """Of each micro-batch of the step under way, this rank's terms of the plan's own losses."""
    under_way: tuple[list[Any], list[Any]] = field(default_factory=lambda: ([], []))
    """The module, and the operands of each micro-batch."""
    loss: list[Any] = field(default_factory=list)
    """The function of the step under way and the targets of each micro-batch."""

    @classmethod
    def of(
        cls, plan: Plan, stages: Sequence[Stage], running: Sequence[Running], inputs: Sequence[str],
        device: str,
    ) -> Pipelined:  # fmt: skip
        """The stages of a rank, ready to be called.

        Args:
            plan: the plan.
            stages: those of this rank.
            running: what runs them.
            inputs: the plan's names of the operands of the model.
            device: `cpu` or `cuda`.

        Raises:
            ApplyError: torch has no such schedule.
        """
        pipeline = plan.pipeline
        size = plan.devices // pipeline.parts
        last = (len(pipeline.stages) - 1) % pipeline.parts * size
        shared = SharedGradients.of(plan, stages)
        own = cls(plan, running, None, shared, device, last, sums_losses(plan.graph), inputs)
        numbers = range(dist.get_rank() // size, len(pipeline.stages), pipeline.parts)
        group = _line(plan)
        made = [
            own._torch_stage(n, s, r, group)
            for n, s, r in zip(numbers, stages, running, strict=True)
        ]
        own.schedule = _schedule(plan, made, own._loss_of)
        return own

    def _torch_stage(self, number: int, stage: Stage, running: Running, group: Any) -> Any:
        step = stage.kept.step
        comes = [self._like(step, n, step.routes.at_rest(n)) for n in stage.received]
        goes = [self._like(step, n, step.routes.layout(x)) for n, x in step.leaving.items()]
        made = _TimedStage(
            _Module(running, self), number, len(self.plan.pipeline.stages),
            torch.device(self.device), tuple(comes),
            tuple(goes) or torch.empty((), requires_grad=True), group=group,
        )  # fmt: skip
        made.clock = self.clock
        return made

    def _like(self, step: Any, name: str, layout: Any) -> Any:
        """This rank's part of a tensor, without numbers."""
        from executors.dtensor.numbers import torch_dtype  # noqa: PLC0415

        tensor = step.graph.tensors[name]
        dims = step.grid.local_dims(tensor.dims, layout)
        flows = name in step.routes.flowing
        return torch.empty(dims, dtype=torch_dtype(tensor.dtype), requires_grad=flows)

    def _loss_of(self, found: Any, number: Any) -> Any:
        function, targets = self.loss
        if function is not None:
            return function(found, *targets[int(number)])
        last = self.running[-1]
        if not last.losses:
            return found
        parts = found if isinstance(found, tuple) else (found,)
        kept = set(last.own_losses)
        terms = [t.float() for n, t in zip(last.results, parts, strict=True) if n in kept]
        self.terms.append(tuple(term.detach() for term in terms))
        return torch.stack(terms).sum() if terms else torch.zeros((), device=self.device)

    def __call__(
        self, module: Any, operands: Sequence[Any], loss: Loss | None, target: tuple[Any, ...]
    ) -> Any:
        """The loss of a step, the same on every rank: the mean over micro-batches."""
        self.loss[:] = [loss, list(self._micro_batches(target))]
        self.under_way[0][:] = [module]
        self.under_way[1][:] = self._micro_batches(operands, self.inputs)
        self.terms.clear()
        trained = [p for p in module.parameters() if p.requires_grad]
        if torch.is_grad_enabled():
            return _Step.apply(partial(self._run, module), *trained)
        return self._run(module)[0]

    def _run(self, module: Any) -> tuple[Any, float]:
        count = self.plan.pipeline.micro_batches
        losses: list[Any] = []
        step = self.schedule.step if torch.is_grad_enabled() else self.schedule.eval
        numbers = torch.arange(count)
        step(number=numbers, target=numbers, losses=losses, return_outputs=False)
        if torch.is_grad_enabled():
            self.shared.add_up(dict(module.named_parameters(remove_duplicate=False)))
        scale = 1.0 if self.sums else 1.0 / count
        total = torch.zeros((), device=self.device)
        if losses:
            total = self._summed(losses) * scale
        dist.broadcast(total, self.last_rank)
        return total, scale

    def _summed(self, losses: Sequence[Any]) -> Any:
        """The sum over micro-batches; of the plan's own losses devices have terms."""
        if not self.terms:
            return torch.stack([each.detach().float() for each in losses]).sum()
        last = self.running[-1]
        sums = (torch.stack(each).sum() for each in zip(*self.terms, strict=True))
        whole = [last.step.completed(n, s) for n, s in zip(last.own_losses, sums, strict=True)]
        return sum(whole, torch.zeros((), device=self.device))

    def _micro_batches(
        self, operands: Sequence[Any], names: Sequence[str] = ()
    ) -> Iterator[list[Any]]:
        """Operands of each micro-batch; what has no batch goes whole to all of them."""
        count = self.plan.pipeline.micro_batches
        cut = [
            each.chunk(count) if self._has_batch(each, name) else [each] * count
            for each, name in zip(operands, names or [""] * len(operands), strict=True)
        ]
        for number in range(count):
            yield [each[number] for each in cut]

    def _has_batch(self, operand: Any, name: str) -> bool:
        """Whether an operand is of all micro-batches: an input is larger than the plan's."""
        if not isinstance(operand, torch.Tensor) or not operand.ndim:
            return False
        if name:
            return tuple(operand.shape) != self.plan.graph.tensors[name].dims
        return operand.shape[0] % self.plan.pipeline.global_batch == 0

    def unordered(self) -> list[str]:
        """Parameters that axes split in an order that DTensor forgets."""
        return [name for each in self.running for name in each.unordered()]

    def traffic(self) -> tuple[Traffic, ...]:
        """The messages of a step of this rank inside its stages, and to the stages beside them."""
        inside = (t for each in self.running for t in each.traffic())
        return summed((*inside, *self._sent()))

    def _sent(self) -> Iterator[Traffic]:
        times = self.plan.pipeline.micro_batches
        for each in self.running:
            step = each.step
            ends = [(n, step.routes.at_rest(n)) for n in each.received]
            ends += [(n, step.routes.layout(x)) for n, x in step.leaving.items()]
            for name, layout in ends:
                tensor = step.graph.tensors[name]
                elements = torch.Size(step.grid.local_dims(tensor.dims, layout)).numel()
                count = times * (2 if name in step.routes.flowing else 1)
                nbytes = elements * dtype_bytes(tensor.dtype) * count
                yield Traffic("point_to_point", 2, nbytes, count)


def _line(plan: Plan) -> Any:
    """The group of this rank's places in all parts of the machine; made by all ranks together."""
    parts = plan.pipeline.parts
    size, rank = plan.devices // parts, dist.get_rank()
    groups = [dist.new_group([part * size + i for part in range(parts)]) for i in range(size)]
    return groups[rank % size]


def _schedule(plan: Plan, stages: Sequence[Any], loss: Loss) -> Any:
    pipeline = plan.pipeline
    kind = getattr(pipelining, SCHEDULES[str(pipeline.schedule)])
    given = list(stages) if pipeline.chunks > 1 else stages[0]
    try:
        return kind(given, pipeline.micro_batches, loss_fn=loss, scale_grads=False)
    except ValueError as error:
        raise ApplyError(
            f"torch cannot run the schedule {pipeline.schedule}: {error}\n"
            "  at:  plan.json: pipeline\n  fix: search with more micro-batches or fewer stages"
        ) from error
