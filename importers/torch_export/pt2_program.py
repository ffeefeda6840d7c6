"""The JSON of `torch.export.save` as a `Program`. Source: torch/_export/serde/schema.py, 8.20."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from importers.errors import ModelError
from importers.size_texts import symbols_in
from importers.torch_export.program import (
    Kind,
    Meta,
    Node,
    Output,
    Program,
    Purpose,
    Range,
    Reference,
    Size,
    Stored,
    Value,
)
from importers.traced.call import ElementType

SCHEMA_MAJOR = (5, 8)
"""Oldest and newest major version whose graphs have the fields that are read here."""
MAX_NODES = 1_000_000
ELEMENT_TYPES: Mapping[int, str] = MappingProxyType(
    {
        1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float16", 7: "float32",
        8: "float64", 10: "complex64", 11: "complex128", 12: "bool", 13: "bfloat16", 28: "uint16",
        29: "float8e4m3fn", 30: "float8e5m2", 31: "float8e4m3fnuz", 32: "float8e5m2fnuz",
        33: "float8e8m0", 34: "uint32", 35: "uint64",
    }
)  # fmt: skip
_AGAIN = "export the program again"
_INLINED = frozenset({"wrap_with_set_grad_enabled", "wrap_with_autocast", "strict_mode"})
"""Calls of a graph that change nothing in what it computes."""
_PLAIN = ("as_int", "as_ints", "as_string", "as_strings", "as_bool",
          "as_bools", "as_int_lists", "as_float_lists")  # fmt: skip
_NOTHING = ("as_none", "as_memory_format", "as_layout", "as_device", "as_operator")
"""Arguments that do not change what is computed."""
_PURPOSES: Mapping[str, tuple[Purpose, str]] = MappingProxyType(
    {
        "user_output": (Purpose.USER, ""),
        "loss_output": (Purpose.LOSS, ""),
        "gradient_to_parameter": (Purpose.GRADIENT, "parameter_name"),
        "gradient_to_user_input": (Purpose.USER, ""),
        "buffer_mutation": (Purpose.MUTATION, "buffer_name"),
        "user_input_mutation": (Purpose.USER, ""),
        "parameter_mutation": (Purpose.MUTATION, "parameter_name"),
    }
)


def pt2_program(data: Mapping[str, Any], name: str, where: str) -> Program:
    """The program in the JSON of a `.pt2` archive.

    Raises:
        ModelError: another version, an unknown element type, or an argument of unknown form.
    """
    major = data["schema_version"]["major"]
    if not SCHEMA_MAJOR[0] <= major <= SCHEMA_MAJOR[1]:
        raise ModelError(
            f"the program has schema version {major}; "
            f"{SCHEMA_MAJOR[0]} to {SCHEMA_MAJOR[1]} can be read",
            where,
            "save it with a supported version of PyTorch",
        )
    module = data["graph_module"]
    reader = _Reader(where)
    reader.graph(module["graph"], {})
    stored, inputs = _inputs(module["signature"]["input_specs"])
    ranges = data.get("range_constraints", {})
    return Program(
        name=name,
        producer=f"torch {data.get('torch_version', '')}".strip(),
        form="pt2",
        nodes=tuple(reader.nodes),
        inputs=inputs,
        outputs=tuple(_outputs(module["signature"]["output_specs"])),
        stored=stored,
        metas=reader.metas,
        symbols={n: Range(r.get("min_val"), r.get("max_val")) for n, r in ranges.items()},
        hints=reader.hints,
        guards=tuple(str(g) for g in data.get("guards_code", ())),
    )


def element_type(code: int, where: str) -> str:
    """Name of one of PyTorch's element types.

    Raises:
        ModelError: it is none that a plan can hold.
    """
    if code not in ELEMENT_TYPES:
        raise ModelError(
            f"unknown element type {code}", where, "export with an element type that ONNX defines"
        )
    return ELEMENT_TYPES[code]


def _inputs(specs: Iterable[Mapping[str, Any]]) -> tuple[dict[str, Stored], tuple[str, ...]]:
    stored: dict[str, Stored] = {}
    given: list[str] = []
    for spec in specs:
        if "user_input" in spec:
            argument = spec["user_input"]["arg"]
            if "as_tensor" in argument:
                given.append(str(argument["as_tensor"]["name"]))
        for key, kind in (
            ("parameter", Kind.PARAMETER),
            ("buffer", Kind.BUFFER),
            ("tensor_constant", Kind.CONSTANT),
        ):
            if key in spec:
                stored[str(spec[key]["arg"]["name"])] = Stored(str(spec[key][f"{key}_name"]), kind)
    return stored, tuple(given)


def _outputs(specs: Iterable[Mapping[str, Any]]) -> Iterator[Output]:
    for spec in specs:
        for key, (purpose, of) in _PURPOSES.items():
            if key not in spec:
                continue
            argument = spec[key]["arg"]
            tensor = argument.get("as_tensor") if key == "user_output" else argument
            tensor = tensor.get("as_tensor", tensor) if tensor else None
            if tensor:
                yield Output(str(tensor["name"]), purpose, str(spec[key][of]) if of else "")


@dataclass(slots=True)
class _Reader:
    """Nodes of a graph and of those inside of it, in one row."""

    where: str
    nodes: list[Node] = field(default_factory=list)
    metas: dict[str, Meta] = field(default_factory=dict)
    hints: dict[str, int] = field(default_factory=dict)
    numbers: dict[str, Value] = field(default_factory=dict)
    """Values that are no tensors: sizes, flags."""

    def graph(self, graph: Mapping[str, Any], names: dict[str, str], prefix: str = "") -> None:
        """Learn a graph.

        Args:
            graph: of the file.
            names: what its values are called outside; the others get the prefix.
            prefix: name of the node whose body it is, with a slash.
        """
        for inner, meta in graph["tensor_values"].items():
            outer = names.setdefault(inner, prefix + inner)
            self.metas.setdefault(outer, self._meta(meta, outer))
        for key in ("sym_int_values", "sym_float_values", "sym_bool_values"):
            for inner, number in graph.get(key, {}).items():
                self.numbers[prefix + inner] = self._number(number)
        for index, node in enumerate(graph["nodes"]):
            self._node(node, index, names, prefix)

    def _meta(self, meta: Mapping[str, Any], name: str) -> Meta:
        dims = tuple(self._size(size) for size in meta["sizes"])
        return Meta(dims, element_type(meta["dtype"], f"tensor {name!r} in {self.where}"))

    def _size(self, size: Mapping[str, Any]) -> int | str:
        if "as_int" in size:
            return int(size["as_int"])
        expression = size["as_expr"]
        text, hint = str(expression["expr_str"]), (expression.get("hint") or {}).get("as_int")
        names = symbols_in(text)
        if len(names) == 1 and isinstance(hint, int) and _is_symbol(text):
            self.hints.setdefault(next(iter(names)), hint)
        return text

    def _number(self, number: Mapping[str, Any]) -> Value:
        if "as_expr" in number:
            return Size(str(number["as_expr"]["expr_str"]))
        return _frozen(next(iter(number.values())))

    def _node(
        self, node: Mapping[str, Any], index: int, names: dict[str, str], prefix: str
    ) -> None:
        if len(self.nodes) > MAX_NODES:
            raise ModelError(f"more than {MAX_NODES} nodes", self.where, "split the model")
        target = str(node["target"]).removeprefix("torch.ops.")
        name = prefix + str(node.get("name") or f"{target}_{index}")
        body = _body(node)
        if body is not None and target.rpartition(".")[2] in _INLINED:
            self._inline(node, body, name, names, prefix)
            return
        results = tuple(
            names.setdefault(n, prefix + n) if n else "" for n in _results(node["outputs"])
        )
        if not any(results):
            return
        arguments = [(i, self._value(i["arg"], names, prefix)) for i in node["inputs"]]
        unnamed = tuple(v for i, v in arguments if not i["name"])
        named = {str(i["name"]): v for i, v in arguments if i["name"]}
        scope = _scope(str(node.get("metadata", {}).get("nn_module_stack", "")))
        self.nodes.append(Node(name, target, unnamed, named, results, scope))

    def _inline(
        self,
        node: Mapping[str, Any],
        body: Mapping[str, Any],
        name: str,
        names: dict[str, str],
        prefix: str,
    ) -> None:
        given = [
            names.get(i["arg"]["as_tensor"]["name"], prefix + i["arg"]["as_tensor"]["name"])
            for i in node["inputs"]
            if "as_tensor" in i["arg"]
        ]
        wanted = [i["as_tensor"]["name"] for i in body["inputs"] if "as_tensor" in i]
        inner: dict[str, str] = dict(zip(wanted, given, strict=True))
        for key in ("sym_int_values",):
            self.numbers.update({f"{name}/{n}": self._number(v) for n, v in body[key].items()})
        self.graph(body, inner, f"{name}/")
        made = list(_results(body["outputs"]))
        names.update(
            {
                outer: inner[source]
                for outer, source in zip(_results(node["outputs"]), made, strict=True)
                if outer
            }
        )

    def _value(self, argument: Mapping[str, Any], names: Mapping[str, str], prefix: str) -> Value:
        ((form, value),) = argument.items()
        if form in _PLAIN:
            return _frozen(value)
        if form in {"as_float", "as_floats"}:
            return _numbers(value)
        if form in _NOTHING:
            return None
        if form == "as_scalar_type":
            return ElementType(element_type(value, self.where))
        if form.startswith("as_sym_"):
            many = isinstance(value, list)
            found = [self._symbolic(v, prefix) for v in (value if many else [value])]
            return tuple(found) if many else found[0]
        return self._tensors(form, value, names, prefix)

    def _tensors(self, form: str, value: Any, names: Mapping[str, str], prefix: str) -> Value:
        match form:
            case "as_tensor":
                return Reference(names.get(value["name"], prefix + value["name"]))
            case "as_tensors":
                return tuple(Reference(names.get(v["name"], prefix + v["name"])) for v in value)
            case "as_optional_tensors":
                return tuple(self._value(v, names, prefix) for v in value)
            case "as_optional_tensor":
                return self._value(value, names, prefix)
            case _:
                return f"<{form}>"

    def _symbolic(self, value: Mapping[str, Any], prefix: str) -> Value:
        if "as_name" not in value:
            return _frozen(next(iter(value.values())))
        return self.numbers[prefix + value["as_name"]]


def _frozen(value: Any) -> Value:
    if isinstance(value, list):
        return tuple(_frozen(v) for v in value)
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError(f"argument {value!r:.100}")


def _numbers(value: Any) -> Value:
    """Floating numbers, of which those that JSON lacks are texts: `"-Infinity"`."""
    if isinstance(value, list):
        return tuple(_numbers(v) for v in value)
    if isinstance(value, str | int | float):
        return float(value)
    raise TypeError(f"argument {value!r:.100}")


def _is_symbol(text: str) -> bool:
    return text.isidentifier() or (text.startswith("Symbol(") and text.count("(") == 1)


def _body(node: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The graph that a node runs."""
    graphs = [i["arg"]["as_graph"]["graph"] for i in node["inputs"] if "as_graph" in i["arg"]]
    return graphs[0] if len(graphs) == 1 else None


def _results(outputs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Names of the tensors that a node makes, one behind the other; "" for what is no tensor."""
    for output in outputs:
        if "as_tensor" in output:
            yield str(output["as_tensor"]["name"])
        elif "as_tensors" in output:
            yield from (str(each["name"]) for each in output["as_tensors"])
        else:
            yield ""


def _scope(stack: str) -> str:
    """Path of the innermost module, from `key,path,class;key,path,class`."""
    paths = [entry.split(",")[1] for entry in stack.split(";") if entry.count(",") >= 2]
    return next((p for p in reversed(paths) if p and not p.startswith("_empty")), "")
