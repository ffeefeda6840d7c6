"""The part of a plan that a target of named axes can be told: a mesh, and a layout for each tensor.

Shared by the JAX and torch forms, which only write a layout differently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from exporters.python_tables import table
from ir.graph import Tensor
from ir.layout import Layout
from ir.plan import NamedLayout, Plan
from ir.plan_stages import tier_names
from ir.violations import Violation

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of the mesh."""

    name: str
    size: int
    tier: int
    """Level of the machine that it lies in, 0 = outermost."""
    tier_name: str


@dataclass(frozen=True, slots=True)
class ShardedTensor:
    """A tensor with its layout."""

    name: str
    dims: tuple[int, ...]
    dtype: str
    layout: NamedLayout | None
    """None where the plan gives it none."""


@dataclass(frozen=True, slots=True)
class ShardedParameter:
    """A parameter as the plan names and orients it."""

    name: str
    dims: tuple[int, ...]
    dtype: str
    rest: NamedLayout
    """Between its uses."""
    used: NamedLayout | None
    """In the first operator that reads it; None if none does."""
    source: str = ""
    """Its name in the model file if that is another."""
    permutation: tuple[int, ...] = ()
    """Dimension i here is dimension `permutation[i]` in the model file; empty if they are equal."""
    states: NamedLayout | None = None
    """Of its optimizer state, where that is cut further than the parameter at rest."""

    @property
    def file_name(self) -> str:
        return self.source or self.name


@dataclass(frozen=True, slots=True)
class ShardedNode:
    """A tensor whose layout is a decision of its own: an input, or one that several read."""

    role: str
    tensor: ShardedTensor


@dataclass(frozen=True, slots=True)
class ShardedOperator:
    """Layouts around one operator."""

    name: str
    kind: str
    scope: str
    operands: tuple[NamedLayout | None, ...]
    results: tuple[ShardedTensor, ...]
    """What it makes, as it makes it."""


@dataclass(frozen=True, slots=True)
class Sharding:
    """All layouts of a plan."""

    model: str
    mesh: tuple[Axis, ...]
    """Outermost first."""
    rank_order: tuple[int, ...]
    """Device of each rank; ranks fill the mesh row-major."""
    parameters: tuple[ShardedParameter, ...]
    nodes: tuple[ShardedNode, ...]
    operators: tuple[ShardedOperator, ...]

    @property
    def sizes(self) -> dict[str, int]:
        return {axis.name: axis.size for axis in self.mesh}

    def layouts(self) -> Iterator[tuple[str, tuple[int, ...], NamedLayout]]:
        """Every layout of a tensor that has a name, with where it stands and its dims."""
        for each in self.parameters:
            yield f"parameter {each.name!r}", each.dims, each.rest
            if each.used is not None:
                yield f"parameter {each.name!r} in use", each.dims, each.used
        for node in self.nodes:
            if node.tensor.layout is not None:
                yield f"{node.role} {node.tensor.name!r}", node.tensor.dims, node.tensor.layout
        for op in self.operators:
            for tensor in op.results:
                if tensor.layout is not None:
                    yield f"operator {op.name!r}", tensor.dims, tensor.layout


def sharding_of(plan: Plan) -> Sharding:
    """The layouts of a plan."""
    tensors = plan.graph.tensors
    tiers = tier_names(plan)
    mesh = tuple(Axis(n, s, t, tiers[t] if t < len(tiers) else "") for n, s, t in plan.mesh)
    parameters = (
        ShardedParameter(
            planned.name,
            planned.dims,
            planned.dtype,
            planned.layout,
            planned.used,
            tensors[planned.name].source if tensors[planned.name].source != planned.name else "",
            _permutation(tensors[planned.name]),
            planned.states,
        )
        for planned in plan.parameters
    )
    nodes = (
        ShardedNode(t.role, ShardedTensor(t.name, t.dims, t.dtype, t.layout))
        for t in plan.tensors
        if t.role != "parameter"
    )
    operators = (
        ShardedOperator(
            op.name,
            op.kind,
            op.scope,
            op.inputs,
            tuple(
                ShardedTensor(name, tensors[name].dims, tensors[name].dtype, layout)
                for name, layout in zip(node.outputs, op.outputs, strict=True)
                if name
            ),
        )
        for op, node in zip(plan.operators, plan.graph.ops, strict=True)
    )
    return Sharding(
        plan.graph.name, mesh, plan.rank_order, tuple(parameters), tuple(nodes), tuple(operators)
    )


def _permutation(tensor: Tensor) -> tuple[int, ...]:
    order = tensor.stored_permutation
    return () if order == tuple(range(len(order))) else order


def as_filed(layout: NamedLayout, permutation: Sequence[int]) -> NamedLayout:
    """A layout with its dimensions in the order of the model file.

    >>> str(as_filed(NamedLayout((("card",), (), ())), (2, 0, 1)))
    '[-, -, card]'
    """
    return NamedLayout(in_file_order(layout.dims, permutation), layout.partial)


def as_planned(layout: NamedLayout, permutation: Sequence[int]) -> NamedLayout:
    """The inverse of `as_filed`."""
    return as_filed(layout, inverse(permutation))


def inverse(permutation: Sequence[int]) -> tuple[int, ...]:
    """The permutation that undoes another."""
    return tuple(permutation.index(i) for i in range(len(permutation)))


def in_file_order(values: Sequence[_T], permutation: Sequence[int]) -> tuple[_T, ...]:
    """One value for each dimension, in the order of the model file."""
    if not permutation:
        return tuple(values)
    return tuple(values[i] for i in inverse(permutation))


def numbered(layout: NamedLayout, numbers: Mapping[str, int]) -> Layout:
    """A layout with the numbers of its axes."""
    dims = tuple(tuple(numbers[a] for a in axes) for axes in layout.dims)
    return Layout(dims, tuple(numbers[a] for a in layout.partial))


def is_uneven(layout: NamedLayout, dims: Sequence[int], sizes: Mapping[str, int]) -> bool:
    """Whether some shards are smaller than others."""
    return any(dim % n for dim, n in zip(dims, layout.shards(sizes), strict=True))


def uneven_violations(sharding: Sharding, target: str, fix: str) -> Iterator[Violation]:
    """Shards of unequal size, for a target that has none."""
    sizes = sharding.sizes
    for place, dims, layout in sharding.layouts():
        if is_uneven(layout, dims, sizes):
            shape = "x".join(str(d) for d in dims)
            yield Violation(
                f"{target} has no shards of unequal size, as {layout} of {shape} needs", place, fix
            )


def module_tables(sharding: Sharding, encode: Callable[[NamedLayout], object]) -> dict[str, str]:
    """Literals of a generated module: layouts of parameters at rest and as used, if that is
    another, and those of inputs and of tensors that several read.

    Args:
        sharding: of one stage.
        encode: how the target writes a layout.
    """
    rest: dict[object, object] = {}
    used: dict[object, object] = {}
    for each in sharding.parameters:
        filed = encode(as_filed(each.rest, each.permutation))
        if rest.setdefault(each.file_name, filed) != filed or each.used is None:
            continue
        in_use = encode(as_filed(each.used, each.permutation))
        if in_use != filed:
            used.setdefault(each.file_name, in_use)
    inputs: dict[object, object] = {}
    shared: dict[object, object] = {}
    for node in sharding.nodes:
        if node.tensor.layout:
            found = inputs if node.role == "input" else shared
            found[node.tensor.name] = encode(node.tensor.layout)
    tables = {"parameters": rest, "used": used, "inputs": inputs, "shared": shared}
    return {name: table(entries) for name, entries in tables.items()}


def operand_layouts(sharding: Sharding) -> Iterator[tuple[tuple[str, int], NamedLayout]]:
    """Layouts in which operators read what has dimensions, by operator and place."""
    for op in sharding.operators:
        for index, layout in enumerate(op.operands):
            if layout is not None and layout.dims:
                yield (op.name, index), layout


def result_layouts(sharding: Sharding) -> Iterator[tuple[str, NamedLayout]]:
    """Layouts of what operators make, by tensor."""
    for op in sharding.operators:
        for tensor in op.results:
            if tensor.layout is not None:
                yield tensor.name, tensor.layout


def name_losses(sharding: Sharding) -> Iterator[str]:
    """Parameters of the plan that the model file holds under one name."""
    first: dict[str, ShardedParameter] = {}
    for each in sharding.parameters:
        before = first.setdefault(each.file_name, each)
        if before is not each:
            yield (
                f"parameter {each.file_name!r} of the model file is {before.name!r} and "
                f"{each.name!r} in the plan; the module lays it out as the first"
            )


def recompute_losses(plan: Plan, wrapper: str) -> Iterator[str]:
    """What is computed again, for a target whose model says so itself."""
    if plan.recomputed:
        tensors = counted([repr(name) for name in plan.recomputed], "tensors")
        yield f"the backward pass computes {tensors} again: wrap their layers in {wrapper}"


def counted(names: Sequence[str], noun: str, most: int = 3) -> str:
    """How many things there are, and the first of them.

    >>> counted(["a", "b", "c", "d"], "tensors"), counted(["a"], "tensors")
    ('4 tensors (a, b, c, ...)', '1 tensor (a)')
    """
    shown = ", ".join(names[:most])
    plural = noun if len(names) != 1 else noun.removesuffix("s")
    return f"{len(names)} {plural} ({shown}{', ...' if len(names) > most else ''})"
