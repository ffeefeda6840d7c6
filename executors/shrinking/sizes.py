"""The smallest sizes of extents under which a plan splits them as before."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from executors.shrinking.extents import Extent, Extents, Relation, Term

_MOST_TRIES = 3000
"""Combinations of sizes that are tried for extents that depend on each other."""
_MOST_VALUES = 400
"""Sizes that are tried for one extent."""


@dataclass(frozen=True, slots=True)
class Demand:
    """A product of extents is cut into so many pieces."""

    term: Term
    count: int


@dataclass(slots=True)
class _Group:
    """Atoms that depend on each other."""

    atoms: set[Extent] = field(default_factory=set)
    relations: list[Relation] = field(default_factory=list)
    demands: list[Demand] = field(default_factory=list)


Values = dict[Extent, int]


def smallest_sizes(
    extents: Extents,
    used: Iterable[Extent],
    fixed: Iterable[Extent],
    relations: Iterable[Relation],
    demands: Iterable[Demand],
) -> Values:
    """A size for every atom.

    Args:
        extents: the extents.
        used: those that matter.
        fixed: those that keep their size.
        relations: what follows from what.
        demands: how products are split.
    """
    kept = set(extents.atoms(tuple(fixed)))
    every = sorted(set(extents.atoms(tuple(used))) | kept)
    return _Solver(extents, every, kept, list(relations), list(demands)).solve()


def splits_alike(new: int, old: int, count: int) -> bool:
    """Whether an extent of a new size is cut as one of the old size was.

    Even stays even, uneven uneven, and as many pieces hold something.
    """
    if old % count == 0:
        return new % count == 0
    return new >= count and new % count != 0 and _filled(new, count) == _filled(old, count)


def _filled(size: int, count: int) -> int:
    return -(-size // -(-size // count))


class _Solver:
    def __init__(
        self,
        extents: Extents,
        atoms: Sequence[Extent],
        fixed: set[Extent],
        relations: list[Relation],
        demands: list[Demand],
    ) -> None:
        self.extents, self.atoms, self.fixed = extents, atoms, fixed
        self.relations = list(
            dict.fromkeys(
                Relation(
                    extents.atoms(r.target) or r.target,
                    tuple(extents.atoms(s) or s for s in r.sources),
                    r.formula,
                )
                for r in relations
            )
        )
        flat = dict.fromkeys(Demand(extents.atoms(d.term), d.count) for d in demands)
        self.counts: dict[Extent, set[int]] = {}
        self.products: list[Demand] = []
        for demand in flat:
            if len(demand.term) == 1:
                self.counts.setdefault(demand.term[0], set()).add(demand.count)
            elif demand.term:
                self.products.append(demand)
        self.products = [d for d in self.products if not self._implied(d)]

    def _implied(self, demand: Demand) -> bool:
        """Whether one atom of the product is cut as finely already."""
        return any(
            self._old(atom) % count == 0 and count % demand.count == 0
            for atom in demand.term
            for count in self.counts.get(atom, ())
        )

    def _old(self, atom: Extent) -> int:
        return self.extents.size((atom,))

    def solve(self) -> Values:
        values = {atom: self._old(atom) for atom in self.fixed}
        for group in self._groups():
            values |= self._solved(group, values)
        return values

    def _groups(self) -> list[_Group]:
        """Free atoms, together with those that some relation or product ties them to."""
        group_of = {atom: _Group({atom}) for atom in self.atoms if atom not in self.fixed}
        ties: list[tuple[set[Extent], Relation | Demand]] = [
            ({*r.target, *itertools.chain(*r.sources)}, r) for r in self.relations
        ]
        ties += [(set(d.term), d) for d in self.products]
        for atoms, tie in ties:
            met = {id(group_of[a]): group_of[a] for a in sorted(atoms) if a in group_of}
            if not met:
                continue
            first, *rest = met.values()
            for other in rest:
                first.atoms |= other.atoms
                first.relations += other.relations
                first.demands += other.demands
                group_of.update(dict.fromkeys(other.atoms, first))
            if isinstance(tie, Relation):
                first.relations.append(tie)
            else:
                first.demands.append(tie)
        return list({id(group): group for group in group_of.values()}.values())

    def _solved(self, group: _Group, known: Values) -> Values:
        if len(group.atoms) == 1 and not group.relations and not group.demands:
            (atom,) = group.atoms
            return {atom: next(self._allowed([atom]))}
        attempt = _Attempt(self, group, known)
        allowed = [self.allowed(atoms) for atoms in attempt.variables]
        tries = itertools.islice(_by_product(allowed), _MOST_TRIES)
        found = next((s for s in tries if attempt.values(s) is not None), None)
        if found is None:
            found = next(s for s in attempt.large(allowed) if attempt.values(s) is not None)
            found = attempt.reduced(found, allowed)
        values = attempt.values(found)
        if values is None:
            raise ValueError("the extents of the graph contradict each other")
        return values

    def fits(self, atom: Extent, value: int) -> bool:
        """Whether an atom may have a size by itself."""
        old = self._old(atom)
        if old < 2:
            return value == old
        counts = self.counts.get(atom, ())
        return 1 < value <= old and all(splits_alike(value, old, c) for c in counts)

    def _allowed(self, atoms: Sequence[Extent]) -> Iterator[int]:
        """Sizes that several atoms of one size may have, the smallest first."""
        old = self._old(atoms[0])
        first = 2 if old > 1 else old
        return (v for v in range(first, old + 1) if all(self.fits(a, v) for a in atoms))

    def allowed(self, atoms: Sequence[Extent]) -> list[int]:
        """The first sizes that several atoms of one size may have, and the present one."""
        found = list(itertools.islice(self._allowed(atoms), _MOST_VALUES))
        old = self._old(atoms[0])
        return found if found[-1] == old else [*found, old]


class _Attempt:
    """Sizes for the atoms of one group: some are chosen, the others follow."""

    def __init__(self, solver: _Solver, group: _Group, known: Values) -> None:
        self.solver, self.group, self.known = solver, group, known
        self.order: list[Relation] = []
        """Relations in the order in which they tell atoms."""
        sources = self._sources()
        by_size: dict[int, list[Extent]] = {}
        for atom in sources:
            by_size.setdefault(solver.extents.size((atom,)), []).append(atom)
        self.variables = [by_size[size] for size in sorted(by_size)]
        """Atoms that are chosen, by their present size; those of one size stay equal."""

    def _sources(self) -> list[Extent]:
        """Atoms from which all others follow."""
        told = set(self.known)
        waiting = list(self.group.relations)
        targets = {atom for r in waiting for atom in r.target}
        chosen: list[Extent] = []
        free = sorted(self.group.atoms, key=lambda a: (a in targets, a))
        while True:
            self._follow(told, waiting)
            left = [atom for atom in free if atom not in told]
            if not left:
                return chosen
            chosen.append(left[0])
            told.add(left[0])

    def _follow(self, told: set[Extent], waiting: list[Relation]) -> None:
        """Move relations whose sources are told into the order, with what they tell."""
        moved = True
        while moved:
            moved = False
            for relation in list(waiting):
                unknown = [a for a in relation.target if a not in told]
                sources = [a for term in relation.sources for a in term]
                if len(unknown) > 1 or any(a not in told and self._is_free(a) for a in sources):
                    continue
                waiting.remove(relation)
                self.order.append(relation)
                told.update(unknown)
                moved = True

    def _is_free(self, atom: Extent) -> bool:
        return atom in self.group.atoms

    def large(self, allowed: Sequence[Sequence[int]]) -> Iterator[tuple[int, ...]]:
        """Sizes of the variables that are more likely to fit: multiples of all pieces, all in
        proportion, and in the end the present ones.
        """
        counts = {d.count for d in self.group.demands}
        for atom in self.group.atoms:
            counts |= self.solver.counts.get(atom, set())
        unit = math.lcm(*counts)
        for times in (1, 2, 4):
            yield tuple(_first_multiple(values, unit * times) for values in allowed)
        old = [values[-1] for values in allowed]
        common = math.gcd(*old)
        for share in range(common, 0, -1):
            if common % share == 0:
                yield tuple(size // share for size in old)

    def reduced(self, sizes: tuple[int, ...], allowed: Sequence[Sequence[int]]) -> tuple[int, ...]:
        """Sizes that fit, made smaller one after the other as far as that goes."""
        for place, options in reversed(list(enumerate(allowed))):
            trials = ((*sizes[:place], size, *sizes[place + 1 :]) for size in options)
            sizes = next(trial for trial in trials if self.values(trial) is not None)
        return sizes

    def values(self, sizes: Sequence[int]) -> Values | None:
        """Sizes of all atoms of the group, if they fit together."""
        values = dict(self.known)
        for atoms, size in zip(self.variables, sizes, strict=True):
            values.update(dict.fromkeys(atoms, size))
        for relation in self.order:
            if not self._told(relation, values):
                return None
        if not all(self.solver.fits(a, values[a]) for a in self.group.atoms):
            return None
        if not all(self._holds(demand, values) for demand in self.group.demands):
            return None
        return {atom: values[atom] for atom in self.group.atoms}

    def _told(self, relation: Relation, values: Values) -> bool:
        """Fill in the last atom of a target; whether the relation can hold."""
        found = relation.formula([self._value(term, values) for term in relation.sources])
        if found is None or found < 1:
            return False
        unknown = [atom for atom in relation.target if self._is_free(atom) and atom not in values]
        rest = math.prod(
            values.get(a, self.solver.extents.size((a,)))
            for a in relation.target
            if a not in unknown
        )
        if not unknown:
            return found == rest
        values[unknown[0]] = found // rest
        return found % rest == 0

    def _value(self, term: Term, values: Mapping[Extent, int]) -> int:
        return math.prod(values.get(a, self.solver.extents.size((a,))) for a in term)

    def _holds(self, demand: Demand, values: Values) -> bool:
        old = self.solver.extents.size(demand.term)
        return splits_alike(self._value(demand.term, values), old, demand.count)


def _by_product(allowed: Sequence[Sequence[int]]) -> Iterator[tuple[int, ...]]:
    """Choices of one value each, in the order of their product; among equals those first that are
    small in front.
    """
    first = (0,) * len(allowed)
    heap: list[tuple[int, tuple[int, ...], tuple[int, ...]]] = [(0, (), first)]
    seen = {first}
    while heap:
        _, _, places = heapq.heappop(heap)
        yield tuple(values[i] for values, i in zip(allowed, places, strict=True))
        for position, values in enumerate(allowed):
            more = (*places[:position], places[position] + 1, *places[position + 1 :])
            if more[position] < len(values) and more not in seen:
                seen.add(more)
                sizes = tuple(v[i] for v, i in zip(allowed, more, strict=True))
                heapq.heappush(heap, (math.prod(sizes), sizes, more))


def _first_multiple(values: Sequence[int], unit: int) -> int:
    return next((v for v in values if v % unit == 0), values[-1])
