"""One process of a measured machine: `python -m executors.dtensor.host_bench FOLDER --rank R --size
N`. All processes do the same at the same time; rank 0 writes `host.json`.
"""

from __future__ import annotations

import itertools
import json
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import _functional_collectives as collectives

from executors.dtensor.measure import device_name, largest, machine_facts, synchronise
from executors.dtensor.ranks import joined
from executors.host import HostFacts
from executors.parent import process_arguments

_ROWS, _INNER, _COLUMNS = (64, 512), (256, 1024), (256, 1024)
_MORE = ((2048, 1024, 1024), (1024, 4096, 1024), (1024, 1024, 4096), (2048, 2048, 2048))
_WIDE = ((512, 4096, 16384), (1024, 4096, 16384), (1024, 4096, 16384))
"""Of an accelerator, which smaller products do not fill."""
_LARGEST = ((8192, 8192, 8192),)
_SLOW = ((512, 256, 256),)
"""Of a CPU in 16 bits, which has no units for them: a larger product takes a minute."""
_STREAMS = (2**18, 2**20, 2**24)
_WIDE_STREAMS = (2**20, 2**24, 2**28)
_MESSAGES = tuple(2**n for n in range(12, 27, 2))
_HIDDEN = (2**20, 2**22, 2**24)
"""Bytes of messages beside products."""
_BEFORE = (256, 1024, 1024)
"""Product that a process computes before each message, as in a step: not all arrive at once."""
_IN_A_ROW = 200
"""Operators on one element, one after the other."""
_DTYPES = ("float32", "bfloat16")
_LEAST_S = 0.1
"""A measurement goes on so long."""
_MOST_TIMES = 2000
_MOST_BEHIND_WORK = 40


def main() -> None:
    """Measure this machine."""
    chosen = process_arguments(__doc__)
    with joined(chosen.rank, chosen.size, chosen.folder / "meeting"):
        found = HostFacts(
            dist.get_world_size(), tuple(_products()), tuple(_streams()), _start_s(),
            tuple(_messages()), _memory_bytes(), machine_facts(), _overlap(),
        )  # fmt: skip
        if chosen.rank == 0:
            (chosen.folder / "host.json").write_text(json.dumps(asdict(found)))


def _timed(act: Callable[[], Any]) -> float:
    """Seconds of one call, of the slowest process; the median of many where there is time."""
    act()
    synchronise()
    dist.barrier()
    start = time.perf_counter()
    act()
    synchronise()
    (once,) = largest([time.perf_counter() - start])
    times = max(3, min(_MOST_TIMES, round(_LEAST_S / max(once, 1e-7))))
    dist.barrier()
    start = time.perf_counter()
    for _ in range(times):
        act()
    synchronise()
    (found,) = largest([(time.perf_counter() - start) / times])
    return found


def _products() -> Any:
    wide = device_name() != "cpu"
    grid = _WIDE if wide else (_ROWS, _INNER, _COLUMNS)
    shapes = [*itertools.product(*grid), *(_LARGEST if wide else _MORE)]
    for dtype in _DTYPES:
        kind = getattr(torch, dtype)
        for rows, inner, columns in shapes if wide or dtype == "float32" else _SLOW:
            one = torch.randn(rows, inner, device=device_name(), dtype=kind)
            other = torch.randn(inner, columns, device=device_name(), dtype=kind)
            yield dtype, rows, inner, columns, _timed(partial(torch.matmul, one, other))


def _streams() -> Any:
    for nbytes in _STREAMS if device_name() == "cpu" else _WIDE_STREAMS:
        one = torch.ones(nbytes // 4, device=device_name())
        yield 3 * nbytes, _timed(partial(torch.add, one, one.clone()))  # twice the same is one read


def _start_s() -> float:
    """Of an operator on one element; of a GPU without its launch by the host."""
    one = torch.ones(1, device=device_name())
    if device_name() == "cpu":
        return _timed(lambda: one + one)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):  # NCCL has threads of its own
        for _ in range(_IN_A_ROW):
            one = one + one
    return _timed(graph.replay) / _IN_A_ROW


def _messages() -> Any:
    group, size = dist.group.WORLD, dist.get_world_size()
    if size < 2:
        return
    for nbytes in _MESSAGES:
        whole = torch.ones(nbytes // 4 // size * size, device=device_name())
        part = whole[: whole.numel() // size].clone()
        own = whole.numel() * 4
        acts: dict[str, Callable[[], Any]] = {
            "all_reduce": partial(collectives.all_reduce, whole, "sum", group),
            "all_gather": partial(collectives.all_gather_tensor, part, 0, group),
            "all_to_all": partial(collectives.all_to_all_single, whole, None, None, group),
        }
        for kind, act in acts.items():
            yield kind, own, _behind_work(partial(_waited, act))


def _product(rows: int, inner: int, columns: int) -> Callable[[], Any]:
    one = torch.randn(rows, inner, device=device_name())
    return partial(torch.matmul, one, torch.randn(inner, columns, device=device_name()))


def _behind_work(act: Callable[[], Any]) -> float:
    """Seconds of one call after computation of its own, of the slowest process; the median."""
    work, found = _product(*_BEFORE), []
    (once,) = largest([_timed(act)])
    times = max(5, min(_MOST_BEHIND_WORK, round(_LEAST_S / once)))
    dist.barrier()
    for _ in range(times):
        work()
        synchronise()
        start = time.perf_counter()
        act()
        synchronise()
        found.append(time.perf_counter() - start)
    (slowest,) = largest([statistics.median(found)])
    return slowest


def _overlap() -> float:
    """Share of a message that hides behind computation of the same length, in [0, 1]."""
    group = dist.group.WORLD
    if dist.get_world_size() < 2:
        return 1.0
    product, hidden = _product(*_BEFORE), []
    for nbytes in _HIDDEN:
        whole = torch.ones(nbytes // 4, device=device_name())
        send = partial(collectives.all_reduce, whole, "sum", group)
        sent_s, product_s = _timed(partial(_waited, send)), _timed(product)
        times = max(1, round(sent_s / product_s))
        computed_s = _timed(partial(_repeated, product, times))
        both_s = _timed(partial(_beside, send, product, times))
        hidden.append((sent_s + computed_s - both_s) / min(sent_s, computed_s))
    return min(1.0, max(0.0, statistics.median(hidden)))


def _repeated(act: Callable[[], Any], times: int) -> None:
    for _ in range(times):
        act()


def _beside(send: Callable[[], Any], act: Callable[[], Any], times: int) -> None:
    """Send, and compute meanwhile."""
    sent = send()
    _repeated(act, times)
    collectives.wait_tensor(sent)


def _waited(act: Callable[[], Any]) -> Any:
    return collectives.wait_tensor(act())


def _memory_bytes() -> float:
    if device_name() == "cuda":
        return float(torch.cuda.get_device_properties(0).total_memory * dist.get_world_size())
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


if __name__ == "__main__":
    main()
