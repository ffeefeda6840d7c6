"""What an algorithm of one device knows, and what it sends to the others; one that has none."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Protocol, TypeAlias

from ir.graph import AttributeValue, Op, OpGraph, Tensor
from ir.ops import OpView
from ir.semantics.call import CallOf
from ir.semantics.statistics import Combine


class Backward(Enum):
    """What the gradient of a message between devices takes."""

    NOTHING = "nothing"
    """It has none: a maximum that only shifts."""
    OWN = "own"
    """What follows is the same on every device of the group: each keeps its own part."""
    SUM = "sum"
    """What follows differs on every device: their gradients are summed, one message more."""


@dataclass(frozen=True, slots=True)
class AllReduce:
    """The arrays of a group, combined; every device of it gets the result."""

    array: Any
    axes: tuple[int, ...]
    """Of the mesh: devices that differ only in these are a group; none for no message."""
    combine: Combine = Combine.SUM
    backward: Backward = Backward.NOTHING


class Holder(Protocol):
    """What algorithms of statistics need to know of a device's part of an operator."""

    def dims(self, index: int) -> tuple[int, ...]:
        """Dims of a whole operand."""
        ...

    def axes_of(self, index: int, dims: Sequence[int]) -> tuple[int, ...]:
        """Mesh axes that split some dimensions of an operand."""
        ...

    def group_size(self, axes: Sequence[int]) -> int:
        """Number of devices of a group."""
        ...

    def call(self, op: Op | None = None) -> CallOf[Any]:
        """The operator, or a variant of it, on this device's part."""
        ...


class Device(Holder, Protocol):
    """One device's part of an operator; arrays are of the library that computes at the moment."""

    @property
    def op(self) -> Op: ...
    @property
    def graph(self) -> OpGraph: ...
    @property
    def operands(self) -> Sequence[Any]:
        """What the device has of each operand; None for an absent one."""
        ...

    @property
    def results(self) -> list[Tensor]:
        """Whole results, in the graph."""
        ...

    def has(self, index: int) -> bool: ...
    def place(self, index: int, dim: int) -> Any:
        """Indices of a dimension of an operand that this device has."""
        ...

    def first(self, index: int, dim: int) -> int:
        """The first of these indices; 0 where the device has none."""
        ...

    def result_place(self, index: int, dim: int) -> Any:
        """Indices of a dimension of a result that this device makes."""
        ...

    def leads(self, axes: Sequence[int]) -> bool:
        """Whether the device is the first of its group."""
        ...

    def run(
        self,
        op: Op | None = None,
        operands: Sequence[Any] | None = None,
        result_dims: Sequence[tuple[int, ...]] | None = None,
    ) -> list[Any]:
        """Results of the operator, or of a variant, on this device's part."""
        ...


Running: TypeAlias = Generator[AllReduce, Any, list[Any]]
"""It yields what it sends, takes what comes back, and returns the device's results."""
DeviceAlgorithm: TypeAlias = Callable[[Device], Running]


def driven(running: Running, carry: Callable[[AllReduce], Any]) -> list[Any]:
    """An algorithm to its end; what it sends is carried, and comes back combined."""
    arrived = None
    while True:
        try:
            sent = running.send(arrived)
        except StopIteration as end:
            return list(end.value)
        arrived = carry(sent)


@dataclass(frozen=True, slots=True)
class Alone:
    """A device that has all of an operator: nothing is split, so it sends over no axes."""

    whole: CallOf[Any]

    def dims(self, index: int) -> tuple[int, ...]:
        return tuple(self.whole[index].shape)

    def axes_of(self, _: int, __: Sequence[int]) -> tuple[int, ...]:
        return ()

    def group_size(self, _: Sequence[int]) -> int:
        return 1

    def call(self, op: Op | None = None) -> CallOf[Any]:
        return replace(self.whole, op=op or self.whole.op)


def with_attributes(op: Op, **attributes: AttributeValue) -> Op:
    """The operator with other attributes."""
    return replace(op, attributes={**op.attributes, **attributes})


def with_groups(device: Device, op: Op) -> Op:
    """The operator with the groups of one device: its share of the channels, one at least."""
    part, whole, call = device.operands[0].shape[1], device.dims(0)[1], device.call()
    counts = {key: call.int(key, 1) for key in ("group", "offset_group")}
    own = {key: max(1, n * part // max(whole, 1)) for key, n in counts.items() if n > 1}
    return with_attributes(op, **own)


def view_of(device: Device) -> OpView:
    """The operator with its attributes and tensors."""
    return OpView(device.op, device.graph)
