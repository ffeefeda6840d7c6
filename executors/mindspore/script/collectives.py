"""Collectives in the text of a graph that MindSpore dumped after its parallel passes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

KINDS = {
    "AllGather": "all_gather",
    "AllReduce": "all_reduce",
    "AlltoAll": "all_to_all",
    "ReduceScatter": "reduce_scatter",
}
NEIGHBOURS = "NeighborExchangeV2"
"""Sends the edges of a part of an image, and is not counted; nor is its `Grad`, their way back."""
_NODE = re.compile(
    r"^ *%(\d+)\(\S*\) = (?:PrimFunc_)?([\w:]+)\((.*?)\)(?: \{| primitive_attrs| cnode|$)"
)
_OPERAND = re.compile(r"%(\d+)\b")
_RESHAPING = {
    "Concat", "MakeTuple", "Reshape", "Split", "SplitWithSize", "TupleGetItem",
}  # fmt: skip
_GROUP = re.compile(r"\bgroup: \"([^\"]+)\"")
_RANKS = re.compile(r"\bgroup_rank_ids: \(([\d, ]+)\)")
_SCOPE = re.compile(r"# Fullname with scope: \((.*)\)")
_TENSOR = re.compile(r"Tensor\[(\w+)\]\]?, \(([\d, ]*)\)")
_BITS = re.compile(r"\d+$")


class DumpError(ValueError):
    """A dump that is not as this version of MindSpore writes it."""


def collectives(text: str, devices: int) -> list[dict[str, Any]]:
    """Kind, ranks of the group with rank 0, bytes and scope of each collective, in order.

    Bytes are counted as in plans: those of the result in an all-gather, of the operand elsewhere.
    `node` is its number, `source` the node that made the elements that it takes, whatever their
    shape has become, and `after` the place of that node in the list if it is a collective, else -1.
    """
    lines = text.splitlines()
    nodes = {m[1]: m for line in lines if (m := _NODE.match(line)) is not None}
    places: dict[str, int] = {}
    out: list[dict[str, Any]] = []
    for number, line in enumerate(lines):
        match = _NODE.match(line)
        if match is None or match[2].startswith(NEIGHBOURS) or not _GROUP.search(line):
            continue
        found = _collective(match, line, lines[number + 1], devices)
        found["scope"] = _scope(lines, number)
        found["node"] = match[1]
        found["source"] = _origin(match, nodes)
        found["after"] = places.get(found["source"], -1)
        places[match[1]] = len(out)
        out.append(found)
    return out


def _origin(match: re.Match[str], nodes: Mapping[str, re.Match[str]]) -> str:
    """The node that made the elements that another takes."""
    while True:
        operand = _OPERAND.match(match[3])
        if operand is None or operand[1] not in nodes:
            return match[3].split(",")[0]  # an input or a parameter
        match = nodes[operand[1]]
        if match[2] not in _RESHAPING:
            return match[1]


def _collective(match: re.Match[str], line: str, types: str, devices: int) -> dict[str, Any]:
    kind = KINDS.get(match[2], match[2])
    operand, arrow, result = types.partition(" -> ")
    if not arrow:
        raise DumpError(f"no types behind {line[:80]}")
    side = result if kind == "all_gather" else operand
    return {"kind": kind, "ranks": _ranks(line, devices), "nbytes": sum(_sizes(side))}


def _scope(lines: list[str], number: int) -> str:
    """The path of a node stands behind its types."""
    for line in lines[number + 2 : number + 4]:
        found = _SCOPE.search(line)
        if found:
            return found[1]
    return ""


def _ranks(line: str, devices: int) -> list[int]:
    found = _RANKS.search(line)
    if found:
        return [int(n) for n in found[1].split(",")]
    group = _text(r"\bgroup: \"([^\"]+)\"", line)
    if "world_group" in group:
        return list(range(devices))
    raise DumpError(f"no ranks of the group {group}")


def _text(pattern: str, line: str) -> str:
    found = re.search(pattern, line)
    return found[1] if found else ""


def _sizes(types: str) -> Iterator[int]:
    """Bytes of every tensor; a bool has one, and `BFloat16` two."""
    for name, dims in _TENSOR.findall(types):
        bits = _BITS.search(name)
        each = int(bits[0]) // 8 if bits else 1
        yield each * math.prod(int(n) for n in dims.split(",") if n.strip())
