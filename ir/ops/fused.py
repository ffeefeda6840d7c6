"""Composites: one kernel for a chain of element-wise work. Everything is derived from the parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ir.ops.registry import OpView, lookup, operator
from ir.rule import FactorMap, InternalCollective, ShardingRule

FUSED = "Fused"


class _Union:
    """Classes of factors that a tensor inside the composite ties together.

    That of networkx would do, but takes 0.1 s to load, which `inspect` is spared otherwise.
    """

    def __init__(self) -> None:
        self.parent: list[int] = []
        self.size: list[int] = []

    def add(self, size: int) -> int:
        self.parent.append(len(self.parent))
        self.size.append(size)
        return len(self.parent) - 1

    def find(self, index: int) -> int:
        while self.parent[index] != index:
            self.parent[index] = self.parent[self.parent[index]]
            index = self.parent[index]
        return index

    def join(self, a: int, b: int) -> None:
        a, b = self.find(a), self.find(b)
        if a != b:
            self.parent[max(a, b)] = min(a, b)


@dataclass(slots=True)
class _Ties:
    """What the parts of a composite say of its factors, before these have their numbers."""

    union: _Union = field(default_factory=_Union)
    maps: dict[str, list[list[int]]] = field(default_factory=dict)
    locked: set[int] = field(default_factory=set)
    internal: list[InternalCollective] = field(default_factory=list)
    number: dict[int, int] = field(default_factory=dict)
    """Final number of each class of factors."""
    last: list[InternalCollective] = field(default_factory=list)
    """Sums that the results of the composite are: those stay partial."""
    ends: dict[str, list[InternalCollective]] = field(default_factory=dict)
    """The same by result."""
    twice: set[int] = field(default_factory=set)
    """Classes that stand in two dimensions of one tensor; maps leave them out."""

    def factor(self, index: int) -> int:
        return self.number.setdefault(self.union.find(index), len(self.number))

    def mapped(self, name: str) -> FactorMap | None:
        if name not in self.maps:
            return None
        return tuple(
            tuple(self.factor(f) for f in dim if self.union.find(f) not in self.twice)
            for dim in self.maps[name]
        )

    def complete_last(self) -> None:
        """Complete a last sum too if it runs over a factor that another collective reduces: a
        rule cannot say that a result is partial over such a factor.
        """
        reduced = {self.union.find(f) for item in self.internal for f in item.factors}
        self.internal += [
            item for item in self.last if any(self.union.find(f) in reduced for f in item.factors)
        ]

    def lock_met_twice(self) -> None:
        """Lock a factor that some tensor has in two dimensions, and what it is compounded with.

        A vector that meets itself as a row and as a column ties the two; neither may be split.
        """
        for mapping in self.maps.values():
            roots = [self.union.find(f) for dim in mapping for f in dim]
            self.twice.update(r for r in roots if roots.count(r) > 1)
        for mapping in self.maps.values():
            for dim in mapping:
                if any(self.union.find(f) in self.twice for f in dim):
                    self.locked.update(dim)


def fused_rule(view: OpView) -> ShardingRule:
    """Rule of a composite: the parts' factors, tied where a tensor inside has both.

    A factor that some part cannot split where another can stays whole; a factor that is summed
    away inside and comes back by broadcasting is an internal collective, forward and backward.
    """
    return _derived(view, _ties(view))


def tensor_maps(view: OpView) -> dict[str, FactorMap]:
    """Maps of all tensors that the parts read or make, in the factors of the rule.

    A factor that no operand and no result of the composite has comes after those of the rule.
    """
    ties = _ties(view)
    _derived(view, ties)
    return {name: mapping for name in ties.maps if (mapping := ties.mapped(name)) is not None}


def _ties(view: OpView) -> _Ties:
    ties = _Ties()
    inner: list[tuple[str, int]] = []
    read = {n for part in view.op.parts for n in part.inputs}
    for part in view.op.parts:
        rule = lookup(part.kind).rule(OpView(part, view.graph))
        ids = [ties.union.add(s) for s in rule.sizes]
        ties.locked.update(ids[f] for f in rule.locked)
        ties.internal += [_renamed(item, ids.__getitem__) for item in rule.internal]
        sums, statistics = _sums(rule, ids), _statistics(rule, ids)
        if part.outputs[0] in view.op.outputs and part.outputs[0] not in read:
            ties.ends[part.outputs[0]] = [replace(item, backward=0) for item in sums]
            ties.last += ties.ends[part.outputs[0]]
            sums = []
        inner += [(part.outputs[0], len(ties.internal) + i) for i in range(len(sums + statistics))]
        ties.internal += sums + statistics
        named = (
            *zip(part.inputs, rule.operands, strict=True),
            *zip(part.outputs, rule.results, strict=True),
        )
        for name, mapping in named:
            if name and mapping is not None:
                known = [[ids[f] for f in dim] for dim in mapping]
                _tie(ties.maps, name, known, ties.union, ties.locked)
    for name, index in inner:
        if not _returns(view, ties, name, ties.internal[index].factors):
            ties.internal[index] = replace(ties.internal[index], backward=0)
    ties.internal = [item for item in ties.internal if item.forward or item.backward]
    ties.lock_met_twice()
    ties.complete_last()
    return ties


def _returns(view: OpView, ties: _Ties, name: str, factors: tuple[int, ...]) -> bool:
    """Whether what is made from a sum meets a summed factor again: only then is its gradient one
    of many terms.
    """
    summed = {ties.union.find(f) for f in factors}
    made = {name}
    for part in view.op.parts:
        if made & set(part.inputs):
            maps = [ties.maps[n] for n in (*part.inputs, *part.outputs) if n in ties.maps]
            if any(ties.union.find(f) in summed for m in maps for dim in m for f in dim):
                return True
            made.update(part.outputs)
    return False


def _renamed(item: InternalCollective, name: Callable[[int], int]) -> InternalCollective:
    factors, message = (tuple(name(f) for f in each) for each in (item.factors, item.message))
    return replace(item, factors=factors, message=message)


def _sums(rule: ShardingRule, ids: list[int]) -> list[InternalCollective]:
    """A sum that a part makes, as the collective that completes it."""
    kept = {f for dim in rule.results[0] or () for f in dim}
    reduced = {f for item in rule.internal for f in item.factors}
    given = {f for m in rule.operands if m is not None for dim in m for f in dim}
    summed = tuple(ids[f] for f in sorted(given - kept - reduced))
    message = tuple(ids[f] for f in sorted(kept))
    return [InternalCollective(summed, message)] if summed else []


def _statistics(rule: ShardingRule, ids: list[int]) -> list[InternalCollective]:
    """A factor that a part reduces inside and its result lacks: what reads the result may meet the
    factor again, and then the gradient is a sum, though the part itself sends nothing backward.
    """
    kept = {f for dim in rule.results[0] or () for f in dim}
    lost = sorted({f for item in rule.internal for f in item.factors} - kept)
    message = tuple(ids[f] for f in sorted(kept))
    return [InternalCollective(tuple(ids[f] for f in lost), message, forward=0)] if lost else []


def _tie(
    maps: dict[str, list[list[int]]],
    name: str,
    mapping: list[list[int]],
    union: _Union,
    locked: set[int],
) -> None:
    known = maps.setdefault(name, mapping)
    if known is mapping:
        return
    for a, b in zip(known, mapping, strict=True):
        if len(a) == len(b):
            for x, y in zip(a, b, strict=True):
                union.join(x, y)
        else:
            locked.update((*a, *b))


def _derived(view: OpView, ties: _Ties) -> ShardingRule:
    """The rule; results number their factors first, then operands, then internal messages."""
    union, number = ties.union, ties.number
    whole = {union.find(f) for f in ties.locked}
    results = tuple(ties.mapped(n) for n in view.op.outputs)
    operands = tuple(ties.mapped(n) if n else None for n in view.op.inputs)
    collectives = tuple(_renamed(item, ties.factor) for item in ties.internal)
    sizes = [0] * len(number)
    for root, index in number.items():
        sizes[index] = max(union.size[f] for f in range(len(union.parent)) if union.find(f) == root)
    outer = {f for m in (*results, *operands) for dim in m or () for f in dim}
    # A factor of inner tensors alone would only make every device repeat the same sums.
    locked = {i for root, i in number.items() if root in whole or i not in outer}
    reduced = {f for item in collectives for f in item.factors}
    read = {f for m in operands for dim in m or () for f in dim}
    for name, mapping in zip(view.op.outputs, results, strict=True):
        # A rule calls a result partial over what the operands alone have: where that is not so,
        # as the result does not depend on it, nothing may be split.
        sums = ties.ends.get(name, ())
        summed = {number.get(union.find(f)) for item in sums for f in item.factors}
        locked |= read - reduced - summed - {f for dim in mapping or () for f in dim}
    return ShardingRule(tuple(sizes), operands, results, frozenset(locked), collectives)


@operator(FUSED, rule=fused_rule)
def _fused_flops(view: OpView) -> int:
    return sum(lookup(p.kind).flops(OpView(p, view.graph)) for p in view.op.parts)
