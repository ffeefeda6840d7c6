"""The best layouts of a pipeline under soft constraints: a trade of time for what is paid.

The step is m max T + (sum T - max T) / V of the times T of the parts of the machine; what soft pins
are charged is added, and at most so many operators may change. Parts share nothing, so each has a
list of ways, from the fastest to those that pay less or change less, and what is best together
follows from all times that the slowest part may have. In small problems the lists are whole.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from planner.constraints.soft import SoftConstraints, with_charges
from planner.lowering.lowered import Lowered, narrowed
from planner.lowering.parameters import common_layouts
from planner.pipeline.prices import piece_times
from planner.pipeline.solved import Solved
from planner.pipeline.space import Configuration
from planner.problem import ChoiceLimit, FloatArray, Problem
from planner.reduction.restriction import IndexArray, offered
from planner.solvers import Solution

NO_LESS = 1e-9
"""Relative difference below which two charges are the same."""
FEW_NODES = 300
"""Decisions up to which charges are weighed against the time of the slowest part, of one that
waits, and of an even pipeline; beyond it against that alone."""
MOST_EXACT = 8
"""Operators that soft pins name, and changes, up to which all ways of a small network are looked
at."""
PRICE_STEPS = 6
"""Prices on changes tried there."""
MOST_MIXED = 256
"""Mixes of ways of all parts that are compared one by one."""
HIGHEST, LOWEST = 1.0, 1e-7
"""Where these lie, in steps of the pipeline."""

Posing = Callable[[Problem], Problem]
Solve = Callable[[Lowered, Posing], Solution]
"""Solves a problem as it is posed."""
Fits = Callable[[Sequence[int]], bool]
"""Whether a choice fits into the memory, if that counts."""
Judge = Callable[[Sequence[int]], float]
"""Seconds of a step with a choice."""


class Way(NamedTuple):
    """One way to have a part of the machine."""

    time_s: float
    """Of a micro-batch."""
    paid_s: float
    """Of a step, for soft pins that are not kept."""
    changes: int
    choice: tuple[int, ...]
    """Of all parts; that of this one counts."""


@dataclass(frozen=True, slots=True)
class Account:
    """What choices of a pipeline's problem take, pay and change."""

    soft: SoftConstraints
    shape: Configuration
    lowered: Lowered
    entry_s: Sequence[float]
    """By piece what it takes to receive and to send back."""
    charges: Mapping[int, FloatArray] = field(init=False)
    changes: Mapping[int, FloatArray] = field(init=False)
    part_of: tuple[int, ...] = field(init=False)
    """By node the part of the machine."""

    def __post_init__(self) -> None:
        stages = self.shape.stages
        owner = tuple(node.stage % stages for node in self.lowered.nodes)
        object.__setattr__(self, "charges", self.soft.charges(self.lowered))
        object.__setattr__(self, "changes", self.soft.changes(self.lowered, stages))
        object.__setattr__(self, "part_of", owner)

    @property
    def parts(self) -> tuple[int, ...]:
        """Parts of the machine that the problem has."""
        return tuple(sorted(set(self.part_of)))

    def way(self, choice: Sequence[int], part: int) -> Way:
        """What a choice is for one part."""
        entry = sum(self.entry_s[part :: self.shape.stages])
        own_s = piece_times(self.lowered, choice, self.shape.pieces)
        spent = (entry, *own_s[part :: self.shape.stages].tolist())
        return Way(
            math.fsum(spent),
            self._sum(self.charges, choice, part),
            round(self._sum(self.changes, choice, part)),
            tuple(choice),
        )

    def paid_s(self, choice: Sequence[int]) -> float:
        """What soft pins are charged in a step."""
        return math.fsum(float(own[choice[node]]) for node, own in self.charges.items())

    def broken(self, choice: Sequence[int]) -> Iterator[int]:
        """Nodes that pay."""
        return (node for node, own in self.charges.items() if own[choice[node]])

    def changed(self, choice: Sequence[int]) -> int:
        """Operators that change."""
        return sum(round(float(own[choice[node]])) for node, own in self.changes.items())

    def is_within(self, choice: Sequence[int]) -> bool:
        """Whether no more operators change than may."""
        return self.soft.most is None or self.changed(choice) <= self.soft.most

    @property
    def is_short(self) -> bool:
        """Whether all ways are looked at: none is wished, or few are in a small network."""
        few = len(self.charges) <= MOST_EXACT and (self.soft.most or 0) <= MOST_EXACT
        return self.soft.is_empty or (few and self.soft.in_small_network)

    def mixed(self, ways: Sequence[Way]) -> tuple[int, ...]:
        """The choice that has each part in its way."""
        of = dict(zip(self.parts, ways, strict=True))
        return tuple(of[part].choice[node] for node, part in enumerate(self.part_of))

    def _sum(self, amounts: Mapping[int, FloatArray], choice: Sequence[int], part: int) -> float:
        own = (node for node in amounts if self.part_of[node] == part)
        return math.fsum(float(amounts[node][choice[node]]) for node in own)

    def in_part(self, amounts: Mapping[int, FloatArray], part: int) -> dict[int, FloatArray]:
        """What nodes of one part take of a budget."""
        return {n: own for n, own in amounts.items() if self.part_of[n] == part and own.any()}


def best_trade_off(account: Account, solve: Solve, fits: Fits, step_s: Judge) -> Solution:
    """The best layouts of all pieces of a pipeline.

    Args:
        account: what choices take and pay.
        solve: the fastest layouts of a problem as it is posed, within the memory if that counts.
        fits: whether a choice does.
        step_s: of a choice, with all passes in their order.
    """
    base = solve(account.lowered, _as_it_is)
    choice = base.choice
    if not choice or not fits(choice):
        return base
    if not account.paid_s(choice) and account.is_within(choice):
        return base
    search = _WaySearch(account, solve, fits, base)
    sets = [search.all_ways()] if account.is_short else search.priced_ways()
    best = [(best_ways(ways, account.shape, account.soft.most), ways) for ways in sets]
    mixes = [(*found, ways) for found, ways in best if found is not None]
    if not mixes:
        return base
    _, found, ways = min(mixes, key=lambda mix: mix[0])
    mixed = account.mixed(found)
    if account.is_short and math.prod(map(len, ways)) <= MOST_MIXED:
        mixed = _in_order(account, ways, mixed, step_s)
    return replace(base, choice=mixed, cost_s=account.lowered.problem.cost_s(mixed))


def _in_order(
    account: Account, ways: Sequence[Sequence[Way]], first: tuple[int, ...], step_s: Judge
) -> tuple[int, ...]:
    """The best mix by the step with all passes in their order, which may be another one."""
    shape, most = account.shape, account.soft.most
    best = step_s(first) + account.paid_s(first), first
    mixes = []
    for number, mix in enumerate(itertools.product(*ways)):
        if most is None or sum(way.changes for way in mix) <= most:
            times = [way.time_s for way in mix]
            least_s = shape.micro_batches * max(times)
            mixes.append((least_s + sum(way.paid_s for way in mix), number, mix))
    for worth_s, _, mix in sorted(mixes):
        if worth_s >= best[0]:
            break
        choice = account.mixed(mix)
        best = min(best, (step_s(choice) + account.paid_s(choice), choice))
    return best[1]


def all_ways(account: Account, solve: Solve, fits: Fits) -> list[Way]:
    """All ways of the only part that a small problem has; none if nothing fits."""
    base = solve(account.lowered, _as_it_is)
    if not base.choice or not fits(base.choice):
        return []
    (found,) = _WaySearch(account, solve, fits, base).all_ways()
    return found


def best_ways(
    ways: Sequence[Sequence[Way]], shape: Configuration, most: int | None
) -> tuple[float, tuple[Way, ...]] | None:
    """What a step is worth with one way for each part of the machine, best together, and these;
    None if too much changes in all.

    Args:
        ways: of every part.
        shape: says how times make a step.
        most: operators that may change.
    """
    best: tuple[float, tuple[Way, ...]] | None = None
    for slowest_s in sorted({way.time_s for own in ways for way in own}):
        found = _least_sum(ways, slowest_s, 1 / shape.chunks, most)
        if found is None:
            continue
        step_s = (shape.micro_batches - 1 / shape.chunks) * slowest_s + found[0]
        if best is None or step_s < best[0]:
            best = step_s, found[1]
    return best


def _least_sum(
    ways: Sequence[Sequence[Way]], slowest_s: float, share: float, most: int | None
) -> tuple[float, tuple[Way, ...]] | None:
    """The least that all parts take and pay, none slower than that."""
    known: dict[int, tuple[float, tuple[Way, ...]]] = {0: (0.0, ())}
    for own in ways:
        longer: dict[int, tuple[float, tuple[Way, ...]]] = {}
        for changes, (cost_s, taken) in known.items():
            for way in own:
                count = 0 if most is None else changes + way.changes
                if way.time_s > slowest_s or (most is not None and count > most):
                    continue
                total_s = cost_s + way.time_s * share + way.paid_s
                if count not in longer or total_s < longer[count][0]:
                    longer[count] = total_s, (*taken, way)
        known = longer
    return min(known.values(), key=lambda each: each[0], default=None)


def _as_it_is(problem: Problem) -> Problem:
    return problem


@dataclass(slots=True)
class _WaySearch:
    account: Account
    solve: Solve
    fits: Fits
    base: Solution
    _known: dict[int, tuple[Lowered, list[IndexArray]]] = field(default_factory=dict)

    def all_ways(self) -> list[list[Way]]:
        """Every way of every part that pays or changes less than all faster ones."""
        return [list(self._ways_of(part)) for part in self.account.parts]

    def _ways_of(self, part: int) -> Iterator[Way]:
        """The fastest ways within falling limits on changes, and on charges in each of them."""
        found: Way | None = self.account.way(self.base.choice or (), part)
        limit = most = self.account.soft.most
        if limit is not None and found is not None and found.changes > limit:
            found = self._within(part, limit, None)
        while found is not None:
            yield found
            yield from self._paying_less(part, limit, found)
            if limit is None or most is None:
                return
            # With charges beside, less of them may take more changes: no limit is passed over.
            count = len(self.account.in_part(self.account.changes, part))
            limit = min(limit, count) - 1 if self.account.charges else found.changes - 1
            if limit < 0:
                return
            found = self._within(part, limit, None)

    def _paying_less(self, part: int, limit: int | None, way: Way) -> Iterator[Way]:
        """What pays less: in a part that waits, more time may cost nothing."""
        found: Way | None = way
        while found is not None and found.paid_s > 0:
            found = self._within(part, limit, found.paid_s * (1 - NO_LESS))
            if found is not None:
                yield found

    def _within(self, part: int, changes: int | None, paid_s: float | None) -> Way | None:
        """The fastest way of one part within limits, the others as they are."""
        account, choice = self.account, self.base.choice or ()
        budgets: list[tuple[dict[int, FloatArray], float]] = []
        if changes is not None:
            budgets.append((account.in_part(account.changes, part), changes))
        if paid_s is not None:
            own = account.in_part(account.charges, part)
            least_s = min((float(each[each > 0].min()) for each in own.values()), default=0.0)
            budgets.append((own, paid_s if paid_s >= least_s else 0.0))

        def restricted(problem: Problem) -> Problem:
            for amounts, most in budgets:
                problem = replace(problem, limits=(*problem.limits, ChoiceLimit(amounts, most)))
            return problem

        lowered, allowed = self._alone(part)
        found = self.solve(lowered, restricted)
        if not found.choice:
            return None
        mixed = tuple(
            int(allowed[node][chosen]) if account.part_of[node] == part else choice[node]
            for node, chosen in enumerate(found.choice)
        )
        way = account.way(mixed, part)
        late = changes is not None and way.changes > changes
        dear = paid_s is not None and way.paid_s > paid_s
        return None if late or dear or not self.fits(mixed) else way

    def _alone(self, part: int) -> tuple[Lowered, list[IndexArray]]:
        """The problem in which all other parts are as they are, and its candidates."""
        if part not in self._known:
            lowered, choice = self.account.lowered, self.base.choice or ()
            held = {
                node: own.columns.alike(choice[node])
                for node, own in enumerate(lowered.nodes)
                if self.account.part_of[node] != part
            }
            self._known[part] = narrowed(lowered, held), offered(lowered.problem, held)
        return self._known[part]

    def priced_ways(self) -> list[list[list[Way]]]:
        """Ways under prices on charges and on changes, of every part: those of parts that go
        together, for each layout of what they have in common.
        """
        choices = [self.base.choice or (), *self._under_prices()]
        alike: dict[object, list[tuple[int, ...]]] = {}
        for choice in dict.fromkeys(choices):
            if self.fits(choice):
                alike.setdefault(common_layouts(self.account.lowered, choice), []).append(choice)
        account = self.account
        return [
            [[account.way(choice, part) for choice in fine] for part in account.parts]
            for fine in alike.values()
        ]

    def _under_prices(self) -> Iterator[tuple[int, ...]]:
        shape, most = self.account.shape, self.account.soft.most
        even = 1 + (shape.micro_batches - 1) / shape.stages
        if self.account.charges:
            few = len(self.account.lowered.nodes) <= FEW_NODES
            for weight in (1 / shape.chunks, even, shape.micro_batches) if few else (even,):
                yield self._at(weight, 0.0)
        if most is None:
            return
        step_s = sum(self.account.way(self.base.choice or (), p).time_s for p in self.account.parts)
        step_s *= even
        high, low = math.log(HIGHEST * step_s), math.log(LOWEST * step_s)
        yield (found := self._at(even, math.exp(high)))
        if self.account.changed(found) > most:
            return
        for _ in range(PRICE_STEPS):
            middle = (low + high) / 2
            yield (found := self._at(even, math.exp(middle)))
            low, high = (low, middle) if self.account.changed(found) <= most else (middle, high)

    def _at(self, weight: float, price_s: float) -> tuple[int, ...]:
        """The best where time counts so often, and a change has a price."""
        account, amounts = self.account, dict[int, FloatArray]()
        for each, times in ((account.charges, 1.0), (account.changes, price_s)):
            for node, own in each.items():
                amounts[node] = amounts.get(node, 0.0) + own * (times / weight)
        lowered = account.lowered
        offered = replace(lowered, problem=with_charges(lowered.problem, amounts))
        return self.solve(offered, _as_it_is).choice or self.base.choice or ()


def soft_notes(solved: Solved, soft: SoftConstraints) -> tuple[str, ...]:
    """What became of soft constraints, for the reader of the plan."""
    if soft.is_empty:
        return ()
    group = solved.groups[0]
    account = Account(soft, solved.shape, group.lowered, ())
    names = (group.lowered.nodes[node].origin.name for node in account.broken(group.choice))
    changed = account.changed(group.choice)
    where = " or on another part of the machine"
    return tuple(soft.notes(frozenset(names), solved.paid_s, changed, where))
