"""What recipes speak of, by one name each, and how these numbers hang together.

A framework states some of them and leaves the rest to arithmetic: 64 devices in 4 stages of 8
tensor parallel ranks have 2 replicas. A relation says that two products are equal, so that any one
number of it follows from the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import prod
from typing import TypeAlias

__all__ = ["RELATIONS", "Known", "Quantities", "Value", "plain"]

Value: TypeAlias = Fraction | str | tuple[int, ...]
"""A number, a word such as `full`, or numbers such as the layers of every chunk."""

RELATIONS: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("devices",), ("tp", "cp", "pp", "dp")),
    (("devices",), ("nodes", "node_devices")),
    (("dp",), ("replicate", "shard")),
    (("zero_group",), ("shard", "cp")),
    (("dp", "cp"), ("zero_group", "instances")),
    (("shard",), ("shard_inside", "shard_across", "ep")),
    (("ep",), ("ep_inside", "ep_across")),
    (("replicate",), ("replicate_inside", "replicate_across")),
    (("pp",), ("pp_inside", "pp_across")),
    (("global_batch",), ("dp", "micro", "accumulation")),
    (("replica_batch",), ("micro", "accumulation")),
    (("global_batch",), ("dp", "replica_batch")),
    (("replica_batch",), ("round_batch", "rounds")),
    (("accumulation",), ("passes", "rounds")),
    (("micro",), ("copy_batch", "copies")),
    (("device_batch", "devices", "rounds"), ("global_batch",)),
    (("global_tokens",), ("global_batch", "seq_len")),
    (("micro_tokens",), ("micro", "seq_len")),
    (("layers",), ("pp", "vpp", "chunk_size")),
    (("chunks",), ("pp", "vpp")),
    (("recompute_layers",), ("chunks", "recompute_per_chunk")),
    (("recompute_layers",), ("pp", "recompute_per_stage")),
    (("shared_ffn",), ("shared_experts", "expert_ffn")),
)
"""Products that are equal, each name once."""

_OPTIONAL = frozenset({
    "chunk_size", "shard", "shard_inside", "recompute_per_chunk", "recompute_per_stage",
})  # fmt: skip
"""What is left unknown where it is no whole number."""
_FRACTIONS = frozenset({"device_batch"})
"""What need not be whole."""
_OF: dict[str, list[tuple[tuple[str, ...], tuple[str, ...]]]] = {}
for _relation in RELATIONS:
    for _name in (*_relation[0], *_relation[1]):
        _OF.setdefault(_name, []).append(_relation)


@dataclass(frozen=True, slots=True)
class Known:
    """One number or word of a recipe and who says so."""

    value: Value
    origin: str
    """`line 12: --seq-length 4096`, `default`, or the names it follows from."""


@dataclass(slots=True)
class Quantities:
    """What is known of a recipe; what is said first stands."""

    known: dict[str, Known] = field(default_factory=dict)
    contradictions: list[str] = field(default_factory=list)
    """What does not agree with what was said before, a sentence each."""

    def say(self, name: str, value: Value, origin: str) -> bool:
        """Take a value and what follows from it; False if it contradicts what is known."""
        if name in self.known:
            here = self.known[name]
            if here.value != value:
                self.contradictions.append(
                    f"{name} is {plain(value)} by {origin}, but {plain(here.value)} by "
                    f"{here.origin}"
                )
                return False
            return True
        fault = self._fault_of(name, value, origin)
        if fault:
            self.contradictions.append(f"{name} {plain(value)} ({origin}) is not taken: {fault}")
        return not fault

    def suppose(self, name: str, value: Value, origin: str) -> None:
        """Take a value where nothing is known that it contradicts."""
        if name not in self.known:
            self._fault_of(name, value, origin)

    def _fault_of(self, name: str, value: Value, origin: str) -> str:
        """Take a value and what follows from it, unless it cannot be; why it cannot."""
        self.known[name] = Known(value, origin)
        added, at = [name], 0
        while at < len(added):
            for left, right in _OF.get(added[at], ()):
                found, fault = self._follow(left, right)
                if fault:
                    for each in added:
                        del self.known[each]
                    return fault
                added += found
            at += 1
        return ""

    def copy(self) -> Quantities:
        """The same, to be added to."""
        return Quantities(dict(self.known), list(self.contradictions))

    def number(self, name: str) -> Fraction | None:
        found = self.known.get(name)
        return found.value if found and isinstance(found.value, Fraction) else None

    def values(self) -> dict[str, Value]:
        return {name: each.value for name, each in self.known.items()}

    def _follow(self, left: tuple[str, ...], right: tuple[str, ...]) -> tuple[list[str], str]:
        """What one relation gives: names that are known now, or why it cannot hold."""
        unknown = [name for name in (*left, *right) if name not in self.known]
        if len(unknown) > 1:
            return [], ""
        if not unknown:
            fine = self._product(left) == self._product(right)
            return [], "" if fine else _unequal(left, right, self)
        (name,) = unknown
        found = self._missing(name, left, right)
        if found is not None:
            self.known[name] = found
            return [name], ""
        return [], "" if name in _OPTIONAL else _unequal(left, right, self)

    def _missing(self, name: str, left: tuple[str, ...], right: tuple[str, ...]) -> Known | None:
        """What one unknown number of a relation is; None where it is no whole number."""
        own, other = (left, right) if name in left else (right, left)
        rest = [each for each in own if each != name]
        divisor = self._product(rest)
        value = self._product(other) / divisor if divisor else Fraction(0)
        if value <= 0 or (value.denominator > 1 and name not in _FRACTIONS):
            return None
        return Known(value, " and ".join((*other, *rest)))

    def _product(self, names: Sequence[str]) -> Fraction:
        return prod((self.number(name) or Fraction(0) for name in names), start=Fraction(1))


def _unequal(left: tuple[str, ...], right: tuple[str, ...], known: Quantities) -> str:
    def side(names: tuple[str, ...]) -> str:
        found = ((name, known.number(name)) for name in names)
        return " x ".join(name if value is None else f"{name} {value}" for name, value in found)

    return f"{side(left)} is not {side(right)}"


def plain(value: Value) -> str:
    """As a person writes it.

    >>> plain(Fraction(8)), plain((3, 4, 4))
    ('8', '3,4,4')
    """
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value)
