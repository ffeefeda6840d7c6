"""One node written out as several operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from importers.errors import MISFITS, UnsupportedError
from importers.onnx_checks import type_code
from importers.onnx_node import NodeContext
from importers.operators import Dims, GraphOperators, Setting
from importers.parameters import parametrised
from ir.graph import Op

Int: TypeAlias = int


@dataclass(slots=True)
class Rewriting(GraphOperators[str]):
    """The operators of one node while they are written."""

    context: NodeContext
    written: list[Op] = field(default_factory=list)
    target: str = ""
    """The result that the next operator makes; empty for a new one."""

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
        name = f"{self.context.node.output[0]}/{len(self.written)}"
        while name in facts.dims:
            name += "'"
        facts.learn(name, dims, facts.code[self.context.node.input[0]] if code is None else code)
        return name

    def write(
        self,
        kind: str,
        inputs: Sequence[str],
        *dims: Dims,
        outputs: Sequence[str] = (),
        code: Int | None = None,
        **attributes: Setting,
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
        name = f"{self.context.name}/{len(self.written)}" if self.written else self.context.name
        while inputs and not inputs[-1]:
            inputs = inputs[:-1]
        scope = self.context.scope
        self.written.append(Op(name, kind, tuple(inputs), tuple(made), attributes, scope))
        return made

    def into(self, output: str) -> Rewriting:
        """Writes the operator that makes a result which exists; a new one where there is none."""
        return replace(self, target=output)

    def dtype_of(self, value: str) -> str:
        return self.context.facts.dtype[value]

    def broadcast(self, kind: str, *values: str) -> Dims:
        known = self.context.facts.dims.get(self.target)
        return GraphOperators.broadcast(self, kind, *values) if known is None else known

    def op(
        self,
        kind: str,
        inputs: Sequence[str],
        dims: Sequence[Int] = (),
        dtype: str = "",
        **attributes: Setting,
    ) -> str:
        code = type_code(dtype) if dtype else self.code(inputs[0])
        outputs = [self.target]
        return self.write(kind, inputs, tuple(dims), outputs=outputs, code=code, **attributes)[0]

    def several(
        self,
        kind: str,
        inputs: Sequence[str],
        results: Sequence[tuple[Sequence[Int], str]],
        **attributes: Setting,
    ) -> list[str]:
        dims, code = [tuple(own) for own, _ in results], self.code(inputs[0])
        return self.write(kind, inputs, *dims, outputs=(), code=code, **attributes)

    def heads_apart(self, name: str, heads: Int) -> str:
        """From batch, rows, heads times width to batch, heads, rows, width."""
        batch, rows, width = self.dims(name)
        return self.transpose(self.reshape(name, batch, rows, heads, width // heads), 0, 2, 1, 3)


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
    return work.written
