"""A torch module that runs as a plan says: parameters are DTensors at rest, plain tensors go in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.distributed.tensor import DTensor
from torch.utils import _pytree as pytree

from executors.dtensor.at_rest import StageParameters, planned_layout
from executors.dtensor.capture import Recording
from executors.dtensor.grid import Grid
from executors.dtensor.late import Late
from executors.dtensor.local_step import LocalStep
from executors.judgement import Traffic, summed
from ir.layout import Layout
from ir.normalise.ends import ENDS
from ir.ops import LOSS


class _AtRest(torch.autograd.Function):  # type: ignore[misc, unused-ignore]
    """This rank's parts of all parameters as a step uses them; gradients become DTensors that lie
    as the parameters do, and none those that are reduced later.
    """

    @staticmethod
    def forward(ctx: Any, running: Any, *held: Any) -> tuple[Any, ...]:
        ctx.running, ctx.held = running, held
        ctx.set_materialize_grads(False)
        own = dict(zip(running.parameters, held, strict=True))
        whole = running.late.whole({n: own[n] for n in running.apart})
        locals_ = ((n, p._local_tensor) for n, p in own.items())  # noqa: SLF001
        out = tuple(whole[n].view_as(whole[n]) if n in whole else t.view_as(t) for n, t in locals_)
        fixed = (t for t, p in zip(out, held, strict=True) if not p.requires_grad)
        ctx.mark_non_differentiable(*fixed)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        running = ctx.running
        found = dict(zip(running.parameters, gradients, strict=True))
        late = {n: g for n, g in found.items() if n in running.late.syncs and g is not None}
        found |= dict.fromkeys(late) | running.late.reduced(late) if late else {}
        out = (
            None if g is None else running.at_rest(p, g)
            for p, g in zip(ctx.held, found.values(), strict=True)
        )
        return None, *out


class _Gathered(torch.autograd.Function):  # type: ignore[misc, unused-ignore]
    """A whole tensor from its parts; each rank takes back its part of the gradient."""

    @staticmethod
    def forward(ctx: Any, local: Any, running: Any, name: str) -> Any:
        ctx.running, ctx.name = running, name
        return running.whole(name, local)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        layout = ctx.running.ends[ctx.name]
        return ctx.running.step.grid.part_of(gradient, layout), None, None


class _Received(torch.autograd.Function):  # type: ignore[misc, unused-ignore]
    """What came from another stage; its gradient goes back, which only rows in a row can."""

    @staticmethod
    def forward(_: Any, value: Any) -> Any:
        return value.view_as(value)

    @staticmethod
    def backward(_: Any, gradient: Any) -> Any:
        return gradient.contiguous()


@dataclass(slots=True)
class Running:
    """What a planned module holds besides its parameters."""

    step: LocalStep
    parameters: Mapping[str, str]
    """Parameters of the plan by their names in the module."""
    inputs: Sequence[str]
    """Inputs of the plan in the order in which the module is called; empty for one it ignores."""
    late: Late
    """Gradients that are reduced apart."""
    fixed: Mapping[str, Any]
    """This rank's parts of constants and buffers."""
    inner: Mapping[str, Any]
    """Whole tensors that parts of composites read and no operator hands over."""
    out_spec: Any
    """How results are nested; None hands out one or a tuple."""
    whole_outputs: bool
    losses: bool
    """Whether the plan's own losses are the results."""
    received: frozenset[str] = frozenset()
    """Inputs that come from another stage, as this rank's parts."""
    ends: Mapping[str, Layout] = field(init=False)
    recording: Recording = field(init=False)

    def __post_init__(self) -> None:
        self.ends = self.step.end_layouts()
        remade = self.step.plan.recomputed
        makers = self.step.graph.producers()
        operators = {makers[n].name for n in remade if n in makers}
        again = [self.step.routes.gathers_again(name) for name in self.parameters]
        self.recording = Recording(self._flat_step, again, operators)

    @property
    def names(self) -> list[str]:
        """What the step is given, in order."""
        given = [*self.parameters, *(n for n in self.inputs if n)]
        return [*given, *self.fixed]

    @property
    def results(self) -> list[str]:
        """What it makes: what the plan hands out, or its losses, in order."""
        if self.step.leaving:
            return list(self.step.leaving)
        ops = [op for op in self.step.graph.ops if op.kind in ENDS]
        if self.losses:
            return [op.outputs[0] if op.outputs else op.inputs[0] for op in ops]
        read = {op.inputs[0] for op in ops}
        return [n for n in self.step.graph.outputs if n in read] or sorted(read)

    @property
    def own_losses(self) -> list[str]:
        """Of the results the plan's own losses."""
        makers = self.step.graph.producers()
        return [n for n in self.results if n in makers and makers[n].kind == LOSS]

    def _flat_step(self, *tensors: Any) -> tuple[Any, ...]:
        count = len(self.names)
        given = dict(zip(self.names, tensors[:count], strict=True))
        inner = dict(zip(self.inner, tensors[count:], strict=True))
        found = self.step.run(given, inner, losses=self.losses)
        return tuple(found[n] for n in self.results)

    def __call__(self, module: Any, operands: Sequence[Any]) -> Any:
        """One forward pass on the whole batch, or on DTensors."""
        own = dict(module.named_parameters(remove_duplicate=False))
        held = [own[name] for name in self.parameters.values()]
        used = _AtRest.apply(self, *held)
        given = [
            self._parameter(n, p, t) for n, p, t in zip(self.parameters, held, used, strict=True)
        ]
        given += [
            self._input(name, value)
            for name, value in zip(self.inputs, operands, strict=True)
            if name
        ]
        found = self.recording(*given, *self.fixed.values(), *self.inner.values())
        results = [self._result(n, t) for n, t in zip(self.results, found, strict=True)]
        if self.out_spec is not None:
            return pytree.tree_unflatten(results, self.out_spec)
        return results[0] if len(results) == 1 else tuple(results)

    @property
    def apart(self) -> list[str]:
        """Parameters that rest otherwise than they are used."""
        return [n for n in self.parameters if n in self.late.syncs and self.late.syncs[n].is_apart]

    def unordered(self) -> list[str]:
        """Parameters of the module that axes split in another order than DTensor remembers: a
        parameter forgets it, so that `full_tensor` and checkpoints would mix pieces.
        """
        own = StageParameters(self.step, self.parameters, self.late)
        in_order = self.step.grid.in_order
        return [name for n, name in self.parameters.items() if not in_order(own.rest(n))]

    def at_rest(self, held: Any, gradient: Any) -> Any:
        """A gradient as a DTensor like its parameter."""
        layout = self._layout_of(held)
        return self.step.grid.wrapped(gradient.contiguous(), tuple(held.shape), layout)

    def traffic(self) -> tuple[Traffic, ...]:
        """The messages of a step: those of every micro-batch, and those that are sent apart."""
        times = self.late.micro_batches
        inside = (
            Traffic(t.kind, t.group_size, t.nbytes * times, t.count * times)
            for t in self.recording.traffic()
        )
        return summed((*inside, *self.late.traffic()))

    def _parameter(self, name: str, held: Any, local: Any) -> Any:
        tensor, rest = self.step.graph.tensors[name], self.step.routes.at_rest(name)
        own = self.late.syncs[name].used if name in self.late.syncs else self._layout_of(held)
        turned = local.permute(tensor.stored_permutation) if tensor.stored_permutation else local
        return turned if planned_layout(tensor, own) == rest else self._brought(name, turned, own)

    def _layout_of(self, held: Any) -> Layout:
        own = self.step.grid.layout_of(held)
        assert own is not None
        return own

    def _brought(self, name: str, local: Any, own: Layout) -> Any:
        """A tied parameter rests as another of its uses says: it is moved for this one."""
        tensor = self.step.graph.tensors[name]
        return self.step.moved(
            name, local, planned_layout(tensor, own), self.step.routes.at_rest(name)
        )

    def _input(self, name: str, value: Any) -> Any:
        if name in self.received:
            return _Received.apply(value)
        tensor, grid = self.step.graph.tensors[name], self.step.grid
        layout = self.step.routes.at_rest(name)
        if tuple(value.shape) != tensor.dims:
            raise ValueError(
                f"input {name!r} is {tuple(value.shape)}, the plan is for {tensor.dims}: every "
                "rank passes the whole batch"
            )
        if isinstance(value, DTensor):
            return local_in(self.step, value, layout)
        return grid.part_of(value, layout)

    def _result(self, name: str, local: Any) -> Any:
        layout = self.ends.get(name)
        if layout is None or not local.ndim:
            return local
        if self.whole_outputs:
            return _Gathered.apply(local, self, name)
        dims = self.step.graph.tensors[name].dims
        return _Wrapped.apply(local, self.step.grid, dims, layout)

    def whole(self, name: str, local: Any) -> Any:
        """A result from the parts of all ranks."""
        dims = self.step.graph.tensors[name].dims
        tensor = self.step.grid.wrapped(local.detach().contiguous(), dims, self.ends[name])
        goal = Layout(((),) * len(dims))
        found = self.step.mover.to(tensor, goal)._local_tensor  # noqa: SLF001
        return found.clone() if found is local else found


def local_in(step: LocalStep, value: Any, layout: Layout) -> Any:
    """This rank's part of a DTensor in the layout of an input."""
    return step.mover.to(value.detach(), layout)._local_tensor  # noqa: SLF001


class _Wrapped(torch.autograd.Function):  # type: ignore[misc, unused-ignore]
    """A result as a DTensor."""

    @staticmethod
    def forward(ctx: Any, local: Any, grid: Grid, dims: Sequence[int], layout: Layout) -> Any:
        ctx.grid, ctx.layout = grid, layout
        return grid.wrapped(local.view_as(local), dims, layout)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        spec = ctx.grid.spec(gradient.shape, gradient.dtype, ctx.layout)
        found = gradient.redistribute(ctx.grid.devices, spec.placements)
        return found._local_tensor, None, None, None  # noqa: SLF001
