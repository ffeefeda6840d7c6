"""Which operators of a graph the primitives of a model file have become.

An importer gives the operator that makes the result of a primitive the primitive's full name, and
what it needs on the way longer ones: a product of a transposed operand is `MatMul-op0` with
`MatMul-op0/Transpose_0` before it. Rows that the file has merged may be apart in the graph.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ir.file_primitives import FilePrimitive
from ir.graph import OpGraph, Role
from ir.mindspore_forms.readers import parts_of
from ir.mindspore_forms.strategies import Cuts
from ir.normalise.ends import ENDS
from ir.ops import OpView, lookup
from ir.ops.shape import transpose_rule
from ir.rule import ShardingRule


@dataclass(frozen=True, slots=True)
class Part:
    """An operator of a graph, or a part of a composite."""

    view: OpView
    rule: ShardingRule
    """In the factors of the composite."""
    whole: str
    """Name of the operator of the graph that it is, or belongs to."""

    @property
    def name(self) -> str:
        return self.view.op.name


@dataclass(frozen=True, slots=True)
class Group:
    """Parts of one primitive."""

    main: Part
    """The part whose strategy is the primitive's."""
    helpers: Mapping[str, Part]
    """By the tensor that each makes, what stands between an operand and the main part."""

    def between(self, tensor: str) -> tuple[Part, ...]:
        """What stands between a tensor and the operand that it comes from, the last one first."""
        found: list[Part] = []
        while tensor in self.helpers:
            found.append(self.helpers[tensor])
            tensor = found[-1].view.op.inputs[0]
        return tuple(found)


def graph_parts(graph: OpGraph) -> Iterator[Part]:
    """All operators of the model, composites part by part, in graph order."""
    for op in graph.ops:
        for view, rule in parts_of(OpView(op, graph)) if op.kind not in ENDS else ():
            yield Part(view, rule, op.name)


def groups(graph: OpGraph, primitives: Iterable[FilePrimitive]) -> dict[str, Group]:
    """By the name of a primitive, what it is in a graph; none for those that the graph lacks."""
    names = {each.name for each in primitives}
    members: dict[str, list[Part]] = {}
    for part in graph_parts(graph):
        owner = _owner(part.name, names)
        if owner:
            members.setdefault(owner, []).append(part)
    return {name: _group(name, found) for name, found in members.items()}


def _owner(name: str, known: set[str]) -> str:
    """The longest known name that this one is, or begins with."""
    while name and name not in known:
        name = name.rpartition("/")[0]
    return name


def _group(name: str, parts: Sequence[Part]) -> Group:
    main = next((each for each in parts if each.name == name), parts[0])
    before = parts[: parts.index(main)]
    return Group(main, {tensor: part for part in before for tensor in part.view.op.outputs})


def aligned(group: Group, inputs: int, operands: int) -> tuple[int, ...] | None:
    """For each operand of a primitive the input of its main part that it is; None if they differ.

    A number that the primitive holds, as `Muls` does, is a constant operand in the graph. `Square`
    is a product of its operand with itself there, `SiLU` one with what is made of it.

    Args:
        group: of the primitive.
        inputs: how many its main part has.
        operands: how many tensors the primitive takes.
    """
    part = group.main
    if inputs == operands:
        return tuple(range(inputs))
    present = [tensor for tensor in part.view.inputs if tensor is not None]
    if len(present) != inputs:
        return None
    kept = [i for i, tensor in enumerate(present) if tensor.role is not Role.CONSTANT]
    if len(kept) == operands:
        return tuple(kept)
    first = {present[i].name: i for i in reversed(kept) if present[i].name not in group.helpers}
    return tuple(sorted(first.values())) if len(first) == operands else None


def turned(part: Part, cuts: Cuts, *, back: bool = True) -> Cuts | None:
    """Cuts of the result of a transposition as cuts of its operand; without `back` the other way.

    None where it is another operator: an operand that is moved before a transposition instead of
    behind it goes the same way.
    """
    rank = len(part.view.dims(0))
    if lookup(part.view.op.kind).rule is not transpose_rule or len(cuts) != rank:
        return None
    order = part.view.ints("perm") or tuple(reversed(range(rank)))
    if back:
        return tuple(cuts[order.index(dim)] for dim in range(rank))
    return tuple(cuts[place] for place in order)


def merged(dims: Sequence[int], cuts: Cuts, target: Sequence[int]) -> Cuts | None:
    """Cuts of dims that a file has joined to fewer; None if they were not.

    >>> merged((16, 512, 64), (8, 1, 2), (8192, 64))
    (8, 2)
    """
    if len(dims) == len(target):
        return cuts
    out, place = [], 0
    for size in _at_this_batch(dims, target):
        joined, pieces = 1, 1
        while place < len(dims) and (joined < size or dims[place] == 1):
            joined, pieces = joined * dims[place], pieces * cuts[place]
            place += 1
        if joined != size:
            return None
        out.append(pieces)
    return tuple(out) if place == len(dims) else None


def _at_this_batch(dims: Sequence[int], target: Sequence[int]) -> Sequence[int]:
    """Sizes in a file whose batch, the first of them, is another than the plan's."""
    here, there = math.prod(dims), math.prod(target)
    if not target or not there or target[0] * here % there:
        return target
    return (target[0] * here // there, *target[1:])


def apart(dims: Sequence[int], target: Sequence[int], cuts: Cuts) -> Cuts | None:
    """Cuts of dims of a file as cuts of those that the graph has apart, the outer ones first.

    >>> apart((16, 512, 64), (8192, 64), (32, 2))
    (16, 2, 2)
    """
    out: list[int] = []
    place = 0
    for size, cut in zip(target, cuts, strict=True):
        joined, rest = 1, cut
        while place < len(dims) and (joined < size or dims[place] == 1):
            joined *= dims[place]
            pieces = math.gcd(rest, dims[place])
            out.append(pieces)
            rest //= pieces
            place += 1
        if joined != size or rest != 1:
            return None
    return tuple(out) if place == len(dims) else None
