"""The order in which nodes are eliminated, as structure only: no number but the table sizes.

A plan depends on the graph and on the number of candidates. It is made once and serves every
memory price. A bucket holds what mentions a node when its turn comes; eliminating the node
leaves one message over its remaining neighbours, or, where that table would be too large, several
messages over parts of them, which give a lower bound (mini-buckets).

Source: R. Dechter, "Bucket elimination", Artificial Intelligence 113, 1999; R. Dechter and I. Rish,
"Mini-buckets", Journal of the ACM 50(2), 2003.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

Axes = tuple[int, ...]

HUB_NEIGHBOURS = 20
"""A node with more neighbours is a hub."""
PLANS_KEPT = 16
"""Orders that are kept for the next problem of the same structure."""
PATIENCE = 4
"""After a node is fixed, the elimination starts anew: what came before was misled. So many times
in a row may that be of no use."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """One elimination. Position 0 is the node, position i its neighbour `scope[i - 1]`."""

    node: int
    """The node that is eliminated."""
    scope: tuple[int, ...]
    """Its neighbours at that moment, ascending."""
    slots: tuple[int, ...]
    """What mentions it: an edge by its number, a message by the number of edges plus its own."""
    messages: tuple[int, ...]
    """Slots of the messages that it leaves, one per part."""
    shape: int
    """Equal for buckets that differ only in the numbers in their tables."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Everything about a bucket but the numbers in its tables."""

    sizes: tuple[int, ...]
    """Candidates at each position."""
    axes: tuple[Axes, ...]
    """For each slot, the position of each of its dimensions."""
    parts: tuple[Part, ...]
    """One if the elimination is exact."""

    @property
    def work(self) -> int:
        """Table entries that are visited."""
        return sum(math.prod(self.sizes[i] for i in part.positions) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Part:
    """Slots that are minimised together."""

    positions: tuple[int, ...]
    """Positions that they mention, ascending; the first is 0, others with one candidate are left
    out."""
    slots: tuple[int, ...]
    """Indices into the slots of the bucket."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Buckets in the order of elimination."""

    buckets: tuple[Bucket, ...]
    shapes: tuple[Shape, ...]
    nodes: int
    edges: int
    messages: int
    largest: int
    """Entries of the largest table that would be visited, before any split into parts."""


def make_plan(
    sizes: Sequence[int],
    edges: Sequence[tuple[int, int]],
    fixed: frozenset[int] = frozenset(),
    largest_table: float = math.inf,
    give_up_above: float = math.inf,
) -> Plan:
    """Eliminate the cheapest node first; ties go to the earlier one.

    Equal layers are then eliminated alike, which is what makes their messages the same.

    Args:
        sizes: candidates of each node.
        edges: the graph; edges of a fixed node are left out.
        fixed: nodes whose choice is given.
        largest_table: a bucket of more entries is split into parts.
        give_up_above: stop at a bucket of more entries, which `largest` then tells.

    Returns:
        The plan; it is of no use if `largest` is above `give_up_above`.
    """
    return _planned(tuple(sizes), tuple(edges), fixed, largest_table, give_up_above)


@lru_cache(maxsize=PLANS_KEPT)
def _planned(
    sizes: tuple[int, ...],
    edges: tuple[tuple[int, int], ...],
    fixed: frozenset[int],
    largest_table: float,
    give_up_above: float,
) -> Plan:
    """The order depends on the structure alone, which many problems share."""
    draft = _Draft(sizes, edges, fixed, largest_table)
    draft.eliminate_all(give_up_above)
    return Plan(
        buckets=tuple(draft.buckets),
        shapes=tuple(draft.shapes),
        nodes=len(sizes),
        edges=len(edges),
        messages=draft.next_slot - len(edges),
        largest=draft.largest,
    )


def conditioning_set(
    sizes: Sequence[int],
    edges: Sequence[tuple[int, int]],
    largest_table: float,
    free: frozenset[int] = frozenset(),
) -> tuple[int, ...]:
    """Nodes that, once fixed, leave no bucket of more than `largest_table` entries.

    Whenever no cheap elimination is left, the node with most neighbours is fixed, out of those in
    the cheapest bucket and the hubs: a tensor that feeds every layer is found first.

    Args:
        sizes: candidates of each node.
        edges: the graph.
        largest_table: entries of the largest bucket that is allowed.
        free: nodes that must not be fixed.

    Returns:
        The nodes, in the order of the finds.
    """
    best = found = _fixed_at_once(sizes, edges, (), largest_table, free)
    kept, waited = 0, 0
    while kept < len(found) and waited < PATIENCE:
        kept += 1
        found = _fixed_at_once(sizes, edges, found[:kept], largest_table, free)
        waited += 1
        if len(found) < len(best):
            best, waited = found, 0
    return best


def _fixed_at_once(
    sizes: Sequence[int],
    edges: Sequence[tuple[int, int]],
    fixed: tuple[int, ...],
    largest_table: float,
    free: frozenset[int],
) -> tuple[int, ...]:
    """Given nodes, and those that a single elimination without them has to fix."""
    draft = _Draft(sizes, edges, frozenset(fixed), math.inf)
    return (*fixed, *draft.eliminate_or_fix(largest_table, free))


@dataclass(slots=True)
class _Draft:
    """The graph while it shrinks."""

    sizes: Sequence[int]
    edges: Sequence[tuple[int, int]]
    fixed: frozenset[int]
    largest_table: float
    buckets: list[Bucket] = field(default_factory=list)
    shapes: list[Shape] = field(default_factory=list)
    largest: int = 1
    next_slot: int = 0
    shape_ids: dict[tuple[tuple[int, ...], tuple[Axes, ...]], int] = field(default_factory=dict)
    scopes: dict[int, tuple[int, ...]] = field(default_factory=dict)
    slots_of: list[dict[int, None]] = field(default_factory=list)
    links: list[dict[int, int]] = field(default_factory=list)
    weights: list[int] = field(default_factory=list)
    heap: list[tuple[int, int]] = field(default_factory=list)
    done: list[bool] = field(default_factory=list)

    def __post_init__(self) -> None:
        count = len(self.sizes)
        self.slots_of = [{} for _ in range(count)]
        self.links = [{} for _ in range(count)]
        self.weights = list(self.sizes)
        self.done = [node in self.fixed for node in range(count)]
        for slot, (u, v) in enumerate(self.edges):
            if not (self.done[u] or self.done[v]):
                self._insert(slot, (u, v))
        self.next_slot = len(self.edges)
        self.heap = [(self.weights[node], node) for node in range(count) if not self.done[node]]
        heapq.heapify(self.heap)

    def eliminate_all(self, give_up_above: float) -> None:
        while self.largest <= give_up_above and (node := self._cheapest()) is not None:
            self._eliminate(node)

    def eliminate_or_fix(self, largest_table: float, free: frozenset[int]) -> list[int]:
        found: list[int] = []
        hubs = [n for n in range(len(self.sizes)) if len(self.links[n]) > HUB_NEIGHBOURS]
        while (node := self._cheapest()) is not None:
            hub = None
            if self.weights[node] > largest_table:
                open_hubs = [n for n in (node, *self.links[node], *hubs) if not self.done[n]]
                eligible = (n for n in open_hubs if n not in free)
                hub = max(eligible, key=lambda n: (len(self.links[n]), -n), default=None)
            if hub is None:
                self._eliminate(node)
                continue
            self._requeue((node,))
            self._drop(hub)
            found.append(hub)
        return found

    def _cheapest(self) -> int | None:
        while self.heap:
            weight, node = heapq.heappop(self.heap)
            if not self.done[node] and weight == self.weights[node]:
                return node
        return None

    def _requeue(self, nodes: Iterable[int]) -> None:
        for node in nodes:
            heapq.heappush(self.heap, (self.weights[node], node))

    def _drop(self, hub: int) -> None:
        """Fix a node: every slot that mentions it loses that dimension."""
        self.done[hub] = True
        neighbours = tuple(self.links[hub])
        for slot in tuple(self.slots_of[hub]):
            rest = tuple(node for node in self.scopes[slot] if node != hub)
            self._remove(slot)
            self._insert(slot, rest)
        self._requeue(neighbours)

    def _eliminate(self, node: int) -> None:
        slots = tuple(self.slots_of[node])
        scope = tuple(sorted(self.links[node]))
        self.largest = max(self.largest, self.weights[node])
        position = {node: 0, **{other: i + 1 for i, other in enumerate(scope)}}
        axes = tuple(tuple([position[other] for other in self.scopes[slot]]) for slot in slots)
        order = sorted(range(len(slots)), key=lambda i: (axes[i], slots[i]))
        slots, axes = tuple([slots[i] for i in order]), tuple([axes[i] for i in order])
        sizes = (self.sizes[node], *[self.sizes[other] for other in scope])
        parts, shape = self._shaped(sizes, axes)
        for slot in slots:
            self._remove(slot)
        self.done[node] = True
        messages = tuple(range(self.next_slot, self.next_slot + len(parts)))
        for slot, part in zip(messages, parts, strict=True):
            self._insert(slot, tuple([scope[i - 1] for i in part.positions[1:]]))
        self.next_slot += len(parts)
        self.buckets.append(Bucket(node, scope, slots, messages, shape))
        self._requeue(scope)

    def _shaped(
        self, sizes: tuple[int, ...], axes: tuple[Axes, ...]
    ) -> tuple[tuple[Part, ...], int]:
        """Parts of a bucket, and the number of its shape."""
        found = self.shape_ids.get((sizes, axes))
        if found is None:
            found = self.shape_ids[sizes, axes] = len(self.shapes)
            self.shapes.append(Shape(sizes, axes, _parts(sizes, axes, self.largest_table)))
        return self.shapes[found].parts, found

    def _insert(self, slot: int, scope: tuple[int, ...]) -> None:
        self.scopes[slot] = scope
        for node in scope:
            self.slots_of[node][slot] = None
            links = self.links[node]
            for other in scope:
                if other == node:
                    continue
                count = links.get(other, 0)
                if not count:
                    self.weights[node] *= self.sizes[other]
                links[other] = count + 1

    def _remove(self, slot: int) -> None:
        scope = self.scopes.pop(slot)
        for node in scope:
            del self.slots_of[node][slot]
            links = self.links[node]
            for other in scope:
                if other == node:
                    continue
                if links[other] == 1:
                    del links[other]
                    self.weights[node] //= self.sizes[other]
                else:
                    links[other] -= 1


def _parts(
    sizes: tuple[int, ...], axes: tuple[Axes, ...], largest_table: float
) -> tuple[Part, ...]:
    """Fill parts first fit, widest slot first, so that no part exceeds the largest table."""
    if not axes or math.prod(sizes) <= largest_table:
        return (Part(_several(sizes, range(len(sizes))), tuple(range(len(axes)))),)
    members: list[list[int]] = []
    unions: list[set[int]] = []
    for index in sorted(range(len(axes)), key=lambda i: (-len(axes[i]), axes[i], i)):
        for number, union in enumerate(unions):
            joint = union.union(axes[index])
            if len(joint) == len(union) or _entries(sizes, joint) <= largest_table:
                unions[number] = joint
                members[number].append(index)
                break
        else:
            unions.append({0, *axes[index]})
            members.append([index])
    return tuple(
        Part(_several(sizes, sorted(union)), tuple(sorted(slots)))
        for union, slots in zip(unions, members, strict=True)
    )


def _several(sizes: tuple[int, ...], positions: Iterable[int]) -> tuple[int, ...]:
    """The first position, and the others that have a choice."""
    return tuple(i for i in positions if i == 0 or sizes[i] > 1)


def _entries(sizes: tuple[int, ...], positions: Iterable[int]) -> int:
    return math.prod(sizes[position] for position in positions)
