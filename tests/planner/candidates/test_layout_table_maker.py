"""Ports of operators and of tensors: arrays and layouts say the same."""

from __future__ import annotations

import pytest

from ir.dialects import FREE, MINDSPORE, Dialect
from ir.graph import Role, Tensor
from ir.layout import Layout
from ir.ops import lookup
from ir.rule import FactorMap, ShardingRule, parse_rule
from planner.candidates.assignments import GRADIENT_PARTIAL, Assignment
from planner.candidates.layout_tables import LayoutTable, LayoutTableMaker, tensor_dims
from planner.candidates.offers import Offers
from planner.candidates.tensor_layouts import TensorLayouts
from topology.catalogue import named_cluster
from topology.mesh import Mesh, prime_mesh, tier_mesh

pytestmark = pytest.mark.fast

CLUSTER = named_cluster("atlas-800t-a2", 16)
ON_TIERS, ON_PRIMES = tier_mesh(CLUSTER), prime_mesh(CLUSTER, 6)
PRODUCT = parse_rule("m k, k n -> m n", [(64, 32), (32, 16)], [(64, 16)])
HEADS = parse_rule("b s (h=2 d) -> b s h d", [(8, 16, 32)], [(8, 16, 2, 16)])


def consistent(port: LayoutTable, mesh: Mesh) -> None:
    """Masks and pieces are those of the layouts."""
    for state, masks, pieces in zip(
        port.states, port.masks.tolist(), port.pieces(mesh.sizes).tolist(), strict=True
    ):
        assert tuple(pieces) == state.forward.shards(mesh.sizes)
        for layout, own in zip((state.forward, state.gradient), masks, strict=True):
            assert own == [sum(1 << a for a in axes) for axes in (*layout.dims, layout.partial)]


def axes_of(row: Assignment, factors: set[int]) -> tuple[int, ...]:
    return tuple(axis for axis, factor in enumerate(row) if factor in factors)


@pytest.mark.parametrize("rule", [PRODUCT, HEADS])
def test_ports_of_free_targets_keep_terms_of_sums(rule: ShardingRule) -> None:
    splits, _ = Offers(FREE, ON_TIERS).of(rule, lookup("Reshape"), gradient=True)
    maker, factors = LayoutTableMaker(partial_edges=True), set(range(len(rule.sizes)))
    operand, result = (m[0] for m in (rule.operands, rule.results))
    assert operand is not None
    assert result is not None
    summed = frozenset({1}) if rule is PRODUCT else frozenset()
    reads, makes = maker.operand(operand, splits), maker.result(result, splits, summed)
    lacking = factors - {f for dim in operand for f in dim} | {GRADIENT_PARTIAL}
    for row, read, made in zip(splits.rows, reads.of, makes.of, strict=True):
        own, dims = reads.states[read], tensor_dims(operand, row)
        assert (own.forward, own.gradient) == (Layout(dims), Layout(dims, axes_of(row, lacking)))
        own, dims = makes.states[made], tensor_dims(result, row)
        assert own.forward == Layout(dims, axes_of(row, set(summed)))
        assert own.gradient == Layout(dims, axes_of(row, {GRADIENT_PARTIAL}))
    for port in (reads, makes):
        assert len(set(port.states)) == len(port.states)
        consistent(port, ON_TIERS)


@pytest.mark.parametrize("mapping", [*HEADS.operands, *HEADS.results])
def test_ports_of_mindspore_have_whole_tensors(mapping: FactorMap) -> None:
    splits, _ = Offers(MINDSPORE, ON_PRIMES).of(HEADS, lookup("Reshape"), gradient=True)
    port = LayoutTableMaker(partial_edges=False).result(mapping, splits, frozenset({1}))
    for row, state in zip(splits.rows, port.of, strict=True):
        assert port.states[state].forward == Layout(tensor_dims(mapping, row))
        assert port.states[state].gradient is port.states[state].forward
    consistent(port, ON_PRIMES)


def test_operators_of_one_form_have_one_port() -> None:
    offers, maker = Offers(MINDSPORE, ON_PRIMES), LayoutTableMaker(partial_edges=False)
    wide = parse_rule("m k, k n -> m n", [(128, 64), (64, 1024)], [(128, 1024)])
    ports = []
    for rule in (PRODUCT, wide):
        splits, _ = offers.of(rule, lookup("MatMul"), gradient=True)
        assert rule.operands[0] is not None
        ports.append(maker.operand(rule.operands[0], splits))
    assert ports[0] is ports[1]


def test_a_parameter_of_mindspore_is_shared_where_copies_divide() -> None:
    splits, _ = Offers(MINDSPORE, ON_PRIMES).of(PRODUCT, lookup("MatMul"), gradient=True)
    maker = LayoutTableMaker(partial_edges=False)
    assert PRODUCT.operands[1] is not None
    read = maker.operand(PRODUCT.operands[1], splits)
    layouts = TensorLayouts(ON_PRIMES, MINDSPORE, maker)
    weight = Tensor("w", (32, 16), "float32", Role.PARAMETER)
    port = layouts.parameter(weight, [read])
    consistent(port, ON_PRIMES)
    used = [state.forward for state in port.states if state.forward is state.gradient]
    shared = [state for state in port.states if state.forward is not state.gradient]
    assert used == list(read.forward)
    full = len(ON_PRIMES.axes)
    assert [s.gradient for s in shared] == [x for x in used if len(x.split_axes) < full]
    for state in shared:
        assert state.forward.dims[1:] == state.gradient.dims[1:]
        assert state.forward.dims[0][: len(state.gradient.dims[0])] == state.gradient.dims[0]
        assert len(state.forward.split_axes) == full
    turned = Tensor("t", (32, 16), "float32", Role.PARAMETER, stored_permutation=(1, 0))
    small = Tensor("s", (4, 16), "float32", Role.PARAMETER)
    assert [s.forward for s in layouts.parameter(turned, [read]).states] == used
    assert all(
        s.forward.shards(ON_PRIMES.sizes)[0] <= 4
        for s in layouts.parameter(small, [read]).states
        if s.forward is not s.gradient
    )


@pytest.mark.parametrize(("dialect", "mesh"), [(FREE, ON_TIERS), (MINDSPORE, ON_PRIMES)])
def test_a_shared_tensor_has_what_its_neighbours_have(dialect: Dialect, mesh: Mesh) -> None:
    splits, _ = Offers(dialect, mesh).of(PRODUCT, lookup("MatMul"), gradient=True)
    maker = LayoutTableMaker(dialect.partial_edges)
    assert PRODUCT.operands[0] is not None
    read = maker.operand(PRODUCT.operands[0], splits)
    tensor = Tensor("x", (64, 32), "float32")
    layouts = TensorLayouts(mesh, dialect, maker)
    for gradient in (False, True):
        port = layouts.shared(tensor, [read], gradient=gradient)
        consistent(port, mesh)
        found = {(s.forward.dims, s.gradient.partial) for s in port.states}
        wanted = {(s.forward.dims, s.gradient.partial if gradient else ()) for s in read.states}
        assert wanted <= found
        assert not any(s.forward.partial for s in port.states)
        if not gradient:
            assert not any(s.gradient.partial for s in port.states)
