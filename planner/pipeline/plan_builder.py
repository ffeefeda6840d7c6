"""What a plan says of one mesh: layouts, predicted collectives, time and memory by cause."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from costmodel.plan_overlap import (
    StageTimes,
    StageWindows,
    hides,
    host_waits,
    windows_of,
    with_hidden,
)
from ir.graph import Op, Role
from ir.plan import NamedLayout, PlannedCollective, PlannedOperator, PlannedTensor
from ir.plan_enums import Cause, MemoryCause
from ir.plan_estimate import Estimate, Published
from planner.candidates.layout_tables import LayoutPair, LayoutTable
from planner.candidates.operators import FloatArray
from planner.lowering.calibration_class import compared
from planner.lowering.held import held_of
from planner.lowering.lowered import Node, NodeKind
from planner.lowering.parameters import host_bytes, host_s
from planner.pipeline.mesh_collectives import MeshCollectives, communicators_of


@dataclass(frozen=True, slots=True)
class PlanBuilder(MeshCollectives):
    """The parts of a plan that one mesh has, read from its problem and choice.

    The mesh may run several stages side by side; what it says of each has the stage's number.
    """

    def collectives(self) -> tuple[PlannedCollective, ...]:
        """Every predicted collective, in program order, with what hides of it."""
        if self._seen.overlapped is None:
            found = MeshCollectives.collectives(self)
            if self.lowered.problem.overlap is not None:
                found = with_hidden(found, self._stages(found))
            self._seen.overlapped = found
        return self._seen.overlapped

    def hidden_share(self, counted: int = 1) -> Callable[[PlannedCollective], float]:
        """The share of a message that computation hides beside the choice.

        Args:
            counted: micro-batches that the numbers of the problem are of.
        """
        if self.lowered.problem.overlap is None:
            return lambda _: 0.0
        stages = self._stages(MeshCollectives.collectives(self), counted)
        return lambda item: stages[item.stage].hidden_share(item)

    def _stages(
        self, items: Iterable[PlannedCollective], counted: int = 1
    ) -> dict[int, StageWindows]:
        software = self.lowered.setting.software
        return windows_of(items, self._works(counted), self.micro_batches, software)

    def _works(self, counted: int) -> dict[int, StageTimes]:
        """What the stages of the mesh compute in a micro-batch, layer by layer."""
        problem, axes = self.lowered.problem, self.lowered.setting.mesh.axes
        overlap = problem.overlap
        if overlap is None:
            return {}
        loads, tensors = problem.loads(self.choice) / counted, self.lowered.liveness.graph.tensors
        tiers = {axis.name: axis.tier for axis in axes if axis.size > 1}
        firsts: dict[int, int] = {}
        layers: dict[int, list[int]] = {}
        parameters: dict[int, dict[str, int]] = {}
        for node, layer in zip(self.lowered.nodes, overlap.layer_of, strict=True):
            first = firsts.setdefault(node.stage, layer)
            if layer not in (own := layers.setdefault(node.stage, [])):
                own.append(layer)
            if node.kind is NodeKind.PARAMETER and hides(tensors[node.name]):
                parameters.setdefault(node.stage, {})[node.origin.name] = layer - first
        at = overlap.form.loads
        forward_s = np.maximum(loads[:, at.FORWARD], loads[:, at.HOST])
        backward_s = np.maximum(loads[:, at.BACKWARD], loads[:, at.HOST])
        return {
            stage: StageTimes(
                forward_s[own].tolist(),
                backward_s[own].tolist(),
                parameters.get(stage, {}),
                tiers,
            )
            for stage, own in layers.items()
        }

    def operators(self) -> tuple[PlannedOperator, ...]:
        """Every operator with its split."""
        ops = {op.name: op for op in self.lowered.liveness.graph.ops}
        waits, times = self._waits(), self.micro_batches
        return tuple(
            self._operator(ops[node.name], node, candidate, time_s, times * own)
            for (node, candidate, time_s), own in zip(self._priced(), waits, strict=True)
            if node.kind is NodeKind.OPERATOR
        )

    def _waits(self) -> FloatArray:
        """Seconds of a micro-batch in which the device waits for the host at each node, forward
        and backward, shape (nodes, 2).
        """
        problem, setting = self.lowered.problem, self.lowered.setting
        overlap, host_s = problem.overlap, setting.software.host_s
        out = np.zeros((len(self.choice), 2))
        if overlap is None or not host_s:
            return out
        at, loads = overlap.form.loads, problem.loads(self.choice)
        kernels = loads[:, at.FORWARD], loads[:, at.BACKWARD]
        waits = host_waits(*kernels, loads[:, at.HOST] / host_s, host_s)
        for number, (node, candidate, _) in enumerate(self._priced()):
            found = node.candidates
            if found is not None and found.forward_s[node.row(candidate)] > 0:
                out[number] = waits[:, overlap.layer_of[number]]
        return out

    def _priced(self) -> Iterator[tuple[Node, int, FloatArray]]:
        """Every node, its candidate, and the seconds of all its candidates."""
        problem = self.lowered.problem
        tables = (problem.node_tables[i].time_s for i in problem.node_table_of)
        return zip(self.lowered.nodes, self.choice, tables, strict=True)

    def _operator(
        self, op: Op, node: Node, candidate: int, time_s: FloatArray, waits_s: FloatArray
    ) -> PlannedOperator:
        found = node.candidates
        if found is None:
            raise TypeError(f"node {node.name} has no candidates")
        index, times = node.row(candidate), self.micro_batches
        again_s = float(found.forward_s[index]) * times if self._in_block(node) else 0.0
        planned = PlannedOperator(
            name=node.origin.name,
            kind=op.kind,
            label=op.label,
            scope=op.scope,
            split=tuple(zip(self.names, found.assignments[index], strict=True)),
            inputs=tuple(self._port_layout(p, index) for p in found.operands),
            outputs=tuple(self._port_layout(p, index) for p in found.results),
            compute_s=float(found.forward_s[index] + found.backward_s[index]) * times - again_s,
            backward_s=float(found.backward_s[index]) * times - again_s,
            recompute_s=float(time_s[candidate] - time_s[node.columns.keeping(candidate)]) * times
            + again_s,
            stage=node.stage,
        )
        return planned.waiting(*waits_s.tolist()) if waits_s.any() else planned

    def _in_block(self, node: Node) -> bool:
        """Whether an operator's block is computed again, so that its backward pass includes it."""
        liveness = self.lowered.liveness
        return liveness.block_of(liveness.position[node.name]) is not None

    def _port_layout(self, port: LayoutTable | None, index: int) -> NamedLayout | None:
        return None if port is None else self.named(port.states[port.of[index]].forward)

    def tensors(self) -> tuple[PlannedTensor, ...]:
        """Parameters at rest, inputs, and tensors with several readers."""
        used: dict[str, NamedLayout] = {}
        for edge in self.lowered.edges:
            if edge.operand >= 0 and edge.tensor not in used:
                used[edge.tensor] = self.named(self._flow(edge).target.forward)
        out: list[PlannedTensor] = []
        table = self.lowered.liveness.graph.tensors
        for node, candidate, time_s in self._priced():
            if node.layouts is None or node.kind is NodeKind.SENT:
                continue
            tensor = table[node.name]
            if node.kind is NodeKind.TENSOR and tensor.role is Role.PARAMETER:
                continue
            state = node.layout(candidate)
            role = "shared" if node.kind is NodeKind.TENSOR else node.kind.value
            spent_s = float(time_s[candidate]) * self.micro_batches
            found = PlannedTensor(
                node.origin.name,
                role,
                tensor.dims,
                tensor.dtype,
                self.named(state.forward),
                used.get(tensor.name) if role == "parameter" else None,
                self._gradient_of(tensor.name, state),
                update_s=spent_s if role == "parameter" else 0.0,
                recompute_s=spent_s if role == "shared" else 0.0,
                stage=node.stage,
            )
            offered = role == "parameter" and self.lowered.setting.states is not None
            out.append(self._with_states(found, node, candidate) if offered else found)
        return tuple(out)

    def _with_states(self, tensor: PlannedTensor, node: Node, candidate: int) -> PlannedTensor:
        """A parameter with where its optimizer state rests, and the time that the host takes of
        its update.
        """
        nbytes = host_bytes(self.lowered, node, candidate)
        if nbytes:
            spent_s = host_s(self.lowered, nbytes)
            update_s = max(tensor.update_s - spent_s, 0.0)
            tensor = replace(tensor, update_s=update_s, host_bytes=nbytes, host_s=spent_s)
        level = int(node.columns.zero[candidate])
        if level:
            return replace(tensor, zero=level, states=self.named(node.states(candidate).forward))
        sharded = tensor.used is not None and tensor.used != tensor.layout
        return replace(tensor, zero=3 if sharded else 0)

    def _gradient_of(self, name: str, state: LayoutPair) -> NamedLayout | None:
        liveness = self.lowered.liveness
        if not (liveness.derived and name in liveness.gradient):
            return None
        return self.named(state.gradient) if self.lowered.setting.dialect.partial_edges else None

    def recomputed(self) -> tuple[str, ...]:
        """Tensors that the choice computes again, then those of blocks that are as a whole."""
        out: list[str] = []
        for node, candidate in zip(self.lowered.nodes, self.choice, strict=True):
            if node.columns.recompute[candidate]:
                out += node.recomputes
        liveness = self.lowered.liveness
        makers = liveness.graph.producers() if liveness.blocks else {}
        for name in liveness.saved_by:
            maker = makers.get(name)
            if maker is not None and liveness.remade_in(name, liveness.position[maker.name]):
                out.append(liveness.origin(name).name)
        return tuple(out)

    def estimate(self) -> Estimate:
        """Time and memory by cause; the parts sum to the whole."""
        problem = self.lowered.problem
        groups = communicators_of(self.collectives())
        excess = self.buffer_excess_bytes()
        memory = self.memory_by_cause()
        if excess:
            memory[MemoryCause.COMMUNICATION_BUFFERS] = float(excess)
        time = self.time_by_cause()
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
            hidden_by_cause=self.hidden_by_cause(),
        )

    def _published(self) -> tuple[Published | None, str]:
        """What published training runs on such chips say of the step, or why they do not."""
        setting = self.lowered.setting
        chosen = {
            node.name: (node.candidates, node.row(number))
            for node, number in zip(self.lowered.nodes, self.choice, strict=True)
            if node.candidates is not None
        }
        if not setting.training:
            return None, "a forward pass alone; the runs are of training"
        forward_s = {name: float(found.forward_s[at]) for name, (found, at) in chosen.items()}
        split = {name: found.assignments[at] for name, (found, at) in chosen.items()}
        if self.lowered.problem.overlap is None and not setting.software.is_neutral:
            return None, "nothing overlaps in it; the runs of software profiles did"
        graph, chip = self.lowered.liveness.graph, setting.cluster.chip
        return compared(graph, chip, forward_s, split, setting.software)

    def time_by_cause(self, part: int = 0, parts: int = 1) -> dict[str, float]:
        """Seconds of a step, without what stages receive.

        Args:
            part: of the machine: that of every stage with this number modulo `parts`.
            parts: in a row.
        """
        time = self._without_collectives(part, parts)
        for item in self.collectives():
            if item.stage % parts == part:
                key = f"{item.kind} in {item.tier}"
                time[key] = time.get(key, 0.0) + item.exposed_s
        host_nbytes = (
            host_bytes(self.lowered, node, chosen)
            for node, chosen in self.parameters()
            if node.stage % parts == part
        )
        time[Cause.HOST] = host_s(self.lowered, math.fsum(host_nbytes))
        time[Cause.UPDATE] = max(time[Cause.UPDATE] - time[Cause.HOST], 0.0)
        return time

    def hidden_by_cause(self, part: int = 0, parts: int = 1) -> dict[str, float]:
        """Seconds of communication of a part of the machine that computation hides."""
        hidden: dict[str, float] = {}
        for item in self.collectives():
            if item.stage % parts == part and item.hidden_s > 0:
                key = f"{item.kind} in {item.tier}"
                hidden[key] = hidden.get(key, 0.0) + item.hidden_s
        return hidden

    def _without_collectives(self, part: int, parts: int) -> dict[str, float]:
        causes = (Cause.COMPUTE_FORWARD, Cause.COMPUTE_BACKWARD, Cause.UPDATE, Cause.RECOMPUTE)
        time: dict[str, float] = dict.fromkeys(causes, 0.0)
        for (node, chosen, time_s), waits in zip(self._priced(), self._waits(), strict=True):
            if node.stage % parts == part:
                for cause, seconds in self._computed(node, chosen, time_s):
                    time[cause] += seconds
                time[Cause.COMPUTE_FORWARD] += float(waits[0])
                time[Cause.COMPUTE_BACKWARD] += float(waits[1])
        return {cause: spent_s * self.micro_batches for cause, spent_s in time.items()}

    def _computed(
        self, node: Node, chosen: int, time_s: FloatArray
    ) -> Iterator[tuple[Cause, float]]:
        """What a node computes in a micro-batch, by cause."""
        total = float(time_s[chosen])
        if node.candidates is None:
            yield Cause.RECOMPUTE if node.kind is NodeKind.TENSOR else Cause.UPDATE, total
            return
        at = node.row(chosen)
        forward = float(node.candidates.forward_s[at])
        backward = float(node.candidates.backward_s[at])
        again = forward if self._in_block(node) else 0.0
        yield Cause.COMPUTE_FORWARD, forward
        yield Cause.COMPUTE_BACKWARD, backward - again
        yield Cause.RECOMPUTE, again
        if node.recomputes:
            inside = float(node.candidates.inner_s[at])
            yield Cause.RECOMPUTE, max(total - forward - backward - inside, 0.0)

    def memory_bytes(self) -> tuple[float, ...]:
        """In use at every time point of the liveness."""
        return tuple((self._profile() + self.buffer_excess_bytes()).tolist())

    def memory_of_stages(self) -> Iterator[tuple[int, list[float]]]:
        """Numbers of stages, each with its memory while its operators run, forward and then
        backward, when most is in flight.
        """
        profile = np.array(self.memory_bytes())
        for stage, spans in self.moments.items():
            yield stage, np.max([profile[start:end] for start, end in spans], axis=0).tolist()

    def _profile(self) -> FloatArray:
        """Bytes at every time point, buffers of groups aside."""
        if self._seen.profile is None:
            self._seen.profile = self.lowered.problem.memory_profile(self.choice)
        return self._seen.profile

    def memory_by_cause(self) -> dict[str, float]:
        """Bytes at the peak, buffers of groups aside, the largest first."""
        profile = self._profile()
        peak = int(profile.argmax()) if len(profile) else 0
        causes: dict[str, float] = {}
        for item in held_of(self.lowered, self.choice):
            if item.start <= peak < item.end:
                causes[item.cause] = causes.get(item.cause, 0.0) + item.nbytes
        return dict(sorted(((k, v) for k, v in causes.items() if v > 0), key=lambda kv: -kv[1]))
