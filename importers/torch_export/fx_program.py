"""An FX graph written as JSON as a `Program`.

One object with `nodes` (name, op, target, args, kwargs, `val` with shape and dtype) and
`signature`: that of `aot_export_module` (`inputs_to_parameters`, `user_outputs`, `backward`) or,
of a joint graph, the gradients alone (`backward`: value to parameter). See docs/formats.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from importers.errors import ModelError
from importers.torch_export.program import (
    Kind,
    Meta,
    Node,
    Output,
    Program,
    Purpose,
    Reference,
    Size,
    Stored,
    Value,
)
from importers.torch_export.pt2_program import MAX_NODES
from importers.traced.call import ElementType
from ir.dtypes import dtype_bits

_AGAIN = "write the graph again"
_ALIASES: Mapping[str, str] = {"float": "float32", "double": "float64", "half": "float16",
                               "long": "int64", "int": "int32", "float8_e4m3fn": "float8e4m3fn",
                               "float8_e5m2": "float8e5m2"}  # fmt: skip
_GETITEM = "getitem"


def fx_program(data: Mapping[str, Any], name: str, where: str) -> Program:
    """The program in the JSON of an FX graph.

    Raises:
        ModelError: an unknown element type, or a node of unknown form.
    """
    if len(data["nodes"]) > MAX_NODES:
        raise ModelError(f"more than {MAX_NODES} nodes", where, "split the model")
    reader = _Reader(where)
    for node in data["nodes"]:
        reader.node(node)
    signature = data.get("signature") or {}
    stored = _stored(signature, reader.placeholders) | reader.attributes
    return Program(
        name=name,
        producer=str(data.get("producer", "torch.fx")),
        form="fx",
        nodes=tuple(reader.nodes),
        inputs=tuple(n for n in reader.placeholders if n not in stored and n in reader.metas),
        outputs=tuple(_outputs(signature, reader)),
        stored=stored,
        metas=reader.metas,
        guards=tuple(str(g) for g in data.get("guards", ())),
    )


def dtype_of(text: str, where: str) -> str:
    """Element type by PyTorch's name, with or without the module.

    Raises:
        ModelError: it is none that a plan can hold.
    """
    short = text.removeprefix("torch.")
    name = _ALIASES.get(short, short)
    try:
        dtype_bits(name)
    except ValueError as error:
        raise ModelError(
            f"unknown element type {text!r:.60}", where, "export with an element type of ONNX"
        ) from error
    return name


def _stored(signature: Mapping[str, Any], placeholders: list[str]) -> dict[str, Stored]:
    """Placeholders that hold parameters and buffers.

    Where the signature does not name the placeholders, gradients tell the parameters: these are
    called after their path, with `p_` in front and `_` for what is no letter.
    """
    found: dict[str, Stored] = {}
    for key, kind in (
        ("inputs_to_parameters", Kind.PARAMETER),
        ("inputs_to_buffers", Kind.BUFFER),
        ("inputs_to_constants", Kind.CONSTANT),
    ):
        for value, path in (signature.get(key) or {}).items():
            found[str(value)] = Stored(str(path), kind)
    known = set(placeholders)
    taken = {each.name for each in found.values()}
    for path in _gradients(signature).values():
        value = "p_" + "".join(c if c.isalnum() else "_" for c in path)
        if path not in taken and value in known:
            found[value] = Stored(path, Kind.PARAMETER)
    return found


def _gradients(signature: Mapping[str, Any]) -> dict[str, str]:
    """Value to parameter, from either form of the signature."""
    backward = signature.get("backward") or {}
    inner = backward.get("gradients_to_parameters")
    found = backward if inner is None else inner
    return {str(value): str(path) for value, path in found.items() if isinstance(path, str)}


def _outputs(signature: Mapping[str, Any], reader: _Reader) -> list[Output]:
    gradients = _gradients(signature)
    backward = signature.get("backward") or {}
    loss = backward.get("loss_output") if isinstance(backward, dict) else None
    mutated = signature.get("buffers_to_mutate") or {}
    out: list[Output] = []
    for position, reference in enumerate(reader.outputs):
        if not isinstance(reference, Reference):
            continue
        value = reference.name
        if value in gradients or reader.original(value) in gradients:
            path = gradients.get(value) or gradients[reader.original(value)]
            out.append(Output(value, Purpose.GRADIENT, path))
        elif reader.original(value) in mutated:
            path = str(mutated[reader.original(value)])
            out.append(Output(value, Purpose.MUTATION, path))
        else:
            first = bool(gradients) and position == 0
            purpose = Purpose.LOSS if first or value == loss else Purpose.USER
            out.append(Output(value, purpose))
    return out


@dataclass(slots=True)
class _Reader:
    """Nodes of the graph, in order."""

    where: str
    nodes: list[Node] = field(default_factory=list)
    metas: dict[str, Meta] = field(default_factory=dict)
    placeholders: list[str] = field(default_factory=list)
    outputs: tuple[Value, ...] = ()
    pieces: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Results of nodes that make several."""
    alias: dict[str, Value] = field(default_factory=dict)
    """What nodes stand for that make nothing: picked results, sizes."""
    origin: dict[str, str] = field(default_factory=dict)
    attributes: dict[str, Stored] = field(default_factory=dict)
    """Tensors that the graph itself holds."""

    def original(self, value: str) -> str:
        """The node that a result was picked by."""
        return self.origin.get(value, value)

    def node(self, node: Mapping[str, Any]) -> None:
        name, form = str(node["name"]), node["op"]
        if form in {"placeholder", "get_attr"}:
            if form == "get_attr":
                self.attributes[name] = Stored(str(node["target"]), Kind.CONSTANT)
            self.placeholders.append(name)
            self._learn(name, node["val"])
        elif form == "output":
            found = self._value(node["args"][0])
            self.outputs = found if isinstance(found, tuple) else (found,)
        elif form == "call_function":
            self._call(name, node)
        else:
            raise ModelError(
                f"a node of the form {form!r:.60}", f"node {name!r}", "trace with torch.export"
            )

    def _call(self, name: str, node: Mapping[str, Any]) -> None:
        target, value = str(node["target"]).removeprefix("torch.ops."), node["val"]
        if _GETITEM in target and not target.startswith("aten."):
            source, index = node["args"]
            picked = self.pieces[source["ref"]][index]
            self.alias[name] = Reference(picked)
            self.origin[picked] = name
            return
        if isinstance(value, int | float | str):
            self.alias[name] = Size(value) if isinstance(value, str) else value
            return
        if isinstance(value, list):
            results = tuple(f"{name}[{i}]" if v else "" for i, v in enumerate(value))
            self.pieces[name] = results
            for result, each in zip(results, value, strict=True):
                if result:
                    self._learn(result, each)
        elif value is None:
            return
        else:
            results = (name,)
            self._learn(name, value)
        positional = tuple(self._value(a) for a in node["args"])
        named = {str(k): self._value(v) for k, v in (node.get("kwargs") or {}).items()}
        scope = str(node.get("module") or "")
        self.nodes.append(Node(name, target, positional, named, results, scope))

    def _learn(self, name: str, value: Mapping[str, Any] | None) -> None:
        if isinstance(value, dict):
            dims = tuple(d if isinstance(d, int) else str(d) for d in value["shape"])
            where = f"tensor {name!r} in {self.where}"
            self.metas[name] = Meta(dims, dtype_of(str(value["dtype"]), where))

    def _value(self, argument: Any) -> Value:
        if isinstance(argument, dict):
            name = str(argument["ref"])
            return self.alias.get(name, Reference(name))
        if isinstance(argument, list):
            return tuple(self._value(a) for a in argument)
        if isinstance(argument, str) and argument.startswith("torch."):
            return self._named(argument)
        if argument is None or isinstance(argument, str | int | float):
            return argument
        raise TypeError(f"argument {argument!r:.100}")

    def _named(self, text: str) -> Value:
        """One of PyTorch's constants: element types count, memory formats do not."""
        try:
            return ElementType(dtype_of(text, self.where))
        except ModelError:
            return None
