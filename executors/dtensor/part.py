"""One operator on the part of one device, with the messages that it needs inside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.distributed import _functional_collectives as collectives

from executors.device import Backward
from executors.dtensor.call import Call
from executors.dtensor.grid import Grid
from executors.dtensor.kernels import KERNELS
from executors.dtensor.numbers import worked_in
from executors.dtensor.split import Split
from ir.graph import Op, OpGraph, Tensor


class _Summed(torch.autograd.Function):  # type: ignore[misc, unused-ignore]
    """An all-reduce whose gradient is what `Backward` says."""

    @staticmethod
    def forward(ctx: Any, tensor: Any, group: Any, kind: str, backward: Backward) -> Any:
        ctx.group, ctx.back = group, backward
        return _sent(tensor, kind, group)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        if ctx.back is Backward.NOTHING:
            return None, None, None, None
        if ctx.back is Backward.SUM:
            gradient = _sent(gradient.contiguous(), "sum", ctx.group)
        return gradient, None, None, None


class _Late(torch.autograd.Function):  # type: ignore[misc, unused-ignore]
    """The same tensor, whose gradients are summed over a group."""

    @staticmethod
    def forward(ctx: Any, tensor: Any, group: Any) -> Any:
        ctx.group = group
        return tensor.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return _sent(gradient.contiguous(), "sum", ctx.group), None


def _sent(tensor: Any, kind: str, group: Any) -> Any:
    """An all-reduce by torch's functional collective; statistics of short types in float32."""
    short = tensor.is_floating_point() and tensor.element_size() < 4
    work = tensor.float() if short else tensor
    found = collectives.all_reduce(work, kind, (group, 0))
    wait = getattr(found, "wait", None)
    found = found if wait is None else wait()
    return found.to(tensor.dtype) if short else found


@dataclass(slots=True)
class Part:
    """An operator with what one device has of its operands."""

    op: Op
    graph: OpGraph
    grid: Grid
    split: Split
    operands: Sequence[Any]
    """None for an absent one."""
    double: bool = False
    """Everything is computed in double precision."""
    constants: Mapping[str, Any] = field(default_factory=dict)
    """What parts of a composite read and the composite does not: each device has it in full."""

    @property
    def results(self) -> list[Tensor]:
        return [self.graph.tensors[n] for n in self.op.outputs if n]

    def dims(self, index: int) -> tuple[int, ...]:
        """Dims of a whole operand."""
        return self.graph.tensors[self.op.inputs[index]].dims

    def has(self, index: int) -> bool:
        return index < len(self.operands) and self.operands[index] is not None

    def axes_of(self, index: int, dims: Sequence[int]) -> tuple[int, ...]:
        """Mesh axes that split some dimensions of an operand."""
        layout = self.split.operands[index]
        return () if layout is None else tuple(a for d in dims for a in layout.dims[d])

    def group_size(self, axes: Sequence[int]) -> int:
        """Number of devices of a group."""
        return self.grid.size(axes)

    def place(self, index: int, dim: int) -> Any:
        """Indices of a dimension of an operand that this device has."""
        layout = self.split.operands[index]
        assert layout is not None
        region = self.grid.region(self.dims(index), layout)[dim]
        return torch.as_tensor(region, device=self.operands[index].device)

    def first(self, index: int, dim: int) -> int:
        """The first of these indices; 0 where the device has none."""
        layout = self.split.operands[index]
        assert layout is not None
        region = self.grid.region(self.dims(index), layout)[dim]
        return int(region[0]) if len(region) else 0

    def result_place(self, index: int, dim: int) -> Any:
        """Indices of a dimension of a result that this device makes."""
        region = self.grid.region(self.results[index].dims, self.split.results[index])[dim]
        return torch.as_tensor(region)

    def leads(self, axes: Sequence[int]) -> bool:
        """Whether this device is the first of its group."""
        return all(self.grid.place[axis] == 0 for axis in axes)

    def call(self, op: Op | None = None) -> Call:
        """The operator, or a variant of it, on this device's part."""
        return Call(
            op or self.op,
            tuple(self.operands),
            tuple(
                self.grid.local_dims(t.dims, layout)
                for t, layout in zip(self.results, self.split.results, strict=True)
            ),
            tuple(worked_in(t.dtype, double=self.double) for t in self.results),
        )

    def run(
        self,
        op: Op | None = None,
        operands: Sequence[Any] | None = None,
        result_dims: Sequence[tuple[int, ...]] | None = None,
    ) -> list[Any]:
        """Results of the operator, or of a variant, on this device's part.

        Raises:
            NotImplementedError: the kind is not written for torch.
        """
        call = self.call(op)
        given = call.operands if operands is None else tuple(operands)
        call = replace(call, operands=given, result_dims=tuple(result_dims or call.result_dims))
        if call.op.kind not in KERNELS:
            raise NotImplementedError(f"{call.op.kind} is not written for torch")
        return KERNELS[call.op.kind](call)

    def all_reduce(
        self, tensor: Any, axes: Sequence[int], kind: str = "sum", backward: Backward = Backward.SUM
    ) -> Any:
        """What the devices of a group hold, combined; nothing is sent over no axes."""
        if not axes:
            return tensor
        group = self.grid.groups[frozenset(axes)]
        return _Summed.apply(tensor.contiguous(), group, kind, backward)

    def sum_gradients(self, tensor: Any, axes: Sequence[int]) -> Any:
        """The same tensor on all devices of a group, which make different things of it."""
        if not axes or not tensor.is_floating_point():
            return tensor
        return _Late.apply(tensor, self.grid.groups[frozenset(axes)])
