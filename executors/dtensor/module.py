"""A torch module that runs as a plan says: parameters are DTensors at rest, plain tensors go in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor
from torch.utils import _pytree as pytree

from executors.dtensor.capture import Recording
from executors.dtensor.grid import Grid
from executors.dtensor.late import Late, LateSync
from executors.dtensor.local_step import LocalStep
from executors.dtensor.moves import Hop
from executors.judgement import Traffic, summed
from executors.syncs import Sync
from ir.graph import Role, Tensor
from ir.layout import Layout
from ir.normalise.ends import ENDS


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
        return part_of(ctx.running.step.grid, gradient, layout), None, None


def part_of(grid: Grid, tensor: Any, layout: Layout) -> Any:
    """This rank's part of a tensor that it has whole; of a sum the first rank has it all."""
    region = grid.region(tensor.shape, layout)
    index = tuple(slice(int(r[0]), int(r[-1]) + 1) if len(r) else slice(0, 0) for r in region)
    local = tensor[index].contiguous()
    return torch.zeros_like(local) if any(grid.place[a] for a in layout.partial) else local


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
    ends: Mapping[str, Layout] = field(init=False)
    recording: Recording = field(init=False)

    def __post_init__(self) -> None:
        self.ends = self.step.end_layouts()
        remade = self.step.plan.recomputed
        makers = self.step.graph.producers()
        operators = {makers[n].name for n in remade if n in makers}
        self.recording = Recording(self._flat_step, len(self.parameters), operators)

    @property
    def names(self) -> list[str]:
        """What the step is given, in order."""
        given = [*self.parameters, *(n for n in self.inputs if n)]
        return [*given, *self.fixed]

    @property
    def results(self) -> list[str]:
        """What it makes: what the plan hands out, or its losses, in order."""
        ops = [op for op in self.step.graph.ops if op.kind in ENDS]
        if self.losses:
            return [op.outputs[0] if op.outputs else op.inputs[0] for op in ops]
        read = {op.inputs[0] for op in ops}
        return [n for n in self.step.graph.outputs if n in read] or sorted(read)

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
        table, grid, routes = self.step.graph.tensors, self.step.grid, self.step.routes
        rests = {
            name: self.late.syncs[n].rest
            if n in self.late.syncs
            else filed_layout(table[n], routes.at_rest(n))
            for n, name in self.parameters.items()
        }
        return [name for name, rest in rests.items() if not grid.in_order(rest)]

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
        tensor, grid = self.step.graph.tensors[name], self.step.grid
        layout = self.step.routes.at_rest(name)
        if tuple(value.shape) != tensor.dims:
            raise ValueError(
                f"input {name!r} is {tuple(value.shape)}, the plan is for {tensor.dims}: every "
                "rank passes the whole batch"
            )
        if isinstance(value, DTensor):
            return local_in(self.step, value, layout)
        return part_of(grid, value, layout)

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


def planned_layout(tensor: Tensor, own: Layout) -> Layout:
    """The layout of a parameter of the file with its dimensions as the plan has them."""
    order = tensor.stored_permutation
    return Layout(tuple(own.dims[i] for i in order), own.partial) if order else own


def filed_layout(tensor: Tensor, rest: Layout) -> Layout:
    """The inverse: a layout of the plan with dimensions in the order of the module."""
    order = tensor.stored_permutation
    if not order:
        return rest
    return Layout(tuple(rest.dims[order.index(i)] for i in range(len(order))), rest.partial)


def lay_out(
    module: Any, step: LocalStep, parameters: Mapping[str, str], late: Mapping[str, LateSync]
) -> None:
    """Make DTensors of the parameters of a module, rank 0's numbers cut as they rest."""
    first: dict[str, str] = {}
    for planned, name in parameters.items():
        first.setdefault(name, planned)
    done: dict[int, Any] = {}
    for prefix, owner in list(module.named_modules()):
        for last, value in list(owner.named_parameters(recurse=False)):
            name = f"{prefix}.{last}" if prefix else last
            if id(value) not in done:
                done[id(value)] = _dtensor(step, value, (first, late), module, name)
            owner.register_parameter(last, done[id(value)])


def _dtensor(
    step: LocalStep, value: Any, known: tuple[Mapping[str, str], Mapping[str, LateSync]],
    module: Any, name: str,
) -> Any:  # fmt: skip
    """One parameter at rest; one that the model does not use is whole everywhere."""
    first, late = known
    names = [n for n, p in module.named_parameters(remove_duplicate=False) if p is value]
    planned = next((first[n] for n in (name, *names) if n in first), None)
    layout = Layout(((),) * value.ndim)
    if planned is not None:
        tensor = step.graph.tensors[planned]
        rest = filed_layout(tensor, step.routes.at_rest(planned))
        layout = late[planned].rest if planned in late else rest
    data = value.data.clone()
    dist.broadcast(data, 0)
    local = part_of(step.grid, data, layout).clone()
    laid_out = step.grid.wrapped(local, tuple(data.shape), layout)
    return torch.nn.Parameter(laid_out, requires_grad=value.requires_grad)


def given_parts(step: LocalStep, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """This rank's parts of constants and buffers that the plan reads."""
    routes = step.routes
    roles = {Role.CONSTANT, Role.BUFFER}
    table = step.graph.tensors
    return {
        n: part_of(step.grid, a, routes.at_rest(n))
        for n, a in arrays.items()
        if table[n].role in roles
    }


def late_of(step: LocalStep, syncs: Mapping[str, Sync], micro_batches: int) -> Late:
    """What a rank sends apart, with dimensions as the module has them."""
    table, found, dims = step.graph.tensors, {}, {}
    for name, sync in syncs.items():
        tensor = table[name]
        before, rest, used = (
            filed_layout(tensor, step.routes.layout(each))
            for each in (sync.before, sync.rest, sync.used)
        )
        reduce, gather = (
            tuple(_filed_hop(tensor, hop) for hop in step.routes.hops_of(path))
            for path in (sync.reduce, sync.gather)
        )
        found[name] = LateSync(reduce, gather, before, rest, used, sync.once)
        whole, order = tensor.dims, tensor.stored_permutation
        dims[name] = tuple(whole[order.index(i)] for i in range(len(whole))) if order else whole
    return Late(step.grid, step.mover, found, dims, micro_batches)


def _filed_hop(tensor: Tensor, hop: Hop) -> Hop:
    before, after = (filed_layout(tensor, each) for each in (hop.before, hop.after))
    return Hop(hop.kind, hop.axes, before, after, hop.elements)
