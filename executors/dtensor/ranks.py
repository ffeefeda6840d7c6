"""Process groups: many ranks that only seem to be there, or one of several real processes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore

_PATIENCE = timedelta(seconds=120)
"""How long a rank waits for the others."""


@contextlib.contextmanager
def imagined(size: int) -> Iterator[None]:
    """The first of so many ranks, the others of which are not there.

    Raises:
        RuntimeError: this process is in a group already.
    """
    if dist.is_initialized():
        raise RuntimeError("a process group is running already; the judge needs its own")
    dist.init_process_group("fake", rank=0, world_size=size, store=FakeStore())
    try:
        yield
    finally:
        dist.destroy_process_group()


@contextlib.contextmanager
def joined(rank: int, size: int, meeting: Path) -> Iterator[None]:
    """One of several processes of this machine, which meet at a file; each has an accelerator of
    its own where there are enough.
    """
    torch.set_num_threads(1)
    store = dist.FileStore(str(meeting), size)
    backend = "nccl" if torch.cuda.is_available() and torch.cuda.device_count() >= size else "gloo"
    if backend == "nccl":
        torch.cuda.set_device(rank)
    dist.init_process_group(backend, rank=rank, world_size=size, store=store, timeout=_PATIENCE)
    try:
        yield
    finally:
        dist.destroy_process_group()
