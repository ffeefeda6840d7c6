"""The extents of a graph: every dimension and every factor, and what ties them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from executors.shrinking.extents import EQUAL, Extent, Extents, Formula, Relation, Term
from ir.graph import Op, OpGraph
from ir.ops import OpView, Resizing, annotation, lookup
from ir.rule import FactorMap, ShardingRule

Place = tuple[str, int]
"""A dimension of a tensor."""
Part = tuple[Op, int]
"""An operator, and how deep it is inside composites."""

_HARMLESS = frozenset(
    {
        "axis", "axes", "perm", "batch_dims", "identity_coordinates", "index_blocks", "k", "to",
        "dtype", "seed", "batch_axis", "time_axis", "size", "qk_matmul_output_mode",
        "softmax_precision",
    }
)  # fmt: skip
"""Attributes with numbers that are no extents."""


def with_parts(op: Op, depth: int = 0) -> Iterator[Part]:
    """An operator, after the operators that it stands for."""
    for part in op.parts:
        yield from with_parts(part, depth + 1)
    yield op, depth


@dataclass(slots=True)
class Space:
    """Extents of a graph, and what is known of them."""

    graph: OpGraph
    extents: Extents = field(default_factory=Extents)
    dims: dict[Place, Extent] = field(default_factory=dict)
    factors: dict[tuple[str, int], list[Extent]] = field(default_factory=dict)
    """Extents of the factors of each rule, by operator and its depth."""
    rules: dict[tuple[str, int], ShardingRule] = field(default_factory=dict)
    fixed: list[Extent] = field(default_factory=list)
    """Extents that keep their size."""
    relations: list[Relation] = field(default_factory=list)
    explained: set[Place] = field(default_factory=set)
    """Dimensions of which the present operator's own knowledge tells all, mapped or not."""
    _makers: dict[str, Op] = field(default_factory=dict)

    def dim(self, name: str, index: int) -> Extent:
        """The extent of a dimension."""
        place = (name, index)
        if place not in self.dims:
            self.dims[place] = self.extents.new(self.graph.tensors[name].dims[index])
        return self.dims[place]

    def maker(self, name: str) -> Op | None:
        """The operator, or part of one, that makes a tensor."""
        if not self._makers:
            self._makers |= {
                n: part
                for op in self.graph.ops
                for part, _ in with_parts(op)
                if not part.parts
                for n in part.outputs
            }
        return self._makers.get(name)

    def fix(self, name: str, *indices: int) -> None:
        """Keep the size of dimensions, of all if none is named."""
        for index in indices or range(len(self.graph.tensors[name].dims)):
            self.fixed.append(self.dim(name, index))

    def equate(self, left: Sequence[Extent], right: Sequence[Extent]) -> None:
        """Tie two products of the same size."""
        one, other = self.extents.equate(left, right)
        if one or other:
            self.relations.append(Relation(one, (other,), EQUAL))

    def merge(self) -> None:
        """Tie what is equal to the same product."""
        known: dict[Term, Term] = {}
        pairs = [(r.target, r.sources[0]) for r in self.relations if r.formula == EQUAL]
        again = True
        while again:
            again = False
            known.clear()
            for one, other in (*pairs, *((b, a) for a, b in pairs)):
                key, value = self.extents.atoms(one), self.extents.atoms(other)
                first = known.setdefault(key, value)
                if self.extents.atoms(first) != value:
                    self.equate(first, value)
                    again = again or self.extents.atoms(first) == self.extents.atoms(value)

    def relate(self, target: Place, sources: Sequence[Place], formula: Formula) -> None:
        """An extent follows from others; if it does not, all keep their sizes."""
        places = (target, *sources)
        sizes = [self.graph.tensors[name].dims[i] for name, i in places]
        if formula(sizes[1:]) != sizes[0]:
            for name, index in places:
                self.fix(name, index)
            return
        first, *rest = ((self.dim(name, index),) for name, index in places)
        self.relations.append(Relation(first, tuple(rest), formula))
        self.explained.update(places)


Knowledge = Callable[[Space, OpView], None]
"""Tells a space what the rule of an operator does not say."""


def space_of(
    graph: OpGraph, knowledge: Mapping[Resizing, Knowledge], pins: Collection[Place] = ()
) -> Space:
    """All extents of a graph.

    Args:
        graph: the graph.
        knowledge: what rules do not say, by what the entries tell of it.
        pins: dimensions that keep their sizes.
    """
    space = Space(graph)
    for op in graph.ops:
        for part, depth in with_parts(op):
            told = lookup(part.kind).resizing
            _enter(space, OpView(part, graph), depth, knowledge[told] if told else None)
    for name, index in sorted(pins):
        space.fix(name, index)
    space.merge()
    return space


def _enter(space: Space, view: OpView, depth: int, own: Knowledge | None) -> None:
    """What one operator ties. What a composite's rule leaves open its parts have told."""
    op = view.op
    rule = lookup(op.kind).rule(view)
    ids = [space.extents.new(size) for size in rule.sizes]
    space.factors[op.name, depth], space.rules[op.name, depth] = ids, rule
    space.explained.clear()
    if own is not None:
        own(space, view)
    elif not op.parts and (_bakes_sizes(op) or annotation(op)):
        for name in (*op.inputs, *op.outputs):
            if name:
                space.fix(name)
    if not op.parts and not lookup(op.kind).whole_at_any_size:
        space.fixed += [ids[f] for f in sorted(rule.locked)]
    named = (
        *zip(op.inputs, rule.operands, strict=True),
        *zip((n for n in op.outputs if n), rule.results, strict=True),
    )
    for name, mapping in named:
        if name:
            _tie(space, name, mapping, ids, strict=not op.parts)


def _bakes_sizes(op: Op) -> bool:
    return any(
        any(
            isinstance(v, int) and abs(v) > 1
            for v in (value if isinstance(value, tuple) else (value,))
        )
        for key, value in op.attributes.items()
        if key not in _HARMLESS
    )


def _tie(
    space: Space, name: str, mapping: FactorMap | None, ids: list[Extent], *, strict: bool
) -> None:
    dims = space.graph.tensors[name].dims
    for index, size in enumerate(dims):
        factors: Term = tuple(ids[f] for f in mapping[index]) if mapping else ()
        if factors and space.extents.size(factors) == size:
            space.equate((space.dim(name, index),), factors)
        elif strict and size > 1 and (name, index) not in space.explained:
            space.fix(name, index)
            space.fixed += factors
