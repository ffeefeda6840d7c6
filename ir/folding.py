"""Equal things told once: numbers in names folded, axes in short."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

from ir.plan_stages import tier_names

if TYPE_CHECKING:
    from ir.plan import NamedLayout, Plan

_NUMBER = re.compile(r"(?<![A-Za-z0-9])\d+(?![A-Za-z0-9])")


def folded(name: str) -> str:
    """A name without its layer numbers.

    >>> folded("model.layers.11.mlp.up_proj"), folded("layer1.0.conv1"), folded("node_linear_6")
    ('model.layers.*.mlp.up_proj', 'layer1.*.conv1', 'node_linear_*')
    """
    return _NUMBER.sub("*", name)


def common_scope(names: Iterable[str]) -> str:
    """The leading modules that all names share, with the dot after them; a list of modules is kept.

    >>> common_scope(["m.model.norm", "m.lm_head"])
    'm.'
    """
    paths = [n.split(".") for n in dict.fromkeys(names) if n]
    parents = [path[:-1] for path in paths]
    ends = zip(min(parents, default=[]), max(parents, default=[]), strict=False)
    shared = [first for first, last in takewhile(lambda pair: pair[0] == pair[1], ends)]
    if any(path[len(shared)].isdigit() for path in paths):
        shared = shared[:-1]
    return "".join(f"{module}." for module in shared)


@dataclass(frozen=True, slots=True)
class Axes:
    """Mesh axes in short: all axes of a tier are the tier, all axes of the mesh are `all`."""

    mesh: tuple[tuple[str, int, int], ...]
    tiers: tuple[str, ...]

    @classmethod
    def of(cls, plan: Plan) -> Axes:
        return cls(plan.mesh, tier_names(plan))

    def short(self, axes: Sequence[str]) -> str:
        """The axes that split one dimension, outermost first.

        >>> axes = Axes((("server", 2, 0), ("card0", 2, 1), ("card1", 4, 1)), ("server", "card"))
        >>> axes.short(["server", "card0", "card1"]), axes.short(["card0", "card1"]), axes.short([])
        ('all', 'card', '-')
        """
        real = [name for name, size, _ in self.mesh if size > 1]
        left = [a for a in axes if a in real]
        if len(left) == len(real) > 1 and left == real:
            return "all"
        parts: list[str] = []
        while left:
            run, name = self._tier_at(left)
            parts.append(name)
            left = left[run:]
        return "*".join(parts) or "-"

    def _tier_at(self, axes: Sequence[str]) -> tuple[int, str]:
        tier = {name: tier for name, _, tier in self.mesh}[axes[0]]
        members = [name for name, size, at in self.mesh if at == tier and size > 1]
        if list(axes[: len(members)]) == members and tier < len(self.tiers):
            return len(members), self.tiers[tier]
        return 1, axes[0]

    def layout(self, layout: NamedLayout) -> str:
        """One layout."""
        body = ",".join(self.short(dim) for dim in layout.dims)
        return f"[{body}]" + (f"+{self.short(layout.partial)}" if layout.partial else "")

    def layouts(self, layouts: Sequence[NamedLayout | None]) -> str:
        """Several, without those of scalars; equal neighbours once with their count."""
        texts = [self.layout(x) for x in layouts if x is not None and x.dims]
        out: list[tuple[str, int]] = []
        for text in texts:
            if out and out[-1][0] == text:
                out[-1] = (text, out[-1][1] + 1)
            else:
                out.append((text, 1))
        return ", ".join(f"{n} x {text}" if n > 1 else text for text, n in out)
