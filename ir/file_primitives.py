"""The primitives of a file that MindSpore exported: what its strategy files go by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FilePrimitive:
    """One primitive as MindSpore's parallel passes meet it."""

    name: str
    """Full name with scope: `Default/up-Dense/MatMul-op0`."""
    kind: str
    operands: tuple[tuple[int, ...], ...]
    """Dims of the operands that are tensors, in order; those of a tuple one by one."""
    makers: tuple[str, ...]
    """For each operand the name of the primitive, input or parameter that it comes from; empty for
    a constant.
    """

    def record(self) -> list[object]:
        """The JSON form."""
        return [self.name, self.kind, [list(dims) for dims in self.operands], list(self.makers)]


def file_primitive(value: object) -> FilePrimitive:
    """A primitive from its JSON form.

    Raises:
        ValueError: the data does not describe one.
    """
    match value:
        case [str(name), str(kind), [*operands], [*makers]] if len(operands) == len(makers):
            dims = tuple(_dims(each) for each in operands)
            return FilePrimitive(name, kind, dims, tuple(str(each) for each in makers))
    raise ValueError(f"{str(value)[:80]!r} is no primitive of a model file")


def _dims(value: object) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(type(n) is int and n >= 0 for n in value):
        raise ValueError(f"{str(value)[:80]!r} are no sizes")
    return tuple(value)


_OUTSIDE = frozenset({"Default", "Gradients", "recompute_Default"})
"""Steps that are no cells; in the backward pass `gradMatMul` is none either."""


def cell_path(name: str) -> str:
    """The path of the cell that an operator is in, as parameters have it.

    >>> cell_path("Default/network-WithLossCell/blocks-CellList/0-Block/up-Dense/MatMul-op0")
    'network.blocks.0.up'
    """
    steps: Sequence[str] = name.split("/")[:-1]
    backward = "Gradients" in steps
    kept = [s for s in steps if s not in _OUTSIDE and not (backward and s.startswith("grad"))]
    return ".".join(step.partition("-")[0] for step in kept if step)
