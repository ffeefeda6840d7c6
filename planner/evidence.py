"""From a solved problem to a plan: layouts, predicted collectives, time and memory by cause."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from costmodel.collectives import CollectiveModel
from ir.graph import Op, Role
from ir.layout import Layout
from ir.plan import (
    Estimate,
    NamedLayout,
    PlannedCollective,
    PlannedOperator,
    PlannedTensor,
    Published,
    Space,
)
from planner.candidates import FloatArray
from planner.edges import (
    CAUSE_FORWARD,
    CAUSE_GATHER,
    CAUSE_GRADIENT,
    CAUSE_INSIDE,
    CAUSE_SYNC,
    EdgeKind,
)
from planner.likeness import compared
from planner.lowered import Edge, Lowered, Node, NodeKind
from planner.ports import Port, PortState


@dataclass(slots=True)
class _Seen:
    """What was worked out once."""

    named: dict[Layout, NamedLayout] = field(default_factory=dict)
    sent: dict[tuple[int, int, int], tuple[dict[str, Any], ...]] = field(default_factory=dict)
    """By kind of edge and states, told by their identity."""
    groups: dict[tuple[int, ...], tuple[tuple[str, ...], int, str]] = field(default_factory=dict)
    profile: FloatArray | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """Reads a lowered problem under one choice."""

    lowered: Lowered
    choice: Sequence[int]
    _seen: _Seen = field(default_factory=_Seen, compare=False, repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(a.name for a in self.lowered.setting.mesh.axes)

    @property
    def micro_batches(self) -> int:
        """Of one step: what is priced is one of them."""
        return self.lowered.setting.micro_batches

    def named(self, layout: Layout) -> NamedLayout:
        """The layout with the names of the mesh axes."""
        found = self._seen.named.get(layout)
        if found is None:
            names = self.names
            found = self._seen.named[layout] = NamedLayout(
                tuple(tuple(names[a] if a >= 0 else f"/{-a}" for a in dim) for dim in layout.dims),
                tuple(names[a] for a in layout.partial),
            )
        return found

    def operators(self) -> tuple[PlannedOperator, ...]:
        """Every operator with its split."""
        ops = {op.name: op for op in self.lowered.liveness.graph.ops}
        return tuple(
            self._operator(ops[node.name], node, candidate, time_s)
            for node, candidate, time_s in self._priced()
            if node.kind is NodeKind.OPERATOR
        )

    def _priced(self) -> Iterator[tuple[Node, int, FloatArray]]:
        """Every node, its candidate, and the seconds of all its candidates."""
        problem = self.lowered.problem
        tables = (problem.node_tables[i].time_s for i in problem.node_table_of)
        return zip(self.lowered.nodes, self.choice, tables, strict=True)

    def _operator(self, op: Op, node: Node, candidate: int, time_s: FloatArray) -> PlannedOperator:
        found = node.candidates
        if found is None:
            raise TypeError(f"node {node.name} has no candidates")
        index, times = node.assignment_index(candidate), self.micro_batches
        return PlannedOperator(
            name=op.name,
            kind=op.kind,
            label=op.label,
            scope=op.scope,
            split=tuple(zip(self.names, found.assignments[index], strict=True)),
            inputs=tuple(self._port_layout(p, index) for p in found.operands),
            outputs=tuple(self._port_layout(p, index) for p in found.results),
            compute_s=float(found.forward_s[index] + found.backward_s[index]) * times,
            backward_s=float(found.backward_s[index]) * times,
            recompute_s=float(time_s[candidate] - time_s[index]) * times,
        )

    def _port_layout(self, port: Port | None, index: int) -> NamedLayout | None:
        return None if port is None else self.named(port.states[port.of[index]].forward)

    def tensors(self) -> tuple[PlannedTensor, ...]:
        """Parameters at rest, inputs, and tensors with several readers."""
        used: dict[str, NamedLayout] = {}
        for edge in self.lowered.edges:
            if edge.operand >= 0 and edge.tensor not in used:
                used[edge.tensor] = self.named(
                    edge.target_port.states[edge.target_port.of[self.choice[edge.target]]].forward
                )
        out: list[PlannedTensor] = []
        table = self.lowered.liveness.graph.tensors
        for node, candidate, time_s in self._priced():
            if node.port is None or node.kind is NodeKind.SENT:
                continue
            tensor = table[node.name]
            if node.kind is NodeKind.TENSOR and tensor.role is Role.PARAMETER:
                continue
            state = node.port.states[node.port.of[candidate % len(node.port.of)]]
            role = "shared" if node.kind is NodeKind.TENSOR else node.kind.value
            spent_s = float(time_s[candidate]) * self.micro_batches
            out.append(
                PlannedTensor(
                    tensor.name,
                    role,
                    tensor.dims,
                    tensor.dtype,
                    self.named(state.forward),
                    used.get(tensor.name) if role == "parameter" else None,
                    self._gradient_of(tensor.name, state),
                    update_s=spent_s if role == "parameter" else 0.0,
                    recompute_s=spent_s if role == "shared" else 0.0,
                )
            )
        return tuple(out)

    def _gradient_of(self, name: str, state: PortState) -> NamedLayout | None:
        liveness = self.lowered.liveness
        if not (liveness.derived and name in liveness.gradient):
            return None
        return self.named(state.gradient) if self.lowered.setting.dialect.partial_edges else None

    def recomputed(self) -> tuple[str, ...]:
        """Tensors that the choice computes again."""
        out: list[str] = []
        sizes = self.lowered.problem.sizes
        for node, candidate, size in zip(self.lowered.nodes, self.choice, sizes, strict=True):
            if node.recomputes and candidate >= size // 2:
                out += node.recomputes
        return tuple(out)

    def collectives(self) -> tuple[PlannedCollective, ...]:
        """Every predicted collective, in program order."""
        return (*self._on_edges(), *self._inside())

    def _on_edges(self) -> Iterator[PlannedCollective]:
        for edge in self.lowered.edges:
            node = self.lowered.nodes[edge.target]
            reader = node.name if node.kind is NodeKind.OPERATOR else ""
            for sent in self._sent(edge):
                yield PlannedCollective(
                    tensor=edge.tensor, operator=reader, operand=edge.operand, **sent
                )

    def _sent(self, edge: Edge) -> tuple[dict[str, Any], ...]:
        """What is sent along an edge; edges of one kind between the same states share it."""
        source = edge.source_port.states[edge.source_port.of[self.choice[edge.source]]]
        target = edge.target_port.states[edge.target_port.of[self.choice[edge.target]]]
        key = (id(edge.kind), id(source), id(target))
        if key not in self._seen.sent:
            self._seen.sent[key] = tuple(self._messages(edge.kind, source, target))
        return self._seen.sent[key]

    def _messages(
        self, kind: EdgeKind, source: PortState, target: PortState
    ) -> Iterator[dict[str, Any]]:
        """Fields of a `PlannedCollective` that do not depend on the tensor and its reader."""
        moves = self.lowered.pricer.transfers(kind, source, target)
        gathers = sum(move.cause in {CAUSE_GATHER, CAUSE_FORWARD} for move in moves)
        for number, transfer in enumerate(moves):
            step = transfer.step
            again = kind.regathered and gathers // 2 <= number < gathers
            times = 1 if transfer.once else self.micro_batches
            if step.kind is not None:
                axes, size, tier = self._group(step.axes)
                yield {
                    "kind": step.kind.value,
                    "axes": axes,
                    "group_size": size,
                    "nbytes": step.nbytes,
                    "count": times,
                    "time_s": step.time_s * times,
                    "tier": tier,
                    "cause": transfer.cause,
                    "before": self.named(transfer.before),
                    "after": self.named(transfer.after),
                    "backward": times * (again or transfer.cause in {CAUSE_GRADIENT, CAUSE_SYNC}),
                }

    def _inside(self) -> Iterator[PlannedCollective]:
        for node, candidate in zip(self.lowered.nodes, self.choice, strict=True):
            if node.candidates is None:
                continue
            for item in node.candidates.inner[node.assignment_index(candidate)]:
                axes, size, tier = self._group(item.axes)
                if item.forward + item.backward:
                    yield PlannedCollective(
                        kind=item.kind.value,
                        axes=axes,
                        group_size=size,
                        nbytes=item.nbytes,
                        count=(item.forward + item.backward) * self.micro_batches,
                        time_s=item.time_s * self.micro_batches,
                        tier=tier,
                        cause=CAUSE_INSIDE,
                        tensor="",
                        operator=node.name,
                        backward=item.backward * self.micro_batches,
                    )

    def _group(self, axes: tuple[int, ...]) -> tuple[tuple[str, ...], int, str]:
        """Names, size and outermost tier of the group over some axes."""
        found = self._seen.groups.get(axes)
        if found is None:
            mesh = self.lowered.setting.mesh
            model = CollectiveModel(self.lowered.setting.cluster, mesh)
            names = tuple(mesh.axes[a].name for a in axes)
            size = math.prod(mesh.sizes[a] for a in axes)
            found = self._seen.groups[axes] = names, size, model.tier_of(tuple(sorted(axes)))
        return found

    def estimate(self, collectives: Sequence[PlannedCollective]) -> Estimate:
        """Time and memory by cause; the parts sum to the whole."""
        problem = self.lowered.problem
        groups = communicators_of(collectives)
        excess = self.buffer_excess_bytes(collectives)
        memory = self._memory_by_cause()
        if excess:
            memory["communication buffers"] = float(excess)
        time = self.compute_by_cause(lambda _: True)
        for item in collectives:
            key = f"{item.kind} in {item.tier}"
            time[key] = time.get(key, 0.0) + item.time_s
        buffer_bytes = self.lowered.setting.cluster.communicator_buffer_bytes
        published, unlike = self._published()
        return Estimate(
            step_time_s=problem.cost_s(self.choice) * self.micro_batches,
            time_by_cause={k: v for k, v in time.items() if v > 0},
            peak_memory_bytes=float(self._profile().max(initial=0.0)) + excess,
            memory_limit_bytes=problem.memory_limit_bytes,
            memory_by_cause=memory,
            communicators=groups,
            communicator_bytes=float(groups * buffer_bytes),
            published=published,
            unlike=unlike,
        )

    def _published(self) -> tuple[Published | None, str]:
        """What published training runs on such chips say of the step, or why they do not."""
        setting = self.lowered.setting
        chosen = {
            node.name: (node.candidates, node.assignment_index(number))
            for node, number in zip(self.lowered.nodes, self.choice, strict=True)
            if node.candidates is not None
        }
        if not setting.training:
            return None, "a forward pass alone; the runs are of training"
        forward_s = {name: float(found.forward_s[at]) for name, (found, at) in chosen.items()}
        split = {name: found.assignments[at] for name, (found, at) in chosen.items()}
        return compared(self.lowered.liveness.graph, setting.cluster.chip, forward_s, split)

    def compute_by_cause(self, wanted: Callable[[Node], bool]) -> dict[str, float]:
        """Seconds of everything but communication, of some nodes."""
        problem = self.lowered.problem
        time = dict.fromkeys(
            ("compute forward", "compute backward", "optimizer update", "recompute"), 0.0
        )
        for index, (node, chosen) in enumerate(zip(self.lowered.nodes, self.choice, strict=True)):
            if not wanted(node):
                continue
            total = float(problem.node_tables[problem.node_table_of[index]].time_s[chosen])
            if node.candidates is None:
                time["recompute" if node.kind is NodeKind.TENSOR else "optimizer update"] += total
                continue
            at = node.assignment_index(chosen)
            forward = float(node.candidates.forward_s[at])
            backward = float(node.candidates.backward_s[at])
            time["compute forward"] += forward
            time["compute backward"] += backward
            if node.recomputes:
                inside = float(node.candidates.inner_s[at])
                time["recompute"] += max(total - forward - backward - inside, 0.0)
        return {cause: spent_s * self.micro_batches for cause, spent_s in time.items()}

    def buffer_excess_bytes(self, collectives: Sequence[PlannedCollective] | None = None) -> int:
        """Buffers of the communication groups beyond the cluster's reserve."""
        cluster = self.lowered.setting.cluster
        every_group = 2 ** len(self.lowered.setting.mesh.axes) - 1
        if not cluster.buffer_excess_bytes(every_group):
            return 0
        groups = self._communicators() if collectives is None else communicators_of(collectives)
        return cluster.buffer_excess_bytes(groups)

    def _communicators(self) -> int:
        """`communicators_of` all collectives, without listing them."""
        for edge in self.lowered.edges:
            self._sent(edge)
        messages = (each for sent in self._seen.sent.values() for each in sent)
        groups = {frozenset(each["axes"]) for each in messages if each["group_size"] > 1}
        return len(groups | {frozenset(i.axes) for i in self._inside() if i.group_size > 1})

    def memory_bytes(self, collectives: Sequence[PlannedCollective]) -> tuple[float, ...]:
        """In use at every time point of the liveness."""
        excess = self.buffer_excess_bytes(collectives)
        return tuple((self._profile() + excess).tolist())

    def _profile(self) -> FloatArray:
        """Bytes at every time point, buffers of groups aside."""
        if self._seen.profile is None:
            self._seen.profile = self.lowered.problem.memory_profile(self.choice)
        return self._seen.profile

    def _memory_by_cause(self) -> dict[str, float]:
        problem = self.lowered.problem
        profile = self._profile()
        peak = int(profile.argmax()) if len(profile) else 0
        causes: dict[str, float] = {}
        for index, node in enumerate(self.lowered.nodes):
            table = problem.node_tables[problem.node_table_of[index]]
            for vector, (start, end), cause in zip(
                table.memory_bytes, problem.node_intervals[index], node.memory_causes, strict=True
            ):
                if start <= peak < end:
                    causes[cause] = causes.get(cause, 0.0) + float(vector[self.choice[index]])
        for edge, table_index, spans in zip(
            self.lowered.edges, problem.edge_table_of, problem.edge_intervals, strict=True
        ):
            for matrix, (start, end) in zip(
                problem.edge_tables[table_index].memory_bytes, spans, strict=True
            ):
                if start <= peak < end:
                    causes["gathered copies"] = causes.get("gathered copies", 0.0) + float(
                        matrix[self.choice[edge.source], self.choice[edge.target]]
                    )
        return dict(sorted(((k, v) for k, v in causes.items() if v > 0), key=lambda kv: -kv[1]))


def communicators_of(collectives: Sequence[PlannedCollective]) -> int:
    """Communication groups that each device is in: one for every set of mesh axes used."""
    return len({frozenset(item.axes) for item in collectives if item.group_size > 1})


def space_of(searched: Sequence[Lowered]) -> Space:
    """The space that some problems span together, one for each mesh."""
    sizes = [lowered.problem.sizes for lowered in searched]
    plans = [sum(math.log10(s) for s in own) for own in sizes]
    most = max(plans)
    return Space(
        dialect=searched[0].setting.dialect.name,
        meshes=tuple(tuple((a.name, a.size) for a in x.setting.mesh.axes) for x in searched),
        nodes=max(len(own) for own in sizes),
        candidates=sum(sum(own) for own in sizes),
        largest=max(max(own, default=0) for own in sizes),
        log10_plans=most + math.log10(sum(10 ** (p - most) for p in plans)),
        left_out=sum(x.left_out for x in searched),
    )
