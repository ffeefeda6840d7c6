"""Public instances of the planning problem: the JSON of the ASPLOS/EuroSys 2025 contest on
intra-operator parallelism (IOPDDL), plain or packed with gzip.

Format: github.com/asplos-contest/2025, IOPDDL.md. Times are half-open intervals; parallel edges
add; a cost of 10**18 is a pair that must not be chosen.
"""

from __future__ import annotations

import itertools
import json
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from planner.reduction.network import FloatArray, IntArray, Network, offsets

MAX_BYTES = 2**31
"""Of an unpacked instance; the largest public one has 0.2 GB."""
MAX_TIME = 2**31
_LARGEST = 2.0**62


class InstanceError(ValueError):
    """An instance that cannot be read; the message has what, where and how to mend it."""

    def __init__(self, what: str, where: str) -> None:
        super().__init__(f"{what}\n  at:  {where}\n  fix: pass an instance as IOPDDL.md describes")


def read_instance(path: Path) -> Network:
    """The problem in a `.json` or `.json.gz` file.

    Raises:
        InstanceError: it is no instance; the message names node and field.
    """
    try:
        data = path.read_bytes()
        if data[:2] == b"\x1f\x8b":
            data = _unpacked(data, path)
    except (OSError, EOFError, zlib.error) as error:
        why = getattr(error, "strerror", None) or error
        raise InstanceError(f"cannot read {path}: {why}", str(path)) from error
    try:
        return network_of(json.loads(data))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InstanceError(f"{path.name} is no JSON: {error}", str(path)) from error


def _unpacked(data: bytes, path: Path) -> bytes:
    unpacker = zlib.decompressobj(wbits=31)
    out = unpacker.decompress(data, MAX_BYTES)
    if unpacker.unconsumed_tail:
        raise InstanceError(f"{path.name} unpacks to more than {MAX_BYTES} bytes", str(path))
    if not unpacker.eof:
        raise InstanceError(f"{path.name} is no complete gzip file", str(path))
    return out


def network_of(record: object) -> Network:
    """The problem of a parsed instance.

    Raises:
        InstanceError: it is none; the message names node and field.
    """
    problem = _object(_object(record, "the file").get("problem"), "problem")
    nodes = _object(problem.get("nodes"), "problem.nodes")
    edges = _object(problem.get("edges"), "problem.edges")
    limit = problem.get("usage_limit")
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 0:
        raise InstanceError(f"the limit is {limit!r}", "problem.usage_limit")
    sizes, costs = _vectors(nodes, "costs", "nodes")
    held, usages = _vectors(nodes, "usages", "nodes")
    times = _pairs(nodes, "intervals", "nodes")
    if not len(sizes) == len(held) == len(times):
        lengths = f"{len(sizes)} costs, {len(held)} usages and {len(times)} intervals"
        raise InstanceError(f"the nodes have {lengths}", "problem.nodes")
    _check_nodes(sizes, held, usages, times)
    pairs = _pairs(edges, "nodes", "edges")
    pair_sizes, matrices = _vectors(edges, "costs", "edges")
    _check_edges(sizes, pairs, pair_sizes)
    lasting = np.flatnonzero(times[:, 0] < times[:, 1])
    return Network(
        first=offsets(sizes),
        cost=costs,
        edges=pairs,
        edge_first=offsets(pair_sizes),
        edge_cost=matrices,
        span_node=lasting,
        span_time=times[lasting],
        span_first=offsets(sizes[lasting]),
        usage=usages[np.repeat(times[:, 0] < times[:, 1], sizes)],
        base=np.zeros(int(times[:, 1].max(initial=0))),
        limit=float(limit),
    )


def _object(value: object, where: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise InstanceError(f"{where} is no object", where)
    return value


def _list(parent: Mapping[str, object], key: str, where: str) -> Sequence[object]:
    value = parent.get(key)
    if not isinstance(value, list):
        raise InstanceError("it is no list", f"problem.{where}.{key}")
    return value


def _vectors(parent: Mapping[str, object], key: str, where: str) -> tuple[IntArray, FloatArray]:
    """Lengths of lists of numbers, and their numbers one after the other."""
    rows = _list(parent, key, where)
    wrong = next((i for i, row in enumerate(rows) if not isinstance(row, list)), None)
    if wrong is not None:
        raise InstanceError("it is no list", f"problem.{where}.{key}[{wrong}]")
    sizes = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))  # type: ignore[arg-type]
    flat: list[object] = list(itertools.chain.from_iterable(rows))  # type: ignore[arg-type]
    try:
        numbers = np.array(flat, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        numbers = np.array([np.nan])
    plain = numbers.shape == (len(flat),) and not {bool, str} & set(map(type, flat))
    if not plain or not bool((np.abs(numbers) < _LARGEST).all()):
        place = next(i for i, v in enumerate(flat) if not _is_number(v))
        row = int(np.searchsorted(offsets(sizes), place, side="right")) - 1
        raise InstanceError(f"{flat[place]!r} is no cost", f"problem.{where}.{key}[{row}]")
    return sizes, numbers


def _is_number(value: object) -> bool:
    return type(value) in {int, float} and abs(value) < _LARGEST  # type: ignore[arg-type]


def _pairs(parent: Mapping[str, object], key: str, where: str) -> IntArray:
    rows = _list(parent, key, where)
    for number, row in enumerate(rows):
        if not _is_pair(row):
            raise InstanceError(
                f"{row!r} is no pair of whole numbers", f"problem.{where}.{key}[{number}]"
            )
    return np.array(rows, dtype=np.int64).reshape(len(rows), 2)


def _is_pair(value: object) -> bool:
    if not isinstance(value, list) or len(value) != 2:
        return False
    return all(type(v) is int and 0 <= v < MAX_TIME for v in value)


def _check_nodes(sizes: IntArray, held: IntArray, usages: FloatArray, times: IntArray) -> None:
    for number in np.flatnonzero(sizes == 0)[:1]:
        raise InstanceError(f"node {number} has no candidate", f"problem.nodes.costs[{number}]")
    for number in np.flatnonzero(sizes != held)[:1]:
        raise InstanceError(
            f"node {number} has {sizes[number]} costs and {held[number]} usages",
            f"problem.nodes.usages[{number}]",
        )
    for number in np.flatnonzero(times[:, 0] > times[:, 1])[:1]:
        raise InstanceError(
            f"the interval of node {number} ends at {times[number, 1]}, before its start",
            f"problem.nodes.intervals[{number}]",
        )
    for place in np.flatnonzero(usages < 0)[:1]:
        number = int(np.searchsorted(offsets(sizes), place, side="right")) - 1
        raise InstanceError(
            f"node {number} has a negative usage", f"problem.nodes.usages[{number}]"
        )


def _check_edges(sizes: IntArray, pairs: IntArray, pair_sizes: IntArray) -> None:
    if len(pairs) != len(pair_sizes):
        raise InstanceError(
            f"the edges have {len(pairs)} pairs and {len(pair_sizes)} costs", "problem.edges"
        )
    same = pairs[:, 0] == pairs[:, 1]
    for number in np.flatnonzero((pairs >= len(sizes)).any(axis=1) | same)[:1]:
        raise InstanceError(
            f"{pairs[number].tolist()} are no two different nodes",
            f"problem.edges.nodes[{number}]",
        )
    needed = sizes[pairs[:, 0]] * sizes[pairs[:, 1]]
    for number in np.flatnonzero(needed != pair_sizes)[:1]:
        raise InstanceError(
            f"edge {number} has {pair_sizes[number]} costs for {needed[number]} pairs",
            f"problem.edges.costs[{number}]",
        )
