"""What all parts of a search for a whole plan have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from ir.dialects import Dialect
from ir.factor_roles import batch_places
from ir.graph import OpGraph
from planner.constraints.pins import Pin, pins_of
from planner.constraints.soft import (
    SoftConstraints,
    too_many_changes,
)
from planner.constraints.stage_pins import (
    able,
    can_be_as_before,
    can_be_had,
    held,
    keeping,
    no_stage_has,
    with_pins,
)
from planner.constraints.token_cuts import RuledOut, ruled_out, without
from planner.lowering.lower import lower
from planner.lowering.lowered import Lowered, Setting
from planner.lowering.optimizer_states import StateOptions
from planner.lowering.pieces import Pieces
from planner.lowering.pricing import LoweringCache
from planner.pipeline.networks import Micro, Networks
from planner.pipeline.preparation import dialect_for, input_layouts
from planner.pipeline.prices import setting_of
from planner.pipeline.segments import SMALL_NETWORK
from planner.pipeline.solved import send_s
from planner.pipeline.space import Configuration, configurations_of
from planner.pipeline.stage_cuts import least_sum_s
from planner.problem import FloatArray, Problem
from planner.request import Deadline, SearchRequest
from planner.solvers import Budget, Solution, solver_by_name
from topology.cluster import Cluster
from topology.mesh import Mesh
from topology.part import stage_cluster

Report = Callable[[str], None]
"""Receives one line of progress."""


FAR_BEYOND = 3
"""Times the memory of all devices."""


@dataclass(eq=False)
class PipelineSearch:
    """A model, a machine and a request with a global batch."""

    source: OpGraph
    """As imported."""
    cluster: Cluster
    request: SearchRequest
    any_will_do: bool = False
    """A plan that fits is enough, and a part of the effort."""
    truncated: bool = False
    """A deadline cut something short."""
    beside: bool = False
    """Stages alone are looked at, beside a plan of the whole batch without."""
    known: Networks | None = None
    """The network at the sizes that other searches have asked for."""
    _machines: dict[tuple[int, int], tuple[Cluster, Mesh]] = field(default_factory=dict)
    _unchanged: dict[object, frozenset[str]] = field(default_factory=dict)
    _moved: dict[tuple[int, int], tuple[FloatArray, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.dialect: Dialect = dialect_for(self.request, self.cluster.devices)
        self.deadline = Deadline.after(self.request.time_limit_s)
        self.networks = self.known or Networks(self.source, self.cluster, self.request)

    @property
    def network(self) -> Micro:
        """The network at the size of micro-batch at which it is prepared first."""
        return self.micro(self.batch if self.beside else self.networks.smallest)

    @property
    def batch(self) -> int:
        """Samples of a step."""
        return self.request.global_batch or 0

    @property
    def limit_bytes(self) -> float:
        """Memory of a device."""
        return self.request.memory_limit_bytes or float(self.cluster.usable_memory_bytes)

    @property
    def is_late(self) -> bool:
        return self.deadline.is_over

    @property
    def is_small(self) -> bool:
        """Whether the network is cut anywhere and solved exactly within its memory."""
        return len(self.network.graph.ops) <= SMALL_NETWORK

    @cached_property
    def is_whole_far_beyond(self) -> bool:
        """Whether what the whole batch saves for its backward pass is far beyond the memory of all
        devices.
        """
        liveness = self.micro(self.batch).liveness
        saved = sum(liveness.graph.tensors[name].nbytes for name in liveness.saved_by)
        return saved > FAR_BEYOND * self.limit_bytes * self.cluster.devices

    def micro(self, samples: int) -> Micro:
        """The network at a size of micro-batch."""
        whole = self.networks.whole if self.beside and samples == self.batch else None
        return whole or self.networks.at(samples)

    def true_micro(self, samples: int) -> Micro:
        """The network at a size of micro-batch as it is planned in the end."""
        return self.networks.prepared(samples)

    def shapes(self) -> tuple[Configuration, ...]:
        """Every shape to be looked at."""
        segments = self.network.segments.count
        found = configurations_of(self.cluster, self.request, segments)
        able = tuple(shape for shape in found if self.can_be(shape))
        if found and not able:
            machines = [self.stage_machine(shape)[0] for shape in found]
            meshes = [mesh for machine in machines for mesh in self.dialect.meshes(machine)]
            raise no_stage_has(self.request, meshes)
        near = tuple(shape for shape in able if self._is_near(shape))
        if able and not near:
            raise too_many_changes(self.request)
        return near

    def _is_near(self, shape: Configuration) -> bool:
        """Whether its stages can leave enough operators where an older plan had them."""
        most, moved = self.soft.most, self.moved(shape)
        return most is None or least_sum_s(moved) <= most

    @property
    def all_can_stay(self) -> bool:
        """Whether one part with the whole machine can have every operator as before."""
        soft = self.soft
        return soft.old.keys() <= soft.can_stay.get(1, frozenset())

    def moved(self, shape: Configuration) -> tuple[FloatArray, ...]:
        """For each piece of a shape the operators of every interval that change there."""
        key = shape.stages, shape.chunks
        if key not in self._moved:
            micro = self.network
            positions = micro.segments.positions
            self._moved[key] = self.soft.moved(micro.graph, positions, *key)
        return self._moved[key]

    @cached_property
    def soft(self) -> SoftConstraints:
        """What the request prefers of the stages."""
        if not self.request.soft_pins and self.request.max_changes is None:
            return SoftConstraints(self.request)
        micro, old = self.network, dict(self.request.close_to)
        every = configurations_of(self.cluster, self.request, micro.segments.count)
        found: dict[int, frozenset[str]] = {}
        for shape in every if old else ():
            if shape.stages not in found and self.can_be(shape):
                found[shape.stages] = self._as_before(*self.stage_machine(shape))
        small = len(micro.graph.ops) <= SMALL_NETWORK
        return SoftConstraints.of_stages(micro.graph, self.request, found, small=small)

    def _as_before(self, cluster: Cluster, mesh: Mesh) -> frozenset[str]:
        """Operators that a stage can split as the older plan did."""
        key = cluster.devices, mesh.rows
        if key not in self._unchanged:
            graph, old = self._largest(), dict(self.request.close_to)
            self._unchanged[key] = can_be_as_before(graph, old, cluster, mesh, self.dialect)
        return self._unchanged[key]

    def can_be(self, shape: Configuration, devices: int = 0) -> bool:
        """Whether the degrees and pins can be had in equal stages, or in one of so many devices."""
        mesh = self.stage_machine(shape, devices)[1]
        if not self.ruled_out.can_be_on(mesh):
            return False
        if not can_be_had(self.request, [mesh], shape.micro_batch):
            return False
        return not self.pins or bool(self._keeping(shape, [mesh]))

    def _keeping(self, shape: Configuration, meshes: Sequence[Mesh]) -> tuple[Mesh, ...]:
        graph = self.micro(shape.micro_batch).graph
        return keeping(graph, self.request.pins, self.dialect, meshes)

    @cached_property
    def pins(self) -> tuple[Pin, ...]:
        """Operators of the network that the user holds to cuts."""
        return pins_of(self.network.graph, self.request.pins)

    def setting(self, micro: Micro, cluster: Cluster, mesh: Mesh, micro_batches: int) -> Setting:
        layouts = input_layouts(micro.graph, mesh, self.dialect, self.request)
        return Setting(
            cluster, mesh, self.dialect, self.request.training, self.request.optimizer,
            layouts, self.limit_bytes, micro_batches=micro_batches,
            overlap=self.request.overlap == "auto",
            software=self.request.software_on(cluster.chip),
        )  # fmt: skip

    def lowered(
        self,
        pieces: Pieces,
        setting: Setting,
        standing_for: Micro | None = None,
        basis: LoweringCache | None = None,
    ) -> Lowered:
        """The problem of some pieces, with everything that may be decided for them.

        Args:
            pieces: side by side.
            setting: of the network.
            standing_for: the network whose segments the pieces stand for, where that is another.
            basis: of an earlier lowering of these pieces on this mesh.
        """
        apart = standing_for is None or standing_for.told_apart
        pinned = {pin.op.name for pin in self.pins} if apart else set[str]()
        names, origin = (op.name for op in pieces.liveness.graph.ops), pieces.liveness.origin
        held_names = frozenset(name for name in names if origin(name).name in pinned)
        asked = self.request
        states = StateOptions(asked.zero, asked.offload, frozenset(pieces.shared), self.exchange_s)
        setting = replace(
            setting_of(setting, pieces),
            held=held_names,
            states=states,
            ring_attention=asked.ring_attention != "off",
        )
        if basis is not None and setting.steady:
            basis = basis.steady()
        return self.restricted(lower(pieces.liveness, setting, basis), apart=apart)

    def restricted(self, lowered: Lowered, *, apart: bool = True) -> Lowered:
        """The problem of some pieces with what the user leaves to it; without what holds single
        operators where these are not told apart.
        """
        found = held(lowered, self.request, self.where)
        if apart and self.pins:
            found = with_pins(found, self.pins)
        if apart:
            found = self.soft.unchanged(found)
        return without(found, self.ruled_out)

    @cached_property
    def where(self) -> Mapping[str, int]:
        """The dimension of every tensor that is the batch; empty where nobody asks."""
        if not (self.request.degrees or self.request.scoped_degrees):
            return {}
        return batch_places(self.micro(self.batch).graph)

    @cached_property
    def ruled_out(self) -> RuledOut:
        """What the user leaves out."""
        return ruled_out(self.request, self.network.graph)

    def exchange_s(self, nbytes: FloatArray) -> FloatArray:
        """Seconds in which two stages add up so many bytes of gradients on every device."""
        return np.array([send_s(self.cluster, float(each)) for each in nbytes])

    def stage_machine(self, shape: Configuration, devices: int = 0) -> tuple[Cluster, Mesh]:
        """The part of the machine that a stage of so many devices has, or one of equal stages, and
        its mesh: the coarsest on which the degrees can be had that are asked for.
        """
        devices = devices or self.cluster.devices // shape.stages
        key = devices, shape.micro_batch if self.pins else 0
        if key not in self._machines:
            self._machines[key] = self._machine(shape, devices)
        return self._machines[key]

    def _machine(self, shape: Configuration, devices: int) -> tuple[Cluster, Mesh]:
        cluster = stage_cluster(self.cluster, devices)
        if cluster is None:
            raise ValueError(f"no stage of {devices} devices")
        every = self.dialect.meshes(cluster)
        meshes = tuple(mesh for mesh in every if self.ruled_out.can_be_on(mesh)) or every
        if self.pins:
            meshes = self._keeping(shape, meshes) or meshes
        return cluster, self._preferred_mesh(cluster, able(self.request, meshes) or meshes)

    def _nearest(self, cluster: Cluster, meshes: tuple[Mesh, ...]) -> Mesh:
        """The first mesh on which most operators can be as in the older plan."""
        return max(meshes, key=lambda mesh: len(self._as_before(cluster, mesh)))

    def _preferred_mesh(self, cluster: Cluster, meshes: tuple[Mesh, ...]) -> Mesh:
        """That of the older plan, or on which most operators can be as there; the first that has
        the soft pins.
        """
        if self.request.max_changes is not None:
            same = (mesh for mesh in meshes if mesh.rows == self.request.close_mesh)
            return next(same, None) or self._nearest(cluster, meshes)
        soft = [(name, cuts) for name, cuts, _ in self.request.soft_pins]
        having = keeping(self._largest(), soft, self.dialect, meshes) if soft else ()
        return (*having, *meshes)[0]

    def _largest(self) -> OpGraph:
        """The largest micro-batch: what a small one can be cut into, it can."""
        given = self.request.micro_batch
        return self.micro(self.batch if given == "auto" else int(given)).graph

    def solve(self, problem: Problem, enough: float = 0.0) -> Solution:
        """The answer of the solver asked for.

        Args:
            problem: of some pieces.
            enough: relative gap with which it may be left as it is.
        """
        request, left_s = self.request, self.deadline.solver_s
        budget = Budget(request.effort, left_s, request.seed, request.threads, enough)
        found = solver_by_name(request.solver).solve(problem, budget, None)
        self.truncated |= found.truncated
        return found
