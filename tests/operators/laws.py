"""Splitting an operator changes nothing: every example, on every mesh, under every candidate."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from executors.algorithms import ALGORITHMS
from executors.evaluation import Differentiable, Evaluator
from executors.exchange import Communication
from executors.gradients import run_backward
from executors.placement import Array, Spread, difference, disagreement, spread, whole
from executors.splits import Assignment, result_layouts, split_dims
from executors.spmd import Around, OperatorRun, Runner, run_operator
from ir.dialects import FREE, MINDSPORE
from ir.layout import Layout
from ir.ops import lookup
from ir.rule import FactorMap, ShardingRule, edge_elements
from planner.candidates.offers import Offers
from tests.operators.example import Draw, Example
from tests.operators.onnx_reference import OnnxReference, reference_has
from topology.mesh import Mesh, MeshAxis

MESHES = tuple(
    Mesh(tuple(MeshAxis(f"a{i}", size, 0) for i, size in enumerate(sizes)))
    for sizes in ((2,), (2, 2), (2, 3), (2, 2, 2))
)
ONE = Mesh((MeshAxis("a0", 1, 0),))
TOLERANCE = 1e-9


@dataclass
class Coverage:
    """Factors that were split, of those that may be."""

    split: set[int] = field(default_factory=set)
    possible: set[int] = field(default_factory=set)


@dataclass(frozen=True)
class Case:
    """An example under one assignment of mesh axes."""

    example: Example
    mesh: Mesh
    assignment: Assignment

    @property
    def rule(self) -> ShardingRule:
        return self.example.rule

    def __str__(self) -> str:
        return f"{self.example} at {self.assignment} on {self.mesh.sizes}"

    def operands(self) -> list[Spread | None]:
        """Operands cut as the rule says."""
        return [
            None if array is None else self.cut(array, mapping)
            for array, mapping in zip(self.example.operands, self.rule.operands, strict=True)
        ]

    def cut(self, array: Array, mapping: FactorMap | None) -> Spread:
        dims = (
            ((),) * array.ndim
            if mapping is None
            else split_dims(self.rule, mapping, self.assignment, self.mesh.sizes)
        )
        return spread(array, Layout(dims), self.mesh)

    def forward(self, runner: Runner) -> tuple[list[Array], OperatorRun]:
        """Whole results; devices that hold the same must agree."""
        op, graph = self.example.op, self.example.graph
        found, task = run_operator(
            op, graph, self.operands(), self.assignment, runner, ALGORITHMS, Around(self.mesh)
        )
        return [self._agreed(tensor) for tensor in found], task

    def backward(
        self, gradients: Sequence[Array | None], wanted: Sequence[int]
    ) -> tuple[list[Array], OperatorRun]:
        """Whole gradients of some operands."""
        op, graph = self.example.op, self.example.graph
        layouts = result_layouts(self.rule, self.assignment, self.mesh.sizes)
        cut = [
            None if g is None else spread(g, Layout(layout.dims), self.mesh)
            for g, layout in zip(gradients, layouts, strict=True)
        ]
        _, found, task = run_backward(
            op, graph, self.operands(), self.assignment, cut, wanted, ALGORITHMS
        )
        return [self._agreed(tensor) for tensor in found], task

    def _agreed(self, tensor: Spread) -> Array:
        assert disagreement(tensor) <= 10 * TOLERANCE, f"{self}: copies differ"
        return whole(tensor)


def check_example(example: Example, draw: Draw, most: int, coverage: Coverage) -> None:
    """Up to `most` candidates of each mesh: results, gradients and messages inside."""
    alone = Case(example, ONE, (-1,))
    coverage.possible.update(example.rule.splittable)
    wanted, _ = alone.forward(Evaluator())
    if reference_has(example.op.kind):
        same, _ = alone.forward(OnnxReference())
        _check_equal(same, wanted, f"{alone}: by ONNX's reference")
    operands = differentiable(example)
    seeds = [_seed(draw, array) for array in wanted]
    gradients: list[Array] = []
    if operands:
        same, _ = alone.forward(Differentiable())
        _check_equal(same, wanted, f"{alone}: as differentiated")
        gradients, _ = alone.backward(seeds, operands)
    for case in cases(example, draw, most):
        coverage.split.update(f for f in case.assignment if f >= 0)
        found, task = case.forward(Evaluator())
        _check_equal(found, wanted, str(case))
        _check_messages(case, task.log, backward=False)
        if operands:
            back, task = case.backward(seeds, operands)
            _check_equal(back, gradients, f"gradients of {case}")
            _check_messages(case, list(task.backward_log.values()), backward=True)


def differentiable(example: Example) -> list[int]:
    """Floating operands that can have a gradient."""
    allowed = lookup(example.op.kind).differentiable
    return [
        i
        for i, array in enumerate(example.operands)
        if array is not None and array.dtype.kind == "f" and (allowed is None or i in allowed)
    ]


def _seed(draw: Draw, array: Array) -> Array | None:
    if array.dtype.kind != "f":
        return None
    return np.random.default_rng(draw.randrange(1 << 30)).uniform(-1, 1, array.shape)


def _check_equal(found: Sequence[Array], wanted: Sequence[Array], what: str) -> None:
    for place, (one, other) in enumerate(zip(found, wanted, strict=True)):
        size = float(np.abs(other[np.isfinite(other)]).max(initial=1.0)) if other.size else 1.0
        gap = difference(one, other)
        assert gap <= TOLERANCE * max(1.0, size), f"{what}: number {place} differs by {gap}"


def _check_messages(case: Case, sent: Sequence[Communication], *, backward: bool) -> None:
    """What is sent inside is what the rule says: kind, axes, bytes, how often."""
    rule, sizes, expected = case.rule, case.mesh.sizes, Counter[Communication]()
    shards = {
        f: math.prod(sizes[a] for a, g in enumerate(case.assignment) if g == f)
        for f in range(len(rule.sizes))
    }
    for item in rule.internal:
        axes = tuple(a for a, f in enumerate(case.assignment) if f in item.factors)
        count = item.backward if backward else item.forward
        if axes and count:
            elements = math.prod(-(-rule.sizes[f] // shards[f]) for f in item.message)
            nbytes = int(elements * item.bytes_per_element)
            expected[Communication("all_reduce", axes, nbytes)] += count
    for window, elements in zip(
        rule.windows, edge_elements(rule.windows, rule.sizes, shards), strict=True
    ):
        axes = tuple(a for a, f in enumerate(case.assignment) if f == window.factor)
        if elements:
            nbytes = int(elements * window.bytes_per_element)
            expected[Communication("point_to_point", axes, nbytes)] += 1
    assert Counter(sent) == expected, f"{case}: {'backward' if backward else 'forward'} messages"


def cases(example: Example, draw: Draw, most: int) -> Iterator[Case]:
    """What the targets may do with the operator, some of it where it is much."""
    entry = lookup(example.op.kind)
    rule = example.rule
    for mesh in MESHES:
        found: dict[Assignment, None] = {}
        for target in (FREE, MINDSPORE):
            dialect = replace(target, cut_positions=True)
            chosen, _ = Offers(dialect, mesh).assignments(rule, entry, gradient=False)
            found.update(dict.fromkeys(chosen))
        every = list(found)
        for assignment in draw.sample(every, min(most, len(every))):
            yield Case(example, mesh, assignment)
