"""A hash of a graph that neither names nor the order of operators change.

Colours are refined as by Weisfeiler and Lehman, but each round goes through the whole graph once
forwards and once backwards, so that a few rounds settle graphs of any depth. Equal graphs have
equal hashes; different ones have different hashes unless refinement cannot tell them apart, which
takes symmetries that networks do not have. Source: Shervashidze et al., Weisfeiler-Lehman graph
kernels, JMLR 12, 2011, section 3.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ir.graph import Op, OpGraph, Tensor
from ir.ops.elementwise import COMMUTATIVE

MAX_ROUNDS = 16
Colour = bytes


def canonical_digest(graph: OpGraph) -> str:
    """Hash of what a graph computes and how its tensors are typed, hexadecimal.

    >>> from ir.graph import Role
    >>> def small(x: str, first: str) -> OpGraph:
    ...     table = {x: Tensor(x, (4,), "float32", Role.INPUT), "y": Tensor("y", (4,), "float32")}
    ...     return OpGraph("g", table, (Op(first, "Relu", (x,), ("y",)),), (x,), ("y",))
    >>> canonical_digest(small("x", "a")) == canonical_digest(small("input", "b"))
    True
    """
    return _refined(graph).digest().hex()


def correspondence(graph: OpGraph, other: OpGraph) -> dict[str, str]:
    """For every tensor of a graph the one of another graph that computes the same.

    Tensors that nothing tells apart go with each other by name, then in order. Both graphs have the
    same `canonical_digest`.

    >>> from ir.graph import Role
    >>> def small(x: str) -> OpGraph:
    ...     table = {x: Tensor(x, (4,), "float32", Role.INPUT), "y": Tensor("y", (4,), "float32")}
    ...     return OpGraph("g", table, (Op("a", "Relu", (x,), ("y",)),), (x,), ("y",))
    >>> correspondence(small("x"), small("input"))
    {'x': 'input', 'y': 'y'}
    """
    groups: dict[Colour, list[str]] = {}
    for name, colour in _refined(other).tensors.items():
        groups.setdefault(colour, []).append(name)
    own: dict[Colour, list[str]] = {}
    for name, colour in _refined(graph).tensors.items():
        own.setdefault(colour, []).append(name)
    out: dict[str, str] = {}
    for colour, names in own.items():
        free = groups[colour]
        known = [n for n in names if n in free]
        rest = iter([n for n in free if n not in known])
        out |= {n: n if n in known else next(rest) for n in names}
    return out


def _refined(graph: OpGraph) -> _Colours:
    colours = _Colours(graph)
    count = 0
    for _ in range(MAX_ROUNDS):
        colours.refine()
        distinct = len(set(colours.tensors.values()) | set(colours.ops.values()))
        if distinct == count:
            break
        count = distinct
    return colours


def _hash(*parts: object) -> Colour:
    state = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part if isinstance(part, bytes) else repr(part).encode()
        state.update(len(data).to_bytes(8, "little") + data)
    return state.digest()


def _plain(attributes: Mapping[str, object]) -> list[tuple[str, object]]:
    return sorted((k, v) for k, v in attributes.items() if k != "label")


def _flat(ops: Iterable[Op], kin: Colour = b"") -> Iterable[tuple[Op, Colour]]:
    """Operators that stand for themselves, each with a colour of what it is part of."""
    for op in ops:
        if op.parts:
            kinds = sorted(part.kind for part in op.parts)
            yield from _flat(op.parts, _hash(kin, op.kind, _plain(op.attributes), kinds))
        else:
            yield op, kin


@dataclass(slots=True)
class _Colours:
    graph: OpGraph
    tensors: dict[str, Colour] = field(default_factory=dict)
    ops: dict[int, Colour] = field(default_factory=dict)
    """By place in the list of operators."""
    _list: list[Op] = field(default_factory=list)

    def __post_init__(self) -> None:
        for op, kin in _flat(self.graph.ops):
            self.ops[len(self._list)] = _hash(op.kind, _plain(op.attributes), op.divisors, kin)
            self._list.append(op)
        wanted = set(self.graph.outputs)
        made = {n for op in self._list for n in op.outputs}
        touched = {n for op in self._list for n in (*op.inputs, *op.outputs) if n}
        for name in sorted(touched | wanted | set(self.graph.inputs)):
            self.tensors[name] = self._first(self.graph.tensors[name], name in made, wanted)

    def _first(self, tensor: Tensor, made: bool, wanted: set[str]) -> Colour:
        return _hash(
            tensor.role.value, tensor.dims, tensor.dtype, tensor.divisors, made,
            tensor.name in wanted,
        )  # fmt: skip

    def refine(self) -> None:
        """One round: what each operator is made from, then what becomes of it."""
        for place, op in enumerate(self._list):
            operands = [self.tensors[n] if n else b"" for n in op.inputs]
            if op.kind in COMMUTATIVE:
                operands.sort()
            self.ops[place] = _hash(self.ops[place], *operands)
            for index, name in enumerate(op.outputs):
                if name:
                    self.tensors[name] = _hash(self.tensors[name], self.ops[place], index)
        readers: dict[str, list[Colour]] = {}
        for place in range(len(self._list) - 1, -1, -1):
            op = self._list[place]
            results = [self._read(n, readers) if n else b"" for n in op.outputs]
            self.ops[place] = _hash(self.ops[place], *results)
            for index, name in enumerate(op.inputs):
                position = 0 if op.kind in COMMUTATIVE else index
                readers.setdefault(name, []).append(_hash(self.ops[place], position))
        made = {n for op in self._list for n in op.outputs}
        for name in self.tensors:
            if name not in made:
                self._read(name, readers)

    def _read(self, name: str, readers: Mapping[str, list[Colour]]) -> Colour:
        self.tensors[name] = _hash(self.tensors[name], *sorted(readers.get(name, ())))
        return self.tensors[name]

    def digest(self) -> Colour:
        pairs = sorted(
            _hash(self.tensors[p], self.tensors[g]) for p, g in self.graph.gradients.items()
        )
        every = sorted(self.ops.values()), sorted(self.tensors.values()), pairs
        return _hash(*(colour for group in every for colour in (b"|", *group)))
