"""Blocks of a network: operators of one layer together, equal layers recognised as equal."""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from ir.folding import common_scope, folded
from ir.plan import Plan
from report.operators import OperatorFacts

_NUMBERED = re.compile(r"^(.*?(?:^|[._/])\d+)(?:[./]|$)")
"""A scope down to its first number, such as `model.layers.11`."""


_OUTSIDE = "-"
"""Begins the provisional names of blocks between layers; no scope begins so."""


@dataclass(frozen=True, slots=True)
class Block:
    """Operators that belong together, as positions in the plan's order."""

    name: str
    members: tuple[int, ...]
    kind: int
    """Equal for blocks with the same operators, split alike, wired alike."""


def blocks_of(plan: Plan, facts: Sequence[OperatorFacts]) -> tuple[Block, ...]:
    """The blocks of a plan, in order of their first operators."""
    prefix = common_scope(op.scope for op in plan.operators)
    scopes = [op.scope.removeprefix(prefix) for op in plan.operators]
    members: dict[str, list[int]] = {}
    current, outside = "", 0
    for index, scope in enumerate(scopes):
        layer = _layer(scope)
        if layer:
            current = layer
        elif not current or (scope and not _is_outside(current)):
            current, outside = f"{_OUTSIDE}{outside}", outside + 1
        members.setdefault(current, []).append(index)
    kinds: dict[Hashable, int] = {}
    return tuple(
        Block(
            _shared_name([scopes[i] for i in own]) if _is_outside(name) else name,
            tuple(own),
            kinds.setdefault(_signature(plan, facts, own), len(kinds)),
        )
        for name, own in members.items()
    )


def _layer(scope: str) -> str:
    """The numbered layer that a scope lies in, if it does.

    >>> _layer("layers.11.mlp.up"), _layer("embed.weight")
    ('layers.11', '')
    """
    found = _NUMBERED.match(scope)
    return found.group(1) if found else ""


def _is_outside(name: str) -> bool:
    return name.startswith(_OUTSIDE)


def _shared_name(scopes: Sequence[str]) -> str:
    """What the scopes of operators between layers have in common, or the first of them.

    >>> _shared_name(["model.norm"]), _shared_name(["h.wte", "h.wpe"]), _shared_name(["", "head"])
    ('model.norm', 'h', 'head')
    """
    known = list(dict.fromkeys(scope for scope in scopes if scope)) or ["operators"]
    if len(known) == 1:
        return known[0]
    return common_scope([f"{scope}.-" for scope in known]).rstrip(".") or f"{known[0]}, …"


def _signature(plan: Plan, facts: Sequence[OperatorFacts], members: Sequence[int]) -> Hashable:
    """What equal blocks have in common: operators, layouts, and the wires between them."""
    ops = plan.graph.ops
    local = {name: i for i, m in enumerate(members) for name in ops[m].outputs if name}
    return tuple(
        (
            facts[m].planned.label,
            folded(ops[m].scope),
            facts[m].inputs,
            facts[m].outputs,
            facts[m].planned.stage,
            tuple(local.get(name, -1) for name in ops[m].inputs),
        )
        for m in members
    )


def folded_name(names: Sequence[str]) -> str:
    """One name for equal blocks.

    >>> folded_name(["layers.0"]), folded_name([f"layers.{i}" for i in range(1, 80)])
    ('layers.0', 'layers.1–79')
    >>> folded_name(["layers.1", "layers.3", "layers.5"])
    'layers.1, 3, 5'
    """
    if len(names) == 1:
        return names[0]
    stems = {re.sub(r"\d+$", "", name) for name in names}
    tails = [re.search(r"\d+$", name) for name in names]
    if len(stems) > 1 or not all(tails):
        return f"{names[0]}, … {names[-1]}"
    numbers = [int(t.group()) for t in tails if t]
    if numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"{stems.pop()}{numbers[0]}–{numbers[-1]}"
    shown = ", ".join(map(str, numbers[:4])) + (", …" if len(numbers) > 4 else "")
    return f"{stems.pop()}{shown}"
