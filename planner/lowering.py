"""From a graph on a mesh to a `Problem`: operators, tensors with several readers, parameters and
inputs become nodes.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.memory import ParameterBytes, parameter_bytes
from exporters.mindspore_readers import NEVER_CUT
from ir.dtypes import dtype_bytes
from ir.graph import Op, OpGraph, Role, Tensor
from ir.layout import Layout, replicated
from ir.plan import LEAVES
from planner.axis_choice import layout_axes, node_axes
from planner.basis import Basis
from planner.candidates import OpCandidates
from planner.edges import EdgeKind, EdgeKinds, is_same
from planner.holdings import NO_COPIES, Copies, Holding, Holdings, recomputed_names
from planner.liveness import Liveness
from planner.lowered import Edge, Lowered, Node, NodeKind, Setting
from planner.operator_prices import basis_of
from planner.ports import Port, PortState, port_elements, port_of, twice
from planner.pricing import Flow
from planner.problem import EdgeTable, Interval, NodeTable
from planner.problem_builder import ProblemBuilder

FloatArray = NDArray[np.float64]

PINNED_BYTES = 4 * 2**20
PINNED_READERS = 8


class _Source(NamedTuple):
    """Where a tensor comes from in the problem."""

    node: int
    port: Port
    result: int


def lower(liveness: Liveness, setting: Setting, basis: Basis | None = None) -> Lowered:
    """The problem of choosing a layout for everything in a graph.

    Args:
        liveness: of the graph.
        setting: the machine and what is asked.
        basis: of an earlier lowering that differed in `recompute` or the memory limit alone.
    """
    return _Lowering(liveness, setting, basis or basis_of(liveness, setting)).run()


@dataclass(slots=True)
class _Lowering:
    liveness: Liveness
    setting: Setting
    basis: Basis
    builder: ProblemBuilder = field(default_factory=ProblemBuilder)
    nodes: list[Node] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    sources: dict[str, _Source] = field(default_factory=dict)
    parameters: dict[str, int] = field(default_factory=dict)
    ports: dict[Hashable, Port] = field(default_factory=dict)
    flows: list[Flow] = field(default_factory=list)
    kinds: EdgeKinds = field(default_factory=EdgeKinds)
    left_out: int = 0
    readers: Mapping[str, Sequence[Op]] = field(init=False)
    makers: Mapping[str, Op] = field(init=False)
    candidates: dict[str, OpCandidates] = field(init=False)
    holdings: Holdings = field(init=False)

    def __post_init__(self) -> None:
        setting = self.setting
        self.readers, self.makers = self.graph.consumers(), self.graph.producers()
        self.candidates = {name: op.candidates for name, op in self.basis.operators.items()}
        self.holdings = Holdings(
            self.liveness,
            setting.mesh,
            self.candidates,
            self.readers,
            self.makers,
            setting.recompute,
            setting.in_flight,
        )

    @property
    def graph(self) -> OpGraph:
        return self.liveness.graph

    def _in_block(self, op: Op) -> bool:
        """Whether the backward pass computes an operator again with its block."""
        return self.liveness.block_of(self.liveness.position[op.name]) is not None

    def run(self) -> Lowered:
        for op in self.graph.ops:
            for name in op.inputs:
                if name and name not in self.sources:
                    self._add_origin(self.graph.tensors[name])
            self._add_operator(op)
        for name, layout in self.setting.sent.items():
            self._add_sent(self.graph.tensors[name], layout)
        self.basis.pricing.prepare(self.flows)
        problem = self.builder.build(self.liveness.time_points, self.setting.memory_limit_bytes)
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

    def _add_node(
        self, node: Node, key: Hashable, time_s: FloatArray, holdings: list[Holding]
    ) -> int:
        self.nodes.append(node)
        again = tuple([h.again_s for h in holdings]) if node.recomputes else None

        def make() -> NodeTable:
            held = [self.basis.pricing.holding(h) for h in holdings]
            axes = node_axes(node, len(self.setting.mesh.axes))
            return self.holdings.table(time_s, held, axes)

        copies = tuple([h.copies for h in holdings])
        full = (node.kind, key, node.memory_causes, again, copies)
        return self.builder.add_node(full, make, tuple([h.interval for h in holdings]))

    # Parameters, inputs, and tensors with several readers

    def _add_origin(self, tensor: Tensor) -> None:
        """Node of a parameter or an input, before the operator that reads it first."""
        if tensor.role is Role.PARAMETER:
            self._add_parameter(tensor)
        elif tensor.role is Role.INPUT:
            self._add_input(tensor)

    def _add_parameter(self, tensor: Tensor) -> None:
        setting = self.setting
        ports = self._neighbour_ports(tensor.name)
        key = ("parameter", tensor.dims, tensor.stored_permutation, tuple(id(p) for p in ports))
        if key not in self.ports:
            self.ports[key] = self.basis.layouts.parameter(tensor, ports)
        port = self.ports[key]
        cost = parameter_bytes(tensor.dtype, setting.optimizer, training=setting.training)
        causes = ("weights", "gradients", "optimizer state", "optimizer state")
        node = self.builder.add_node(
            (NodeKind.PARAMETER, tensor.dims, tensor.dtype, port.key),
            lambda: self._parameter_table(tensor, port, cost),
            (self._lifetime(tensor.name),) * len(causes),
        )
        self.nodes.append(Node(NodeKind.PARAMETER, tensor.name, None, port, causes))
        self.parameters[tensor.name] = node
        self.sources[tensor.name] = _Source(node, port, 0)
        # A traced step reads a parameter forward and backward, each for itself.
        tied = self.setting.dialect.partial_edges or not self.graph.is_training_step
        if tied and len(self.readers[tensor.name]) > 1:
            self._add_shared(tensor)

    def _parameter_table(self, tensor: Tensor, port: Port, cost: ParameterBytes) -> NodeTable:
        local = port_elements(tensor.dims, port, self.setting.mesh)
        update = self.basis.pricing.update(local * cost.moved_by_update)
        update = update / self.setting.once_per
        parts = (cost.weight, cost.gradient, cost.master, cost.moments)
        held = tuple((local * part)[port.of] for part in parts)
        return NodeTable(update[port.of], held, layout_axes(port, len(self.setting.mesh.axes)))

    def _add_input(self, tensor: Tensor) -> None:
        layout = self.setting.input_layouts[tensor.name]
        port = port_of([PortState(layout, layout)])
        # What has a gradient comes from another stage; its readers say how long they keep it.
        received = self.liveness.derived and tensor.name in self.liveness.gradient
        holding = Holding(tensor, port, self._lifetime(tensor.name), "inputs")
        holdings = [] if received else [holding]
        node = Node(NodeKind.INPUT, tensor.name, None, port, tuple(h.cause for h in holdings))
        number = self._add_node(node, (tensor.dims, tensor.dtype, layout), np.zeros(1), holdings)
        self.sources[tensor.name] = _Source(number, port, 0)
        if len(self.readers[tensor.name]) > 1:
            self._add_shared(tensor)

    def _lifetime(self, name: str) -> Interval:
        """All time points of the piece of the graph that reads a tensor."""
        readers = self.readers.get(name, [])
        if not readers:
            return (0, self.liveness.time_points)
        return self.liveness.lifetime(self.liveness.position[readers[0].name])

    def _add_sent(self, tensor: Tensor, layout: Layout) -> None:
        """Node of what leaves in one layout, as its gradient comes back; none if it passes by."""
        if tensor.name not in self.sources:
            return
        port = port_of([PortState(layout, layout)])
        node = Node(NodeKind.SENT, tensor.name, None, port, ())
        number = self._add_node(node, (tensor.dims, tensor.dtype, layout), np.zeros(1), [])
        kind = self.kinds.of(tensor, gradient=tensor.name in self.liveness.gradient)
        self._connect(tensor, self.sources[tensor.name], number, port, kind, LEAVES)

    def _neighbour_ports(self, name: str) -> list[Port]:
        """Ports of the operators that touch a tensor, its producer first."""
        ports: list[Port | None] = []
        if name in self.makers:
            maker = self.makers[name]
            ports.append(self.candidates[maker.name].results[maker.outputs.index(name)])
        for reader in dict.fromkeys(op.name for op in self.readers.get(name, [])):
            op = self.graph.ops[self.liveness.position[reader]]
            ports += [
                self.candidates[reader].operands[i] for i, n in enumerate(op.inputs) if n == name
            ]
        return [p for p in ports if p is not None]

    def _shared_port(self, tensor: Tensor) -> Port:
        """Layouts of a tensor with several readers.

        A small tensor without a gradient that many operators read (rotary tables, masks) is whole
        on every device: its readers slice it for nothing, and a hub fewer keeps the graph narrow.
        """
        gradient = self.liveness.derived and tensor.name in self.liveness.gradient
        ports = [self.sources[tensor.name].port, *self._neighbour_ports(tensor.name)]
        many = len(self.readers[tensor.name]) >= PINNED_READERS
        pinned = many and not gradient and tensor.nbytes <= PINNED_BYTES
        keys = tuple(p.key for p in ports)
        key = ("shared", tensor.dims, tensor.divisors, gradient, pinned, keys)
        if key not in self.ports:
            port = self.basis.layouts.shared(tensor, ports, gradient=gradient)
            if pinned:
                self.left_out += len(port.states) - 1
                whole = replicated(len(tensor.dims))
                port = port_of([PortState(whole, whole)])
            self.ports[key] = port
        return self.ports[key]

    def _add_shared(self, tensor: Tensor) -> None:
        """Node of a tensor with several readers, behind whatever makes it."""
        origin, port = self.sources[tensor.name], self._shared_port(tensor)
        saved = tensor.name in self.liveness.saved_by
        holdings = self.holdings.kept(tensor, port) if saved else []
        again = recomputed_names(holdings)
        causes = tuple(h.cause for h in holdings)
        offered = twice(port) if again else port
        number = self._add_node(
            Node(NodeKind.TENSOR, tensor.name, None, offered, causes, again),
            (tensor.dims, tensor.dtype, port.key),
            np.zeros(len(port.of)),
            holdings,
        )
        gradient = self.liveness.derived and tensor.name in self.liveness.gradient
        parameter = tensor.role is Role.PARAMETER
        readers = self.readers[tensor.name]
        read_back = parameter and any(self.liveness.is_read_back(op, tensor.name) for op in readers)
        maker = self.makers.get(tensor.name)
        place = -1 if maker is None else self.liveness.position[maker.name]
        twice_sent = read_back or self.liveness.remade_in(tensor.name, place) is not None
        kind = self.kinds.of(tensor, gradient=gradient, parameter=parameter, again=twice_sent)
        self._connect(tensor, origin, number, offered, kind)
        self.sources[tensor.name] = _Source(number, offered, 0)

    # Operators

    def _add_operator(self, op: Op) -> None:
        priced = self.basis.operators[op.name]
        found = priced.candidates
        holdings = self.holdings.of_operator(op)
        again = recomputed_names(holdings)
        causes = tuple([h.cause for h in holdings])
        node = Node(NodeKind.OPERATOR, op.name, found, None, causes, again)
        number = self._add_node(node, priced.signature, priced.cost, holdings)
        gradients = priced.gradients
        for index, name in enumerate(op.inputs):
            port = found.operands[index]
            if port is not None and name in self.sources:
                self._read(op, number, index, twice(port) if again else port, gradients[index])
        for index, name in enumerate(op.outputs):
            port = found.results[index]
            if port is not None:
                self.sources[name] = _Source(number, twice(port) if again else port, index)
                self._deliver(name)

    def _deliver(self, name: str) -> None:
        if len(self.readers.get(name, [])) > 1:
            self._add_shared(self.graph.tensors[name])
        for parameter, gradient in self.graph.gradients.items():
            if gradient == name and parameter in self.parameters:
                self._deliver_gradient(self.graph.tensors[name], self.parameters[parameter])

    def _deliver_gradient(self, tensor: Tensor, parameter: int) -> None:
        """In a traced training step the gradient must arrive where its parameter rests."""
        port = self.nodes[parameter].port
        if port is not None:
            kind = self.kinds.of(tensor, bucketed=True)
            self._connect(tensor, self.sources[tensor.name], parameter, port, kind)

    # Edges

    def _read(self, op: Op, node: int, index: int, port: Port, gradient: bool) -> None:
        tensor = self.graph.tensors[op.inputs[index]]
        source = self.sources[tensor.name]
        at_rest = self.nodes[source.node].kind is NodeKind.PARAMETER
        remade = self._in_block(op)
        again = remade or (at_rest and self.liveness.is_read_back(op, tensor.name))
        common = not at_rest and tensor.role is Role.PARAMETER
        tied = common and self.setting.dialect.cut_counts
        carried = not at_rest and self._is_carried(op)
        kind = self.kinds.of(
            tensor, gradient=gradient, parameter=at_rest, again=again, tied=tied, carried=carried
        )
        shared = self.nodes[source.node].kind is NodeKind.TENSOR
        copies = self.holdings.copies(op, tensor, at_rest=at_rest, shared=shared)
        self._connect(tensor, source, node, port, kind, index, copies)

    def _is_carried(self, op: Op) -> bool:
        """Whether the target gives an operator no layout, and the user none either."""
        setting = self.setting
        return setting.dialect.cut_counts and op.kind in NEVER_CUT and op.name not in setting.held

    def _connect(
        self,
        tensor: Tensor,
        source: _Source,
        node: int,
        port: Port,
        numbered: tuple[int, EdgeKind],
        operand: int = -1,
        copies: Copies = NO_COPIES,
    ) -> None:
        kind = numbered[1]

        def make() -> EdgeTable:
            return self._edge_table(tensor, source, node, port, kind, copies)

        key = (source.result, operand, numbered[0], copies.counts)
        if self.builder.add_edge((source.node, node), key, make, copies.intervals):
            self.flows.append((kind, source.port, port))
        self.edges.append(Edge(tensor.name, source.node, node, kind, source.port, port, operand))

    def _edge_table(
        self,
        tensor: Tensor,
        source: _Source,
        node: int,
        port: Port,
        kind: EdgeKind,
        copies: Copies,
    ) -> EdgeTable:
        shared = self.nodes[node].kind is NodeKind.TENSOR
        pricing = self.basis.pricing
        price = pricing.branch if shared else pricing.edge
        spread = (source.port.of[:, None], port.of)
        times = price(kind, source.port, port)[spread]
        if not copies.counts:
            return EdgeTable(times)
        nbytes = port_elements(tensor.dims, port, self.setting.mesh) * dtype_bytes(tensor.dtype)
        held = (~is_same(source.port, port) * nbytes)[spread]
        return EdgeTable(times, tuple([held * count for count in copies.counts]))
