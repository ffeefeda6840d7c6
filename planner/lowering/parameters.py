"""Candidates and costs of parameters: layouts at rest, levels of ZeRO, state on the host.

Once in a step the master copy and the moments of a parameter whose state rests on the host come to
the device, are updated and go back. MindSpore keeps one layout of a parameter: it
refuses operators that read it in different ones (2.7.0, `step_parallel.cc`, CheckParameterSplit).
So an edge joins its copies in several stages, and what differs is forbidden along it. It is the
only thing that pieces have in common, and leaving it out, as bounds do, never takes longer.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from costmodel.memory import ParameterBytes, is_orthogonalised, tensor_bytes
from costmodel.overlap import Loads
from costmodel.redistribution import UNREACHABLE_S, Shardable
from ir.dtypes import dtype_bytes
from ir.graph import Op, Tensor
from ir.plan_enums import MemoryCause
from planner.candidates.columns import Columns, IndexArray
from planner.candidates.layout_tables import LayoutTable, local_elements, shard_elements
from planner.lowering.edge_pricers import FreeEdges
from planner.lowering.edges import EdgeKind, is_same
from planner.lowering.liveness import Liveness
from planner.lowering.lowered import Edge, Lowered, Node, NodeKind, Setting
from planner.lowering.optimizer_states import messages_in_parts, times_in_parts, zero_columns
from planner.lowering.pricing import LoweringCache
from planner.problem import EdgeTable, FloatArray, Interval, NodeTable
from planner.request import InfeasibleError, RequestError
from topology.cluster import Chip, Cluster
from topology.units import format_bytes

ROUNDING = 1 + 1e-9
CAUSES = (
    MemoryCause.WEIGHTS,
    MemoryCause.GRADIENTS,
    MemoryCause.OPTIMIZER_STATE,
    MemoryCause.OPTIMIZER_STATE,
)
"""Of the memory of a parameter."""


@dataclass(frozen=True, slots=True, eq=False)
class Parameter:
    """A parameter of the graph, its layouts at rest and its candidates."""

    tensor: Tensor
    layouts: LayoutTable
    rest: Columns
    """Candidates with their state on the device."""
    columns: Columns
    rows: IndexArray
    """What each candidate is among those with their state on the device."""
    host_limit_bytes: float
    """State that may rest in the memory of the host of each device."""
    is_movable: bool
    """Whether its state may rest there."""


@dataclass(slots=True)
class Parameters:
    """The parameters of one problem."""

    liveness: Liveness
    setting: Setting
    basis: LoweringCache
    readers: Mapping[str, Sequence[Op]]
    _columns: dict[int, tuple[LayoutTable, Columns]] = field(default_factory=dict)
    _state_bytes: dict[Interval, float] = field(default_factory=dict)
    _each: dict[str, ParameterBytes] = field(default_factory=dict)

    def of(self, tensor: Tensor, layouts: LayoutTable) -> Parameter:
        """A parameter with these layouts at rest."""
        rest, movable = self._rest(layouts), self._is_movable(tensor)
        rows = np.arange(len(rest))
        columns, limit = rest, math.inf
        if movable:
            always = self.setting.states is not None and self.setting.states.offload == "on"
            rows = rows if always else np.tile(rows, 2)
            columns, limit = rest.with_host(always=always), self._host_share(tensor)
        return Parameter(tensor, layouts, rest, columns, rows, limit, movable)

    def _rest(self, layouts: LayoutTable) -> Columns:
        if id(layouts) not in self._columns:
            states, free = self.setting.states, isinstance(self.basis.pricer, FreeEdges)
            columns = Columns.of(len(layouts.of))
            if states is not None:
                axes = len(self.setting.mesh.axes)
                columns = zero_columns(layouts, axes, states.zero, free=free)
            self._columns[id(layouts)] = layouts, columns
        return self._columns[id(layouts)][1]

    def _bytes(self, tensor: Tensor) -> ParameterBytes:
        if tensor.name not in self._each:
            setting, graph = self.setting, self.liveness.graph
            own = tensor_bytes(graph, tensor, setting.optimizer, training=setting.training)
            self._each[tensor.name] = own
        return self._each[tensor.name]

    def _is_movable(self, tensor: Tensor) -> bool:
        states, each = self.setting.states, self._bytes(tensor)
        if states is None or states.offload == "off" or tensor.name in states.shared:
            return False
        known = self.setting.cluster.chip.host_bandwidth_bytes_per_s
        return bool(known and tensor.elements * each.states)

    def _host_share(self, tensor: Tensor) -> float:
        """What a parameter may keep on the host of each device: its share. Then all of them fit."""
        room = self.setting.cluster.host_memory_bytes
        if room is None:
            return math.inf
        if not self._state_bytes:
            for own in self.liveness.graph.parameters:
                if self.readers.get(own.name):
                    part = self.lifetime(own.name)
                    total = self._state_bytes.get(part, 0.0) + self._whole_state_bytes(own)
                    self._state_bytes[part] = total
        share = float(room) * self._whole_state_bytes(tensor)
        return share / self._state_bytes[self.lifetime(tensor.name)]

    def _whole_state_bytes(self, tensor: Tensor) -> float:
        return tensor.elements * self._bytes(tensor).states

    def lifetime(self, name: str) -> Interval:
        """All time points of the piece of the graph that reads a tensor."""
        readers = self.readers.get(name, [])
        if not readers:
            return (0, self.liveness.time_points)
        return self.liveness.lifetime(self.liveness.position[readers[0].name])

    def node_variant(self, own: Parameter) -> Hashable:
        """What tells the candidates of equal parameters apart."""
        each = self._bytes(own.tensor)
        if self.setting.states is None:
            return each
        return each, id(own.layouts), own.is_movable, own.host_limit_bytes

    def node_table(self, own: Parameter) -> NodeTable:
        """Weight, gradient, master copy and moments each where they rest."""
        setting, columns, each = self.setting, own.columns, self._bytes(own.tensor)
        local = shard_elements(own.tensor.dims, own.layouts, setting.mesh)[own.layouts.of]
        update = self._update(own, local * each.moved_by_update) / setting.once_per
        gradient_at = np.where(columns.zero == 2, columns.states, columns.assignment)
        time_s = update[columns.states]
        held = [(local * part)[columns.states] for part in (each.master, each.moments)]
        if columns.host.any():
            moved = np.sum(held, axis=0)
            bandwidth = setting.cluster.chip.host_bandwidth_bytes_per_s or math.inf
            spent_s = moved / bandwidth / setting.once_per
            spent_s = np.where(moved <= own.host_limit_bytes * ROUNDING, spent_s, UNREACHABLE_S)
            time_s = np.where(columns.host, time_s + spent_s, time_s)
            held = [np.where(columns.host, 0.0, state) for state in held]
        memory = (
            (local * each.weight)[columns.assignment],
            (local * each.gradient)[gradient_at],
            *held,
        )
        axes = own.layouts.axis_choices(len(setting.mesh.axes))
        return NodeTable(time_s, memory, axes[columns.assignment])

    def _update(self, own: Parameter, moved: FloatArray) -> FloatArray:
        """Cost of an update that moves so many bytes, for each layout."""
        setting, pricing, tensor = self.setting, self.basis.pricing, own.tensor
        cost = pricing.update(moved)
        if is_orthogonalised(self.liveness.graph, tensor, setting.optimizer):
            parts = own.layouts.pieces(setting.mesh.sizes)[own.layouts.of]
            cost = cost + pricing.orthogonalise(-(-np.array(tensor.dims) // parts))
        return cost

    def edge_variant(self, own: Parameter) -> Hashable:
        """What tells equal edges of a parameter apart."""
        states = self.setting.states
        exchanged = states is not None and states.exchange_of(own.tensor.name) is not None
        return own.tensor.name if exchanged else None, own.is_movable

    def edge_table(
        self,
        own: Parameter,
        table: EdgeTable,
        kind: EdgeKind,
        target: LayoutTable,
        read: IndexArray,
    ) -> EdgeTable:
        """What an edge of a parameter costs.

        Args:
            own: the parameter.
            table: by candidate, if each rested all in its layout at rest.
            kind: what flows.
            target: layouts of the reader.
            read: those of its candidates.
        """
        states, columns, form = self.setting.states, own.rest, self.setting.form
        if states is None:
            return table
        times, copies, loads = table.time_s, list(table.memory_bytes), table.loads
        if isinstance(self.basis.pricer, FreeEdges) and states.zero in {"0", "1", "2"}:
            same = is_same(own.layouts, target)[columns.assignment][:, read]
            times = np.where(same, times, UNREACHABLE_S)
        rows = np.flatnonzero(columns.zero)
        setting, dims, width = self.setting, own.tensor.dims, dtype_bytes(own.tensor.dtype)
        if len(rows):
            counts = setting.micro_batches, setting.once_per
            ends, some = (own.layouts, target), columns.take(rows)
            parts_s = times_in_parts(self.basis.pricer, kind, ends, some, counts)
            times[rows] = parts_s[:, read]
            if loads is not None and form is not None:
                sent = messages_in_parts(self.basis.pricer, kind, ends, some, counts[0])
                made = sent.loads(form, parts_s, setting.once_per, at_end=kind.at_end)
                loads[:, rows] = made[:, :, read]
            second = rows[some.zero == 2]
            if len(copies) > 1 and len(second):
                # The gradient of a micro-batch in the layout of use.
                used = shard_elements(dims, target, setting.mesh) * width
                copies[1][second] = used[read]
        exchange_s = states.exchange_of(own.tensor.name)
        if exchange_s is not None:
            local = shard_elements(dims, own.layouts, setting.mesh)
            spent_s = exchange_s(local[columns.states] * width)[:, None] / setting.once_per
            times = times + spent_s
            if loads is not None:
                loads[Loads.FIXED] += spent_s
        times = np.minimum(times, UNREACHABLE_S)
        if loads is not None:
            loads = np.where(times >= UNREACHABLE_S, 0.0, loads)
            loads[Loads.FIXED][times >= UNREACHABLE_S] = UNREACHABLE_S
        if len(own.rows) == len(columns):
            return EdgeTable(times, tuple(copies), loads)
        return EdgeTable(
            times[own.rows],
            tuple(copy[own.rows] for copy in copies),
            None if loads is None else loads[:, own.rows],
        )


STATES = slice(2, 4)
"""The master copy and the moments among what a parameter holds."""


def host_bytes(lowered: Lowered, node: Node, candidate: int) -> float:
    """Optimizer state of a parameter that each device has in the memory of its host."""
    if not node.columns.host[candidate]:
        return 0.0
    graph, setting = lowered.liveness.graph, lowered.setting
    tensor = graph.tensors[node.name]
    each = tensor_bytes(graph, tensor, setting.optimizer, training=setting.training)
    elements = local_elements(tensor.dims, node.states(candidate).forward, setting.mesh)
    return elements * each.states


def host_s(lowered: Lowered, nbytes: float) -> float:
    """Seconds of a step in which so much state comes from the host and goes back."""
    rate = lowered.setting.cluster.chip.host_bandwidth_bytes_per_s
    return nbytes / rate if rate else 0.0


def check_offload(chip: Chip, offload: str) -> tuple[str, ...]:
    """What is to be said of states on the host of a chip, for the reader of the plan.

    Raises:
        RequestError: they are to rest there, and no link to it is known.
    """
    if offload == "off" or chip.host_bandwidth_bytes_per_s:
        return ()
    what = f"no link to the memory of its host is known of {chip.name}"
    if offload == "on":
        raise RequestError(
            f"{what}\n  at:  --offload on\n"
            "  fix: leave it out, or give the chip a link PCIE with its bandwidth"
        )
    return (f"{what}: optimizer state stays on the devices",)


def no_room_on_host(error: InfeasibleError, cluster: Cluster, offload: str) -> InfeasibleError:
    """The error, which names the memory of the host where that of the devices is enough."""
    room = cluster.host_memory_bytes
    if offload != "on" or room is None or error.needed_bytes > error.available_bytes:
        return error
    what = (
        f"no plan was found whose optimizer state fits into the {format_bytes(room)} of the memory "
        "of the host that fall to a device"
    )
    return replace(error, what=what, remedies=("--offload auto",), baselines=())


def brought_back(
    lowered: Lowered, choice: Sequence[int], nodes: Sequence[int], spare_bytes: float
) -> dict[int, int]:
    """Candidates of parameters whose state the device has room for after all, the largest first.

    State costs the same time for each byte on its way from the host, so a price on memory moves all
    of it or none.

    Args:
        lowered: a problem with state on either side.
        choice: a candidate for every node.
        nodes: those that share a device.
        spare_bytes: room that is left there.
    """
    found: dict[int, tuple[float, int]] = {}
    for number in nodes:
        columns, chosen = lowered.nodes[number].columns, choice[number]
        here = columns.on_device(chosen) if columns.host[chosen] else None
        if here is not None:
            table = lowered.problem.node_tables[lowered.problem.node_table_of[number]]
            held = float(sum(vector[here] for vector in table.memory_bytes[STATES]))
            found[number] = held, here
    back = {}
    for number, (held, here) in sorted(found.items(), key=lambda item: (-item[1][0], item[0])):
        if held <= spare_bytes:
            back[number] = here
            spare_bytes -= held
    return back


TIED_NOTE = (
    "a parameter that several stages share has one layout in all of them; the space has no others"
)
"""For the reader of a plan."""


def lies_alike(lowered: Lowered) -> bool:
    """Whether the target wants a parameter of several stages laid out alike in all of them."""
    return lowered.setting.dialect.cut_counts


def tied_pairs(lowered: Lowered) -> tuple[tuple[int, int], ...]:
    """Nodes of one parameter in two pieces that have to choose the same; none if the target lets
    every stage lay it out as it likes.
    """
    if not lies_alike(lowered):
        return ()
    holders: dict[str, list[int]] = {}
    for number, node in enumerate(lowered.nodes):
        if node.kind is NodeKind.PARAMETER:
            holders.setdefault(node.origin.name, []).append(number)
    return tuple(pair for own in holders.values() for pair in pairwise(own))


def with_tied(lowered: Lowered) -> Lowered:
    """The problem of pieces side by side in which each parameter is laid out in one way."""
    pairs = tied_pairs(lowered)
    if not pairs:
        return lowered
    problem, edges = lowered.problem, tuple(_edge(lowered, pair) for pair in pairs)
    tables = tuple(
        EdgeTable(_unlike_s(lowered.nodes[source], lowered.nodes[target]))
        for source, target in pairs
    )
    first = len(problem.edge_tables)
    problem = replace(
        problem,
        edges=(*problem.edges, *pairs),
        edge_tables=(*problem.edge_tables, *tables),
        edge_table_of=(*problem.edge_table_of, *range(first, first + len(tables))),
        edge_intervals=(*problem.edge_intervals, *((),) * len(pairs)),
    )
    return replace(lowered, problem=problem, edges=(*lowered.edges, *edges))


def common_layouts(lowered: Lowered, choice: Sequence[int]) -> tuple[object, ...]:
    """In what each parameter of several pieces is laid out: choices may be mixed, piece by piece,
    if they agree in these.
    """
    firsts = (first for first, _ in tied_pairs(lowered))
    return tuple(placements(lowered.nodes[first])[choice[first]] for first in firsts)


def _edge(lowered: Lowered, pair: tuple[int, int]) -> Edge:
    """Nothing flows along it."""
    source, target = (lowered.nodes[number] for number in pair)
    if source.layouts is None or target.layouts is None:
        raise TypeError(f"{source.name} has no layouts")
    tensor = lowered.liveness.graph.tensors[source.name]
    kind = EdgeKind(Shardable(tensor.dims, tensor.dtype), gradient=False)
    return Edge(source.name, *pair, kind, source.layouts, target.layouts, -1)


def placements(node: Node) -> list[tuple[object, ...]]:
    """Where each candidate of a parameter has it and its state."""
    levels, hosts = node.columns.zero.tolist(), node.columns.host.tolist()
    return [
        (node.layout(number), node.states(number), level, host)
        for number, (level, host) in enumerate(zip(levels, hosts, strict=True))
    ]


def _unlike_s(source: Node, target: Node) -> FloatArray:
    """0 where two candidates lay a parameter out alike, in what is forbidden otherwise."""
    own, other = placements(source), placements(target)
    number = {place: index for index, place in enumerate(dict.fromkeys((*own, *other)))}
    rows, columns = ([number[place] for place in each] for each in (own, other))
    return np.where(np.equal.outer(rows, columns), 0.0, UNREACHABLE_S)
