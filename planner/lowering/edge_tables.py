"""What an edge of a problem costs for every pair of candidates at its ends."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from costmodel.collectives import CollectiveModel
from costmodel.overlap import SENT_ALONE, StepForm
from costmodel.redistribution import UNREACHABLE_S
from ir.dtypes import dtype_bytes
from ir.graph import Op, OpGraph
from planner.candidates.columns import IndexArray
from planner.candidates.layout_tables import shard_elements
from planner.candidates.operators import OpCandidates
from planner.lowering.edges import is_same
from planner.lowering.live_tensors import Copies
from planner.lowering.lowered import Edge, Node, NodeKind, Setting
from planner.lowering.parameters import Parameter, Parameters
from planner.lowering.pricing import LoweringCache
from planner.lowering.ring_attention import RingReads, ring_reads
from planner.problem import EdgeTable


@dataclass(frozen=True, slots=True)
class EdgeTables:
    """Makes the tables of the edges of a lowering."""

    setting: Setting
    basis: LoweringCache
    parameters: Parameters
    form: StepForm | None
    """How time follows from loads; None where it is a sum."""
    _rings: dict[tuple[int, bool], RingReads | None] = field(default_factory=dict)

    def ring(
        self, op: Op, graph: OpGraph, found: OpCandidates, *, in_block: bool
    ) -> RingReads | None:
        """How attention reads keys and values, where they may go round."""
        setting, key = self.setting, (id(found), in_block)
        if not setting.ring_attention or setting.mesh.size == 1:
            return None
        if key not in self._rings:
            model = CollectiveModel(setting.cluster, setting.mesh)
            self._rings[key] = ring_reads(op, graph, found, model, in_block=in_block)
        return self._rings[key]

    def table(
        self, edge: Edge, ends: tuple[Node, Node], parameter: Parameter | None, copies: Copies
    ) -> EdgeTable:
        """Seconds, loads and bytes of an edge, shape (candidates of the source, of the target).

        Args:
            edge: of the problem.
            ends: the nodes that it joins.
            parameter: at rest, where its source is one.
            copies: that the reader keeps of what comes.
        """
        source, target = ends
        rows, read = source.columns.assignment, target.columns.assignment
        layouts = edge.source_layouts, edge.target_layouts
        if parameter is None:
            made = self._plain(edge, target, rows, copies)
        else:
            used = edge.target_layouts.of[read]
            plain = self._plain(edge, target, parameter.rest.assignment, copies)
            made = self.parameters.edge_table(parameter, plain, edge.kind, layouts[1], used)
        if edge.ring is not None:
            made = edge.ring.faster(made, edge.kind, layouts, (rows, read))
        hidden = 0.0 if self.form is None else self.form.software.tensor_hidden
        if hidden and not edge.kind.parameter:
            times = made.time_s
            seen = np.where(times < UNREACHABLE_S, (1.0 - hidden) * times, times)
            made = replace(made, time_s=seen)
        return made

    def _plain(self, edge: Edge, target: Node, rows: IndexArray, copies: Copies) -> EdgeTable:
        """What an edge costs for some layouts of its source, where nothing is in parts."""
        pricing = self.basis.pricing
        price = pricing.branch if target.kind is NodeKind.TENSOR else pricing.edge
        source, table = edge.source_layouts, edge.target_layouts
        spread = (source.of[rows][:, None], table.of[target.columns.assignment])
        times = price(edge.kind, source, table)
        loads = None
        large = math.prod(edge.kind.tensor.dims) >= SENT_ALONE
        if self.form is not None and edge.kind.parameter and large:
            sent = self.basis.pricer.messages(edge.kind, source, table)
            once_per, at_end = self.setting.once_per, edge.kind.at_end
            loads = sent.loads(self.form, times, once_per, at_end=at_end)[:, *spread]
        times = times[spread]
        if not copies.counts:
            return EdgeTable(times, loads=loads)
        tensor = edge.kind.tensor
        nbytes = shard_elements(tensor.dims, table, self.setting.mesh) * dtype_bytes(tensor.dtype)
        held = (~is_same(source, table) * nbytes)[spread]
        return EdgeTable(times, tuple([held * count for count in copies.counts]), loads)
