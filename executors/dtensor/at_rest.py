"""Parameters, buffers and constants of a module, cut to the parts that a rank keeps."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.distributed as dist

from executors.dtensor.grid import Grid
from executors.dtensor.late import Late, LateSync
from executors.dtensor.local_step import LocalStep
from executors.dtensor.moves import Hop
from executors.syncs import Sync
from ir.graph import Role, Tensor
from ir.layout import Layout


@dataclass(frozen=True, slots=True)
class StageParameters:
    """What a rank keeps of a module for one stage."""

    step: LocalStep
    parameters: Mapping[str, str]
    """Parameters of the plan by their names in the module."""
    late: Late

    def rest(self, planned: str) -> Layout:
        """The layout of a parameter between steps, its dimensions as the module has them."""
        if planned in self.late.syncs:
            return self.late.syncs[planned].rest
        tensor = self.step.graph.tensors[planned]
        return filed_layout(tensor, self.step.routes.at_rest(planned))


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
    module: Any, stages: Sequence[StageParameters], elsewhere: Collection[str] = ()
) -> None:
    """Make DTensors of the parameters of a module, rank 0's numbers cut as they rest.

    Args:
        module: a module, whole on every rank.
        stages: what this rank keeps, stage by stage.
        elsewhere: parameters that other stages keep too, or alone; the latter are dropped.
    """
    rests: dict[str, Layout] = {}
    for own in stages:
        for planned, name in own.parameters.items():
            rests.setdefault(name, own.rest(planned))
    done: dict[int, Any] = {}
    for prefix, owner in list(module.named_modules()):
        for last, value in list(owner.named_parameters(recurse=False)):
            name = f"{prefix}.{last}" if prefix else last
            if id(value) not in done:
                names = [
                    n for n, p in module.named_parameters(remove_duplicate=False) if p is value
                ]
                names = [name, *names]
                layout = next((rests[n] for n in names if n in rests), None)
                if layout is None and not set(names) & set(elsewhere):
                    layout = Layout(((),) * value.ndim)  # nothing uses it: whole everywhere
                done[id(value)] = _dtensor(stages[0].step.grid, value, layout)
            owner.register_parameter(last, done[id(value)])


def _dtensor(grid: Grid, value: Any, layout: Layout | None) -> Any:
    """One parameter at rest; None where another stage keeps it."""
    data = value.data.clone()
    dist.broadcast(data, 0)
    if layout is None:
        return None
    local = grid.part_of(data, layout).clone()
    laid_out = grid.wrapped(local, tuple(data.shape), layout)
    return torch.nn.Parameter(laid_out, requires_grad=value.requires_grad)


def given_parts(step: LocalStep, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """This rank's parts of constants and buffers that the plan reads."""
    routes = step.routes
    roles = {Role.CONSTANT, Role.BUFFER}
    table = step.graph.tensors
    return {
        n: step.grid.part_of(a, routes.at_rest(n))
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
    before, after = filed_layout(tensor, hop.before), filed_layout(tensor, hop.after)
    return replace(hop, before=before, after=after)
