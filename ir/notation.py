"""The notation of a sharding rule, made from the rule: what `ir.rule.parse_rule` reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ir.rule import FactorMap, InternalCollective, ShardingRule

NO_LAYOUT = "_"
"""An operand without a layout: every device has all of it."""


def notation(rule: ShardingRule) -> str:
    """A rule as text; its factors are called a, b, c in the order in which they appear.

    A factor that is a mere divisor of its dimension, as in an odd reshape, stands for all of it.

    >>> from ir.rule import parse_rule
    >>> notation(parse_rule("b s (h=16 d!) -> b s h d", [(8, 128, 512)], [(8, 128, 16, 32)]))
    'a b (c=16 d!) -> a b c d!'
    """
    names = _names(rule)
    text = f"{_side(rule.operands, rule, names)} -> {_side(rule.results, rule, names)}"
    return " ".join(text.split())


def remarks(rule: ShardingRule) -> Iterator[str]:
    """What the notation cannot say, in the same names: messages inside, windows, tables."""
    names = _names(rule)
    for item in rule.internal:
        factors = [f for f in item.factors if f in names and f in rule.splittable]
        if factors:
            yield f"{_listed(factors, names)}: {_messages(item)}"
    read = [w.factor for w in rule.windows if w.factor in names]
    if read:
        yield f"{_listed(read, names)}: split only where asked for; neighbours exchange edges"
    table = [f for f in sorted(rule.lookup) if f in names]
    if table:
        yield f"{_listed(table, names)}: looked up under a mask"


def _listed(factors: Iterable[int], names: dict[int, str]) -> str:
    return " ".join(names[f] for f in factors)


def _messages(item: InternalCollective) -> str:
    """How often the factors are reduced inside the operator."""
    return f"reduced inside, {item.forward} x forward, {item.backward} x backward"


def _names(rule: ShardingRule) -> dict[int, str]:
    maps = (m for m in (*rule.operands, *rule.results) if m is not None)
    found = dict.fromkeys(f for mapping in maps for dim in mapping for f in dim)
    return {f: _name(i) for i, f in enumerate(found)}


def _name(index: int) -> str:
    """A to z, then a1 to z1."""
    round_, letter = divmod(index, 26)
    return chr(ord("a") + letter) + (str(round_) if round_ else "")


def _side(maps: Iterable[FactorMap | None], rule: ShardingRule, names: dict[int, str]) -> str:
    return ", ".join(
        NO_LAYOUT if m is None else " ".join(_dim(dim, rule, names) for dim in m) for m in maps
    )


def _dim(dim: tuple[int, ...], rule: ShardingRule, names: dict[int, str]) -> str:
    """One factor, several in brackets, or 1 for none; all but the last of several have a size."""
    if not dim:
        return "1"
    marks = ["!" if f in rule.locked else "" for f in dim]
    if len(dim) == 1:
        return names[dim[0]] + marks[0]
    sizes = [f"={rule.sizes[f]}" for f in dim[:-1]] + [""]
    return f"({' '.join(names[f] + s + m for f, s, m in zip(dim, sizes, marks, strict=True))})"
