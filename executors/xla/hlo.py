"""Reads the text of an XLA module: the instructions of its entry and the groups of collectives."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

Groups = tuple[tuple[int, ...], ...]
"""Partitions that communicate, each group in order."""

_LINE = re.compile(
    r"^\s*(?:ROOT )?%?(?P<name>[\w.\-]+) = (?P<type>\(.*?\)|\S+) (?P<opcode>[\w\-]+)\("
)
_TYPE = re.compile(r"([a-z]\w*)\[([\d,]*)\]")
_OPERAND = re.compile(r"%([\w.\-]+)")
_MESH = re.compile(
    r"replica_groups=mesh\[(?P<axes>[^\]]*)\](?:, device_ids=\((?P<ids>[^)]*(?:\([^)]*\))?)\))?"
    r" \{(?P<used>[^}]*)\}"
)
_IOTA = re.compile(r"replica_groups=\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
_LISTED = re.compile(r"replica_groups=\{(\{[\d,{}]*\})?\}")
_PAIRS = re.compile(r"source_target_pairs=\{(.*?\})\}")
_AXIS = re.compile(r"'([^']+)'=(\d+)")
_USED = re.compile(r"'([^']+)'(?::\((\d+)\)(\d+))?")
_BITS = {"pred": 8, "bf16": 16, "f16": 16, "f32": 32, "f64": 64, "s4": 4, "u4": 4}


@dataclass(frozen=True, slots=True)
class Shape:
    """An array: element type and dims of one device."""

    dtype: str
    dims: tuple[int, ...]

    @property
    def elements(self) -> int:
        return math.prod(self.dims)

    @property
    def is_float(self) -> bool:
        return self.dtype.startswith(("f", "bf"))

    @property
    def item_bytes(self) -> float:
        bits = _BITS.get(self.dtype) or int(re.sub(r"\D", "", self.dtype) or 32)
        return bits / 8


@dataclass(frozen=True, slots=True)
class Instruction:
    """One line of the entry computation."""

    name: str
    opcode: str
    shapes: tuple[Shape, ...]
    """One, or those of a tuple."""
    operands: tuple[str, ...]
    rest: str
    """Attributes, and what a constant holds."""
    is_root: bool

    @property
    def shape(self) -> Shape:
        return self.shapes[0]

    @property
    def key(self) -> str:
        """Attributes without those that are of no meaning for the value."""
        text = re.sub(r", metadata=\{[^}]*\}", "", self.rest)
        return re.sub(r", (channel_id=\d+|to_apply=%[\w.\-]+|sharding=\{[^}]*\})", "", text)

    def numbers(self, attribute: str) -> tuple[int, ...]:
        """A list of whole numbers among the attributes; empty if it is not there."""
        found = re.search(rf"{attribute}=\{{([\d,]*)\}}", self.rest)
        return _ints(found[1]) if found else ()


@dataclass(frozen=True, slots=True)
class Module:
    """The entry of a module in order, and what its reductions combine with."""

    instructions: Mapping[str, Instruction]
    combiners: Mapping[str, str]
    """For each other computation the operation at its root, such as `add`."""


def parse_module(text: str) -> Module:
    """The entry computation of a printed module."""
    entry: dict[str, Instruction] = {}
    combiners: dict[str, str] = {}
    current, in_entry = "", False
    for line in text.splitlines():
        if line.startswith(("ENTRY", "%")) and line.rstrip().endswith("{"):
            in_entry, current = line.startswith("ENTRY"), line.split()[0].lstrip("%")
        elif found := _LINE.match(line):
            if in_entry:
                item = _instruction(line, found)
                entry[item.name] = item
            elif "ROOT" in line[:8]:
                combiners[current] = found["opcode"]
    return Module(entry, combiners)


def _instruction(line: str, found: re.Match[str]) -> Instruction:
    inside, rest = _operands_of(line[found.end() :])
    shapes = tuple(Shape(t, _ints(d)) for t, d in _TYPE.findall(found["type"]))
    return Instruction(
        name=found["name"],
        opcode=found["opcode"],
        shapes=shapes or (Shape("token", ()),),
        operands=tuple(_OPERAND.findall(inside)),
        rest=(inside if found["opcode"] in {"constant", "parameter"} else "") + rest,
        is_root=line.lstrip().startswith("ROOT"),
    )


def _operands_of(text: str) -> tuple[str, str]:
    """What stands between the parentheses, and what follows."""
    depth = 1
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if not depth:
            return text[:place], text[place + 1 :]
    return text, ""


def groups_of(item: Instruction, partitions: int) -> Groups:
    """The groups of a collective; all partitions together where none are written.

    Raises:
        ValueError: they are written in a way that is not known.
    """
    text = item.rest
    if found := _PAIRS.search(text):
        return tuple(_ints(pair) for pair in re.findall(r"\{([\d,]+)\}?", found[1]))
    if found := _MESH.search(text):
        return _mesh_groups(found, partitions)
    if found := _IOTA.search(text):
        sizes, order = _ints(found[2]), _ints(found[3] or "")
        ranks = np.arange(math.prod(sizes)).reshape(sizes)
        ranks = ranks.transpose(order) if order else ranks
        return _canonical(ranks.reshape(_ints(found[1])))
    if found := _LISTED.search(text):
        listed = tuple(_ints(group) for group in re.findall(r"\{([\d,]+)\}", found[1] or ""))
        return tuple(sorted(tuple(sorted(g)) for g in listed)) or (tuple(range(partitions)),)
    if "replica_groups" in text:
        raise ValueError(f"the groups of {item.name} are written in an unknown way: {text[:120]}")
    return (tuple(range(partitions)),)


def _mesh_groups(found: re.Match[str], partitions: int) -> Groups:
    names = [name for name, _ in _AXIS.findall(found["axes"])]
    sizes = [int(size) for _, size in _AXIS.findall(found["axes"])]
    flat = _device_ids(found["ids"]) if found["ids"] else np.arange(partitions)
    used = [(n, int(m or 1), int(k or 0)) for n, m, k in _USED.findall(found["used"])]
    parts, wanted = _split_axes(names, sizes, used)
    ranks = flat.reshape(parts)
    rest = [axis for axis in range(len(parts)) if axis not in wanted]
    length = math.prod(parts[axis] for axis in wanted)
    return _canonical(ranks.transpose(*rest, *wanted).reshape(-1, length))


def _split_axes(
    names: list[str], sizes: list[int], used: list[tuple[str, int, int]]
) -> tuple[list[int], list[int]]:
    """Sizes of axes and of the pieces of those that are used in part; places of what is used."""
    parts: list[int] = []
    which: dict[tuple[str, int], int] = {}
    for name, size in zip(names, sizes, strict=True):
        before = 1
        for _, major, count in sorted(u for u in used if u[0] == name):
            length = count or size
            if major > before:
                parts.append(major // before)
            which[name, major] = len(parts)
            parts.append(length)
            before = major * length
        if before < size:
            parts.append(size // before)
    return parts, [which[name, major] for name, major, _ in used]


def _device_ids(text: str) -> np.ndarray[tuple[int, ...], np.dtype[np.intp]]:
    """Such as `[2,4]T(1,0)`: numbers in order, with dimensions exchanged."""
    found = re.match(r"\[([\d,]+)\](?:T\(([\d,]+)\))?$", text.strip())
    if not found:
        return np.array(_ints(text.strip("[]")), dtype=np.intp)
    sizes, order = _ints(found[1]), _ints(found[2] or "")
    ranks = np.arange(math.prod(sizes)).reshape(sizes)
    return (ranks.transpose(order) if order else ranks).reshape(-1)


def _canonical(ranks: np.ndarray[tuple[int, ...], np.dtype[np.intp]]) -> Groups:
    return tuple(sorted(tuple(sorted(int(r) for r in row)) for row in ranks))


def _ints(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(",") if part.strip())
