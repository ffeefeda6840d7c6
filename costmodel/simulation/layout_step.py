"""From a conventional layout to what its step consists of: the training estimate, taken apart.

The estimate prices a whole step. What a part of it costs is the difference between the step with
and without that part, so the parts sum to what the estimate says of a pass.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from costmodel.collectives.buckets import BUCKET_BYTES
from costmodel.schedules.orders import SCHEDULES
from costmodel.simulation.layer_parts import layer_parts
from costmodel.simulation.layout_stages import Place, places_of
from costmodel.simulation.step import NOT_SLOWER, Block, Sharding, Slower, Stage, Step, Transfer
from costmodel.simulation.task_graph import Activity, Span
from costmodel.training.ends import HEAD_FORWARD, trained_ends_s
from costmodel.training.memory import (
    MemoryConstants,
    gathered_bytes,
    held_logits,
    layer_bytes,
)
from costmodel.training.passes import BESIDE, IN_TURN, Joins, computing, overlapped_s
from costmodel.training.sizes import (
    active_parameters,
    chosen_parameters,
    expert_parts,
    gathered_parameters,
    head_tables,
    held_parameters,
    local_parameters,
)
from costmodel.training.states import state_bytes
from costmodel.training.step import StepTimes, hidden_gradients, step_times
from costmodel.training.table import FloatArray, RunTable
from ir.plan_enums import Cause

if TYPE_CHECKING:
    from collections.abc import Sequence

    from costmodel.training.constants import StepConstants
    from costmodel.training.records import TrainingRun

INSIDE, ACROSS = "card", "server"
"""Tiers: the links inside a server, and those between servers."""
_HOST = "micro-batch"
"""What the host does for each micro-batch outside the layers."""


@dataclass(frozen=True, slots=True)
class Options:
    """What a layout leaves open."""

    expert_imbalance: float = 1.0
    """Activity of the busiest expert rank over that of an average one."""


@dataclass(frozen=True, slots=True)
class LayoutConstants:
    """What machine and software reach and keep."""

    step: StepConstants
    memory: MemoryConstants = field(default_factory=MemoryConstants)


def layout_step(
    run: TrainingRun,
    constants: LayoutConstants,
    options: Options | None = None,
    *,
    overlap: bool = True,
) -> Step:
    """The step of a layout; every stage stands for all ranks that share its layers.

    Args:
        run: model, layout, machine.
        constants: what machine and software reach and keep.
        options: what the layout leaves open.
        overlap: whether anything runs beside anything else inside a layer.
    """
    step, joins = (constants.step, BESIDE) if overlap else (constants.step.in_turn(), IN_TURN)
    return _Layout(run, step, constants.memory, options or Options(), joins).step()


@dataclass(slots=True)
class _Layout:
    run: TrainingRun
    constants: StepConstants
    memory: MemoryConstants
    options: Options
    joins: Joins
    whole: RunTable = field(init=False)
    table: RunTable = field(init=False)
    """Without what sharded parameters cost beside a pass, which is simulated."""
    raw: StepTimes = field(init=False)
    """With no gradients and no messages hidden."""
    shared: StepTimes = field(init=False)
    """With sharded parameters."""

    def __post_init__(self) -> None:
        self.whole = RunTable.of([self.run])
        below = np.minimum(self.whole.zero_stage, 2.0)
        self.table = self.whole.with_columns({"zero_stage": below, "overlap": np.zeros(1)})
        shown = replace(self.constants, dp_hidden=0.0, pp_shown=1.0)
        self.raw = step_times(self.table, shown, self.joins)
        self.shared = step_times(self.whole, self.constants, self.joins)

    @property
    def gathers_each_pass(self) -> bool:
        """Whether parameters rest in shards and are gathered for every pass."""
        return self.run.layout.zero_stage >= 3 and not bool(self.whole.gather_once[0])

    def step(self) -> Step:
        run, layout, schedule = self.run, self.run.layout, self.run.layout.order
        micro_batches = round(layout.micro_batches)
        crossings = 2.0 * layout.vpp * micro_batches + 2.0 * (layout.pp - 1)
        between = self._tier(layout.tp * layout.cp * layout.dp, 2)
        send_s = float(self.raw.transfer[0]) / crossings if layout.pp > 1 else 0.0
        sent = Activity("stage transfer", "point_to_point", between)
        return Step(
            stages=tuple(self._stages(SCHEDULES[schedule].bidirectional)),
            micro_batches=micro_batches,
            schedule=schedule,
            transfers=(Transfer(sent, send_s, send_s),),
            sharding=self._sharding(),
            overhead_s=float(self.raw.other[0]) + self._between_groups_s(),
            name=run.name,
        )

    def _between_groups_s(self) -> float:
        """What the estimate shows of the reduction between groups that share parameters."""
        if self.run.layout.zero_stage < 3 or bool(self.whole.gather_once[0]):
            return 0.0
        return float(self.shared.gradients[0])

    def _tier(self, stride: int, ranks: int) -> str:
        """Tier that a group of ranks so far apart crosses."""
        reach = stride * ranks
        return INSIDE if reach <= float(self.table.machine.server[0]) else ACROSS

    # Layers

    def _layer(self) -> Block:
        """One mean layer."""
        causes = ("tensor parallel", "experts", "context parallel")
        tiers = {cause: self._tier_of(cause) for cause in causes}
        parts = layer_parts(self.table, self.constants, tiers, self._uneven, self.joins)
        worked, *moved = parts.backward
        own = float(computing(self.whole, self.constants).weight_share[0]) * worked.seconds
        inputs = worked._replace(seconds=worked.seconds - own)
        kept, working = (float(nbytes[0]) for nbytes in layer_bytes(self.whole, self.memory))
        gather_s, sync_s = self._per_layer()
        slower_forward, slower_backward = self._slower()
        return Block(
            "layers",
            1.0,
            forward=parts.forward,
            backward=(inputs, *moved),
            weight=(worked._replace(seconds=own),),
            again=parts.again,
            kept_bytes=kept,
            working_bytes=working,
            gather_s=gather_s,
            sync_s=sync_s,
            hidden_forward=parts.hidden_forward,
            hidden_backward=parts.hidden_backward,
            slower_forward=slower_forward,
            slower_backward=slower_backward,
        )

    def _slower(self) -> tuple[Slower, Slower]:
        """Both passes of a layer beside what it gathers and reduces."""
        if not self.gathers_each_pass or self.joins == IN_TURN:
            return NOT_SLOWER, NOT_SLOWER
        gather_s = float(self.shared.layer_gather[0])
        forward_s, backward_s = float(self.raw.layer_forward[0]), float(self.raw.layer_backward[0])
        return self._slower_pass(forward_s, gather_s), self._slower_pass(backward_s, 2.0 * gather_s)

    def _slower_pass(self, alone_s: float, moved_s: float) -> Slower:
        """The longer one takes what the estimate says of both; a slower chip or link makes neither
        of them shorter.
        """
        less_s = np.array([min(alone_s, moved_s)])

        def both_s(alone: FloatArray, moved: FloatArray) -> float:
            shown = overlapped_s(alone, moved, self.constants.fetch_shown)
            return float(np.minimum(shown, alone + moved)[0])

        computing_s = both_s(np.array([alone_s]), less_s) - alone_s
        moving_s = both_s(less_s, np.array([moved_s])) - moved_s
        return Slower(max(computing_s, 0.0), max(moving_s, 0.0))

    def _uneven(self, activity: Activity) -> float:
        """How much longer the busiest expert rank takes; for computation its experts' share."""
        factor = self.options.expert_imbalance
        if not self.run.model.experts or factor == 1.0:
            return 1.0
        if activity.is_communication:
            return factor if activity.kind == "all_to_all" else 1.0
        mixing = self.table.mixing
        products = active_parameters(self.table) + mixing.share * mixing.flops / 2.0
        return 1.0 + (factor - 1.0) * float((chosen_parameters(self.table) / products)[0])

    def _tier_of(self, cause: str) -> str:
        layout = self.run.layout
        apart = int(expert_parts(self.table)[0])
        strides = {"tensor parallel": (1, layout.tp), "experts": (apart, layout.ep)}
        return self._tier(*strides.get(cause, (layout.tp, layout.cp)))

    # Parameters

    def _parameters(self) -> tuple[float, float]:
        """Parameters of one layer on one device, and those of a vocabulary table."""
        layout, model = self.run.layout, self.run.model
        ends = model.vocab * model.hidden / layout.tp
        return float(held_parameters(self.table)[0]), ends

    def _per_layer(self) -> tuple[float, float]:
        """Seconds to gather the parameters of a layer and to reduce its gradients."""
        if self.gathers_each_pass:
            gather_s = float(self.shared.layer_gather[0])
            return gather_s, gather_s
        total = float(self.raw.gradients[0]) * self._parameters()[0] / self._fullest()
        return (total / 2, total / 2) if self.run.layout.zero_stage else (0.0, total)

    def _fullest(self) -> float:
        """Parameters of the fullest device, as the estimate counts them."""
        dense, routed = local_parameters(self.table)
        return float(dense[0] + routed[0])

    def _sharding(self) -> Sharding:
        layout, each_pass = self.run.layout, self.gathers_each_pass
        replicas = layout.dp * layout.cp
        ranks = layout.zero_group or replicas if each_pass else replicas
        kind = "reduce_scatter" if layout.zero_stage >= 1 else "all_reduce"
        each = self._parameters()[0]
        return Sharding(
            tier=self._tier(layout.tp, ranks),
            sync=Activity(Cause.GRADIENT_SYNC, kind),
            gather_each_pass=each_pass,
            sync_each_micro=each_pass,
            beside=float(hidden_gradients(self.whole, self.constants)[0]),
            buckets=1.0 if layout.zero_stage >= 3 else max(1.0, BUCKET_BYTES // (2.0 * each)),
        )

    # Stages

    def _stages(self, bidirectional: bool) -> list[Stage]:
        layer = self._layer()
        embedding, head = self._ends(layer)
        each = self.constants.host_micro_s / self.run.layout.vpp / 2
        host = _end(_HOST, each, each)

        def blocks(place: Place, gathered: float) -> tuple[Block, ...]:
            inner = replace(layer, count=place.layers, working_bytes=layer.working_bytes + gathered)
            more = replace(inner, name="MTP layers", count=place.predicting)
            last = replace(head, working_bytes=head.working_bytes + gathered)
            behind = [more] * (place.predicting > 0) + [last] * place.head
            return (host, *[embedding] * place.embedding, inner, *behind)

        places = places_of(self.run, bidirectional=bidirectional)
        return [
            Stage(
                f"stage {number}" if self.run.layout.pp > 1 else "device",
                tuple(blocks(place, self._gathered_bytes(own)) for place in own),
                self._state_bytes(own) + self._runtime_bytes(),
                float(self.raw.optimizer[0]) * sum(map(self._share, own)),
                self.run.layout.devices // self.run.layout.pp,
            )
            for number, own in enumerate(places)
        ]

    def _runtime_bytes(self) -> float:
        """What the runtime takes beyond what is reserved for it."""
        reserved = float(self.whole.machine.reserved_bytes[0])
        return max(self.memory.context_bytes - reserved, 0.0)

    def _share(self, place: Place) -> float:
        """Parameters of a chunk over those of the fullest device."""
        each, ends = self._parameters()
        return (each * place.all_layers + ends * self._tables(place)) / self._fullest()

    def _tables(self, place: Place) -> float:
        """Vocabulary tables of a chunk, with what the head has like one."""
        return place.embedding + place.head * float(head_tables(self.table)[0])

    def _gathered_bytes(self, places: Sequence[Place]) -> float:
        """What a stage holds at work of parameters that rest in shards."""
        layers = sum(place.all_layers for place in places)
        return float(gathered_bytes(self.whole, np.array([layers]))[0])

    def _state_bytes(self, places: Sequence[Place]) -> float:
        """Weights, gradients and optimizer states of what a stage holds; states on the host not."""
        layers = sum(place.all_layers for place in places)
        tables = sum(map(self._tables, places))
        held = np.array([layers]), np.array([tables])
        weights, gradients, states = state_bytes(self.whole, self.memory.precision, *held)
        states = np.where(self.whole.swap_optimizer > 0, 0.0, states)
        return float((weights + gradients + states)[0])

    def _ends(self, layer: Block) -> tuple[Block, Block]:
        """Embedding and head, which the first and the last stage run beside their layers; head and
        loss pass once more for each further token, whose layers are a block of their own.
        """
        embedding, head = (float(times[0]) for times in trained_ends_s(self.table, self.constants))
        each, ends = self._parameters()
        if self.gathers_each_pass:
            each = sum(float(part[0]) for part in gathered_parameters(self.whole))
        share = ends / each
        gather_s, sync_s = layer.gather_s * share, layer.sync_s * share
        first = _end("embedding", embedding / 2, embedding / 2)
        last = _end("head", head * HEAD_FORWARD, head * (1 - HEAD_FORWARD))
        logits = (float(nbytes[0]) for nbytes in held_logits(self.whole, self.memory))
        at_work, waiting, owed = logits
        own = float(head_tables(self.table)[0])
        return (
            replace(first, gather_s=gather_s, sync_s=sync_s),
            replace(
                last,
                gather_s=gather_s * own,
                sync_s=sync_s * own,
                working_bytes=at_work,
                waiting_bytes=waiting,
                owed_bytes=owed,
            ),
        )


def _end(name: str, forward: float, backward: float) -> Block:
    parts = (Span(Activity(Cause.COMPUTE_BACKWARD), backward / 2),)
    return Block(name, 1.0, (Span(Activity(Cause.COMPUTE_FORWARD), forward),), parts, parts)
