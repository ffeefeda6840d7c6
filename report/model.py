"""A model in numbers: operators by kind, parameters, equal modules, what is open or unknown."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from ir.folding import common_scope
from ir.graph import OpGraph, Role
from ir.ops import is_described

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


def kind_facts(graph: OpGraph, flops: Mapping[str, int]) -> tuple[KindFacts, ...]:
    """Operators by what they are called, the most arithmetic first."""
    counts: Counter[str] = Counter()
    work: Counter[str] = Counter()
    for op in graph.ops:
        counts[op.label] += 1
        work[op.label] += flops[op.name]
    found = [KindFacts(kind, count, work[kind]) for kind, count in counts.items()]
    return tuple(sorted(found, key=lambda k: (-k.flops, -k.count, k.kind)))


def unknown_facts(graph: OpGraph) -> tuple[UnknownFacts, ...]:
    """Kinds without a rule."""
    names: dict[str, list[str]] = {}
    for op in graph.ops:
        if not is_described(op):
            names.setdefault(op.kind, []).append(op.name)
    return tuple(UnknownFacts(kind, len(found), found[0]) for kind, found in names.items())


def block_facts(graph: OpGraph) -> tuple[BlockFacts, ...]:
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
