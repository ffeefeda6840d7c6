"""The estimate of a conventional layout in which nothing overlaps.

One stage takes what the training estimate says if every time counts in full. With several, the
passes of all micro-batches run in the order of their schedule: no closed form holds where stages
differ, as those with the embedding and the head do, or where messages go one way at either end.
With equal stages, no messages and a schedule that has one, this is the closed form.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from costmodel.simulation.layout_job import schedule_of
from costmodel.simulation.layout_stages import Place, places_of
from costmodel.simulation.pass_order import ChunkTimes, PassOrder
from costmodel.simulation.routes import Route
from costmodel.simulation.schedules import SCHEDULES, Schedule, Shape, orders
from costmodel.training.ends import HEAD_FORWARD, trained_ends_s
from costmodel.training.passes import IN_TURN, computing
from costmodel.training.pipeline import weight_s
from costmodel.training.sizes import gathered_parameters, head_tables, local_parameters
from costmodel.training.step import StepTimes, times_in_turn
from costmodel.training.table import RunTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from costmodel.training.constants import StepConstants
    from costmodel.training.records import TrainingRun


def in_turn_s(run: TrainingRun, constants: StepConstants) -> float:
    """Seconds of one step in which nothing overlaps and experts are evenly busy.

    Args:
        run: model, layout, machine; whole micro-batches.
        constants: what machine and software reach.

    Raises:
        ScheduleError: the schedule does not allow the layout.
    """
    times = times_in_turn(RunTable.of([run]), constants)
    if run.layout.pp == 1:
        return float(times.total[0])
    return _Stages(run, constants, SCHEDULES[schedule_of(run)], times).step_s()


class _Once(NamedTuple):
    """Seconds of what a stage does once in a step."""

    before_s: float
    """Until its gradients are reduced."""
    behind_s: float
    """Update, and gathering what it left on different ranks."""


@dataclass(slots=True)
class _Stages:
    run: TrainingRun
    constants: StepConstants
    schedule: Schedule
    times: StepTimes
    table: RunTable = field(init=False)

    def __post_init__(self) -> None:
        self.table = RunTable.of([self.run])

    def step_s(self) -> float:
        """Every stage runs its passes, reduces its gradients, waits for all others, updates."""
        layout = self.run.layout
        places = places_of(self.run, bidirectional=self.schedule.bidirectional)
        shape = Shape(layout.pp, len(places[0]), round(layout.micro_batches))
        passes = PassOrder(
            orders(self.schedule.name, shape),
            [[self._chunk(place) for place in own] for own in places],
            self._send_s(),
            Route(layout.pp, shape.chunks, self.schedule.bidirectional),
        )
        passes.run()
        once = [self._once(own) for own in places]
        start_s = float(self.times.other[0]) + (self._exchanged_s if self._layered else 0.0)
        if self.schedule.skewed:
            # A stage begins the next step when its own is over.
            begun = passes.begun_s if not start_s else [0.0] * layout.pp
            ends = zip(passes.over_s, begun, once, strict=True)
            return start_s + max(over - since + sum(own) for over, since, own in ends)
        pairs = zip(passes.over_s, once, strict=True)
        return (
            start_s
            + max(over + own.before_s for over, own in pairs)
            + max(own.behind_s for own in once)
        )

    @property
    def _layered(self) -> bool:
        """Whether parameters are sharded layer by layer: what groups of replicas exchange besides
        is not of single stages.
        """
        return self.run.layout.zero_stage >= 3 and not bool(self.table.gather_once[0])

    @property
    def _exchanged_s(self) -> float:
        return float(self.times.gradients[0])

    def _send_s(self) -> float:
        layout = self.run.layout
        crossings = 2.0 * layout.vpp * layout.micro_batches + 2.0 * (layout.pp - 1)
        return float(self.times.transfer[0]) / crossings

    def _chunk(self, place: Place) -> ChunkTimes:
        """Passes of one micro-batch through the layers of a place and its end of the model."""
        times = self.times
        host_s = self.constants.host_micro_s / self.run.layout.vpp / 2
        gather_s = float(times.layer_gather[0])
        forward = host_s + place.all_layers * float(times.layer_forward[0])
        backward = host_s + place.all_layers * float(times.layer_backward[0])
        constants = self.constants.in_turn()
        own = computing(self.table, constants)
        layer_s = float(weight_s(self.table, constants, IN_TURN, own)[0])
        weight = host_s / 2 + place.all_layers * (layer_s + gather_s)
        end_gather_s = gather_s * self._table_share()
        embedding_s, head_s = (float(end[0]) for end in trained_ends_s(self.table, self.constants))
        head_gather_s = end_gather_s * float(head_tables(self.table)[0])
        for held, end_s, share, gathered_s in (
            (place.embedding, embedding_s, 1 / 2, end_gather_s),
            (place.head, head_s, HEAD_FORWARD, head_gather_s),
        ):
            forward += held * (end_s * share + gathered_s)
            backward += held * (end_s * (1 - share) + 2 * gathered_s)
            weight += held * (end_s * (1 - share) / 2 + gathered_s)
        return ChunkTimes(forward, backward - weight, weight)

    def _table_share(self) -> float:
        """Parameters of a vocabulary table over those of a layer, on one device."""
        table = self.table
        ends = table.vocab * table.hidden / table.tp
        return float((ends / gathered_parameters(table))[0])

    def _once(self, places: Sequence[Place]) -> _Once:
        """By the share of the fullest device's parameters that a stage has."""
        dense, routed = local_parameters(self.table)
        layers = sum(place.all_layers for place in places)
        of_head = float(head_tables(self.table)[0])
        tables = sum(place.embedding + place.head * of_head for place in places)
        each = gathered_parameters(self.table)
        share = float((each * (layers + tables * self._table_share()) / (dense + routed))[0])
        exchanged_s = 0.0 if self._layered else share * self._exchanged_s
        parts = 2 if self.run.layout.zero_stage else 1
        update_s = share * float(self.times.optimizer[0])
        return _Once(exchanged_s / parts, update_s + exchanged_s * (1 - 1 / parts))
