"""What the sizes of a network amount to."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from ir.graph import OpGraph
from ir.normalise import main_dtype, normalise
from ir.ops import EXPERT_MATMUL, OpView, lookup
from report.tables import Head, Lines, Part, Table, numbers
from topology.units import format_bytes, format_flops


@dataclass(frozen=True, slots=True)
class SizeFacts:
    """A network in numbers."""

    name: str
    parameters: int
    parameters_per_token: int
    """Without the experts that a token is not sent to."""
    parameter_bytes: int
    dtype: str
    inputs: Mapping[str, tuple[int, ...]]
    """Dims by name, at batch 1."""
    forward_flops: int
    """Of one sample of these dims."""
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, object]:
        return asdict(self)


def size_facts(graph: OpGraph, name: str) -> SizeFacts:
    """The facts of a network as it was imported, at one sample."""
    ready = normalise(graph)
    parameters = sum(t.elements for t in graph.parameters)
    return SizeFacts(
        name=name,
        parameters=parameters,
        parameters_per_token=parameters - _idle(ready),
        parameter_bytes=sum(t.nbytes for t in graph.parameters),
        dtype=main_dtype(graph),
        inputs={n: graph.tensors[n].dims for n in graph.inputs},
        forward_flops=sum(lookup(op.kind).flops(OpView(op, ready)) for op in ready.ops),
        notes=graph.notes,
    )


def parts(facts: SizeFacts, config: Mapping[str, object], output: Path | None) -> Iterator[Part]:
    """What the sizes amount to, and the sizes."""
    lines = [f"input       {name} {'x'.join(map(str, d))}" for name, d in facts.inputs.items()]
    passed = facts.parameters_per_token
    share = "" if passed == facts.parameters else f", {passed:,} of them for a token"
    size = format_bytes(facts.parameter_bytes)
    lines.append(f"parameters  {facts.parameters:,}{share}, {size} ({facts.dtype})")
    flops = format_flops(facts.forward_flops).removesuffix("/s")
    lines.append(f"forward     {flops}, batch 1")
    yield Head(facts.name, lines)
    rows = [(field, str(value)) for field, value in config.items()]
    yield Table.of("Sizes", ("field of config.json", *numbers("value")), rows)
    yield Lines("Notes", facts.notes, "- ")
    if output is not None:
        yield Lines("", (f"\nwrote {output}",))


def _idle(graph: OpGraph) -> int:
    """Elements of the experts that a token passes by."""
    idle = 0
    tokens = graph.tensors[graph.inputs[0]].elements
    for op in graph.ops:
        if op.kind == EXPERT_MATMUL:
            view = OpView(op, graph)
            weight, slots = view.dims(1), math.prod(view.dims(0)[:2])
            taken = min(weight[0], -(-slots // tokens))
            idle += math.prod(weight) // weight[0] * (weight[0] - taken)
    return idle
