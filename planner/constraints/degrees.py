"""Degrees of parallelism as engineers name them: `tp=8`, `dp=2`, `zero3`; what each leaves."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from ir.factor_roles import batch_factors, batch_places, expert_factors, weight_factors
from ir.graph import Op, OpGraph, Role
from ir.ops.experts import slot_tensors
from planner.candidates.columns import BoolArray
from planner.lowering.lowered import Lowered, Node, NodeKind, narrowed
from planner.reduction.restriction import IndexArray
from planner.request import RequestError
from topology.mesh import Mesh

Degrees = Sequence[tuple[str, int]]

MEANING: Mapping[str, str] = MappingProxyType(
    {
        "tp": "weights of matrix products are cut so many ways in use",
        "dp": "the batch is cut so many ways in every operator",
        "ep": "routed experts are spread over so many devices in their products",
        "zero3": "weights at rest are cut over as many devices as they can be",
        "cp": "attention cuts the tokens of its queries so many ways",
        "pp": "stages of the pipeline",
        "mb": "samples of a micro-batch",
    }
)
"""Known degrees and what they ask."""


def parse_degrees(text: str, where: str) -> tuple[tuple[str, int], ...]:
    """Degrees from text such as `tp=8,dp=2` or `dp=16,zero3`.

    >>> parse_degrees("tp=8, zero3", "--why-not")
    (('tp', 8), ('zero3', 1))

    Raises:
        RequestError: a name is unknown, given twice, or its number is none.
    """
    out: dict[str, int] = {}
    for part in text.split(","):
        name, equals, number = (each.strip() for each in part.partition("="))
        fix = f"write them like tp=8,dp=2 or dp=16,zero3; known: {', '.join(MEANING)}"
        if name not in MEANING or name in out:
            what = f"{name!r} is given twice" if name in out else f"there is no degree {name!r}"
            raise RequestError(f"{what}\n  at:  {where} {text}\n  fix: {fix}")
        is_number = number.isascii() and number.isdecimal() and 0 < int(number) < 1_000_000
        plain = name == "zero3"
        fine = not equals or number == "1" if plain else bool(equals) and is_number
        if not fine:
            raise RequestError(
                f"{part.strip()!r} is no degree\n  at:  {where} {text}\n  fix: {fix}"
            )
        out[name] = int(number) if equals else 1
    return tuple(out.items())


def degrees_text(degrees: Degrees) -> str:
    """As they are written.

    >>> degrees_text([("tp", 8), ("zero3", 1)])
    'tp=8,zero3'
    """
    return ",".join(name if name == "zero3" else f"{name}={number}" for name, number in degrees)


def meshes_with(degrees: Degrees, meshes: Sequence[Mesh]) -> tuple[Mesh, ...]:
    """The meshes whose axes can be shared out so.

    Raises:
        RequestError: there is none.
    """
    asked = dict(degrees)
    fine = tuple(
        m for m in meshes
        if _can_share(m.sizes, asked.get("tp"), asked.get("dp"))
        and _can_share(m.sizes, asked.get("ep"), None)
    )  # fmt: skip
    if not fine:
        counts = sorted({math.prod(p) for m in meshes for p in _parts(m.sizes)})
        raise RequestError(
            f"no mesh of {meshes[0].size} devices has the degrees {degrees_text(degrees)}\n"
            f"  at:  {degrees_text(degrees)}\n"
            f"  fix: use products of axes: {', '.join(map(str, counts))}"
        )
    return fine


def _can_share(sizes: Sequence[int], tp: int | None, dp: int | None) -> bool:
    places = range(len(sizes))
    groups = [set(c) for n in range(len(sizes) + 1) for c in itertools.combinations(places, n)]

    def fitting(degree: int | None) -> list[set[int]]:
        if degree is None:
            return [set()]
        return [g for g in groups if math.prod(sizes[i] for i in g) == degree]

    return any(not a & b for a in fitting(tp) for b in fitting(dp))


def _parts(sizes: Sequence[int]) -> list[tuple[int, ...]]:
    counts = range(len(sizes) + 1)
    return [part for n in counts for part in itertools.combinations(sizes, n)]


@dataclass(frozen=True, slots=True, eq=False)
class Followed:
    """What a degree leaves to the nodes of a problem."""

    name: str
    degree: int
    allowed: Mapping[int, IndexArray]
    """Nodes that it concerns, with the candidates that follow it."""
    free: tuple[str, ...]
    """Operators or parameters that it concerns, but that have no such candidate."""

    @property
    def text(self) -> str:
        return degrees_text([(self.name, self.degree)])


def followed(
    lowered: Lowered, degrees: Degrees, scope: str = "", where: Mapping[str, int] | None = None
) -> tuple[Followed, ...]:
    """What each degree leaves.

    Args:
        lowered: the problem.
        degrees: what is asked.
        scope: the part of the model that they are for, such as `layers.3`; empty for all.
        where: the dimension of tensors that is the batch, where the graph alone does not say.

    Raises:
        RequestError: nothing there can follow a degree.
    """
    found = _Following(lowered, scope, where, spread=any(name == "ep" for name, _ in degrees))
    return tuple(found.of(name, degree) for name, degree in degrees)


def following(
    lowered: Lowered, degrees: Degrees, scope: str = "", where: Mapping[str, int] | None = None
) -> Lowered:
    """The problem with the candidates that follow the degrees, which `followed` takes so too."""
    if not degrees:
        return lowered
    allowed: dict[int, IndexArray] = {}
    experts_first = sorted(degrees, key=lambda degree: degree[0] != "ep")
    for each in followed(lowered, experts_first, scope, where):
        for node, own in each.allowed.items():
            both = np.intersect1d(allowed.get(node, own), own)
            # One candidate may not have all degrees at once; then the first one holds.
            allowed[node] = both if len(both) else allowed[node]
    return narrowed(lowered, allowed)


def is_within(name: str, scope: str) -> bool:
    """Whether a name or scope lies in a part of the model.

    >>> is_within("model.layers.3.mlp", "layers.3"), is_within("layers.31.mlp", "layers.3")
    (True, False)
    """
    text = f".{name.replace('/', '.')}."
    return f".{scope.replace('/', '.')}." in text


def is_part_of(op: Op, graph: OpGraph, scope: str) -> bool:
    """Whether an operator lies in a part of the model, by its name, its scope or its weights."""
    weights = (n for n in op.inputs if n and graph.tensors[n].role is Role.PARAMETER)
    return any(is_within(name, scope) for name in (op.name, op.scope, *weights))


class _Following:
    def __init__(
        self, lowered: Lowered, scope: str, where: Mapping[str, int] | None, *, spread: bool
    ) -> None:
        self.scope = scope
        self.lowered, self.graph = lowered, lowered.liveness.graph
        self.sizes = lowered.setting.mesh.sizes
        self.ops = {op.name: op for op in self.graph.ops}
        self._known: dict[tuple[object, ...], BoolArray] = {}
        self.where = self.graph.once("batch places", batch_places) if where is None else where
        self.slots = self.graph.once("slots", slot_tensors) if spread else frozenset()
        """Tensors that experts work on, where the degrees say over how many devices these are
        spread: there `ep` of the axes of `dp` or `tp` split experts."""

    def of(self, name: str, degree: int) -> Followed:
        kind = NodeKind.PARAMETER if name == "zero3" else NodeKind.OPERATOR
        tests: Mapping[str, Callable[[Node, int], IndexArray | None]] = {
            "tp": self._tensor_parallel, "dp": self._data_parallel, "ep": self._expert_parallel,
            "zero3": self._at_rest,
        }  # fmt: skip
        if name not in tests:
            raise RequestError(
                f"{name}={degree} cuts a step, which as one batch has no stages and micro-batches\n"
                f"  at:  {name}={degree}\n  fix: search with --pipeline auto"
            )
        allowed: dict[int, IndexArray] = {}
        free: list[str] = []
        for number, node in enumerate(self.lowered.nodes):
            concerned = node.kind is kind and self._is_within(node)
            found = tests[name](node, degree) if concerned else None
            if found is not None and len(found):
                allowed[number] = found
            elif found is not None:
                free.append(node.name)
        if not allowed and (free or name != "zero3"):
            raise RequestError(
                f"nothing in the model can have {degrees_text([(name, degree)])}: "
                f"{MEANING[name]}\n  at:  {degrees_text([(name, degree)])}\n"
                "  fix: choose a degree that divides the sizes, such as a smaller one"
            )
        return Followed(name, degree, allowed, tuple(free))

    def _is_within(self, node: Node) -> bool:
        if not self.scope:
            return True
        op = self.ops.get(node.name)
        if is_within(node.name, self.scope):
            return True
        return op is not None and is_part_of(op, self.graph, self.scope)

    def _tensor_parallel(self, node: Node, degree: int) -> IndexArray | None:
        op = self.ops[node.name]
        factors = weight_factors(op, self.graph)
        return self._cut(node, factors - self._experts(op), degree, "tp")

    def _data_parallel(self, node: Node, degree: int) -> IndexArray | None:
        op = self.ops[node.name]
        factors = batch_factors(op, self.graph, self.where)
        return self._cut(node, factors and factors | self._experts(op), degree, "dp")

    def _expert_parallel(self, node: Node, degree: int) -> IndexArray | None:
        return self._cut(node, self._experts(self.ops[node.name]), degree, "ep")

    def _experts(self, op: Op) -> frozenset[int]:
        """The factor that tells experts apart, of an operator between the exchanges of tokens."""
        if self.slots.isdisjoint(op.inputs) or not self.slots.issuperset(op.outputs):
            return frozenset()
        return expert_factors(op, self.graph, self.slots)

    def _cut(
        self, node: Node, factors: frozenset[int], degree: int, name: str
    ) -> IndexArray | None:
        """Candidates whose axes on some factors have the degree; None without such factors."""
        if not factors or node.candidates is None:
            return None
        key = (id(node.candidates), factors, degree, name)
        if key not in self._known:
            pieces = (
                math.prod(s for s, f in zip(self.sizes, split, strict=True) if f in factors)
                for split in node.candidates.assignments
            )
            self._known[key] = np.array([own == degree for own in pieces], dtype=np.bool_)
        return node.columns.having(self._known[key])

    def _at_rest(self, node: Node, _: int) -> IndexArray | None:
        table = node.layouts
        if table is None:
            return None
        pieces = [math.prod(state.forward.shards(self.sizes)) for state in table.states]
        of = np.array(pieces, dtype=np.intp)[table.of[node.columns.assignment]]
        return np.flatnonzero(of == of.max()) if of.max() > 1 else np.array([], dtype=np.intp)
