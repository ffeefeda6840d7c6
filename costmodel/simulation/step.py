"""What a training step consists of: kernels and messages of every stage and pass.

It is made from a plan (`plan_step`) or from the sizes of a conventional layout (`layout_step`), and
lowered to tasks in the order of its schedule (`lowering`). A plan without stages has one stage.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from costmodel.schedules.orders import (
    SCHEDULES,
    Direction,
    Order,
    Pass,
    Place,
    Route,
    Shape,
    orders,
)
from costmodel.simulation.task_graph import Activity, Span
from ir.plan import Plan, PlannedCollective
from ir.plan_enums import Cause, Schedule


class Slower(NamedTuple):
    """By how much computation and transfers take longer beside each other: kernels are slower,
    and some wait.
    """

    computing_s: float
    moving_s: float


NOT_SLOWER = Slower(0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Block:
    """Equal layers on one device."""

    name: str
    count: float
    """How many; a fraction stands for a mean over devices."""
    forward: tuple[Span, ...]
    """One micro-batch through one layer."""
    backward: tuple[Span, ...]
    """Gradient of the input of one layer."""
    weight: tuple[Span, ...] = ()
    """Gradients of its weights."""
    again: tuple[Span, ...] = ()
    """What is computed again before the backward pass."""
    kept_bytes: float = 0.0
    """Activations of one layer that one micro-batch keeps for the backward pass."""
    working_bytes: float = 0.0
    """In use for a moment while the layer runs backward, such as what is computed again; what is
    waiting and owed of the same micro-batch is among it."""
    waiting_bytes: float = 0.0
    """Of one micro-batch from the forward pass until the gradient of the input, such as logits."""
    owed_bytes: float = 0.0
    """Of one micro-batch from then until the gradients of the weights, where these come apart."""
    gather_s: float = 0.0
    """To gather its sharded parameters once."""
    sync_s: float = 0.0
    """To reduce its gradients."""
    hidden_forward: tuple[Span, ...] = ()
    """Communication of a forward pass that computation hides; it costs nothing."""
    hidden_backward: tuple[Span, ...] = ()
    """The same of a backward pass, with what is sent again before it."""
    slower_forward: Slower = NOT_SLOWER
    """A forward pass beside a gather."""
    slower_backward: Slower = NOT_SLOWER
    """A backward pass beside a gather and a reduction."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One device of the pipeline; it stands for all that share its work."""

    name: str
    chunks: tuple[tuple[Block, ...], ...]
    """Layers of each chunk, in order; of a plan their kernels alone."""
    state_bytes: float = 0.0
    """Weights, gradients and optimizer state."""
    update_s: float = 0.0
    copies: int = 1
    """Devices that it stands for."""
    operators: tuple[ChunkOperators, ...] = ()
    """Operators and messages of each chunk, where a plan tells them, in the place of `chunks`."""


@dataclass(frozen=True, slots=True)
class ChunkOperators:
    """One stage of a plan."""

    micro: Plan
    """What it does with one micro-batch."""
    once: tuple[PlannedCollective, ...]
    """Messages that run once in a step."""
    received: tuple[str, ...] = ()
    """Tensors whose gradients go back to the stage before."""
    leaving: tuple[str, ...] = ()
    """Tensors that leave for the next stage."""
    kept_bytes: float = 0.0
    """Activations that one micro-batch keeps for the backward pass."""
    beside_bytes: float = 0.0
    """Of other micro-batches, at most, while it runs one."""


@dataclass(frozen=True, slots=True)
class Sharding:
    """What data parallel ranks share: how parameters and gradients travel."""

    tier: str = ""
    """Tier that the collectives cross."""
    sync: Activity = field(default_factory=lambda: Activity(Cause.GRADIENT_SYNC, "all_reduce"))
    gather: Activity = field(default_factory=lambda: Activity(Cause.PARAMETER_GATHER, "all_gather"))
    gather_each_pass: bool = False
    """Parameters rest in shards and are gathered for every pass (ZeRO 3, FSDP); else once, after
    the update, where they are gathered at all."""
    sync_each_micro: bool = False
    """Gradients are reduced after every micro-batch; else after the last one."""
    buckets: float = 1.0
    """Layers whose gradients are sent together."""
    beside: float = 1.0
    """Share of what is exchanged once in a step that is sent beside the passes. The rest is sent
    while nothing is computed: gradients behind the last pass, parameters behind the update."""


class Transfer(NamedTuple):
    """What one micro-batch sends over the cut before a chunk of layers."""

    activity: Activity
    forward_s: float
    """Activations."""
    backward_s: float
    """Their gradients, the other way."""


class SharedGradient(NamedTuple):
    """A gradient that stages add up, as they hold the same parameter."""

    tensor: str
    activity: Activity
    seconds: float
    places: tuple[Place, ...]


NO_TRANSFER = Transfer(Activity("stage transfer", "point_to_point"), 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Step:
    """A training step."""

    stages: tuple[Stage, ...]
    micro_batches: int
    schedule: str
    transfers: tuple[Transfer, ...] = (NO_TRANSFER,)
    """Over the cut before each chunk of the network but the first; a single one is that of all."""
    sharding: Sharding = field(default_factory=Sharding)
    overhead_s: float = 0.0
    """Of a step, whatever it computes."""
    name: str = ""
    receiver_posts: bool = False
    """Activations are sent when the stage that receives them asks for them; where nothing overlaps
    they take its time, not that of the one that sends them."""
    shared: tuple[SharedGradient, ...] = ()

    @property
    def chunks(self) -> int:
        return len(self.stages[0].chunks)

    @property
    def shape(self) -> Shape:
        """What the order of its passes is made for."""
        return Shape(len(self.stages), self.chunks, self.micro_batches)

    @property
    def is_single(self) -> bool:
        """Whether it is one pass forward and one backward over one stage."""
        return self.schedule == Schedule.SINGLE

    @property
    def is_skewed(self) -> bool:
        """Whether stages do not wait for one another before the update, so that steps overlap."""
        return not self.is_single and SCHEDULES[self.schedule].skewed

    @property
    def is_synchronous(self) -> bool:
        """Whether stages wait for one another before the update."""
        return not self.is_single and not SCHEDULES[self.schedule].skewed

    @property
    def route(self) -> Route:
        """The way of a micro-batch."""
        return Route(1, 1) if self.is_single else SCHEDULES[self.schedule].route(self.shape)

    @property
    def send_tier(self) -> str:
        """Tier that messages between stages cross."""
        return self.transfers[0].activity.tier

    def orders(self) -> list[Order]:
        """The passes of every stage.

        Raises:
            ScheduleError: the schedule does not allow these numbers.
        """
        if self.is_single:
            return [[Pass(Direction.FORWARD, 0, 0), Pass(Direction.BACKWARD, 0, 0)]]
        return orders(self.schedule, self.shape)

    def transfer(self, place: Place) -> Transfer:
        """What goes over the cut before a chunk of a stage."""
        stage, chunk = place
        number = chunk * len(self.stages) + stage
        return self.transfers[number - 1 if len(self.transfers) > 1 else 0]

    def place_name(self, place: Place) -> str:
        """What a chunk of a stage is called: a plan counts its stages through."""
        stage, chunk = place
        number = chunk * len(self.stages) + stage
        return f"stage {number}" if self.stages[stage].operators else self.stages[stage].name
