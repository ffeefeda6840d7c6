"""What `planner inspect` finds out about a model."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from importers.facts import FileFacts
from importers.model_file import model_format
from importers.onnx_dimensions import bindable
from importers.open_sizes import formulas, reading
from ir.batch import find_batch, with_batch
from ir.canonical import canonical_digest
from ir.graph import OpGraph, Role
from ir.normalise import add_ends, normalise
from ir.ops import OpView, lookup
from ir.symbols import Binding, Symbol
from planner.constraints.operator_rules import annotated, check_annotations, given_rules
from planner.lowering.liveness import analyse
from report.model import DynamicDim, ModelFacts, block_facts, kind_facts, unknown_facts


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
        kinds=kind_facts(graph, flops),
        composites=dict(Counter(op.label for op in graph.ops if op.parts).most_common()),
        unknown=unknown_facts(graph),
        given_rules=dict(given_rules(graph)),
        parameters=len(parameters),
        parameter_elements=sum(t.elements for t in parameters),
        parameter_bytes=sum(t.nbytes for t in parameters),
        parameter_dtypes=dict(dtypes.most_common()),
        forward_flops=sum(flops.values()),
        activation_bytes=_activation_bytes(graph),
        blocks=block_facts(graph),
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


def _activation_bytes(graph: OpGraph) -> int | None:
    if graph.is_training_step:
        return None
    liveness = analyse(add_ends(graph, training=True), training=True)
    tensors = liveness.graph.tensors
    kept = [tensors[n] for n in liveness.saved_by if tensors[n].role is Role.ACTIVATION]
    return sum(t.nbytes for t in kept)
