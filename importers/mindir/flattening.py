"""One list of primitives: calls of functions inlined, tuples and side effects taken apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from importers.errors import ModelError
from importers.mindir.program import (
    Graph,
    Literal,
    MindFile,
    Node,
    Opaque,
    ResultType,
    Stored,
    TensorType,
)

MAX_STEPS = 1_000_000
"""Nodes looked at, those of a function at every call."""
MAX_CALLS = 64
"""Calls within calls."""
MAX_LEAVES = 2**17
"""Tensors in one tuple."""
_AGAIN = "export the model again"

PASSED = frozenset(
    {"Load", "Depend", "StopGradient", "Identity", "Contiguous", "Copy", "Clone", "Detach",
     "TensorMove"}
)  # fmt: skip
"""Primitives whose result is their first operand."""
TUPLES = frozenset({"MakeTuple", "MakeList", "make_tuple", "make_list"})
ITEMS = frozenset({"TupleGetItem", "ListGetItem", "RealTupleGetItem"})
EFFECTS = frozenset({"UpdateState"})
_CONTROL = frozenset({"Switch", "SwitchLayer", "Partial", "While", "If"})


@dataclass(frozen=True, slots=True)
class Ref:
    """A tensor that a step makes, an input or a parameter."""

    name: str


@dataclass(frozen=True, slots=True)
class Group:
    """A tuple with tensors in it."""

    items: tuple[Value, ...]
    leaves: int
    depth: int


Value: TypeAlias = Ref | Group | Literal


@dataclass(frozen=True, slots=True)
class Primitive:
    """One primitive."""

    name: str
    """MindSpore's full name with scope, or that of its result where it has none."""
    target: str
    inputs: tuple[Value, ...]
    attributes: Mapping[str, Literal]
    results: tuple[tuple[str, TensorType | None], ...]
    """Values that it makes; None for what is no tensor."""


@dataclass(slots=True)
class Flat:
    """A file as one list."""

    name: str
    producer: str
    inputs: dict[str, TensorType] = field(default_factory=dict)
    parameters: dict[str, Stored] = field(default_factory=dict)
    steps: list[Primitive] = field(default_factory=list)
    outputs: list[Ref] = field(default_factory=list)
    effects: int = 0
    """Primitives that nothing but the order of side effects depends on."""


def flattened(file: MindFile) -> Flat:
    """The primitives of a file, in order.

    Raises:
        ModelError: control flow that depends on data, a function that calls itself, a value that is
            read before it is made, too many nodes.
    """
    work = _Flattening(file, Flat(file.name, file.producer))
    work.run()
    return work.flat


@dataclass(slots=True)
class _Flattening:
    file: MindFile
    flat: Flat
    constants: dict[str, Value] = field(default_factory=dict)
    """Constants of all graphs: one may name another's."""
    count: int = 0

    def run(self) -> None:
        main = self.file.main
        for graph in (main, *self.file.functions.values()):
            for node in graph.nodes:
                if not node.target:
                    self.constants[node.name] = _grouped(node.constant)
        values: dict[str, Value] = {}
        for name, kind in main.inputs:
            if not isinstance(kind, TensorType):
                values[name] = self._several(name, kind)
            else:
                values[name] = Ref(name)
                self.flat.inputs[name] = kind
        for name, parameter in main.parameters.items():
            values[name] = Ref(name)
            self.flat.parameters[name] = parameter
        for graph in self.file.functions.values():
            for name, parameter in graph.parameters.items():
                self.flat.parameters[name] = parameter
                self.constants[name] = Ref(name)
        for result in self._walked(main, values, (main.name,), ""):
            self.flat.outputs.extend(_leaves(result))

    def _several(self, name: str, kind: ResultType) -> Value:
        """An input that is a tuple of tensors."""
        if isinstance(kind, Opaque):
            return kind
        items: list[Value] = []
        for index, each in enumerate(kind if isinstance(kind, tuple) else ()):
            inner = f"{name}.{index}"
            if isinstance(each, TensorType):
                self.flat.inputs[inner] = each
                items.append(Ref(inner))
            else:
                items.append(self._several(inner, each))
        return _group(items)

    def _walked(
        self, graph: Graph, values: dict[str, Value], calls: tuple[str, ...], mark: str
    ) -> list[Value]:
        """Results of a graph whose inputs have these values."""
        values |= {name: Ref(name) for name in graph.parameters}
        for node in graph.nodes:
            self.count += 1
            if self.count > MAX_STEPS:
                raise ModelError(
                    f"the model has more than {MAX_STEPS} nodes, calls counted at each place",
                    f"graph {graph.name!r}",
                    "split the model",
                )
            if node.target:
                values[node.name] = self._node(node, values, calls, mark)
        return [self._value(name, values, f"output of {graph.name!r}") for name in graph.outputs]

    def _node(
        self, node: Node, values: Mapping[str, Value], calls: tuple[str, ...], mark: str
    ) -> Value:
        where = f"{node.target} {node.scope_name or node.name!r}"
        if node.target in EFFECTS:
            return Opaque("UMONAD")
        if node.target in _CONTROL or (node.is_call and node.target not in self.file.functions):
            raise ModelError(
                "which operators run depends on data",
                where,
                "export the network with the branch or the loop written out",
            )
        inputs = tuple(self._value(name, values, where) for name in node.inputs)
        if node.is_call:
            return self._call(node, inputs, calls, mark)
        if node.target in PASSED and inputs:
            return inputs[0]
        if node.target in TUPLES:
            return _group([i for i in inputs if not _is_monad(i)])
        if node.target in ITEMS and len(inputs) > 1:
            return _item(inputs[0], inputs[1], where)
        return self._step(node, inputs, mark)

    def _call(
        self, node: Node, inputs: Sequence[Value], calls: tuple[str, ...], mark: str
    ) -> Value:
        called = self.file.functions[node.target]
        where = f"{node.target} {node.scope_name or node.name!r}"
        if node.target in calls:
            raise ModelError("a function calls itself", where, _AGAIN)
        if len(calls) > MAX_CALLS:
            raise ModelError(f"functions call each other more than {MAX_CALLS} deep", where, _AGAIN)
        if len(inputs) != len(called.inputs):
            raise ModelError(
                f"a function of {len(called.inputs)} operands is called with {len(inputs)}",
                where, _AGAIN,
            )  # fmt: skip
        values = {name: value for (name, _), value in zip(called.inputs, inputs, strict=True)}
        here = f"{mark}{self.count}/"
        found = self._walked(called, values, (*calls, node.target), here)
        return found[0] if len(found) == 1 else _group(found)

    def _step(self, node: Node, inputs: tuple[Value, ...], mark: str) -> Value:
        results: list[tuple[str, TensorType | None]] = []
        value = _made(f"{mark}{node.name}", node.result, results)
        plain = node.scope_name if "/" in node.scope_name else node.name.partition(":")[2]
        kept = tuple(i for i in inputs if not _is_monad(i))
        self.flat.steps.append(
            Primitive(plain or node.name, node.target, kept, node.attributes, tuple(results))
        )
        return value

    def _value(self, name: str, values: Mapping[str, Value], where: str) -> Value:
        found = values.get(name, self.constants.get(name, self))
        if isinstance(found, _Flattening):
            if name in self.file.functions:
                return Opaque("FUNCGRAPHCLOSURE")
            raise ModelError(f"{name!r} is read before it is made", where, _AGAIN)
        return found


def _is_monad(value: Value) -> bool:
    return isinstance(value, Opaque) and value.is_monad


def _made(
    name: str, kind: ResultType, results: list[tuple[str, TensorType | None]]
) -> Ref | Group | Opaque:
    """What a step makes; its tensors are added to the results."""
    if isinstance(kind, TensorType):
        results.append((name, kind))
        return Ref(name)
    if isinstance(kind, Opaque):
        results.append((name, None))
        return kind
    return _group([_made(f"{name}#{i}", each, results) for i, each in enumerate(kind)])


def _group(items: Sequence[Value]) -> Group:
    leaves = sum(i.leaves if isinstance(i, Group) else 1 for i in items)
    depth = 1 + max((i.depth for i in items if isinstance(i, Group)), default=0)
    if leaves > MAX_LEAVES or depth > MAX_CALLS:
        raise ModelError(
            f"a tuple has more than {MAX_LEAVES} values, or is nested more than {MAX_CALLS} deep",
            "MakeTuple", _AGAIN,
        )  # fmt: skip
    return Group(tuple(items), leaves, depth)


def _grouped(value: Literal) -> Value:
    """A tuple of constants with tensors in it is a group like others."""
    if isinstance(value, tuple) and any(isinstance(v, Stored | tuple) for v in value):
        return _group([_grouped(v) for v in value])
    return value


def _item(value: Value, index: Value, where: str) -> Value:
    items = value.items if isinstance(value, Group) else value
    if not isinstance(items, tuple) or not isinstance(index, int):
        raise ModelError("an item is taken of what is no tuple", where, _AGAIN)
    if not -len(items) <= index < len(items):
        raise ModelError(f"item {index} of a tuple of {len(items)}", where, _AGAIN)
    return items[index]


def _leaves(value: Value) -> list[Ref]:
    """Tensors of a result; constants among them need no computing."""
    if isinstance(value, Group):
        return [leaf for item in value.items for leaf in _leaves(item)]
    return [value] if isinstance(value, Ref) else []


def live(flat: Flat) -> list[tuple[Primitive, frozenset[int]]]:
    """Steps that some output depends on, each with the results that are read."""
    wanted = {ref.name for ref in flat.outputs}
    kept: list[tuple[Primitive, frozenset[int]]] = []
    for step in reversed(flat.steps):
        used = frozenset(i for i, (name, _) in enumerate(step.results) if name in wanted)
        if used:
            wanted.update(ref.name for value in step.inputs for ref in _leaves(value))
            kept.append((step, used))
    flat.effects = len(flat.steps) - len(kept)
    kept.reverse()
    return kept
