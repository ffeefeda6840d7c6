"""From a graph on a mesh to a `Problem`: operators, tensors with several readers, parameters and
inputs become nodes.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from costmodel.collectives import CollectiveModel
from costmodel.memory import ParameterBytes, parameter_bytes
from costmodel.operators import OperatorModel
from costmodel.redistribution import Shardable
from ir.dtypes import dtype_bytes
from ir.graph import Op, OpGraph, Role, Tensor
from ir.layout import replicated
from ir.ops import OpView
from planner.axis_choice import layout_axes, node_axes
from planner.candidates import OpCandidates, OpPricer, signature
from planner.edges import EdgeKind, EdgePricer, edge_pricer, is_same
from planner.holdings import Holding, Holdings, recomputed_names, table_of
from planner.liveness import Liveness
from planner.lowered import Edge, Lowered, Node, NodeKind, Setting
from planner.ports import Port, PortState, local_elements, port_elements, port_of, twice
from planner.pricing import MINDSPORE, Pricing, TimePricing
from planner.problem import EdgeTable, Interval, NodeTable
from planner.problem_builder import ProblemBuilder
from planner.tensor_layouts import parameter_states, shared_states

FloatArray = NDArray[np.float64]

BUCKET_BYTES = 64 * 2**20
"""Gradients and weights are sent in buckets of this size; a smaller tensor pays its share of the
latency.
Source: MindSpore's default fusion threshold, 64 MB."""
PINNED_BYTES = 4 * 2**20
PINNED_READERS = 8


@dataclass(frozen=True, slots=True)
class _Source:
    """Where a tensor comes from in the problem."""

    node: int
    port: Port
    result: int


@dataclass(frozen=True, slots=True)
class _Copy:
    """When a redistributed copy is in memory, and how many times its bytes."""

    interval: Interval
    count: float


def lower(liveness: Liveness, setting: Setting) -> Lowered:
    """The problem of choosing a layout for everything in a graph."""
    return _Lowering(liveness, setting).run()


@dataclass(slots=True)
class _Lowering:
    liveness: Liveness
    setting: Setting
    builder: ProblemBuilder = field(default_factory=ProblemBuilder)
    nodes: list[Node] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    sources: dict[str, _Source] = field(default_factory=dict)
    candidates: dict[str, OpCandidates] = field(default_factory=dict)
    signatures: dict[str, int] = field(default_factory=dict)
    parameters: dict[str, int] = field(default_factory=dict)
    ports: dict[Hashable, Port] = field(default_factory=dict)
    left_out: int = 0
    readers: dict[str, list[Op]] = field(init=False)
    makers: dict[str, Op] = field(init=False)
    operators: OperatorModel = field(init=False)
    pricer: EdgePricer = field(init=False)
    pricing: Pricing = field(init=False)
    costs: dict[str, FloatArray] = field(default_factory=dict)
    gradients: dict[str, tuple[bool, ...]] = field(default_factory=dict)
    holdings: Holdings = field(init=False)

    def __post_init__(self) -> None:
        setting = self.setting
        self.operators = OperatorModel(setting.cluster.chip)
        model = CollectiveModel(setting.cluster, setting.mesh)
        self.pricer = edge_pricer(setting.dialect, setting.mesh, model)
        self.pricing = self._pricing()
        self.readers, self.makers = self.graph.consumers(), self.graph.producers()
        self._price_operators(OpPricer(setting.mesh, setting.dialect, self.operators, model))
        self.holdings = Holdings(
            self.liveness,
            setting.mesh,
            self.candidates,
            self.readers,
            self.makers,
            setting.recompute,
        )

    @property
    def graph(self) -> OpGraph:
        return self.liveness.graph

    def _pricing(self) -> Pricing:
        if self.setting.cost != MINDSPORE:
            return TimePricing(self.operators, self.pricer)
        from planner.pricing_mindspore import mindspore_pricing  # noqa: PLC0415  seldom asked for

        return mindspore_pricing(self.setting)

    def _price_operators(self, pricer: OpPricer) -> None:
        known: dict[Hashable, int] = {}
        priced: list[tuple[OpCandidates, FloatArray]] = []
        for op in self.graph.ops:
            gradient = self.gradients[op.name] = self.liveness.operand_gradients(op)
            key = (signature(op, self.graph.tensors), gradient)
            number = known.setdefault(key, len(priced))
            if number == len(priced):
                view = OpView(op, self.graph)
                found = pricer.candidates(view, gradient)
                priced.append((found, self.pricing.operator(view, found)))
            self.candidates[op.name], self.costs[op.name] = priced[number]
            self.signatures[op.name] = number

    def run(self) -> Lowered:
        for op in self.graph.ops:
            for name in op.inputs:
                if name and name not in self.sources:
                    self._add_origin(self.graph.tensors[name])
            self._add_operator(op)
        problem = self.builder.build(self.liveness.time_points, self.setting.memory_limit_bytes)
        left_out = self.left_out + sum(self.candidates[op.name].left_out for op in self.graph.ops)
        return Lowered(
            problem,
            tuple(self.nodes),
            tuple(self.edges),
            self.liveness,
            self.setting,
            self.pricer,
            left_out,
        )

    def _add_node(
        self, node: Node, key: Hashable, time_s: FloatArray, holdings: list[Holding]
    ) -> int:
        self.nodes.append(node)
        shape = tuple((h.cause, h.again_s is not None) for h in holdings)
        intervals = tuple(h.interval for h in holdings)

        def make() -> NodeTable:
            held = [self.pricing.holding(h) for h in holdings]
            table, count = table_of(time_s, held), len(self.setting.mesh.axes)
            return replace(table, axes=node_axes(node, count))

        return self.builder.add_node((node.kind, key, shape), make, intervals)

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
            self.ports[key] = port_of(
                parameter_states(tensor, ports, setting.mesh, setting.dialect)
            )
        port = self.ports[key]
        cost = parameter_bytes(tensor.dtype, setting.optimizer, training=setting.training)
        causes = ("weights", "gradients", "optimizer state", "optimizer state")
        node = self.builder.add_node(
            (NodeKind.PARAMETER, tensor.dims, tensor.dtype, port.key),
            lambda: self._parameter_table(tensor, port, cost),
            ((0, self.liveness.time_points),) * len(causes),
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
        update = self.pricing.update(local * cost.moved_by_update)
        parts = (cost.weight, cost.gradient, cost.master, cost.moments)
        held = tuple((local * part)[port.of] for part in parts)
        return NodeTable(update[port.of], held, layout_axes(port, len(self.setting.mesh.axes)))

    def _add_input(self, tensor: Tensor) -> None:
        layout = self.setting.input_layouts[tensor.name]
        port = port_of([PortState(layout, layout)])
        nbytes = local_elements(tensor.dims, layout, self.setting.mesh) * dtype_bytes(tensor.dtype)
        holding = Holding(np.array([nbytes]), (0, self.liveness.time_points), "inputs")
        node = Node(NodeKind.INPUT, tensor.name, None, port, ("inputs",))
        number = self._add_node(node, (tensor.dims, tensor.dtype, layout), np.zeros(1), [holding])
        self.sources[tensor.name] = _Source(number, port, 0)
        if len(self.readers[tensor.name]) > 1:
            self._add_shared(tensor)

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
            mesh, dialect = self.setting.mesh, self.setting.dialect
            states = shared_states(tensor, ports, mesh, dialect, gradient=gradient)
            if pinned:
                self.left_out += len(states) - 1
                whole = replicated(len(tensor.dims))
                states = [PortState(whole, whole)]
            self.ports[key] = port_of(states)
        return self.ports[key]

    def _add_shared(self, tensor: Tensor) -> None:
        """Node of a tensor with several readers, behind whatever makes it."""
        origin, port = self.sources[tensor.name], self._shared_port(tensor)
        saved = tensor.name in self.liveness.saved_by
        holdings = [self.holdings.kept(tensor, port)] if saved else []
        again = recomputed_names(holdings)
        whole_s = holdings[0].again_s.sum() if again and holdings[0].again_s is not None else 0.0
        causes = tuple(h.cause for h in holdings)
        offered = twice(port) if again else port
        number = self._add_node(
            Node(NodeKind.TENSOR, tensor.name, None, offered, causes, again),
            (tensor.dims, tensor.dtype, port.key, whole_s),
            np.zeros(len(port.of)),
            holdings,
        )
        gradient = self.liveness.derived and tensor.name in self.liveness.gradient
        parameter = tensor.role is Role.PARAMETER
        readers = self.readers[tensor.name]
        kind = self._edge_kind(tensor, readers, gradient=gradient, parameter=parameter)
        self._connect(tensor, origin, number, offered, kind)
        self.sources[tensor.name] = _Source(number, offered, 0)

    # Operators

    def _add_operator(self, op: Op) -> None:
        found = self.candidates[op.name]
        holdings = self.holdings.of_operator(op)
        again = recomputed_names(holdings)
        causes = tuple(h.cause for h in holdings)
        whole_s = tuple(float(h.again_s.sum()) for h in holdings if h.again_s is not None)
        node = Node(NodeKind.OPERATOR, op.name, found, None, causes, again)
        key = (self.signatures[op.name], whole_s)
        number = self._add_node(node, key, self.costs[op.name], holdings)
        for index, name in enumerate(op.inputs):
            port = found.operands[index]
            if name and port is not None and name in self.sources:
                self._read(op, number, index, twice(port) if again else port)
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
            scale = min(1.0, tensor.nbytes / BUCKET_BYTES)
            kind = EdgeKind(Shardable(tensor.dims, tensor.dtype, scale), gradient=False)
            self._connect(tensor, self.sources[tensor.name], parameter, port, kind)

    # Edges

    def _edge_kind(
        self, tensor: Tensor, readers: Sequence[Op], *, gradient: bool, parameter: bool
    ) -> EdgeKind:
        """What flows to some readers, a parameter again if one of them reads it back."""
        scale = min(1.0, tensor.nbytes / BUCKET_BYTES) if parameter else 1.0
        again = parameter and any(self.liveness.is_read_back(op, tensor.name) for op in readers)
        return EdgeKind(Shardable(tensor.dims, tensor.dtype, scale), gradient, parameter, again)

    def _read(self, op: Op, node: int, index: int, port: Port) -> None:
        tensor = self.graph.tensors[op.inputs[index]]
        source = self.sources[tensor.name]
        at_rest = self.nodes[source.node].kind is NodeKind.PARAMETER
        gradient = self.gradients[op.name][index]
        kind = self._edge_kind(tensor, [op], gradient=gradient, parameter=at_rest)
        if not at_rest and tensor.role is Role.PARAMETER and self.setting.dialect.cut_counts:
            kind = replace(kind, tied=True)
        copies = self._copies(op, tensor, source, at_rest=at_rest)
        self._connect(tensor, source, node, port, kind, index, copies)

    def _copies(
        self, op: Op, tensor: Tensor, source: _Source, *, at_rest: bool
    ) -> tuple[_Copy, ...]:
        """Gathered weights while they are used; redistributed copies that the backward pass
        needs.
        """
        position = self.liveness.position[op.name]
        back = self.liveness.backward_point(position)
        if at_rest:
            forward = _Copy((position, position + 1), 1.0)
            if not self.liveness.derived:
                return (forward,)
            # The gradient in the layout of use, and the weight again where it is read.
            count = 1.0 + float(self.liveness.is_read_back(op, tensor.name))
            return (forward, _Copy((back, back + 1), count))
        shared = self.nodes[source.node].kind is NodeKind.TENSOR
        if shared and position in self.liveness.saved_by.get(tensor.name, ()):
            return (_Copy((position, back + 1), 1.0),)
        return ()

    def _connect(
        self,
        tensor: Tensor,
        source: _Source,
        node: int,
        port: Port,
        kind: EdgeKind,
        operand: int = -1,
        copies: tuple[_Copy, ...] = (),
    ) -> None:
        shared = self.nodes[node].kind is NodeKind.TENSOR
        price = self.pricing.branch if shared else self.pricing.edge

        def make() -> EdgeTable:
            spread = np.ix_(source.port.of, port.of)
            times = price(kind, source.port, port)[spread]
            if not copies:
                return EdgeTable(times)
            nbytes = port_elements(tensor.dims, port, self.setting.mesh) * dtype_bytes(tensor.dtype)
            held = ~is_same(source.port, port) * nbytes[None, :]
            return EdgeTable(times, tuple((held * c.count)[spread] for c in copies))

        key = (source.result, operand, kind, tuple(c.count for c in copies))
        self.builder.add_edge((source.node, node), key, make, tuple(c.interval for c in copies))
        self.edges.append(Edge(tensor.name, source.node, node, kind, source.port, port, operand))
