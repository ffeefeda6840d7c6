"""What a pipelined training step is made of: the seam between a layout's times and a simulation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from costmodel.simulation.programme import Part, Work


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
    forward: tuple[Part, ...]
    """One micro-batch through one layer."""
    backward: tuple[Part, ...]
    """Gradient of the input of one layer."""
    weight: tuple[Part, ...] = ()
    """Gradients of its weights."""
    again: tuple[Part, ...] = ()
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
    hidden_forward: tuple[Part, ...] = ()
    """Communication of a forward pass that computation hides; it costs nothing."""
    hidden_backward: tuple[Part, ...] = ()
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
    """Layers of each chunk, in order."""
    state_bytes: float = 0.0
    """Weights, gradients and optimizer state."""
    update_s: float = 0.0
    copies: int = 0
    """Devices that it stands for, where they are not those of the job."""


@dataclass(frozen=True, slots=True)
class Sharding:
    """What data parallel ranks share: how parameters and gradients travel."""

    tier: str = ""
    """Tier that the collectives cross."""
    sync: Work = field(default_factory=lambda: Work("gradient sync", "all_reduce"))
    gather: Work = field(default_factory=lambda: Work("parameter gather", "all_gather"))
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


@dataclass(frozen=True, slots=True)
class Job:
    """A pipelined training step."""

    stages: tuple[Stage, ...]
    micro_batches: int
    schedule: str
    copies: int
    """Devices that each stage stands for."""
    send_s: float = 0.0
    """To hand one micro-batch to the next chunk, or its gradient back."""
    send: Work = field(default_factory=lambda: Work("stage transfer", "point_to_point"))
    sharding: Sharding = field(default_factory=Sharding)
    overhead_s: float = 0.0
    """Of a step, whatever it computes."""
    name: str = ""

    @property
    def chunks(self) -> int:
        return len(self.stages[0].chunks)
