"""What a transformer is made of: sizes and the few ways in which its blocks differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Names = Mapping[str, str]
"""What a family calls its modules, by their part: `{"query": "self_attn.q_proj"}`. They become the
names of parameters and the scopes of operators."""


@dataclass(frozen=True, slots=True)
class Norm:
    """A normalisation of rows."""

    kind: Literal["rms", "layer"] = "rms"
    offset: bool = False
    """Whether one is added to the weight, as Gemma does."""


@dataclass(frozen=True, slots=True)
class Latent:
    """Low-rank queries, keys and values (multi-head latent attention).

    Source: DeepSeek-V2, arXiv 2405.04434, section 2.1.
    """

    query_rank: int
    """0 where queries are projected at once."""
    key_rank: int
    rotary_width: int
    """Part of a head's width that is turned by position; one such part serves all heads."""


@dataclass(frozen=True, slots=True)
class Attention:
    """Attention of all heads, with its projections."""

    heads: int
    key_heads: int
    width: int
    """Of one head of queries and keys."""
    value_width: int
    biases: frozenset[str] = frozenset()
    """Which of `query`, `key`, `value` and `output` add one."""
    rotary: bool = True
    relative_buckets: int = 0
    """Rows of a table of biases by distance, as in T5; 0 without."""
    query_norm: bool = False
    """Whether queries and keys are normalised head by head."""
    fused: bool = False
    """Whether one product makes queries, keys and values."""
    scaled: bool = True
    soft_cap: float = 0.0
    """Bound of the scores by a hyperbolic tangent; 0 without."""
    latent: Latent | None = None
    gated: bool = False
    """Whether the product of the queries makes a gate for the result too."""


@dataclass(frozen=True, slots=True)
class MixerSizes:
    """Sizes of what stands in the place of attention."""

    kind: str
    """`mamba`, `mamba2`, `gated-delta`, `kimi-delta` or `lightning`."""
    heads: int
    key_heads: int
    key_size: int
    value_size: int
    convolution: int
    chunk: int
    """0 for the usual one."""
    rank: int = 0


@dataclass(frozen=True, slots=True)
class FeedForward:
    """Two products with an activation between them, or three with a gate."""

    width: int
    activation: str = "silu"
    """A key of `importers.transformers.feed_forward.ACTIVATIONS`."""
    gated: bool = True
    bias: bool = False
    flat: bool = False
    """Whether its products take batch and rows as one dimension, as GPT-2 has them."""


@dataclass(frozen=True, slots=True)
class Experts:
    """A mixture of experts in place of a feed-forward block."""

    count: int
    per_token: int
    width: int
    activation: str = "silu"
    gated: bool = True
    latent: int = 0
    """Width of the rows that experts work on; 0 for that of the network."""
    scores: Literal["softmax", "sigmoid"] = "softmax"
    normalised: bool = True
    """Whether the weights of a token's experts sum to one."""
    scaled: bool = False
    """Whether a factor follows."""
    groups: int = 0
    """Groups of experts of which only the best take part; 0 where there are none."""
    best_groups: int = 0
    correction: bool = False
    """Whether a bias that nobody trains is added to the scores before the choice."""
    single: bool = False
    """Whether the router works in single precision."""
    shared_width: int = 0
    """Width of the block that every token passes besides; 0 without."""
    shared_gate: bool = False
    layers: frozenset[int] | None = None
    """Layers that have it, the others have the feed-forward block; None for all."""

    def stands_in(self, layer: int) -> bool:
        """Whether this layer has it."""
        return self.layers is None or layer in self.layers


@dataclass(frozen=True, slots=True)
class Entry:
    """How an input becomes rows of numbers."""

    kind: Literal["tokens", "patches", "frames"] = "tokens"
    input: str = "input_ids"
    rows: int = 0
    """Rows where the sizes fix them: patches with the class token, frames; 0 for tokens."""
    vocabulary: int = 0
    channels: int = 0
    """Of an image, or bins of a spectrum."""
    patch: int = 0
    image: int = 0
    table: int = 0
    """Rows of a learned table of positions; 0 without."""
    types: int = 0
    """Kinds of segments that a second input tells apart; 0 without."""
    norm: bool = False
    scaled: bool = False
    """Whether the rows are multiplied by the root of the width, as Gemma does."""
    padded: bool = False
    """Whether an input says which tokens count."""


@dataclass(frozen=True, slots=True)
class Stack:
    """Layers of one kind behind one input."""

    entry: Entry
    layers: int
    norm: Norm
    norms: Literal["before", "after", "both"]
    """Where a layer normalises: the input of a block, the sum behind it, or input and result."""
    attention: Attention
    feed_forward: FeedForward
    names: Names
    experts: Experts | None = None
    causal: bool = True
    final_norm: bool = True
    mixer: MixerSizes | None = None
    blocks: tuple[tuple[str, ...], ...] = ()
    """The blocks of each layer where layers are of several kinds: `attention`, `mixer`, `both` side
    by side, `mlp` (experts where the layer has them), `dense` or `routed`. Else every layer has
    attention and `mlp`."""


@dataclass(frozen=True, slots=True)
class Head:
    """What is computed from the last rows."""

    kind: Literal["vocabulary", "classes", "none"]
    size: int = 0
    tied: bool = False
    """Whether it uses the table of the embedding."""
    bias: bool = False
    scaled: bool = False
    """Whether the rows are multiplied by a number first, as T5 does."""
    transform: str = ""
    """Activation between a product and a normalisation in front, as BERT has them; "" without."""
    soft_cap: bool = False


@dataclass(frozen=True, slots=True)
class Network:
    """A transformer: a decoder, an encoder, or an encoder whose rows a decoder attends to."""

    width: int
    """Of the rows between the layers, e.g. 4096."""
    stacks: tuple[Stack, ...]
    """One, or an encoder and a decoder that attends to it."""
    head: Head
    positions: int = 0
    """Longest sequence that it was made for; 0 where nothing says so."""
    name: str = "model"
    dtype: str = "float32"
    """numpy-style name, e.g. `"bfloat16"`."""
    notes: tuple[str, ...] = ()
