"""What is sent beside the graph of a micro-batch: gradients that are reduced once in a step or to
where the optimizer's state lies (ZeRO 1 and 2), and what was updated there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.distributed import _functional_collectives as collectives

from executors.dtensor.grid import Grid
from executors.dtensor.moves import Hop, Mover
from executors.judgement import Traffic, summed
from ir.layout import Layout

_BYTES = 25 * 2**20
"""Largest bucket, as DDP has it."""


@dataclass(frozen=True, slots=True)
class LateSync:
    """How the gradient of one parameter is reduced and it is gathered after the update, its
    dimensions as the module has them.
    """

    reduce: tuple[Hop, ...]
    gather: tuple[Hop, ...]
    before: Layout
    """Of the gradient that a backward pass leaves."""
    rest: Layout
    """Of the parameter between steps."""
    used: Layout
    """Of the parameter in a step."""
    once: bool
    """Behind all micro-batches of a step, else behind each."""

    @property
    def is_apart(self) -> bool:
        """Whether it rests otherwise than it is used."""
        return self.rest != self.used


@dataclass(slots=True)
class _Part:
    """A tensor on its way: flat, and whatever makes a tensor of it again."""

    name: str
    group: tuple[str, tuple[int, ...], Any]
    """Kind of message, its axes and element type."""
    flat: Any
    """For scattered gradients with the pieces of the ranks one below the other."""
    back: Callable[[Any], Any]


@dataclass(slots=True)
class Late:
    """Reductions and gathers of one rank."""

    grid: Grid
    mover: Mover
    syncs: Mapping[str, LateSync]
    """By the name of the parameter in the plan."""
    dims: Mapping[str, tuple[int, ...]]
    micro_batches: int
    passes: int = 0
    """Backward passes since the step began."""
    steps: int = 0
    pending: dict[str, Any] = field(default_factory=dict)
    """Sums of gradients that are not reduced yet."""
    gathered: dict[str, Any] = field(default_factory=dict)
    when: tuple[int, ...] = ()
    """Steps and versions of the parameters when they were gathered: optimizers count them up."""
    sent: list[Traffic] = field(default_factory=list)

    def whole(self, held: Mapping[str, Any]) -> dict[str, Any]:
        """Parameters as a step uses them, from DTensors of those that rest otherwise; gathered
        once in a step, and after they were changed.
        """
        now = (self.steps, *(t._version for t in held.values()))  # noqa: SLF001
        if now != self.when:
            parts, rest = [], {}
            for name, tensor in held.items():
                local = tensor._local_tensor  # noqa: SLF001
                part = self._to_gather(name, local)
                if part is None:
                    rest[name] = self._moved(name, local, gather=True)
                else:
                    parts.append(part)
            self.gathered = rest | self._sent_in_buckets(parts)
            self.when = now
        return self.gathered

    def reduced(self, gradients: Mapping[str, Any]) -> dict[str, Any]:
        """Gradients at rest from those that a backward pass left; none that still wait."""
        self.passes += 1
        is_last = self.passes >= self.micro_batches
        parts, out = [], {}
        for name, gradient in gradients.items():
            total = gradient
            if self.syncs[name].once and self.micro_batches > 1:
                if name in self.pending:
                    total = self.pending.pop(name).add_(gradient)
                if not is_last:
                    self.pending[name] = total.clone() if total is gradient else total
                    continue
            part = self._to_reduce(name, total.contiguous())
            if part is None:
                out[name] = self._moved(name, total, gather=False)
            else:
                parts.append(part)
        if is_last:
            self.passes, self.steps = 0, self.steps + 1
        return out | self._sent_in_buckets(parts)

    def traffic(self) -> tuple[Traffic, ...]:
        """Messages of a step; those of a bucket are counted one by one."""
        steps = max(1, self.steps)
        found = summed(self.sent)
        return tuple(
            Traffic(t.kind, t.group_size, t.nbytes / steps, round(t.count / steps)) for t in found
        )

    def _to_reduce(self, name: str, local: Any) -> _Part | None:
        sync = self.syncs[name]
        if len(sync.reduce) != 1:
            return None
        kind, axes, shape = sync.reduce[0].kind, sync.reduce[0].axes, tuple(local.shape)
        group = kind, axes, local.dtype
        if kind == "all_reduce":
            return _Part(name, group, local.reshape(1, -1), lambda flat: flat.reshape(shape))
        dim = self._split(sync.before, sync.rest, axes, shape)
        if dim is None or kind != "reduce_scatter":
            return None
        size = self.grid.size(axes)
        rows = local.unflatten(dim, (size, shape[dim] // size)).movedim(dim, 0)
        kept = (*shape[:dim], shape[dim] // size, *shape[dim + 1 :])
        return _Part(name, group, rows.reshape(size, -1), lambda flat: flat.reshape(kept))

    def _to_gather(self, name: str, local: Any) -> _Part | None:
        sync, shape = self.syncs[name], list(local.shape)
        if [hop.after for hop in sync.gather] != [sync.used]:
            return None
        axes, whole = sync.gather[0].axes, self.grid.local_dims(self.dims[name], sync.used)
        dim, size = self._split(sync.used, sync.rest, axes, whole), self.grid.size(axes)
        if dim is None:
            return None

        def back(flat: Any) -> Any:
            rows = flat.reshape(size, *shape)
            return rows.movedim(0, dim).flatten(dim, dim + 1)

        group = "all_gather", axes, local.dtype
        return _Part(name, group, local.reshape(1, -1), back)

    def _split(
        self, wide: Layout, narrow: Layout, axes: Sequence[int], shape: Sequence[int]
    ) -> int | None:
        """The dimension that a group cuts evenly and innermost, in the order of its ranks."""
        dims = [d for d, (a, b) in enumerate(zip(wide.dims, narrow.dims, strict=True)) if a != b]
        if len(dims) != 1 or list(axes) != sorted(axes):
            return None
        (dim,) = dims
        fits = narrow.dims[dim] == (*wide.dims[dim], *axes)
        return dim if fits and shape[dim] % self.grid.size(axes) == 0 else None

    def _moved(self, name: str, local: Any, *, gather: bool) -> Any:
        """One tensor alone, as DTensor moves it."""
        sync = self.syncs[name]
        start, end = (sync.rest, sync.used) if gather else (sync.before, sync.rest)
        hops = sync.gather if gather else sync.reduce
        for hop in hops:
            nbytes = float(hop.elements * local.element_size())
            self.sent.append(Traffic(hop.kind, self.grid.size(hop.axes), nbytes, 1))
        tensor = self.grid.wrapped(local.contiguous(), self.dims[name], start)
        return self.mover.along(tensor, hops, end)._local_tensor  # noqa: SLF001

    def _sent_in_buckets(self, parts: Sequence[_Part]) -> dict[str, Any]:
        started = [(bucket, self._started(bucket)) for bucket in _buckets(parts)]
        out: dict[str, Any] = {}
        for bucket, message in started:
            found = collectives.wait_tensor(message)
            rows = self.grid.size(bucket[0].group[1]) if _grows(bucket[0]) else 1
            table, widths = found.reshape(rows, -1), [part.flat.shape[1] for part in bucket]
            for part, piece in zip(bucket, table.split(widths, 1), strict=True):
                out[part.name] = part.back(piece.contiguous()).contiguous()
        return out

    def _started(self, bucket: Sequence[_Part]) -> Any:
        kind, axes, _ = bucket[0].group
        group = (self.grid.groups[frozenset(axes)], 0)
        size = self.grid.size(axes)
        table = torch.cat([part.flat for part in bucket], 1)
        for part in bucket:
            nbytes = part.flat.numel() * part.flat.element_size()
            self.sent.append(Traffic(kind, size, float(nbytes * (size if _grows(part) else 1)), 1))
        flat = table.reshape(-1)
        if kind == "all_reduce":
            return collectives.all_reduce(flat, "sum", group)
        if kind == "all_gather":
            return collectives.all_gather_tensor(flat, 0, group)
        return collectives.reduce_scatter_tensor(flat, "sum", 0, group)


def _grows(part: _Part) -> bool:
    return part.group[0] == "all_gather"


def _buckets(parts: Sequence[_Part]) -> Iterator[list[_Part]]:
    """Neighbours of one group, kind and type, full when they have enough bytes."""
    full: dict[object, list[_Part]] = {}
    for part in parts:
        bucket = full.setdefault(part.group, [])
        bucket.append(part)
        if sum(each.flat.numel() * each.flat.element_size() for each in bucket) >= _BYTES:
            yield full.pop(part.group)
    yield from full.values()
