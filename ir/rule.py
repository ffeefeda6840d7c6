"""Sharding rules: what may be split in an operator, in einsum-like factors.

A factor is one index of the iteration space, as in Shardy's factor notation. A factor on an
operand and on the result splits both; a factor on operands alone leaves the result a partial sum;
a factor that an operand lacks leaves the gradient of that operand a partial sum. See
docs/concepts.md.
"""

from __future__ import annotations

from collections.abc import Sequence
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

    @property
    def splittable(self) -> tuple[int, ...]:
        """Factors that may be split, in device-matrix order."""
        order = self.order or range(len(self.sizes))
        return tuple(f for f in order if f not in self.locked and self.sizes[f] > 1)

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
    left, arrow, right = text.partition("->")
    if not arrow:
        raise ValueError(f"rule {text!r} has no '->'")
    builder = RuleBuilder()
    names: dict[str, int] = {}
    sides = [part.strip() for part in left.split(",")], [part.strip() for part in right.split(",")]
    if len(sides[0]) != len(operand_dims) or len(sides[1]) != len(result_dims):
        raise ValueError(
            f"rule {text!r} has {len(sides[0])} operands and {len(sides[1])} results, "
            f"the operator {len(operand_dims)} and {len(result_dims)}"
        )
    operands = [
        None if dims is None else _parse_side(part, dims, names, builder, text)
        for part, dims in zip(sides[0], operand_dims, strict=True)
    ]
    results = [
        _parse_side(part, dims, names, builder, text)
        for part, dims in zip(sides[1], result_dims, strict=True)
    ]
    return builder.build(operands, results)


def _parse_side(
    part: str, dims: Sequence[int], names: dict[str, int], builder: RuleBuilder, text: str
) -> FactorMap:
    groups = _groups(part, text)
    if len(groups) != len(dims):
        raise ValueError(
            f"rule {text!r}: {part!r} names {len(groups)} dimensions, "
            f"the tensor {tuple(dims)} has {len(dims)}"
        )
    out: list[tuple[int, ...]] = []
    for group, dim in zip(groups, dims, strict=True):
        out.append(_parse_dim(group, dim, names, builder, text))
    return tuple(out)


def _groups(part: str, text: str) -> list[list[str]]:
    groups: list[list[str]] = []
    inside: list[str] | None = None
    for token in part.replace("(", " ( ").replace(")", " ) ").split():
        if token == "(":
            inside = []
        elif token == ")":
            if inside is None:
                raise ValueError(f"rule {text!r}: ')' without '('")
            groups.append(inside)
            inside = None
        elif inside is not None:
            inside.append(token)
        else:
            groups.append([token])
    if inside is not None:
        raise ValueError(f"rule {text!r}: '(' is not closed")
    return groups


def _parse_dim(
    group: list[str], dim: int, names: dict[str, int], builder: RuleBuilder, text: str
) -> tuple[int, ...]:
    found: list[int] = []
    rest = dim
    for position, token in enumerate(group):
        locked = token.endswith("!")
        name, _, size_text = token.rstrip("!").partition("=")
        if name == "1":
            continue
        size = int(size_text) if size_text else names_size(names, name, builder)
        if size is None:
            if position != len(group) - 1:
                raise ValueError(
                    f"rule {text!r}: factor {name!r} needs a size, as in ({name}=4 rest)"
                )
            size = rest
        if name not in names:
            names[name] = builder.factor(size, locked=locked)
        elif builder.sizes[names[name]] != size:
            raise ValueError(
                f"rule {text!r}: factor {name!r} is {builder.sizes[names[name]]} and {size} at once"
            )
        if locked:
            builder.locked.add(names[name])
        if rest % size:
            raise ValueError(
                f"rule {text!r}: factor {name!r} of size {size} does not divide dimension {dim}"
            )
        rest //= size
        found.append(names[name])
    if rest != 1 and found:
        raise ValueError(f"rule {text!r}: the factors of {group} do not multiply to {dim}")
    return tuple(found)


def names_size(names: dict[str, int], name: str, builder: RuleBuilder) -> int | None:
    """Size of a factor that is already known, else None."""
    return builder.sizes[names[name]] if name in names else None
