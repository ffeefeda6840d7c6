"""Which primitives of the search are neighbours, and when a tensor between two is the same.

Followers are taken out: what made the first operand of one comes before what reads its result, what
made the others comes there on the side. A reshape or a transpose that was taken out is remembered
on the link. Two neighbours are charged for different cuts only if the tensor between them has the
same dims on both sides, after what is remembered.
Source: MindSpore 2.7.0, `rec_core/rec_parse_graph.cc`, `rec_core/rec_cost.cc`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from planner.halving.kinds import Role, role_of
from planner.halving.network import RESHAPE, Dims, Node

RANK = 4
"""Dims of every tensor in the search; missing ones are 1, in front."""
Groups = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Link:
    """From a primitive to one that reads its result."""

    to: int
    turned: Dims = ()
    """Order of the dims by transposes on the way; empty if none."""
    grouped: Groups = ()
    """Which dims a reshape on the way has made of which, or joined; empty if none."""


@dataclass(slots=True)
class Place:
    """The neighbours of one primitive, by number."""

    before: list[int] = field(default_factory=list)
    """What made its operands, parameters left out."""
    aside: list[tuple[int, int]] = field(default_factory=list)
    """What made other operands of a follower that was taken out, and the operand it stands at."""
    after: list[Link] = field(default_factory=list)


def places(nodes: Sequence[Node]) -> list[Place]:
    """The neighbours of all primitives once followers are taken out; of these it is what they had
    when they went.
    """
    found = [Place([m for m in node.makers if m >= 0]) for node in nodes]
    for number, place in enumerate(found):
        for maker in place.before:
            found[maker].after.append(Link(number))
    for number, node in enumerate(nodes):
        if role_of(node) in {Role.FOLLOWER, Role.REPEATED}:
            _take_out(found, number, _own_link(node))
    return found


def padded(dims: Dims) -> Dims:
    """Dims as the search has them; more than it can hold are forgotten."""
    return (1,) * (RANK - len(dims)) + dims if len(dims) <= RANK else (1,) * RANK


def is_same(made: Dims, read: Dims, link: Link) -> bool:
    """Whether a tensor has the same dims where it is made and where it is read.

    Args:
        made: padded dims where it is made.
        read: padded dims where it is read.
        link: what happens on the way.
    """
    if link.turned and not link.grouped:
        return tuple(made[axis] for axis in link.turned) == read
    if not link.grouped:
        return made == read
    groups = _turned_groups(link.turned, link.grouped) if link.turned else link.grouped
    if any(len(group) > 1 for group in groups):
        return tuple(math.prod(made[axis] for axis in group) for group in groups) == read
    left = list(made)
    for size, group in zip(read, groups, strict=False):
        for axis in group[:1]:
            left[axis] //= size
    return left == [1] * RANK


def _own_link(node: Node) -> Link:
    if node.kind == "Transpose" and node.view is not None:
        rank = len(node.dims[0])
        return Link(-1, turned=node.view.ints("perm", tuple(reversed(range(rank)))))
    return (
        Link(-1, grouped=_groups(node.dims[0], node.result)) if node.kind == RESHAPE else Link(-1)
    )


def _take_out(found: list[Place], number: int, own: Link) -> None:
    gone = found[number]
    for maker in (*gone.before, *(maker for maker, _ in gone.aside)):
        after = found[maker].after
        here = next((i for i, link in enumerate(after) if link.to == number), None)
        if here is not None:
            after.pop(here)
            known = {link.to for link in after}
            for link in gone.after:
                if link.to not in known:
                    known.add(link.to)
                    after.append(_combined(own, link))
    for link in gone.after:
        _replace_before(found[link.to], number, gone)
        _replace_aside(found[link.to], number, gone)


def _replace_before(place: Place, number: int, gone: Place) -> None:
    if number not in place.before:
        return
    here = place.before.index(number)
    if not gone.before:
        place.before.pop(here)
        return
    first, *others = gone.before
    place.aside = [(maker, operand) for maker, operand in place.aside if maker != first]
    place.before[here] = first
    for maker in (*others, *(maker for maker, _ in gone.aside)):
        if maker not in {known for known, _ in place.aside}:
            place.aside.append((maker, here))


def _replace_aside(place: Place, number: int, gone: Place) -> None:
    here = next((i for i, (maker, _) in enumerate(place.aside) if maker == number), None)
    if here is None:
        return
    operand = place.aside[here][1]
    first = gone.before[:1]
    if not first or first[0] in place.before:
        place.aside.pop(here)
    else:
        place.aside[here] = (first[0], operand)
    if first:
        for maker in (*gone.before[1:], *(maker for maker, _ in gone.aside)):
            if maker not in place.before and (maker, operand) not in place.aside:
                place.aside.append((maker, operand))


def _combined(own: Link, link: Link) -> Link:
    """What an operator does and what is done after it."""
    turned, grouped = own.turned or link.turned, own.grouped or link.grouped
    if own.turned and link.turned and len(own.turned) == len(link.turned):
        turned = tuple(own.turned[axis] for axis in link.turned)
    if own.grouped and link.grouped:
        grouped = tuple(
            tuple(sorted({axis for each in group for axis in own.grouped[each]})) or (place,)
            for place, group in enumerate(link.grouped)
        )
    return replace(link, turned=turned, grouped=grouped)


def _groups(source: Dims, target: Dims) -> Groups:
    """For every dimension of the result of a reshape that of the operand in which it lies, or the
    other way round those that it joins; nothing where that cannot be said.
    """
    if len(source) <= len(target):
        return tuple((axis,) for axis in _inside(padded(source), padded(target)))
    inside = _inside(padded(target), padded(source))
    joined = [[place for place, axis in enumerate(inside) if axis == each] for each in range(RANK)]
    return tuple(map(tuple, joined)) if inside else ()


def _inside(outer: Dims, inner: Dims) -> Dims:
    """For every inner dimension the outer one of which it is a part."""
    sizes, parts, found = list(outer), list(inner), [-1] * RANK
    here = part = 0
    while here < RANK and part < RANK:
        if sizes[here] < parts[part]:
            here += 1
            continue
        if sizes[here] % parts[part] == 0:
            sizes[here] //= parts[part]
            parts[part], found[part] = 1, here
        part += 1
        here += sizes[here] == 1
    return tuple(found) if all(size == 1 for size in parts) and -1 not in found else ()


def _turned_groups(turned: Dims, groups: Groups) -> Groups:
    if any(len(group) > 1 for group in groups):
        return tuple(tuple(turned[a] for a in group if a < len(turned)) for group in groups)
    return tuple(groups[axis] for axis in turned if axis < len(groups))
