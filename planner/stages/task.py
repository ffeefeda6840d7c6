"""What all parts of a search for a whole plan have in common."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ir.batch import find_batch
from ir.factor_roles import batch_places
from ir.graph import OpGraph
from planner.basis import Basis
from planner.deadline import Deadline
from planner.dialects import Dialect
from planner.fewer import narrowed
from planner.liveness import Liveness, analyse
from planner.lowered import Lowered, Setting
from planner.lowering import lower
from planner.pins import Pin, pins_of
from planner.preparation import dialect_for, input_layouts, prepare
from planner.problem import Problem
from planner.request import SearchRequest
from planner.solvers import Budget, Solution, solver_by_name
from planner.stages.batches import Batches, batches_of
from planner.stages.cuts import Cut, cuts_of
from planner.stages.folding import Segments
from planner.stages.given_cuts import cuts_before
from planner.stages.held import able, can_be_had, held, keeping, no_stage_has, with_pins
from planner.stages.machine import send_s
from planner.stages.menu import Shape, shapes_of
from planner.stages.offload import with_offload
from planner.stages.pieces import Pieces, plain_name
from planner.stages.prices import setting_of
from planner.stages.ring import with_ring
from planner.stages.sequence import least_sum_s
from planner.stages.states import with_states
from planner.stages.thinned import FEWEST_CUTS, cut_network
from planner.stages.wants import Wants, can_be_as_before, marks_of, wants_of
from planner.token_cuts import RuledOut, ruled_out, without
from planner.wishes import mesh_axes, too_many_changes, unchanged
from topology.cluster import Cluster
from topology.mesh import Mesh
from topology.part import stage_cluster

FloatArray = NDArray[np.float64]

SMALL_NETWORK = 64
"""Operators up to which a network is cut anywhere, and solved exactly within its memory."""
APART = 2
"""Operators between cuts of a larger one: a single one weighs little."""
WIDEST_SEND = 4
"""A cut that sends more than so many times what half of the cuts send at most is left out."""


@dataclass(frozen=True, slots=True)
class Micro:
    """The network at one size of micro-batch."""

    graph: OpGraph
    liveness: Liveness
    cuts: tuple[Cut, ...]
    segments: Segments
    notes: tuple[str, ...]
    told_apart: bool = True
    """Whether segments are equal only if pins and wishes are: else intervals are priced without."""

    @property
    def by_position(self) -> dict[int, Cut]:
        return {cut.position: cut for cut in self.cuts}


@dataclass(slots=True)
class Task:
    """A model, a machine and a request with a global batch."""

    source: OpGraph
    """As imported."""
    cluster: Cluster
    request: SearchRequest
    any_will_do: bool = False
    """A plan that fits is enough, and a part of the effort."""
    truncated: bool = False
    """A deadline cut something short."""
    deadline: Deadline = field(init=False)
    dialect: Dialect = field(init=False)
    _scaled_at: dict[int, Micro] = field(default_factory=dict)
    _prepared_at: dict[int, Micro] = field(default_factory=dict)
    _base: Micro | None = None
    _ruled_out: RuledOut | None = None
    _batches: Batches | None = None
    _where: Mapping[str, int] | None = None
    _pins: tuple[Pin, ...] | None = None
    _wants: Wants | None = None
    _machines: dict[tuple[int, int], tuple[Cluster, Mesh]] = field(default_factory=dict)
    _unchanged: dict[object, frozenset[str]] = field(default_factory=dict)
    _moved: dict[tuple[int, int], tuple[FloatArray, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.dialect = dialect_for(self.request, self.cluster.devices)
        self.deadline = Deadline.after(self.request.time_limit_s)

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
        return len(self.micro(self.first_micro_batch).graph.ops) <= SMALL_NETWORK

    def micro(self, samples: int) -> Micro:
        """The network at a size of micro-batch."""
        if samples not in self._scaled_at:
            self._scaled_at[samples] = self._scaled(samples) or self.prepared(samples)
        return self._scaled_at[samples]

    def prepared(self, samples: int) -> Micro:
        """The same from the model itself."""
        asked = replace(self.request, batch=samples)
        ready, notes = prepare(self.source, self.cluster, asked)
        liveness = analyse(ready, training=True)
        cuts = _cuts(liveness, self.request.stage_starts)
        small = len(ready.ops) <= SMALL_NETWORK
        marks = marks_of(ready, self.request)
        fewest = len(cuts) if self.request.stage_starts else FEWEST_CUTS
        found = cut_network(
            liveness, cuts, marks, always=small, effort=self.request.effort, fewest=fewest
        )
        said = (*notes, *found.notes)
        return Micro(ready, liveness, found.cuts, found.segments, said, found.apart)

    def _scaled(self, samples: int) -> Micro | None:
        """The same from what two sizes of batch have shown."""
        if self._base is None:
            smallest = self.first_micro_batch
            self._base = self.prepared(smallest)
            twice = prepare(self.source, self.cluster, replace(self.request, batch=2 * smallest))
            self._batches = batches_of(self._base.graph, twice[0])
        try:
            graph = None if self._batches is None else self._batches.at(samples)
        except ValueError:
            graph = None
        if graph is None:
            return None
        return replace(self._base, graph=graph, liveness=replace(self._base.liveness, graph=graph))

    def true_micro(self, samples: int) -> Micro:
        """The network at a size of micro-batch as it is planned in the end."""
        if samples not in self._prepared_at:
            self._prepared_at[samples] = self.prepared(samples)
        return self._prepared_at[samples]

    def shapes(self) -> tuple[Shape, ...]:
        """Every shape to be looked at."""
        cut_counts = self.dialect.cut_counts
        smallest = self.first_micro_batch
        segments = self.micro(smallest).segments.count
        found = shapes_of(self.cluster, self.request, segments, cut_counts=cut_counts)
        able = tuple(shape for shape in found if self.can_be(shape))
        if found and not able:
            machines = [self.stage_machine(shape)[0] for shape in found]
            meshes = [mesh for machine in machines for mesh in self.dialect.meshes(machine)]
            raise no_stage_has(self.request, meshes)
        near = tuple(shape for shape in able if self._is_near(shape))
        if able and not near:
            raise too_many_changes(self.request)
        return near

    def _is_near(self, shape: Shape) -> bool:
        """Whether its stages can leave enough operators where an older plan had them."""
        most, moved = self.wants.most, self.moved(shape)
        return most is None or least_sum_s(moved) <= most

    @property
    def all_can_stay(self) -> bool:
        """Whether one part with the whole machine can have every operator as before."""
        wants = self.wants
        return wants.old.keys() <= wants.can_stay.get(1, frozenset())

    def moved(self, shape: Shape) -> tuple[FloatArray, ...]:
        """For each piece of a shape the operators of every interval that change there."""
        key = shape.stages, shape.chunks
        if key not in self._moved:
            micro = self.micro(self.first_micro_batch)
            positions = micro.segments.positions
            self._moved[key] = self.wants.moved(micro.graph, positions, *key)
        return self._moved[key]

    @property
    def wants(self) -> Wants:
        """What the request wishes of the stages."""
        if self._wants is None:
            self._wants = Wants(self.request)
            if self.request.soft_pins or self.request.max_changes is not None:
                self._wants = self._wished()
        return self._wants

    def _wished(self) -> Wants:
        micro, old = self.micro(self.first_micro_batch), dict(self.request.close_to)
        cut_counts, count = self.dialect.cut_counts, micro.segments.count
        every = shapes_of(self.cluster, self.request, count, cut_counts=cut_counts)
        found: dict[int, frozenset[str]] = {}
        for shape in every if old else ():
            if shape.stages not in found and self.can_be(shape):
                found[shape.stages] = self._as_before(*self.stage_machine(shape))
        small = len(micro.graph.ops) <= SMALL_NETWORK
        return wants_of(micro.graph, self.request, found, small=small)

    def _as_before(self, cluster: Cluster, mesh: Mesh) -> frozenset[str]:
        """Operators that a stage can split as the older plan did."""
        key = cluster.devices, mesh_axes(mesh)
        if key not in self._unchanged:
            graph, old = self._largest(), dict(self.request.close_to)
            self._unchanged[key] = can_be_as_before(graph, old, cluster, mesh, self.dialect)
        return self._unchanged[key]

    def can_be(self, shape: Shape, devices: int = 0) -> bool:
        """Whether the degrees and pins can be had in equal stages, or in one of so many devices."""
        mesh = self.stage_machine(shape, devices)[1]
        if not self.ruled_out.can_be_on(mesh):
            return False
        if not can_be_had(self.request, [mesh], shape.micro_batch):
            return False
        return not self.pins or bool(self._keeping(shape, [mesh]))

    def _keeping(self, shape: Shape, meshes: Sequence[Mesh]) -> tuple[Mesh, ...]:
        graph = self.micro(shape.micro_batch).graph
        return keeping(graph, self.request.pins, self.dialect, meshes)

    @property
    def pins(self) -> tuple[Pin, ...]:
        """Operators of the network that the user holds to cuts."""
        if self._pins is None:
            graph = self.micro(self.first_micro_batch).graph
            self._pins = pins_of(graph, self.request.pins)
        return self._pins

    @property
    def first_micro_batch(self) -> int:
        """The smallest size of micro-batch, in which the network is prepared first."""
        given = self.request.micro_batch
        if given != "auto" and self.batch % int(given) == 0:
            return int(given)
        return math.gcd(self.batch, max(find_batch(self.source), 1))

    def setting(self, micro: Micro, cluster: Cluster, mesh: Mesh, micro_batches: int) -> Setting:
        layouts = input_layouts(micro.graph, mesh, self.dialect, self.request)
        return Setting(
            cluster, mesh, self.dialect, self.request.training, self.request.optimizer,
            layouts, self.limit_bytes, micro_batches=micro_batches,
        )  # fmt: skip

    def lowered(
        self,
        pieces: Pieces,
        setting: Setting,
        standing_for: Micro | None = None,
        basis: Basis | None = None,
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
        names = (op.name for op in pieces.liveness.graph.ops)
        held_names = frozenset(name for name in names if plain_name(name) in pinned)
        setting = replace(setting_of(setting, pieces), held=held_names)
        if basis is not None and setting.steady:
            basis = basis.steady()
        found = lower(pieces.liveness, setting, basis)
        exchanges = dict.fromkeys(pieces.shared, self.exchange_s)
        found = with_states(found, self.request.zero, exchanges)
        found = with_offload(found, self.request.offload, pieces.shared)
        found = with_ring(found, self.request.ring_attention)
        return self.restricted(found, apart=apart)

    def restricted(self, lowered: Lowered, *, apart: bool = True) -> Lowered:
        """The problem of some pieces with what the user leaves to it; without what holds single
        operators where these are not told apart.
        """
        found = held(lowered, self.request, self.where)
        if apart and self.pins:
            found = with_pins(found, self.pins)
        if apart and self.wants.most == 0:
            found = narrowed(found, unchanged(self.wants.split_anew(found)))
        return without(found, self.ruled_out, plain_name)

    @property
    def where(self) -> Mapping[str, int]:
        """The dimension of every tensor that is the batch; empty where nobody asks."""
        if not (self.request.degrees or self.request.scoped_degrees):
            return {}
        if self._where is None:
            self._where = batch_places(self.micro(self.batch).graph)
        return self._where

    @property
    def ruled_out(self) -> RuledOut:
        """What the user leaves out."""
        if self._ruled_out is None:
            graph = self.micro(self.first_micro_batch).graph
            self._ruled_out = ruled_out(self.request, graph)
        return self._ruled_out

    def exchange_s(self, nbytes: FloatArray) -> FloatArray:
        """Seconds in which two stages add up so many bytes of gradients on every device."""
        return np.array([send_s(self.cluster, float(each)) for each in nbytes])

    def stage_machine(self, shape: Shape, devices: int = 0) -> tuple[Cluster, Mesh]:
        """The part of the machine that a stage of so many devices has, or one of equal stages, and
        its mesh: the coarsest on which the degrees can be had that are asked for.
        """
        devices = devices or self.cluster.devices // shape.stages
        key = devices, shape.micro_batch if self.pins else 0
        if key not in self._machines:
            self._machines[key] = self._machine(shape, devices)
        return self._machines[key]

    def _machine(self, shape: Shape, devices: int) -> tuple[Cluster, Mesh]:
        cluster = stage_cluster(self.cluster, devices)
        if cluster is None:
            raise ValueError(f"no stage of {devices} devices")
        every = self.dialect.meshes(cluster)
        meshes = tuple(mesh for mesh in every if self.ruled_out.can_be_on(mesh)) or every
        if self.pins:
            meshes = self._keeping(shape, meshes) or meshes
        return cluster, self._wished_mesh(cluster, able(self.request, meshes) or meshes)

    def _nearest(self, cluster: Cluster, meshes: tuple[Mesh, ...]) -> Mesh:
        """The first mesh on which most operators can be as in the older plan."""
        return max(meshes, key=lambda mesh: len(self._as_before(cluster, mesh)))

    def _wished_mesh(self, cluster: Cluster, meshes: tuple[Mesh, ...]) -> Mesh:
        """That of the older plan, or on which most operators can be as there; the first that has
        the soft pins.
        """
        if self.request.max_changes is not None:
            same = (mesh for mesh in meshes if mesh_axes(mesh) == self.request.close_mesh)
            return next(same, None) or self._nearest(cluster, meshes)
        soft = [(name, cuts) for name, cuts, _ in self.request.soft_pins]
        having = keeping(self._largest(), soft, self.dialect, meshes) if soft else ()
        return (*having, *meshes)[0]

    def _largest(self) -> OpGraph:
        """The largest micro-batch: what a small one can be cut into, it can."""
        given = self.request.micro_batch
        return self.micro(self.batch if given == "auto" else int(given)).graph

    def solve(self, problem: Problem) -> Solution:
        request = self.request
        budget = Budget(request.effort, self.deadline.solver_s, request.seed, request.threads)
        found = solver_by_name(request.solver).solve(problem, budget, None)
        self.truncated |= found.truncated
        return found


def _cuts(liveness: Liveness, starts: Sequence[str]) -> tuple[Cut, ...]:
    """Places where one activation with a gradient crosses; of those, the ones that send little, or
    those in front of the parts that are said.
    """
    graph = liveness.graph
    found = cuts_of(liveness, 1)
    if starts:
        return cuts_before(graph, found, starts)
    usual = sorted(cut.nbytes for cut in found)[len(found) // 2] if found else 0
    kept: list[Cut] = []
    for cut in found:
        apart = not kept or cut.position - kept[-1].position >= APART
        if cut.nbytes <= WIDEST_SEND * usual and (apart or len(graph.ops) <= SMALL_NETWORK):
            kept.append(cut)
    return tuple(kept)
