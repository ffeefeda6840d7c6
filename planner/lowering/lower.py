"""From a graph on a mesh to a `Problem`: operators, tensors with several readers, parameters and
inputs become nodes.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from costmodel.overlap import Layers, StepForm
from ir.graph import Op, OpGraph, Role, Tensor
from ir.layout import Layout, replicated
from ir.plan import LEAVES
from ir.plan_enums import MemoryCause
from planner.candidates.columns import Columns
from planner.candidates.layout_tables import LayoutPair, LayoutTable, layout_table_of
from planner.candidates.operators import OpCandidates
from planner.lowering.edge_tables import EdgeTables
from planner.lowering.edges import EdgeKind, EdgeKinds
from planner.lowering.live_tensors import (
    NO_COPIES,
    Copies,
    LiveTensor,
    LiveTensors,
    recomputed_names,
)
from planner.lowering.liveness import Liveness
from planner.lowering.lowered import Edge, Lowered, Node, NodeKind, Setting
from planner.lowering.operator_prices import lowering_cache
from planner.lowering.overlap import PieceLayers, fixed_loads, kernel_loads, layers_of
from planner.lowering.parameters import CAUSES, Parameter, Parameters
from planner.lowering.pricing import Flow, LoweringCache
from planner.lowering.problem_builder import ProblemBuilder
from planner.lowering.ring_attention import RingReads, may_go_round
from planner.problem import EdgeTable, FloatArray, NodeTable, Overlap

PINNED_BYTES = 4 * 2**20
PINNED_READERS = 8


class _Source(NamedTuple):
    """Where a tensor comes from in the problem."""

    node: int
    layouts: LayoutTable
    result: int
    parameter: Parameter | None = None
    """Where it is one at rest."""


def lower(liveness: Liveness, setting: Setting, basis: LoweringCache | None = None) -> Lowered:
    """The problem of choosing a layout for everything in a graph.

    Args:
        liveness: of the graph.
        setting: the machine and what is asked.
        basis: of an earlier lowering that differed in recomputation, states or memory limit alone.
    """
    return _Lowering(liveness, setting, basis or lowering_cache(liveness, setting)).run()


@dataclass(slots=True)
class _Lowering:
    liveness: Liveness
    setting: Setting
    basis: LoweringCache
    builder: ProblemBuilder = field(default_factory=ProblemBuilder)
    nodes: list[Node] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    sources: dict[str, _Source] = field(default_factory=dict)
    resting: dict[str, _Source] = field(default_factory=dict)
    tables: dict[Hashable, LayoutTable] = field(default_factory=dict)
    columns: dict[tuple[int, bool], Columns] = field(default_factory=dict)
    flows: list[Flow] = field(default_factory=list)
    kinds: EdgeKinds = field(default_factory=EdgeKinds)
    left_out: int = 0
    readers: Mapping[str, Sequence[Op]] = field(init=False)
    makers: Mapping[str, Op] = field(init=False)
    candidates: dict[str, OpCandidates] = field(init=False)
    holdings: LiveTensors = field(init=False)
    parameters: Parameters = field(init=False)
    edge_tables: EdgeTables = field(init=False)
    form: StepForm | None = field(init=False)
    """How time follows from loads; None where it is a sum."""
    layers: PieceLayers = field(init=False)
    layer: int = 0
    """Of the operator that is being added."""
    layer_of_node: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        setting = self.setting
        self.readers, self.makers = self.graph.consumers(), self.graph.producers()
        self.candidates = {name: op.candidates for name, op in self.basis.operators.items()}
        self.form = None if self.graph.is_training_step else setting.form
        self.layers = layers_of(self.liveness)
        self.holdings = LiveTensors(
            self.liveness,
            setting.mesh,
            self.candidates,
            self.readers,
            self.makers,
            setting.recompute,
            None if self.form is None else self.layers,
            setting.in_flight,
        )
        self.parameters = Parameters(self.liveness, setting, self.basis, self.readers)
        self.edge_tables = EdgeTables(setting, self.basis, self.parameters, self.form)

    @property
    def graph(self) -> OpGraph:
        return self.liveness.graph

    @property
    def _at_end(self) -> bool:
        """Whether the operator that is being added is in the first layer of its piece."""
        return self.form is not None and self.layers.before[self.layer] < 0

    def run(self) -> Lowered:
        for position, op in enumerate(self.graph.ops):
            self.layer = self.layers.of[position] if self.form is not None else 0
            for name in op.inputs:
                if name and name not in self.sources:
                    self._add_origin(self.graph.tensors[name])
            self._add_operator(op)
        for name, layout in self.setting.sent.items():
            self._add_sent(self.graph.tensors[name], layout)
        self.basis.pricing.prepare(self.flows)
        problem = self.builder.build(self.liveness.time_points, self.setting.memory_limit_bytes)
        if self.form is not None:
            problem = replace(problem, overlap=self._overlap(self.form))
        left_out = self.left_out + sum(self.candidates[op.name].left_out for op in self.graph.ops)
        return Lowered(
            problem,
            tuple(self.nodes),
            tuple(self.edges),
            self.liveness,
            self.setting,
            self.basis.pricer,
            left_out,
            self.basis,
        )

    def _overlap(self, form: StepForm) -> Overlap:
        own = self.layers
        return Overlap(form, Layers(own.before), tuple(self.layer_of_node), own.piece_of)

    def _add_node(
        self, node: Node, key: Hashable, time_s: FloatArray, holdings: list[LiveTensor]
    ) -> int:
        self._append(node)
        again = tuple([h.again_s for h in holdings]) if node.recomputes else None

        def make() -> NodeTable:
            held = [self.basis.pricing.live_tensor(h) for h in holdings]
            axes = node.axis_choices(len(self.setting.mesh.axes))
            cost = (time_s, self._loads(node, time_s))
            found = self.holdings.table(cost, held, node.columns, axes)
            inherits = self.setting.dialect.inherits
            return replace(found, inherited=node.inherited() if inherits else None)

        copies = tuple([h.copies for h in holdings])
        full = (node.kind, key, node.memory_causes, again, copies)
        return self.builder.add_node(full, make, tuple([h.interval for h in holdings]))

    def _append(self, node: Node) -> None:
        self.nodes.append(node)
        self.layer_of_node.append(self.layer)

    def _loads(self, node: Node, time_s: FloatArray) -> FloatArray | None:
        """What a node loads by assignment or layout, where its computation hides something."""
        found = node.candidates
        if self.form is None or not (found is not None or node.recomputes):
            return None
        if found is None:
            return fixed_loads(self.form, time_s)
        return kernel_loads(self.form, found.forward_s, found.backward_s, found.inner_s)

    # Parameters, inputs, and tensors with several readers

    def _add_origin(self, tensor: Tensor) -> None:
        """Node of a parameter or an input, before the operator that reads it first."""
        if tensor.role is Role.PARAMETER:
            self._add_parameter(tensor)
        elif tensor.role is Role.INPUT:
            self._add_input(tensor)

    def _columns(self, count: int, *, recompute: bool = False) -> Columns:
        """Candidates of so many assignments or layouts; nodes share them."""
        key = (count, recompute)
        if key not in self.columns:
            plain = Columns.of(count)
            self.columns[key] = plain.with_recompute() if recompute else plain
        return self.columns[key]

    def _add_parameter(self, tensor: Tensor) -> None:
        near = self._neighbour_layouts(tensor.name)
        key = ("parameter", tensor.dims, tensor.stored_permutation, tuple(id(p) for p in near))
        if key not in self.tables:
            self.tables[key] = self.basis.layouts.parameter(tensor, near)
        own = self.parameters.of(tensor, self.tables[key])
        node = self.builder.add_node(
            (NodeKind.PARAMETER, tensor.dims, tensor.dtype, own.layouts.key),
            lambda: self.parameters.node_table(own),
            (self.parameters.lifetime(tensor.name),) * len(CAUSES),
            self.parameters.node_variant(own),
        )
        kind = NodeKind.PARAMETER
        self._append(Node.of(self.liveness, kind, tensor.name, own.layouts, own.columns, CAUSES))
        source = _Source(node, own.layouts, 0, own)
        self.sources[tensor.name] = self.resting[tensor.name] = source
        # A traced step reads a parameter forward and backward, each for itself.
        tied = self.setting.dialect.partial_edges or not self.graph.is_training_step
        if tied and len(self.readers[tensor.name]) > 1:
            self._add_shared(tensor)

    def _add_input(self, tensor: Tensor) -> None:
        layout = self.setting.input_layouts[tensor.name]
        table = layout_table_of([LayoutPair(layout, layout)])
        # What has a gradient comes from another stage; its readers say how long they keep it.
        received = self.liveness.derived and tensor.name in self.liveness.gradient
        holding = LiveTensor(
            tensor, table, self.parameters.lifetime(tensor.name), MemoryCause.INPUTS
        )
        holdings = [] if received else [holding]
        causes = tuple(h.cause for h in holdings)
        node = Node.of(self.liveness, NodeKind.INPUT, tensor.name, table, self._columns(1), causes)
        number = self._add_node(node, (tensor.dims, tensor.dtype, layout), np.zeros(1), holdings)
        self.sources[tensor.name] = _Source(number, table, 0)
        if len(self.readers[tensor.name]) > 1:
            self._add_shared(tensor)

    def _add_sent(self, tensor: Tensor, layout: Layout) -> None:
        """Node of what leaves in one layout, as its gradient comes back; none if it passes by."""
        if tensor.name not in self.sources:
            return
        self.layer = self.layer_of_node[self.sources[tensor.name].node]
        table = layout_table_of([LayoutPair(layout, layout)])
        node = Node.of(self.liveness, NodeKind.SENT, tensor.name, table, self._columns(1))
        number = self._add_node(node, (tensor.dims, tensor.dtype, layout), np.zeros(1), [])
        kind = self.kinds.of(tensor, gradient=tensor.name in self.liveness.gradient)
        self._connect(tensor, self.sources[tensor.name], number, table, kind, LEAVES)

    def _neighbour_layouts(self, name: str) -> list[LayoutTable]:
        """Layouts of the operators that touch a tensor, its producer first."""
        near: list[LayoutTable | None] = []
        if name in self.makers:
            maker = self.makers[name]
            near.append(self.candidates[maker.name].results[maker.outputs.index(name)])
        for reader in dict.fromkeys(op.name for op in self.readers.get(name, [])):
            op = self.graph.ops[self.liveness.position[reader]]
            near += [
                self.candidates[reader].operands[i] for i, n in enumerate(op.inputs) if n == name
            ]
        return [table for table in near if table is not None]

    def _shared_layouts(self, tensor: Tensor) -> LayoutTable:
        """Layouts of a tensor with several readers.

        A small tensor without a gradient that many operators read (rotary tables, masks) is whole
        on every device: its readers slice it for nothing, and a hub fewer keeps the graph narrow.
        """
        gradient = self.liveness.derived and tensor.name in self.liveness.gradient
        near = [self.sources[tensor.name].layouts, *self._neighbour_layouts(tensor.name)]
        many = len(self.readers[tensor.name]) >= PINNED_READERS
        pinned = many and not gradient and tensor.nbytes <= PINNED_BYTES
        keys = tuple(table.key for table in near)
        key = ("shared", tensor.dims, tensor.divisors, gradient, pinned, keys)
        if key not in self.tables:
            table = self.basis.layouts.shared(tensor, near, gradient=gradient)
            if pinned:
                self.left_out += len(table.states) - 1
                whole = replicated(len(tensor.dims))
                table = layout_table_of([LayoutPair(whole, whole)])
            self.tables[key] = table
        return self.tables[key]

    def _add_shared(self, tensor: Tensor) -> None:
        """Node of a tensor with several readers, behind whatever makes it."""
        origin, table = self.sources[tensor.name], self._shared_layouts(tensor)
        saved = tensor.name in self.liveness.saved_by
        holdings = self.holdings.kept(tensor, table) if saved else []
        again = recomputed_names(holdings)
        causes = tuple(h.cause for h in holdings)
        columns = self._columns(len(table.of), recompute=bool(again))
        number = self._add_node(
            Node.of(self.liveness, NodeKind.TENSOR, tensor.name, table, columns, causes, again),
            (tensor.dims, tensor.dtype, table.key),
            np.zeros(len(table.of)),
            holdings,
        )
        gradient = self.liveness.derived and tensor.name in self.liveness.gradient
        parameter = tensor.role is Role.PARAMETER
        readers = self.readers[tensor.name]
        read_back = parameter and any(self.liveness.is_read_back(op, tensor.name) for op in readers)
        maker = self.makers.get(tensor.name)
        place = -1 if maker is None else self.liveness.position[maker.name]
        twice_sent = read_back or self.liveness.remade_in(tensor.name, place) is not None
        at_end = parameter and self._at_end
        kind = self.kinds.of(
            tensor, gradient=gradient, parameter=parameter, again=twice_sent, at_end=at_end
        )
        self._connect(tensor, origin, number, table, kind)
        self.sources[tensor.name] = _Source(number, table, 0)

    # Operators

    def _add_operator(self, op: Op) -> None:
        priced = self.basis.operators[op.name]
        found = priced.candidates
        holdings = self.holdings.of_operator(op)
        again = recomputed_names(holdings)
        causes = tuple([h.cause for h in holdings])
        columns = self._columns(len(found.splits), recompute=bool(again))
        node = Node.of(self.liveness, NodeKind.OPERATOR, op.name, found, columns, causes, again)
        number = self._add_node(node, priced.signature, priced.cost, holdings)
        for index, name in enumerate(op.inputs):
            table = found.operands[index]
            if table is not None and name in self.sources:
                self._read(op, number, index, table, priced.gradients[index])
        for index, name in enumerate(op.outputs):
            table = found.results[index]
            if table is not None:
                self.sources[name] = _Source(number, table, index)
                self._deliver(name)

    def _deliver(self, name: str) -> None:
        if len(self.readers.get(name, [])) > 1:
            self._add_shared(self.graph.tensors[name])
        for parameter, gradient in self.graph.gradients.items():
            if gradient == name and parameter in self.resting:
                self._deliver_gradient(self.graph.tensors[name], self.resting[parameter])

    def _deliver_gradient(self, tensor: Tensor, parameter: _Source) -> None:
        """In a traced training step the gradient must arrive where its parameter rests."""
        kind = self.kinds.of(tensor, bucketed=True)
        source = self.sources[tensor.name]
        self._connect(tensor, source, parameter.node, parameter.layouts, kind)

    # Edges

    def _read(self, op: Op, node: int, index: int, table: LayoutTable, gradient: bool) -> None:
        tensor = self.graph.tensors[op.inputs[index]]
        source = self.sources[tensor.name]
        at_rest = source.parameter is not None
        remade = self.liveness.block_of(self.liveness.position[op.name]) is not None
        again = remade or (at_rest and self.liveness.is_read_back(op, tensor.name))
        common = not at_rest and tensor.role is Role.PARAMETER
        tied = common and self.setting.dialect.cut_counts
        carried = not at_rest and self._is_carried(op)
        kind = self.kinds.of(
            tensor, gradient=gradient, parameter=at_rest, again=again, tied=tied, carried=carried,
            at_end=at_rest and self._at_end,
        )  # fmt: skip
        shared = self.nodes[source.node].kind is NodeKind.TENSOR
        copies = self.holdings.copies(op, tensor, at_rest=at_rest, shared=shared)
        ring = None
        if may_go_round(index):
            found = self.candidates[op.name]
            ring = self.edge_tables.ring(op, self.graph, found, in_block=remade)
        self._connect(tensor, source, node, table, kind, index, copies, ring)

    def _is_carried(self, op: Op) -> bool:
        """Whether the target gives an operator no layout, and the user none either."""
        setting = self.setting
        return op.kind in setting.dialect.never_cut and op.name not in setting.held

    def _connect(
        self,
        tensor: Tensor,
        source: _Source,
        node: int,
        table: LayoutTable,
        numbered: tuple[int, EdgeKind],
        operand: int = -1,
        copies: Copies = NO_COPIES,
        ring: RingReads | None = None,
    ) -> None:
        kind = numbered[1]
        edge = Edge(tensor.name, source.node, node, kind, source.layouts, table, operand, ring)
        key = (source.result, operand, numbered[0], copies.counts)
        own = source.parameter
        variant = (
            None if own is None else self.parameters.edge_variant(own),
            None if ring is None else (id(ring), id(table), id(source.layouts)),
        )

        def make() -> EdgeTable:
            ends = self.nodes[edge.source], self.nodes[edge.target]
            return self.edge_tables.table(edge, ends, own, copies)

        if self.builder.add_edge((source.node, node), key, make, copies.intervals, variant):
            self.flows.append((kind, source.layouts, table))
        self.edges.append(edge)
