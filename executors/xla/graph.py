"""The instructions that count: equal ones are one, unused ones none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from executors.xla.hlo import Instruction, Module

_EFFECTS = frozenset({"parameter", "opt-barrier", "rng", "rng-bit-generator"})
_RESHAPES = frozenset({"reshape", "bitcast", "reduce", "broadcast"})


@dataclass(slots=True)
class Graph:
    """The entry of a module without copies and repetitions."""

    module: Module
    items: dict[str, Instruction] = field(default_factory=dict)
    users: dict[str, list[str]] = field(default_factory=dict)
    live: list[Instruction] = field(default_factory=list)
    root: str = ""

    def __post_init__(self) -> None:
        same: dict[str, str] = {}
        known: dict[object, str] = {}
        for item in self.module.instructions.values():
            operands = tuple(same[o] for o in item.operands)
            kept = replace(item, operands=operands)
            if self._is_nothing(kept):
                same[item.name] = operands[0]
                continue
            own = item.name if item.opcode in _EFFECTS else ""
            key = (item.opcode, item.shapes, operands, item.key, own)
            same[item.name] = known.setdefault(key, item.name)
            if same[item.name] == item.name:
                self.items[item.name] = kept
            if item.is_root:
                self.root = same[item.name]
        self._keep_used()

    def _is_nothing(self, item: Instruction) -> bool:
        """A copy, or a change of shape that changes none."""
        if item.opcode not in {"copy", "reshape", "bitcast"} or len(item.operands) != 1:
            return False
        before = self.items.get(item.operands[0])
        return before is not None and not item.is_root and before.shapes == item.shapes

    def _keep_used(self) -> None:
        used, open_ = set(), [self.root]
        while open_:
            name = open_.pop()
            if name not in used:
                used.add(name)
                open_ += self.items[name].operands
        self.live = [item for item in self.items.values() if item.name in used]
        for item in self.live:
            for operand in dict.fromkeys(item.operands):
                self.users.setdefault(operand, []).append(item.name)

    def only_user(self, name: str) -> Instruction | None:
        """What uses a value, if only one instruction does."""
        found = self.users.get(name, [])
        return self.items[found[0]] if len(found) == 1 and name != self.root else None

    def dim_before(self, item: Instruction, operand: str, dim: int) -> int | None:
        """Which dimension of an operand is one of the result; None if it is none by itself."""
        dims, before = item.shape.dims, self.items[operand].shape.dims
        if item.opcode == "transpose":
            return item.numbers("dimensions")[dim]
        if dims == before:
            return dim
        size, ahead = dims[dim], math.prod(dims[:dim])
        places = (d for d, n in enumerate(before) if n == size and math.prod(before[:d]) == ahead)
        return next(places, None)

    def is_reshape(self, item: Instruction, value: str) -> bool:
        """Whether an instruction only drops or adds dimensions of one element."""
        if item.opcode not in _RESHAPES or item.operands[0] != value:
            return False
        return _long(item.shape.dims) == _long(self.items[value].shape.dims)

    def is_scaling(self, item: Instruction, value: str) -> bool:
        """Whether an instruction multiplies a value by a number that every device has."""
        other = [o for o in item.operands if o != value]
        if len(other) != 1 or (item.opcode == "divide" and item.operands[0] != value):
            return False
        return self._is_number(self.items[other[0]])

    def _is_number(self, item: Instruction) -> bool:
        while item.opcode in {"broadcast", "reshape", "convert", "copy"} and item.operands:
            item = self.items[item.operands[0]]
        return item.opcode == "constant" and item.shape.elements == 1


def _long(dims: Sequence[int]) -> list[int]:
    return [dim for dim in dims if dim > 1]
