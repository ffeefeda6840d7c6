"""Views of views as one view.

Files write a turn of some dimensions as a reshape that merges others, a transpose and a reshape
back. What is merged for a moment cannot stay split meanwhile; a kernel never sees it, nor does XLA
so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp

from ir.graph import Op
from ir.ops import lookup, shape
from ir.semantics.call import Call

VIEWS = frozenset(
    kind for kind in shape.REARRANGED if lookup(kind).semantics in {"reshape", "transpose", "same"}
)


@dataclass(frozen=True, slots=True)
class View:
    """An array cut into atoms, which are put into another order and merged again."""

    array: Any
    atoms: tuple[int, ...]
    """Sizes of the atoms, in the order of the array."""
    dims: tuple[tuple[int, ...], ...]
    """For each dimension of the view its atoms, outermost first."""

    def reshaped(self, wanted: Sequence[int]) -> View | None:
        """The view with other dims; None if their borders cut across atoms."""
        left, atoms = [a for dim in self.dims for a in dim], list(self.atoms)
        out: list[tuple[int, ...]] = []
        for size in wanted:
            taken: list[int] = []
            while (have := math.prod(atoms[a] for a in taken)) < size:
                if not left or size % have:
                    return None
                first, rest = left[0], size // have
                if atoms[first] > rest:
                    if atoms[first] % rest:
                        return None
                    atoms, left, out, taken = _cut(atoms, left, out, taken, first, rest)
                taken.append(left.pop(0))
            if have != size:
                return None
            out.append(tuple(taken))
        if any(atoms[a] != 1 for a in left):
            return None
        return View(self.array, tuple(atoms), _with_ones(out, left))

    def transposed(self, order: Sequence[int]) -> View:
        return replace(self, dims=tuple(self.dims[place] for place in order))

    def made(self) -> Any:
        """The array of the view."""
        apart = jnp.reshape(self.array, self.atoms)
        turned = jnp.transpose(apart, [a for dim in self.dims for a in dim])
        return jnp.reshape(turned, [math.prod(self.atoms[a] for a in dim) for dim in self.dims])


def view_of(array: Any) -> View:
    """An array as a view of itself."""
    return View(array, tuple(array.shape), tuple((d,) for d in range(array.ndim)))


def viewed(view: View, op: Op, dims: Sequence[int]) -> View | None:
    """What an operator that only views makes of a view; None if it cannot be put so."""
    if lookup(op.kind).rule is shape.transpose_rule:
        rank = len(view.dims)
        return view.transposed(Call(op, (), ()).ints("perm", tuple(reversed(range(rank)))))
    return view.reshaped(dims)


def _with_ones(dims: list[tuple[int, ...]], left: list[int]) -> tuple[tuple[int, ...], ...]:
    """Atoms of one element that no dimension took go to the last."""
    if not left or not dims:
        return tuple(dims)
    return (*dims[:-1], (*dims[-1], *left))


def _cut(
    atoms: list[int],
    left: list[int],
    out: list[tuple[int, ...]],
    taken: list[int],
    which: int,
    outer: int,
) -> tuple[list[int], list[int], list[tuple[int, ...]], list[int]]:
    """One atom as two, the outer of a given size; what comes behind moves up."""

    def moved(places: Sequence[int]) -> list[int]:
        return [p + (p > which) for p in places]

    sizes = [*atoms[:which], outer, atoms[which] // outer, *atoms[which + 1 :]]
    rest = moved(left)
    return sizes, [which, which + 1, *rest[1:]], [tuple(moved(d)) for d in out], moved(taken)
