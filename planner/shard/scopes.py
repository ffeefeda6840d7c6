"""Which operators of a graph belong to a cell or function, and what reaches them from outside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from exporters.folding import common_scope
from ir.graph import Op, OpGraph, Role, Tensor

_LENT = (Role.PARAMETER, Role.CONSTANT, Role.BUFFER)
"""Roles of what is no argument of a call."""


@dataclass(frozen=True, slots=True)
class Part:
    """The operators of one call."""

    ops: tuple[Op, ...]
    inputs: tuple[Tensor, ...]
    """Tensors made outside, in the order in which they are first read: the arguments."""
    parameters: tuple[Tensor, ...]


class Scopes:
    """Paths of the operators of a graph."""

    def __init__(self, graph: OpGraph) -> None:
        self.graph = graph
        prefix = len(common_scope(op.scope for op in graph.ops))
        self._paths = {op.name: (op.scope, op.scope[prefix:], _path(op.name)) for op in graph.ops}

    def holds(self, target: str, op: Op) -> bool:
        """Whether an operator belongs to a cell: by its scope, or by the path in its name."""
        return any(path == target or path.startswith(f"{target}.") for path in self._paths[op.name])

    def part(self, target: str) -> Part:
        """The operators of a cell or function."""
        ops = tuple(op for op in self.graph.ops if self.holds(target, op))
        made = {name for op in ops for name in op.outputs}
        read = dict.fromkeys(name for op in ops for name in op.inputs if name and name not in made)
        tensors = [self.graph.tensors[name] for name in read]
        return Part(
            ops,
            tuple(t for t in tensors if t.role not in _LENT),
            tuple(t for t in tensors if t.role is Role.PARAMETER),
        )

    def is_cell(self, name: str) -> bool:
        """Whether some operator belongs to a cell of that path."""
        return any(self.holds(name, op) for op in self.graph.ops)

    def outside(self, targets: Sequence[str]) -> tuple[Op, ...]:
        """Operators of no call."""
        return tuple(
            op for op in self.graph.ops if not any(self.holds(each, op) for each in targets)
        )


def _path(name: str) -> str:
    """`/block1/dense1/MatMul` belongs to `block1.dense1`."""
    return ".".join(part for part in name.split("/")[:-1] if part)


def parameter_name(tensor: Tensor) -> str:
    """The name in the model file."""
    return tensor.source or tensor.name


def stored_dims(tensor: Tensor) -> tuple[int, ...]:
    """Sizes in the order of the model file."""
    order = tensor.stored_permutation
    if not order:
        return tensor.dims
    out = [0] * len(order)
    for here, there in enumerate(order):
        out[there] = tensor.dims[here]
    return tuple(out)
