"""What `planner inspect` finds out about a model."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from importers.facts import FileFacts
from importers.model_file import model_format
from importers.onnx_dimensions import bindable
from importers.open_sizes import formulas, reading
from ir.batch import find_batch, with_batch
from ir.canonical import canonical_digest
from ir.folding import common_scope
from ir.graph import OpGraph, Role
from ir.normalise import add_ends, normalise
from ir.ops import OpView, is_described, lookup
from ir.symbols import Binding, Symbol
from planner.constraints.operator_rules import annotated, check_annotations, given_rules
from planner.lowering.liveness import analyse

if TYPE_CHECKING:
    from ir.graph import Op

TOP = "(top level)"


@dataclass(frozen=True, slots=True)
class KindFacts:
    """All operators of one kind."""

    kind: str
    count: int
    flops: int
    """Of a forward pass."""


@dataclass(frozen=True, slots=True)
class BlockFacts:
    """Equal modules, such as the layers of a transformer."""

    name: str
    """Module path with the number of the block folded to `*`."""
    count: int
    operators: int
    """In all of them."""
    parameters: int
    """Elements in all of them."""


@dataclass(frozen=True, slots=True)
class UnknownFacts:
    """Operators of a kind without a sharding rule."""

    kind: str
    count: int
    example: str
    treatment: str = "replicated on every device, priced by the bytes that it moves"


@dataclass(frozen=True, slots=True)
class DynamicDim:
    """A dimension that the file leaves open."""

    tensor: str
    axis: int
    name: str
    value: int | None
    """What it was bound to; of a range the largest; none while it is open."""
    sizes: str = ""
    """The range of sizes that it was bound to."""


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """A model in numbers, for one batch."""

    name: str
    digest: str
    """Hash of the normal form that names and order do not change; empty while sizes are open."""
    file: Mapping[str, object]
    """What the file says of itself: producer, opsets, nodes."""
    inputs: Mapping[str, tuple[str, tuple[int | str, ...]]]
    """Element type and dims by name; an open dimension by its own."""
    sizes: Mapping[str, int]
    """Dimensions that nobody bound, with the example sizes to which the numbers below belong."""
    formulas: Mapping[str, str]
    """Those of the numbers that are polynomials of these dimensions."""
    batch: int
    dynamic_dims: tuple[DynamicDim, ...]
    operators: int
    kinds: tuple[KindFacts, ...]
    composites: Mapping[str, int]
    """Operators that stand for several of the file, by label."""
    unknown: tuple[UnknownFacts, ...]
    given_rules: Mapping[str, str]
    """Rules that kinds which the catalogue lacks were given."""
    parameters: int
    """Tensors."""
    parameter_elements: int
    parameter_bytes: int
    parameter_dtypes: Mapping[str, int]
    """Elements by element type."""
    forward_flops: int
    activation_bytes: int | None
    """What the backward pass needs if nothing is recomputed; none for a traced training step."""
    blocks: tuple[BlockFacts, ...]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, object]:
        return asdict(self)


def model_facts(
    path: Path,
    bind: Binding,
    batch: int | None,
    rules: Sequence[tuple[str, str]] = (),
) -> ModelFacts:
    """Facts of the model in a file, in normal form, at the largest size of every range."""
    source = model_format(path)
    file = source.facts(path)
    found = reading(source, path, bind)

    def ready(graph: OpGraph) -> OpGraph:
        graph = annotated(graph, rules)
        return normalise(graph if batch is None else with_batch(graph, batch))

    graph = ready(found.graph)
    check_annotations(graph)
    told = formulas(found, lambda graph: _numbers(ready(graph)))
    texts = _open_texts(file, graph, found.sizes, told)
    flops = {op.name: lookup(op.kind).flops(OpView(op, graph)) for op in graph.ops}
    parameters = graph.parameters
    dtypes: Counter[str] = Counter()
    for tensor in parameters:
        dtypes[tensor.dtype] += tensor.elements
    return ModelFacts(
        name=graph.name,
        digest="" if found.sizes else canonical_digest(graph),
        file={"producer": file.producer, "opsets": dict(file.opsets), "nodes": file.nodes},
        inputs={n: (graph.tensors[n].dtype, _dims(graph, n, texts)) for n in graph.inputs},
        sizes=_deciding(found.sizes, texts),
        formulas={name: text for name, text in told.items() if name in _NUMBERS},
        batch=graph.batch or find_batch(graph),
        dynamic_dims=_dynamic_dims(file, graph, bind, texts),
        operators=len(graph.ops),
        kinds=_kinds(graph, flops),
        composites=dict(Counter(op.label for op in graph.ops if op.parts).most_common()),
        unknown=_unknown(graph),
        given_rules=dict(given_rules(graph)),
        parameters=len(parameters),
        parameter_elements=sum(t.elements for t in parameters),
        parameter_bytes=sum(t.nbytes for t in parameters),
        parameter_dtypes=dict(dtypes.most_common()),
        forward_flops=sum(flops.values()),
        activation_bytes=_activation_bytes(graph),
        blocks=_blocks(graph),
        notes=graph.notes,
    )


_NUMBERS = ("forward_flops", "activation_bytes")


def _numbers(graph: OpGraph) -> dict[str, int]:
    """What depends on open sizes: totals, and the dims of inputs by name and axis."""
    flops = sum(lookup(op.kind).flops(OpView(op, graph)) for op in graph.ops)
    totals = dict(zip(_NUMBERS, (flops, _activation_bytes(graph)), strict=True))
    dims = {_place(n, a): d for n in graph.inputs for a, d in enumerate(graph.tensors[n].dims)}
    return {**{name: value for name, value in totals.items() if value is not None}, **dims}


def _place(tensor: str, axis: int) -> str:
    return f"{tensor}[{axis}]"


def _open_texts(
    file: FileFacts, graph: OpGraph, unbound: Mapping[str, int], told: Mapping[str, str]
) -> dict[str, str]:
    """What is written for a dimension of an input that is open: a formula, or the file's name."""
    named = {
        _place(d.tensor, d.axis): d.name
        for d in file.open_dims
        if bindable(d.name) & unbound.keys()
    }
    sizes = _numbers(graph) if unbound else {}
    found = {**named, **{place: told[place].removeprefix("1*") for place in told if "[" in place}}
    return {place: text for place, text in found.items() if text != str(sizes.get(place))}


def _deciding(sizes: Mapping[str, int], texts: Mapping[str, str]) -> dict[str, int]:
    """Those sizes that some input still has: another batch may have replaced one."""
    names = {name for text in texts.values() for name in re.split(r"[-*+^() ]+", text)}
    return {name: size for name, size in sizes.items() if name in names}


def _dims(graph: OpGraph, name: str, texts: Mapping[str, str]) -> tuple[int | str, ...]:
    return tuple(texts.get(_place(name, a), d) for a, d in enumerate(graph.tensors[name].dims))


def _dynamic_dims(
    file: FileFacts, graph: OpGraph, bind: Binding, texts: Mapping[str, str]
) -> tuple[DynamicDim, ...]:
    out: list[DynamicDim] = []
    for dim in file.open_dims:
        known = graph.tensors.get(dim.tensor)
        bound, size = bind.get(dim.name), None
        if _place(dim.tensor, dim.axis) in texts:
            pass
        elif known and dim.axis < len(known.dims):
            size = known.dims[dim.axis]
        elif bound is not None:
            size = bound.value if isinstance(bound, Symbol) else bound
        sizes = str(bound) if isinstance(bound, Symbol) else ""
        out.append(DynamicDim(dim.tensor, dim.axis, dim.name, size, sizes))
    return tuple(out)


def _kinds(graph: OpGraph, flops: Mapping[str, int]) -> tuple[KindFacts, ...]:
    counts: Counter[str] = Counter()
    work: Counter[str] = Counter()
    for op in graph.ops:
        counts[op.label] += 1
        work[op.label] += flops[op.name]
    found = [KindFacts(kind, count, work[kind]) for kind, count in counts.items()]
    return tuple(sorted(found, key=lambda k: (-k.flops, -k.count, k.kind)))


def _unknown(graph: OpGraph) -> tuple[UnknownFacts, ...]:
    names: dict[str, list[str]] = {}
    for op in graph.ops:
        if not is_described(op):
            names.setdefault(op.kind, []).append(op.name)
    return tuple(UnknownFacts(kind, len(found), found[0]) for kind, found in names.items())


def _activation_bytes(graph: OpGraph) -> int | None:
    if graph.is_training_step:
        return None
    liveness = analyse(add_ends(graph, training=True), training=True)
    tensors = liveness.graph.tensors
    kept = [tensors[n] for n in liveness.saved_by if tensors[n].role is Role.ACTIVATION]
    return sum(t.nbytes for t in kept)


def _blocks(graph: OpGraph) -> tuple[BlockFacts, ...]:
    """Operators and parameters by module, the number of the first numbered module folded."""
    prefix = common_scope(op.scope for op in graph.ops)
    members: dict[str, set[str]] = {}
    operators: Counter[str] = Counter()
    elements: Counter[str] = Counter()
    counted: set[str] = set()
    for op in graph.ops:
        module, block = _block(op, prefix)
        members.setdefault(block, set()).add(module)
        operators[block] += 1
        for name in op.inputs:
            if name and name not in counted and graph.tensors[name].role is Role.PARAMETER:
                counted.add(name)
                elements[block] += math.prod(graph.tensors[name].dims)
    return tuple(
        BlockFacts(
            block if len(modules) > 1 else min(modules),
            len(modules),
            operators[block],
            elements[block],
        )
        for block, modules in members.items()
    )


def _block(op: Op, prefix: str) -> tuple[str, str]:
    """The module that an operator belongs to, and the name that this shares with its equals."""
    if not op.scope:
        return TOP, TOP
    parts = op.scope.removeprefix(prefix).split(".")
    number = next((i for i, part in enumerate(parts) if part.isdigit()), None)
    if number is not None:
        return ".".join(parts[: number + 1]), ".".join([*parts[:number], "*"])
    module = ".".join(parts[:2])
    return module, re.sub(r"\d+$", "*", module)
