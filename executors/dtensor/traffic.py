"""The collectives that torch carries out, as it dispatches them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor, placement_types
from torch.utils._python_dispatch import TorchDispatchMode

_LIBRARIES = frozenset({"_c10d_functional", "c10d", "_dtensor", "_c10d_functional_autograd"})
_KINDS = (
    ("all_reduce", "all_reduce"),
    ("all_gather", "all_gather"),
    ("reduce_scatter", "reduce_scatter"),
    ("all_to_all", "all_to_all"),
    ("shard_dim_alltoall", "all_to_all"),
)
"""How torch's names of collectives begin, and ours."""
_SILENT = frozenset({"wait_tensor", "_wrap_tensor_autograd", "mesh_get_process_group"})


@dataclass(frozen=True, slots=True)
class Sent:
    """One collective."""

    kind: str
    """Ours, or torch's name where there is none."""
    ranks: tuple[int, ...]
    nbytes: int
    """Of the result of an all-gather, of the operand of every other kind (docs/step.md)."""


@dataclass(slots=True)
class Log:
    """What was sent so far."""

    items: list[Sent] = field(default_factory=list)

    @contextlib.contextmanager
    def aside(self) -> Iterator[list[Sent]]:
        """Collect what is sent apart from the rest."""
        before, self.items = self.items, []
        try:
            yield self.items
        finally:
            self.items = before


class Recorder(TorchDispatchMode):  # type: ignore[misc, unused-ignore]
    """Notes every collective in a log."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self.log = log

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if any(issubclass(each, DTensor) for each in types):
            return NotImplemented  # DTensor first: what it sends comes by here again
        out = func(*args, **(kwargs or {}))
        library, _, name = func._schema.name.partition("::")  # noqa: SLF001
        if library in _LIBRARIES and name not in _SILENT:
            self.log.items.append(_sent(name, args, out))
        return out


def _sent(name: str, args: tuple[Any, ...], out: Any) -> Sent:
    kind = next((ours for theirs, ours in _KINDS if name.startswith(theirs)), name)
    measured = out if kind == "all_gather" else args[0]
    nbytes = measured.numel() * measured.element_size() if hasattr(measured, "numel") else 0
    return Sent(kind, _ranks(args), nbytes)


def _ranks(args: tuple[Any, ...]) -> tuple[int, ...]:
    """Ranks of the group, which stands last among the operands, by name or as it is."""
    group = args[-1]
    if isinstance(group, str):
        group = torch.distributed.distributed_c10d._resolve_process_group(group)  # noqa: SLF001
    return tuple(sorted(dist.get_process_group_ranks(group)))


@contextlib.contextmanager
def exchanges() -> Iterator[None]:
    """Let DTensor exchange shards as it does on accelerators: on a CPU it gathers and slices."""

    def exchange(local: Any, gather_dim: int, shard_dim: int, mesh: Any, mesh_dim: int) -> Any:
        group = mesh.get_group(mesh_dim).group_name
        return torch.ops._dtensor.shard_dim_alltoall(local, gather_dim, shard_dim, group)  # noqa: SLF001

    old = placement_types.shard_dim_alltoall
    placement_types.shard_dim_alltoall = exchange
    try:
        yield
    finally:
        placement_types.shard_dim_alltoall = old
