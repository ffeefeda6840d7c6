"""Sharding rules: what may be split in an operator, in einsum-like factors.

A factor is one index of the iteration space, as in Shardy's factor notation. A factor on an
operand and on the result splits both; a factor on operands alone leaves the result a partial sum;
a factor that an operand lacks leaves the gradient of that operand a partial sum. See
docs/concepts.md.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

FactorMap = tuple[tuple[int, ...], ...]
"""For each dimension of a tensor the factors that make it up, outermost first."""


@dataclass(frozen=True, slots=True)
class InternalCollective:
    """Communication that an operator needs inside when some factor is split."""

    factors: tuple[int, ...]
    """The factors whose axes take part."""
    message: tuple[int, ...]
    """Factors that index the message; its local size is their local size."""
    bytes_per_element: float = 4.0
    forward: int = 1
    """All-reduces in the forward pass."""
    backward: int = 1
    """All-reduces in the backward pass."""


@dataclass(frozen=True, slots=True)
class Window:
    """Positions of an operand that windows read: where they are split, neighbours send their
    edges, one message for each split dimension, the later ones with the corners.
    """

    factor: int
    """Of the positions."""
    step: int
    """Positions of the operand for each value of the factor."""
    operand: int
    """Which operand is read."""
    mapping: FactorMap
    """Factors of all of its dimensions, also of those that stay whole."""
    dim: int
    """Which dimension the positions are."""
    before: int
    """Positions that a device needs of the one before it."""
    after: int
    """Positions that a device needs of the one behind it."""
    bytes_per_element: float = 4.0

    def fits(self, size: int, pieces: int) -> bool:
        """Whether positions may be cut so: alike, and no edge is longer than a piece.

        Args:
            size: of the factor.
            pieces: of it.
        """
        longest = max(self.before, self.after)
        return pieces == 1 or (size % pieces == 0 and size // pieces * self.step >= longest)

    def sent(self, pieces: int) -> int:
        """Positions that two neighbours send each other, both ways."""
        return self.before + self.after if pieces > 1 else 0

    def received(self, pieces: int) -> int:
        """Positions that a device gets at most; of two devices each has one neighbour."""
        return max(self.before, self.after) if pieces == 2 else self.sent(pieces)


def edge_elements(
    windows: Sequence[Window], sizes: Sequence[int], pieces: Mapping[int, int]
) -> list[int]:
    """Elements that two neighbours send each other for each window; corners go with the later ones.

    Args:
        windows: of one rule, in order.
        sizes: of its factors.
        pieces: into how many each factor is split.
    """
    out = []
    for number, window in enumerate(windows):
        wider = {w.dim: w.received(pieces.get(w.factor, 1)) for w in windows[:number]}
        elements = window.sent(pieces.get(window.factor, 1))
        for dim, factors in enumerate(window.mapping):
            if dim != window.dim:
                own = math.prod(-(-sizes[f] // pieces.get(f, 1)) for f in factors)
                elements *= own + wider.get(dim, 0)
        out.append(elements)
    return out


@dataclass(frozen=True, slots=True)
class ShardingRule:
    """What may be split in one operator."""

    sizes: tuple[int, ...]
    """Size of every factor."""
    operands: tuple[FactorMap | None, ...]
    """`None` for an operand without a layout: a constant, or absent."""
    results: tuple[FactorMap | None, ...]
    locked: frozenset[int] = frozenset()
    """Factors that stay whole."""
    internal: tuple[InternalCollective, ...] = ()
    order: tuple[int, ...] = ()
    """Order of the factors in a device matrix, outermost first; empty means by number."""
    uncut: frozenset[int] = frozenset()
    """Factors that MindSpore's operator cannot cut, though the mathematics allows it."""
    lookup: frozenset[int] = frozenset()
    """Factors of a table that are looked up under a mask when split."""
    divisors: tuple[int, ...] = ()
    """What divides each factor at every value of the model's symbols; empty where sizes are fixed.
    """
    windows: tuple[Window, ...] = ()
    """Positions that are read by windows, in the order of their messages."""

    @property
    def splittable(self) -> tuple[int, ...]:
        """Factors that may be split, in device-matrix order."""
        order = self.order or range(len(self.sizes))
        return tuple(f for f in order if f not in self.locked and self.sizes[f] > 1)

    def is_fixed(self, factor: int) -> bool:
        """Whether a factor has one size, whatever the model's symbols are."""
        return not self.divisors or self.divisors[factor] == self.sizes[factor]

    def has(self, mapping: FactorMap | None, factor: int) -> bool:
        return mapping is not None and any(factor in dim for dim in mapping)


@dataclass(slots=True)
class RuleBuilder:
    """Collects factors and maps; `build` makes the rule."""

    sizes: list[int] = field(default_factory=list)
    locked: set[int] = field(default_factory=set)
    internal: list[InternalCollective] = field(default_factory=list)
    uncut: set[int] = field(default_factory=set)
    lookup: set[int] = field(default_factory=set)
    windows: list[Window] = field(default_factory=list)

    def factor(self, size: int, *, locked: bool = False) -> int:
        """A new factor."""
        self.sizes.append(size)
        index = len(self.sizes) - 1
        if locked:
            self.locked.add(index)
        return index

    def factors(self, dims: Sequence[int]) -> list[int]:
        """One new factor per dimension."""
        return [self.factor(d) for d in dims]

    def build(
        self,
        operands: Sequence[FactorMap | None],
        results: Sequence[FactorMap | None],
        order: Sequence[int] = (),
    ) -> ShardingRule:
        return ShardingRule(
            sizes=tuple(self.sizes),
            operands=tuple(operands),
            results=tuple(results),
            locked=frozenset(self.locked),
            internal=tuple(self.internal),
            order=tuple(order),
            uncut=frozenset(self.uncut),
            lookup=frozenset(self.lookup),
            windows=tuple(self.windows),
        )


def check_rule(
    rule: ShardingRule,
    operands: Sequence[Sequence[int] | None],
    results: Sequence[Sequence[int]],
) -> None:
    """Raise `ValueError` unless a rule is one of tensors with these dims.

    Every map has a place for each dimension, names factors that the rule has, and no factor twice.
    """
    if len(rule.operands) != len(operands) or len(rule.results) != len(results):
        raise ValueError(
            f"the rule has {len(rule.operands)} operands and {len(rule.results)} results, "
            f"the operator {len(operands)} and {len(results)}"
        )
    for mapping, dims in zip((*rule.operands, *rule.results), (*operands, *results), strict=True):
        if mapping is None:
            continue
        if dims is None or len(mapping) != len(dims):
            raise ValueError(f"the rule maps {len(mapping)} dimensions of a tensor {dims}")
        used = [f for dim in mapping for f in dim]
        if len(set(used)) != len(used) or not all(0 <= f < len(rule.sizes) for f in used):
            raise ValueError(f"the rule maps a tensor {tuple(dims)} to factors {mapping}")
    if any(s < 0 for s in rule.sizes):
        raise ValueError(f"the rule has factors of sizes {rule.sizes}")


def single(factors: Sequence[int]) -> FactorMap:
    """The map of a tensor whose every dimension is one factor."""
    return tuple((f,) for f in factors)


def parse_rule(
    text: str, operand_dims: Sequence[Sequence[int] | None], result_dims: Sequence[Sequence[int]]
) -> ShardingRule:
    """Rule from its notation, bound to the sizes of an operator.

    `"m k, k n -> m n"`: names are factors, `h!` stays whole, `(a b)` is a dimension made of two
    factors (all but the last need a size: `(a=4 b)`), `1` is a dimension without a factor.

    >>> parse_rule("m k, k n -> m n", [(4, 8), (8, 2)], [(4, 2)]).sizes
    (4, 8, 2)

    Raises:
        ValueError: the notation does not fit the dims; the message quotes both.
    """
    notation = _Notation(text)
    left, arrow, right = text.partition("->")
    if not arrow:
        raise notation.error("no '->'")
    operands = left.split(",") if left.strip() or operand_dims else []
    results = right.split(",") if right.strip() or result_dims else []
    if len(operands) != len(operand_dims) or len(results) != len(result_dims):
        raise notation.error(
            f"{len(operands)} operands and {len(results)} results, "
            f"the operator has {len(operand_dims)} and {len(result_dims)}"
        )
    maps = [
        None if dims is None else notation.tensor(part, dims)
        for part, dims in zip(operands, operand_dims, strict=True)
    ]
    ends = [notation.tensor(part, dims) for part, dims in zip(results, result_dims, strict=True)]
    return notation.builder.build(maps, ends)


_TOKEN = re.compile(r"(?P<name>[A-Za-z_][\w']*)(=(?P<size>\d+))?(?P<whole>!)?")


@dataclass(slots=True)
class _Notation:
    """A rule while it is read."""

    text: str
    builder: RuleBuilder = field(default_factory=RuleBuilder)
    names: dict[str, int] = field(default_factory=dict)

    def error(self, reason: str) -> ValueError:
        return ValueError(f"rule {self.text!r}: {reason}")

    def tensor(self, part: str, dims: Sequence[int]) -> FactorMap:
        groups = self._groups(part)
        if len(groups) != len(dims):
            raise self.error(
                f"{part.strip()!r} names {len(groups)} dimensions, "
                f"the tensor {tuple(dims)} has {len(dims)}"
            )
        found = tuple(self._dim(g, d) for g, d in zip(groups, dims, strict=True))
        used = [f for factors in found for f in factors]
        if len(set(used)) != len(used):
            raise self.error(f"{part.strip()!r} has a factor twice")
        return found

    def _groups(self, part: str) -> list[list[str]]:
        """The tokens of every dimension."""
        groups: list[list[str]] = []
        inside: list[str] | None = None
        for token in part.replace("(", " ( ").replace(")", " ) ").split():
            if token == "(" and inside is not None:
                raise self.error("'(' inside '('")
            if token == "(":
                inside = []
            elif token == ")" and inside is None:
                raise self.error("')' without '('")
            elif token == ")":
                groups.append(inside or [])
                inside = None
            elif inside is not None:
                inside.append(token)
            else:
                groups.append([token])
        if inside is not None:
            raise self.error("'(' is not closed")
        return groups

    def _dim(self, group: list[str], dim: int) -> tuple[int, ...]:
        found: list[int] = []
        rest = dim
        for position, token in enumerate(group):
            if token == "1":
                continue
            factor = self._factor(token, rest if position == len(group) - 1 else None)
            size = self.builder.sizes[factor]
            if rest % size:
                raise self.error(f"{token!r} of size {size} does not divide dimension {dim}")
            rest //= size
            found.append(factor)
        if rest != 1 and found:
            raise self.error(f"the factors of {group} do not multiply to {dim}")
        return tuple(found)

    def _factor(self, token: str, rest: int | None) -> int:
        """The factor that a token names, made if it is new; `rest` is the size that is left."""
        match = _TOKEN.fullmatch(token)
        if match is None:
            raise self.error(f"{token!r} is no name of a factor")
        name = match["name"]
        known = self.builder.sizes[self.names[name]] if name in self.names else rest
        size = int(match["size"]) if match["size"] else known
        if size is None or size < 1:
            raise self.error(f"factor {name!r} needs a size, as in ({name}=4 rest)")
        if name not in self.names:
            self.names[name] = self.builder.factor(size)
        elif size != known:
            raise self.error(f"factor {name!r} has sizes {known} and {size}")
        if match["whole"]:
            self.builder.locked.add(self.names[name])
        return self.names[name]
