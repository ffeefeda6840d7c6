"""One network at many sizes of batch, without preparing it anew for each.

Prepared at a batch and at twice that, it shows which dimensions grow with the batch: those that
are twice as large. All else must be the same in both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ir.graph import OpGraph, Tensor


@dataclass(frozen=True, slots=True)
class Batches:
    """A network at any multiple of a batch."""

    base: OpGraph
    grows: dict[str, tuple[bool, ...]]
    """By tensor, which of its dimensions grow with the batch; tensors that do not are left out."""

    def at(self, batch: int) -> OpGraph:
        """The network at another batch.

        Raises:
            ValueError: a dimension does not divide so.
        """
        tensors = dict(self.base.tensors)
        for name, flags in self.grows.items():
            tensors[name] = _scaled(tensors[name], flags, batch, self.base.batch)
        return replace(self.base, tensors=tensors, batch=batch)


def _scaled(tensor: Tensor, flags: tuple[bool, ...], batch: int, old: int) -> Tensor:
    def sizes(values: tuple[int, ...]) -> tuple[int, ...]:
        pairs = zip(values, flags, strict=True)
        scaled = [v * batch if grows else v * old for v, grows in pairs]
        if any(value % old for value in scaled):
            raise ValueError(f"{tensor.name!r} has no such size at a batch of {batch}")
        return tuple(value // old for value in scaled)

    divisors = sizes(tensor.divisors) if tensor.divisors else ()
    return replace(tensor, dims=sizes(tensor.dims), divisors=divisors)


def batches_of(base: OpGraph, twice: OpGraph) -> Batches | None:
    """What two preparations show; None if they differ in more than sizes that double."""
    if base.ops != twice.ops or base.tensors.keys() != twice.tensors.keys() or base.batch < 1:
        return None
    grows: dict[str, tuple[bool, ...]] = {}
    for name, own in base.tensors.items():
        other = twice.tensors[name]
        flags = tuple(a != b for a, b in zip(own.dims, other.dims, strict=False))
        doubled = tuple(d * (2 if f else 1) for d, f in zip(own.dims, flags, strict=False))
        if doubled != other.dims or own.role is not other.role or own.dtype != other.dtype:
            return None
        if any(flags):
            grows[name] = flags
    return Batches(base, grows)
