"""One node written out as several operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import onnx

from importers.errors import MISFITS, UnsupportedError
from importers.onnx_node import NodeContext
from importers.parameters import parametrised
from ir.graph import AttributeValue, Op

Dims: TypeAlias = tuple[int, ...]
Int: TypeAlias = int
BOOL, INT64 = int(onnx.TensorProto.BOOL), int(onnx.TensorProto.INT64)


@dataclass(slots=True)
class Rewriting:
    """The operators of one node while they are written."""

    context: NodeContext
    ops: list[Op] = field(default_factory=list)

    def operand(self, index: int) -> str:
        """Name of an operand, "" where there is none."""
        return str(self.context.node.input[index]) if self.context.has(index) else ""

    def output(self, index: int) -> str:
        """Name of a result, "" where nobody wants it."""
        names = self.context.node.output
        return str(names[index]) if index < len(names) else ""

    def dims(self, name: str) -> Dims:
        return self.context.facts.dims[name]

    def code(self, name: str) -> int:
        """Element type of a tensor."""
        return self.context.facts.code[name]

    def int(self, key: str, default: int = 0) -> Int:
        return self.context.int(key, default)

    def float(self, key: str, default: float = 0.0) -> float:
        return self.context.float(key, default)

    def refuse(self, *operands: Int) -> None:
        """Raise `UnsupportedError` if the node has some of these operands."""
        if any(self.operand(i) for i in operands):
            raise UnsupportedError

    def tensor(self, dims: Dims, code: Int | None = None) -> str:
        """A new tensor, of the type of the first operand unless told."""
        facts = self.context.facts
        name = f"{self.context.node.output[0]}/{len(self.ops)}"
        while name in facts.dims:
            name += "'"
        facts.learn(name, dims, facts.code[self.context.node.input[0]] if code is None else code)
        return name

    def add(
        self,
        kind: str,
        inputs: Sequence[str],
        *dims: Dims,
        outputs: Sequence[str] = (),
        code: Int | None = None,
        **attributes: AttributeValue,
    ) -> list[str]:
        """One more operator.

        Args:
            kind: its kind.
            inputs: its operands.
            dims: of every result.
            outputs: names of results that exist already; the others get new names.
            code: element type of the new ones.
            attributes: its attributes.

        Returns:
            The names of its results.
        """
        known = [*outputs, *[""] * (len(dims) - len(outputs))]
        made = [n or self.tensor(d, code) for n, d in zip(known, dims, strict=True)]
        name = f"{self.context.name}/{len(self.ops)}" if self.ops else self.context.name
        while inputs and not inputs[-1]:
            inputs = inputs[:-1]
        self.ops.append(Op(name, kind, tuple(inputs), tuple(made), attributes, self.context.scope))
        return made

    def one(
        self,
        kind: str,
        inputs: Sequence[str],
        dims: Dims,
        output: str = "",
        *,
        code: Int | None = None,
        **attributes: AttributeValue,
    ) -> str:
        """One more operator with one result."""
        return self.add(kind, inputs, dims, outputs=[output], code=code, **attributes)[0]

    def split(self, name: str, axis: Int, sizes: Sequence[Int]) -> list[str]:
        """Pieces of a tensor along an axis."""
        dims = self.dims(name)
        pieces = [(*dims[:axis], size, *dims[axis + 1 :]) for size in sizes]
        return self.add("Split", [name], *pieces, code=self.code(name), axis=axis)

    def reshaped(self, name: str, *dims: Int, output: str = "") -> str:
        return self.one("Reshape", [name], dims, output, code=self.code(name))

    def transposed(self, name: str, *perm: Int, output: str = "") -> str:
        dims = self.dims(name)
        moved = tuple(dims[p] for p in perm)
        return self.one("Transpose", [name], moved, output, code=self.code(name), perm=perm)

    def unsqueezed(self, name: str, *axes: Int, output: str = "") -> str:
        dims = list(self.dims(name))
        for axis in axes:
            dims.insert(axis, 1)
        code = self.code(name)
        return self.one("Unsqueeze", [name], tuple(dims), output, code=code, axes=axes)

    def cast(self, name: str, code: Int) -> str:
        return self.one("Cast", [name], self.dims(name), code=code)

    def heads_apart(self, name: str, heads: Int) -> str:
        """From batch, rows, heads times width to batch, heads, rows, width."""
        batch, rows, width = self.dims(name)
        return self.transposed(self.reshaped(name, batch, rows, heads, width // heads), 0, 2, 1, 3)


@parametrised
def rewritten(context: NodeContext, write: Callable[[Rewriting], None]) -> list[Op]:
    """Converter by a function that writes; a form without equal, or with other
    operands than its schema has, stays the operator that it is.
    """
    work = Rewriting(context)
    try:
        write(work)
    except (UnsupportedError, *MISFITS):
        return context.same()
    return work.ops
