"""A program at bound sizes as an ONNX model: what the importer of ONNX makes a graph of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from importers.errors import ModelError
from importers.onnx_checks import check_dims
from importers.size_texts import number_of, size_of
from importers.torch_export.aten import entry_of
from importers.torch_export.program import (
    Kind,
    Node,
    Output,
    Program,
    Purpose,
    Reference,
    Size,
    Value,
)
from importers.traced.call import Argument, Call
from importers.traced.table import arguments_of
from importers.traced.translation import Translated, Translation
from ir.dtypes import SHORT_NAMES
from ir.graph import Tensor

VIEWS = frozenset(
    {
        "view", "_unsafe_view", "reshape", "transpose", "permute", "t", "slice", "select", "expand",
        "unsqueeze", "squeeze", "split", "split_with_sizes", "chunk", "unbind", "flatten", "narrow",
        "detach", "alias", "diagonal", "unfold", "view_as", "expand_as", "movedim", "unflatten",
    }
)  # fmt: skip
"""Calls whose result may share the memory of their operand."""


def translated(program: Program, bound: Mapping[str, int]) -> Translated:
    """The program as an ONNX model.

    Args:
        program: as read.
        bound: a size for every symbol.

    Raises:
        ModelError: a call that does not fit its operator, or a size that is unknown.
    """
    work = _Translation(program, bound, again="export the program again")
    work.run()
    return work.finished()


@dataclass(slots=True)
class _Translation(Translation):
    program: Program
    bound: Mapping[str, int]
    based: dict[str, str] = field(default_factory=dict)
    """Value that a view was taken of."""
    stale: set[str] = field(default_factory=set)
    """Values whose memory was overwritten through a view of them."""
    trained: set[str] = field(default_factory=set)

    def run(self) -> None:
        graph = self.writer.graph
        graph.name = self.program.name
        mutated = {o.of for o in self.program.outputs if o.purpose is Purpose.MUTATION}
        for value, stored in self.program.stored.items():
            tensor = self._declared(value, stored.name)
            if stored.kind is Kind.PARAMETER:
                self.trained.add(tensor.name)
            if stored.kind is Kind.BUFFER and stored.name in mutated:
                self.writer.describe(graph.input.add(), tensor)
            else:
                self.writer.store(tensor)
        for value in self.program.inputs:
            self.writer.describe(graph.input.add(), self._declared(value, value))
        for node, used in _live(self.program):
            self._node(node, used)

    def _declared(self, value: str, name: str) -> Tensor:
        self.values[value] = self._tensor(value, name)
        return self.values[value]

    def _tensor(self, value: str, name: str) -> Tensor:
        """A new tensor with the dims and the type of a value."""
        if value not in self.program.metas:
            raise ModelError(
                f"nothing tells the size of {name!r}",
                self.program.name,
                "trace with torch.export, which notes the shape of every value",
            )
        meta, where = self.program.metas[value], f"tensor {value!r}"
        dims = tuple(size_of(d, self.bound, where) if isinstance(d, str) else d for d in meta.dims)
        check_dims(dims, where)
        return self.writer.tensor(name, dims, SHORT_NAMES.get(meta.dtype, meta.dtype))

    def _node(self, node: Node, used: frozenset[int]) -> None:
        entry = entry_of(node.target)
        results = tuple(self._tensor(name, name) if name else None for name in node.results)
        arguments = {k: self._argument(v, node) for k, v in node.named.items()}
        positional = [self._argument(v, node) for v in node.positional]
        if entry is not None and len(positional) > len(entry.names):
            what = f"{node.target} has {len(positional)} arguments"
            raise ModelError(what, f"node {node.name!r}", self.again)
        named = arguments_of(entry, positional, arguments)
        call = Call(self.writer, node.name, node.target, node.scope, named, results, used)
        self.write(call, entry, unknown_kind(node.target), node.results)
        self._track_memory(node, call)

    def _argument(self, value: Value, node: Node) -> Argument:
        if isinstance(value, Reference):
            if value.name in self.stale:
                raise ModelError(
                    f"{value.name!r} is read after a view of it was written to",
                    f"node {node.name!r}",
                    "export with .run_decompositions(), which leaves no writing in place",
                )
            return self.held(value.name, f"node {node.name!r}")
        if isinstance(value, Size):
            number = number_of(value.text, self.bound)
            return (
                size_of(value.text, self.bound, f"node {node.name!r}")
                if number is None
                else (int(number) if number == int(number) else number)
            )
        if isinstance(value, tuple):
            return tuple(self._argument(v, node) for v in value)
        return value

    def _track_memory(self, node: Node, call: Call) -> None:
        """After writing in place, the operand is the result; what it is a view of is spoilt."""
        base = node.target.split(".")[1] if "." in node.target else node.target
        first = _first_reference(node)
        if first is None:
            return
        if base in VIEWS:
            self.based.update({r: first for r in node.results if r})
        elif _in_place(node.target) and 0 in call.made:
            self.values[first] = call.made[0]
            self.based.update({r: self.based[first] for r in node.results if first in self.based})
            spoilt = self.based.get(first)
            while spoilt is not None and spoilt not in self.stale:
                self.stale.add(spoilt)
                spoilt = self.based.get(spoilt)

    def finished(self) -> Translated:
        outputs = [o for o in self.program.outputs if o.purpose is not Purpose.MUTATION]
        dropped = len(self.program.outputs) - len(outputs)
        note = f"{dropped} results that only update buffers were left out"
        gradients = self._deliver(outputs)
        stored = frozenset(s.name for s in self.program.stored.values())
        return Translated(
            model=self.writer.model(self.program.producer),
            trained=frozenset(self.trained),
            becomes=self.all_becomes(),
            notes=(note,) if dropped else (),
            gradients=gradients,
            state=stored.intersection(i.name for i in self.writer.graph.input),
            tensors=self.writer.tensors,
        )

    def _deliver(self, outputs: Sequence[Output]) -> dict[str, str]:
        """Name the results; one that is an input, or two results at once, is copied."""
        made = {n for step in self.writer.steps for n in step.outputs}
        names: dict[str, str] = {}
        gradients: dict[str, str] = {}
        finals: list[tuple[str, Tensor]] = []
        found = self.results([o.value for o in outputs], self.program.name)
        for output, held in zip(outputs, found, strict=True):
            wanted = f"grad.{output.of}" if output.purpose is Purpose.GRADIENT else held.name
            free = held.name in made and held.name not in names
            if output.purpose is Purpose.GRADIENT:
                gradients[output.of] = wanted
            if free:
                names[held.name] = wanted
                finals.append((wanted, held))
            else:
                copy = self.copied(held, wanted if wanted != held.name else output.value, "/copy")
                if output.purpose is Purpose.GRADIENT:
                    gradients[output.of] = copy.name
                finals.append((copy.name, held))
        self.writer.rename({old: new for old, new in names.items() if old != new})
        for name, held in finals:
            self.writer.describe(self.writer.graph.output.add(), replace(held, name=name))
        return gradients


def _live(program: Program) -> list[tuple[Node, frozenset[int]]]:
    """Nodes that some result depends on, each with the results that are read; what writes in place
    stays.
    """
    wanted = {o.value for o in program.outputs if o.purpose is not Purpose.MUTATION}
    kept: list[tuple[Node, frozenset[int]]] = []
    for node in reversed(program.nodes):
        used = {i for i, r in enumerate(node.results) if r in wanted}
        if _in_place(node.target):
            used.add(0)
        if used:
            wanted.update(_references((*node.positional, *node.named.values())))
            kept.append((node, frozenset(used)))
    kept.reverse()
    return kept


def _in_place(target: str) -> bool:
    """Whether a call writes to its first operand."""
    name = target.split(".")[1] if target.count(".") else target
    return name.endswith("_") and not name.endswith("__")


def _references(values: Iterable[Value]) -> Iterator[str]:
    for value in values:
        if isinstance(value, Reference):
            yield value.name
        elif isinstance(value, tuple):
            yield from _references(value)


def _first_reference(node: Node) -> str | None:
    values = [*node.positional, *node.named.values()]
    return next((v.name for v in values if isinstance(v, Reference)), None)


def unknown_kind(target: str) -> str:
    """Kind of the operator that stands for a call that no table has."""
    space, _, name = target.partition(".")
    return f"{space}::{name.removesuffix('.default')}" if name else f"call::{space}"
