"""Profiles in Chrome's JSON: of torch.profiler (Kineto) and of JAX (Perfetto)."""

from __future__ import annotations

import itertools
import math
import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from costmodel.traces.events import header_and_events, opened
from costmodel.traces.gathering import DTYPES, MOST_CALLS, Gathered, message_kind
from costmodel.traces.records import Shapes, Trace, class_of
from costmodel.traces.spans import own_seconds
from ir.dtypes import dtype_bytes

__all__ = ["read_chrome"]

_ON_DEVICE = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
_LAUNCH = re.compile(r"^(cuda|cu|hip)\w*Launch\w*Kernel", re.IGNORECASE)
_STEP = re.compile(r"^ProfilerStep#\d+$")
_WORLD = re.compile(r'"world_size"\s*:\s*(\d{1,7})')
_DEVICE = re.compile(r'"deviceProperties"\s*:\s*\[\s*\{[^]]*?"name"\s*:\s*"([^"]{1,100})"')
_MOST_LAUNCHES = 100_000


@dataclass(slots=True)
class _Seen:
    """What the events of one file said."""

    found: Gathered
    ranks: int = 0
    operators: dict[int, tuple[str, Shapes, str]] = field(default_factory=dict)
    """Of torch, by the number that its kernels carry."""
    kernels: list[tuple[str, int, float]] = field(default_factory=list)
    threads: dict[Any, tuple[array[float], list[tuple[str, Shapes, str]]]] = field(
        default_factory=dict
    )
    """Calls of the host, by thread."""
    launches: array[float] = field(default_factory=lambda: array("d"))
    steps: set[str] = field(default_factory=set)
    runs: set[str] = field(default_factory=set)
    """Of a compiled program of JAX."""


def read_chrome(path: Path) -> Trace:
    """The trace of a `.json` or `.json.gz`.

    Raises:
        CalibrationError: it is no trace, was cut off, has no kernel, or is too long.
    """
    with opened(path) as file:
        head, events = header_and_events(file, path.name)
        world, device = _WORLD.search(head), _DEVICE.search(head)
        seen = _Seen(Gathered(path.name), int(world.group(1)) if world else 0)
        for event in events:
            _take(event, seen)
    _place(seen)
    return Trace(
        name=path.name,
        format="JAX" if seen.runs else "torch.profiler",
        steps=max(1, len(seen.steps), len(seen.runs)),
        launches_s=_between(seen.launches),
        device=device.group(1) if device else "",
        ranks=seen.ranks,
        **seen.found.facts(),
    )


def _take(event: Mapping[str, Any], seen: _Seen) -> None:
    begin, duration, name = (event.get(key) for key in ("ts", "dur", "name"))
    if event.get("ph") != "X" or not isinstance(name, str) or not _are_times(begin, duration):
        return
    begin_s, seconds = float(begin) * 1e-6, float(duration) * 1e-6  # type: ignore[arg-type]
    given = event.get("args")
    facts: Mapping[str, Any] = given if isinstance(given, dict) else {}
    kind = event.get("cat")
    if kind in _ON_DEVICE:
        _take_kernel(name, begin_s, seconds, facts, seen)
    elif kind == "cpu_op":
        _take_operator(name, (begin_s, seconds), facts, event.get("tid"), seen)
    elif kind == "cuda_runtime" and _LAUNCH.match(name) and len(seen.launches) < _MOST_LAUNCHES:
        seen.launches.append(begin_s)
    elif kind == "user_annotation" and _STEP.match(name):
        seen.steps.add(name)
    elif kind == "user_annotation" and name.startswith("gloo:") and message_kind(name):
        nbytes = _gloo_bytes(name, *_shapes(facts), seen.ranks)
        _take_message(name, (begin_s, seconds), nbytes, seen.ranks, seen)
    elif "hlo_op" in facts and not name.startswith("end: "):
        seen.runs.add(str(facts.get("run_id", "")))
        _take_kernel(name, begin_s, seconds, facts, seen)


def _are_times(begin: Any, duration: Any) -> bool:
    return all(
        isinstance(x, (int, float)) and math.isfinite(x) and x >= 0 for x in (begin, duration)
    )


def _take_kernel(
    name: str, begin_s: float, seconds: float, facts: Mapping[str, Any], seen: _Seen
) -> None:
    if class_of(name) == "messages":
        size = facts.get("Group size", seen.ranks)
        ranks = int(size) if isinstance(size, (int, float)) else seen.ranks
        _take_message(name, (begin_s, seconds), _nccl_bytes(name, facts), ranks, seen)
        return
    number = facts.get("External id", -1)
    seen.kernels.append((name, number if isinstance(number, int) else -1, seconds))
    seen.found.when(begin_s, begin_s + seconds, message=False)


def _take_message(
    name: str, when: tuple[float, float], nbytes: float, ranks: int, seen: _Seen
) -> None:
    begin_s, seconds = when
    seen.found.message(message_kind(name) or "other", nbytes, ranks, seconds)
    seen.found.when(begin_s, begin_s + seconds, message=True)


def _take_operator(
    name: str, when: tuple[float, float], facts: Mapping[str, Any], thread: Any, seen: _Seen
) -> None:
    shapes, dtype = _shapes(facts)
    own = name, shapes, dtype
    number = facts.get("External id", -1)
    if isinstance(number, int) and len(seen.operators) < MOST_CALLS:
        seen.operators[number] = own
    times, calls = seen.threads.setdefault(str(thread), (array("d"), []))
    if len(calls) < MOST_CALLS:
        times.extend(when)
        calls.append(own)


def _place(seen: _Seen) -> None:
    """Kernels with the operators that started them; without a device the host's own time."""
    found = seen.found
    for name, number, seconds in _by_call(seen.kernels):
        found.kernel(name, seconds, *seen.operators.get(number, ()))
    if seen.kernels:
        return
    for times, calls in seen.threads.values():
        pairs = list(zip(times[::2], times[1::2], strict=True))
        own = own_seconds(pairs)
        for (name, shapes, dtype), (begin_s, duration), seconds in zip(
            calls, pairs, own, strict=True
        ):
            if class_of(name) != "messages":
                found.kernel(name, seconds, name, shapes, dtype)
                found.when(begin_s, begin_s + duration, message=False)


def _by_call(kernels: Sequence[tuple[str, int, float]]) -> Iterator[tuple[str, int, float]]:
    """Kernels of one call of an operator together, under the name of the longest."""
    calls: dict[int, list[tuple[str, int, float]]] = {}
    for each in kernels:
        if each[1] < 0:
            yield each
        else:
            calls.setdefault(each[1], []).append(each)
    for number, own in calls.items():
        name, _, _ = max(own, key=lambda each: each[2])
        yield name, number, sum(seconds for _, _, seconds in own)


def _shapes(facts: Mapping[str, Any]) -> tuple[Shapes, str]:
    """Dims of the operands that are tensors, and the type of the first."""
    dims, types = facts.get("Input Dims"), facts.get("Input type")
    if not isinstance(dims, list) or not isinstance(types, list):
        return (), ""
    known = [
        (tuple(int(x) for x in each), DTYPES[str(kind).lower()])
        for each, kind in zip(dims[:8], types[:8], strict=False)
        if isinstance(each, list)
        and all(isinstance(x, int) and 0 <= x < 2**48 for x in each)
        and str(kind).lower() in DTYPES
    ]
    return tuple(shape for shape, _ in known), known[0][1] if known else ""


def _gloo_bytes(name: str, shapes: Shapes, dtype: str, ranks: int) -> float:
    if not shapes or not dtype:
        return 0.0
    own = float(math.prod(shapes[0]) * dtype_bytes(dtype))
    return own * max(1, ranks) if message_kind(name) == "all_gather" else own


def _nccl_bytes(name: str, facts: Mapping[str, Any]) -> float:
    key = "Out msg nelems" if message_kind(name) == "all_gather" else "In msg nelems"
    count, dtype = facts.get(key), DTYPES.get(str(facts.get("dtype", "")).lower())
    if not isinstance(count, int) or dtype is None:
        return 0.0
    return float(count * dtype_bytes(dtype))


def _between(launches: array[float]) -> tuple[float, ...]:
    ordered = sorted(launches)
    return tuple(b - a for a, b in itertools.pairwise(ordered))
