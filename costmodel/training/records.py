"""What is trained, how it is laid out over devices, and with which software: plain records.

Sizes are those of a decoder with dense or routed feed-forward layers, which is what published
layouts describe; some or all of its layers may mix tokens without softmax, or lack one of the two
blocks of a transformer. A run joins a model, a layout, a machine and a software profile.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from costmodel.memory import Optimizer
from ir.degrees import Degrees

if TYPE_CHECKING:
    from costmodel.training.mixers import Mixer

__all__ = [
    "Attention",
    "LayoutError",
    "Recompute",
    "TrainingLayout",
    "TrainingModel",
    "TrainingRun",
]


class LayoutError(ValueError):
    """A layout, model or row that cannot be: what is wrong, in one sentence."""


class Recompute(StrEnum):
    """What the backward pass computes again."""

    NONE = "none"
    """Nothing: every saved tensor is kept."""

    SELECTIVE = "selective"
    """The core of attention, or the cheap operators."""

    FULL = "full"
    """Whole layers: only their inputs are kept."""


class Attention(StrEnum):
    """How the core of attention runs."""

    FLASH = "flash"
    """One fused kernel, which skips the half above the diagonal."""

    UNFUSED = "unfused"
    """Two batched products over the full square, with softmax between them in memory."""


@dataclass(frozen=True, slots=True)
class TrainingModel:
    """Sizes of a transformer; counts of elements, not of bytes."""

    name: str
    """For messages and groups in reports, such as `Llama-3.1-70B`."""

    hidden: int
    """Width of the residual stream, 1 or more."""

    layers: int
    """Transformer layers, 1 or more."""

    heads: int
    """Query heads, 1 or more."""

    kv_heads: int
    """Key and value heads; equal to `heads` without grouping."""

    head_size: int
    """Width of one query or key head."""

    ffn: int
    """Inner width of a dense feed-forward layer."""

    vocab: int
    """Rows of the embedding table."""

    gated: bool = True
    """Whether the feed-forward layer has a gate (three matrices instead of two)."""

    tied: bool = False
    """Whether embedding and output head share one table."""

    experts: int = 0
    """Routed experts per layer; 0 for a dense model."""

    experts_per_token: int = 0
    """Routed experts that one token visits."""

    expert_groups: int = field(default=0, repr=False)
    """Groups of neighbours that the experts are divided into; 0 or 1 for none."""

    groups_per_token: int = field(default=0, repr=False)
    """Groups whose experts one token may visit, where there are groups."""

    expert_ffn: int = 0
    """Inner width of one routed expert."""

    shared_ffn: int = 0
    """Inner width of the experts that every token visits, together."""

    dense_layers: int = 0
    """Layers of a routed model that are dense."""

    expert_capacity: float = 1.0
    """Rows that an expert computes over its share of the tokens: more than 1 where it works on a
    buffer of fixed size."""

    value_size: int = 0
    """Width of one value head; 0 says as `head_size`."""

    query_rank: int = 0
    """Width of the compressed query of latent attention; 0 for none."""

    kv_rank: int = 0
    """Width of the compressed keys and values of latent attention; 0 for none."""

    rotary_size: int = 0
    """Width of the rotary part beside the compressed keys."""

    window: int = 0
    """Positions that a local layer looks back; 0 for none."""

    global_every: int = 1
    """One layer in so many looks at the whole sequence; the others have the window."""

    activation_kernels: int = 1
    """Kernels of the activation between the products; more than 1 where no fused one exists."""

    expert_biases: bool = field(default=False, repr=False)
    """Whether routed experts add biases of their own."""

    causal: bool = True
    """Whether a position sees only those before it."""

    attention_layers: int = field(default=-1, repr=False)
    """Layers with softmax attention; -1 for all."""

    mixer: Mixer | None = field(default=None, repr=False)
    """What other layers mix tokens with, such as a state space."""

    bare_layers: int = field(default=0, repr=False)
    """Layers without a feed-forward block."""

    query_gate: bool = field(default=False, repr=False)
    """Whether queries come with a gate of their size, for the result of attention."""

    expert_hidden: int = field(default=0, repr=False)
    """Width of the rows that routed experts work on, where products make them from the hidden state
    and back; 0 for the hidden state itself."""

    further: int = field(default=0, repr=False)
    """Times that a layer which predicts one further token is trained behind the others, with a pass
    of head and loss."""


@dataclass(frozen=True, slots=True)
class TrainingLayout:
    """A conventional parallel layout: degrees, batch and what is recomputed.

    Devices are `tp * cp * pp * dp`; experts are spread over `etp * ep` of the `tp * cp * dp` that a
    stage has, so they add none.
    """

    global_batch: int
    """Sequences of one optimizer step."""

    micro_batch: int
    """Sequences of one forward pass of one replica."""

    seq_len: int
    """Tokens of a sequence."""

    tp: int = 1
    """Tensor parallel."""

    pp: int = 1
    """Pipeline stages."""

    vpp: int = 1
    """Chunks of layers on each stage (interleaved schedule)."""

    dp: int = 1
    """Data parallel replicas."""

    cp: int = 1
    """Context parallel: parts of a sequence."""

    ep: int = 1
    """Expert parallel."""

    etp: int = field(default=0, repr=False)
    """Tensor parallel ranks that split the width of a routed expert; the others split its tokens. 0
    says as the software does, or as many as the devices of a stage allow."""

    zero_stage: int = 0
    """What data parallel ranks share: 0 nothing, 1 optimizer states, 2 gradients, 3 parameters."""

    zero_group: int = 0
    """Ranks that share them; 0 says all data parallel ranks."""

    sequence_parallel: bool = False
    """Whether normalisation and dropout are split over the tensor parallel ranks."""

    recompute: Recompute = Recompute.NONE
    """What the backward pass computes again."""

    recompute_share: float = 1.0
    """Share of the layers that `recompute` applies to, 0 to 1."""

    stage_layers: tuple[int, ...] = ()
    """Layers of each stage; empty for an even split."""

    schedule: str = field(default="", repr=False)
    """Order of the passes of a pipeline, of `SCHEDULES`; empty for 1F1B, interleaved with several
    chunks."""

    @property
    def degrees(self) -> Degrees:
        """The degrees alone."""
        sizes = (self.tp, self.cp, self.pp, self.vpp, self.dp, self.ep)
        return Degrees(*sizes, zero=self.zero_stage)

    @property
    def order(self) -> str:
        """Name of the order of passes, where 1F1B and interleaved chunks are told apart."""
        return self.schedule or ("interleaved" if self.vpp > 1 else "1f1b")

    @property
    def devices(self) -> int:
        """Devices that the layout takes."""
        return self.tp * self.pp * self.dp * self.cp

    @property
    def micro_batches(self) -> float:
        """Forward passes of one replica in one step; whole for a valid layout."""
        return self.global_batch / (self.micro_batch * self.dp)


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """One training job whose step is to be priced."""

    name: str
    """Identifier, such as that of a row."""

    model: TrainingModel
    layout: TrainingLayout

    machine: str
    """Name of a machine of `topology.machine_names`."""

    profile: str
    """Software profile, such as `megatron` or `mindspeed`; see `data/calibration/training.yaml`."""

    precision: str = "bf16"
    """Type of the matrix products: fp32, fp16, bf16, fp8, mxfp8 or fp4."""

    attention: Attention = Attention.FLASH
    """How the core of attention runs."""

    flags: frozenset[str] = field(default_factory=frozenset)
    """What else the run states or its software implies: `fused-tp` (products that hide their
    collective), `overlap` (gradients are reduced beside the backward pass), `frozen` (weights get
    no gradient), `early-stop` (recomputation ends before the last product), `uncompiled` and
    others that `RunTable` has columns for."""

    port_bytes_per_s: float = 0.0
    """Share of one device of the ports between servers, where the run states it; else 0."""

    link_bytes_per_s: float = field(default=0.0, repr=False)
    """Links of one device inside its server in one direction, of a mesh one of them, where the run
    states them; else 0."""

    server: int = field(default=0, repr=False)
    """Devices that the inner network joins, where the run states fewer than its machine has; else
    0."""

    gradient_bytes: float = field(default=0.0, repr=False)
    """Bytes of a gradient that micro-batches add up, where the run states them; else 0."""

    optimizer: Optimizer = field(default=Optimizer.ADAMW, repr=False)
    """How parameters are updated."""
