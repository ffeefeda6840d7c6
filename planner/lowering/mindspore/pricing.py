"""Candidates priced as MindSpore's own searches count them: in weighted bytes of slices.

A parameter costs nothing there by itself: its gradient is a cost of the operator that reads it.
MindSpore has no node for a tensor with several readers; here it is held to the layout of its maker,
and every reader pays for its own redistribution.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from costmodel.mindspore.cost import (
    FORBIDDEN,
    Slices,
    Weights,
    operator_bytes,
    operator_cost,
)
from costmodel.mindspore.cost_edges import MindsporeEdgeCost
from ir.dtypes import dtype_bytes
from ir.graph import Role, Tensor
from ir.mindspore_forms.primitives import PrimitiveForm, primitive_form
from ir.mindspore_forms.readers import parts_of
from ir.normalise.ends import ENDS
from ir.ops import OpView
from ir.rule import FactorMap
from planner.candidates.layout_tables import LayoutTable
from planner.candidates.operators import FloatArray, OpCandidates
from planner.lowering.edges import EdgeKind, is_carried, is_same, is_used_as
from planner.lowering.live_tensors import LiveTensor
from planner.lowering.lowered import Setting
from planner.lowering.pricing import Flow
from planner.problem import IntArray
from topology.mesh import Mesh

ASCEND, ASCEND_BETA, GPU_BETA = "ascend", 400.0, 50.0
"""MindSpore counts a byte that is sent by the kind of device.

Source: MindSpore 2.7.0, `frontend/parallel/costmodel_context.cc`.
"""


@dataclass(frozen=True, slots=True)
class MindsporePricing:
    """Costs on one mesh."""

    mesh: Mesh
    edges: MindsporeEdgeCost
    weights: Weights

    def prepare(self, flows: Sequence[Flow]) -> None:
        self.edges.prepare(
            (kind.tensor.dims, source.forward, target.forward)
            for kind, source, target in flows
            if not kind.parameter and not kind.tied
        )

    def operator(self, view: OpView, found: OpCandidates) -> FloatArray:
        """Sum over the primitives of the operator: a composite has several."""
        total = np.zeros(len(found.splits))
        if view.op.kind in ENDS:
            return total
        cuts = _Cuts(found, self.mesh)
        for part, rule in parts_of(view):
            form = primitive_form(part, rule)
            slices = _slices(part, form, cuts)
            name = form.name or part.op.kind
            nbytes = operator_bytes(name, slices)
            total += operator_cost(nbytes, slices.rows, self.mesh.size, self.weights)
        return total

    def update(self, nbytes: FloatArray) -> FloatArray:
        return np.zeros_like(nbytes)

    def orthogonalise(self, dims: IntArray) -> FloatArray:
        return np.zeros(len(dims))

    def live_tensor(self, tensor: LiveTensor) -> LiveTensor:
        """MindSpore's cost knows nothing of tensors that are computed again."""
        return tensor if tensor.again_s is None else tensor._replace(again_s=0.0)

    def edge(self, kind: EdgeKind, source: LayoutTable, target: LayoutTable) -> FloatArray:
        if kind.parameter:
            return np.where(is_used_as(source, target), 0.0, FORBIDDEN)
        if kind.tied:
            return np.where(is_same(source, target), 0.0, FORBIDDEN)
        tensor = kind.tensor
        nbytes = math.prod(tensor.dims) * dtype_bytes(tensor.dtype)
        cost = self.edges.pair_cost(
            tensor.dims, nbytes, source.forward, target.forward, boolean=tensor.dtype == "bool"
        )
        return np.where(is_carried(source, target), cost, FORBIDDEN) if kind.carried else cost

    def branch(self, kind: EdgeKind, source: LayoutTable, target: LayoutTable) -> FloatArray:
        if kind.parameter or len(target.states) == 1:
            return self.edge(kind, source, target)
        return np.where(is_same(source, target), 0.0, FORBIDDEN)


def slice_pricing(setting: Setting) -> MindsporePricing:
    """The pricing of a setting: weights are those of MindSpore's defaults for the machine."""
    beta = ASCEND_BETA if setting.cluster.chip.name.startswith(ASCEND) else GPU_BETA
    weights = Weights(beta=beta, training=setting.training)
    edges = MindsporeEdgeCost(setting.mesh, setting.dialect.all_to_all, weights)
    return MindsporePricing(setting.mesh, edges, weights)


class _Cuts:
    """In how many pieces the candidates of an operator cut its factors."""

    def __init__(self, found: OpCandidates, mesh: Mesh) -> None:
        self.devices, self.splits = mesh.size, found.splits
        self._known: dict[tuple[int, ...], FloatArray] = {}

    def count(self, factors: tuple[int, ...]) -> FloatArray:
        """Pieces of a dimension of these factors, shape (C,)."""
        if factors not in self._known:
            self._known[factors] = self.splits.counts(factors).astype(np.float64)
        return self._known[factors]

    def pieces(self, mapping: FactorMap) -> FloatArray:
        """Pieces of a tensor, shape (C,)."""
        return self.count(tuple(f for dim in mapping for f in dim))


def _slices(view: OpView, form: PrimitiveForm, cuts: _Cuts) -> Slices:
    """What one device has of the tensors of a primitive; what the network holds as a constant and
    the graph does not have counts as its form says.
    """
    tensors = [tensor for tensor in view.inputs if tensor is not None]
    width = [_width(tensors, i) for i in range(len(form.inputs))]
    pieces = tuple(cuts.pieces(mapping) for mapping in form.inputs)
    inputs = tuple(
        math.prod(dims) * size / count
        for dims, size, count in zip(form.dims, width, pieces, strict=True)
    )
    results = tuple(zip(form.results, view.outputs, strict=False))
    outputs = tuple(tensor.nbytes / cuts.pieces(mapping) for mapping, tensor in results)
    none = np.ones(len(cuts.splits))
    first = form.inputs[0] if form.inputs else ()
    return Slices(
        inputs=inputs or (0.0 * none,),
        outputs=outputs or (0.0 * none,),
        pieces=pieces or (none,),
        trained=tuple(_is_trained(tensors, i) for i in range(max(len(form.inputs), 1))),
        summed=cuts.count(tuple(_summed(form))) > 1,
        rows=cuts.count(first[0]) if first else none,
        devices=cuts.devices,
        second_dim=cuts.count(first[1]) > 1 if len(first) > 1 else none > 1,
        looked_up=cuts.count(tuple(form.looked_up)) > 1,
    )


def _summed(form: PrimitiveForm) -> Iterator[int]:
    """Factors of the inputs that the first result lacks."""
    kept = {f for dim in (form.results[0] if form.results else ()) for f in dim}
    found = {f for mapping in form.inputs for dim in mapping for f in dim}
    yield from sorted(found - kept)


def _width(tensors: Sequence[Tensor], index: int) -> float:
    """Bytes of an element of an input; one that the primitive has on top is like the first."""
    found = tensors[index] if index < len(tensors) else tensors[0] if tensors else None
    return 4.0 if found is None else dtype_bytes(found.dtype)


def _is_trained(tensors: Sequence[Tensor], index: int) -> bool:
    return index < len(tensors) and tensors[index].role is Role.PARAMETER
