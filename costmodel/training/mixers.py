"""Layers that mix tokens without softmax: state spaces and linear attention, per token and layer.

They keep a state of fixed size and run in chunks: inside a chunk as products over its tokens, from
chunk to chunk through the state. So all they cost grows with the tokens alone, and is a number per
token. Sources: Mamba, arXiv 2312.00752; Mamba-2 (SSD), arXiv 2405.21060, section 6; gated delta
net, arXiv 2412.06464, section 3.3; Kimi Linear, arXiv 2510.26692; lightning attention, arXiv
2401.04658. Operators and the tensors that they read and write are our own count.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Mixer", "MixerKind"]


class MixerKind(StrEnum):
    """What stands in the place of attention."""

    MAMBA = "mamba"
    """Selective scan, one state of `key_size` for each channel."""

    MAMBA2 = "mamba2"
    """State space duality: heads with a scalar decay, groups that share inputs and outputs."""

    GATED_DELTA = "gated-delta"
    """Delta rule with a scalar decay."""

    KIMI_DELTA = "kimi-delta"
    """Delta rule with a decay for each channel of a key."""

    LIGHTNING = "lightning"
    """Linear attention with a fixed decay."""


_CHUNKS = {
    MixerKind.MAMBA: 1,
    MixerKind.MAMBA2: 256,
    MixerKind.GATED_DELTA: 64,
    MixerKind.KIMI_DELTA: 64,
    MixerKind.LIGHTNING: 256,
}
"""Tokens of a chunk unless said; those of the published kernels."""

_DELTA = frozenset({MixerKind.GATED_DELTA, MixerKind.KIMI_DELTA})

_VECTOR = 16.0
"""FLOP/s of 16-bit products over those of vector units: 312 over 19.5 T on an A100, 989 over 67 on
an H100 (data sheets)."""

_SCAN = 9.0
"""Vector operations of a selective scan for each channel, state and token (own count): two
products, an exponential of two, and for the state and its result two of two."""

_CONVOLVED = 4.0
"""Bytes that a short convolution moves per element: it is read and written."""

_GATED_NORM = 6.0
"""Bytes that normalisation with a gate moves per element: two are read, one is written."""


@dataclass(frozen=True, slots=True)
class Mixer:
    """Sizes of the layers of a model that mix tokens without softmax; counts of elements."""

    kind: MixerKind

    layers: int
    """Layers that have one, 1 or more; beside attention where a layer has both."""

    heads: int
    """Heads of values, 1 or more; channels of a selective scan."""

    key_heads: int
    """Heads of keys and queries, which groups of value heads share."""

    key_size: int
    """Width of a key: the size of the state for each element of a value."""

    value_size: int
    """Width of a value; 1 for a selective scan."""

    convolution: int = 4
    """Tokens that the short convolution before it sees; 0 for none."""

    chunk: int = 0
    """Tokens of a chunk; 0 for what the published kernel has."""

    rank: int = 0
    """Inner width of the products that make decays and gates in two steps; 0 for one step."""

    @property
    def inner(self) -> int:
        """Elements of all values of a token."""
        return self.heads * self.value_size

    @property
    def keys(self) -> int:
        """Elements of all keys of a token; queries have as many."""
        return self.key_heads * self.key_size

    @property
    def gated(self) -> int:
        """1 where a product makes a gate for the result."""
        return int(self.rank == 0 or self.kind is MixerKind.MAMBA)

    @property
    def decays(self) -> int:
        """Columns of the first product that make decays and strengths of heads."""
        each = {MixerKind.MAMBA2: 1, MixerKind.GATED_DELTA: 2, MixerKind.KIMI_DELTA: 1}
        return each.get(self.kind, 0) * self.heads

    @property
    def convolved(self) -> int:
        """Channels of the short convolution."""
        if not self.convolution:
            return 0
        return self.inner + (0 if self.kind is MixerKind.MAMBA else 2 * self.keys)

    def in_steps(self, hidden: int) -> int:
        """Parameters of the products that make decays and gates in two steps."""
        if self.kind is MixerKind.MAMBA:
            return self.inner * (2 * self.rank + 2 * self.key_size)
        return self.rank * (2 * hidden + self.keys + self.inner)

    def columns(self, hidden: int) -> float:
        """Columns of the products into it that heads share out; products of other widths count by
        their parameters, as of the hidden state. Keys and queries have more.
        """
        return (1 + self.gated) * self.inner + self.decays + self.in_steps(hidden) / hidden

    def small(self) -> float:
        """Parameters that are no matrix: convolution, decays, normalisation."""
        kernel = (self.convolution + (self.kind not in _DELTA)) * self.convolved
        own = {
            MixerKind.MAMBA: self.inner * (self.key_size + 2.0),
            MixerKind.MAMBA2: 3.0 * self.heads + self.inner,
            MixerKind.GATED_DELTA: 2.0 * self.heads + self.value_size,
            MixerKind.KIMI_DELTA: self.heads + self.keys + self.value_size,
            MixerKind.LIGHTNING: float(self.inner),
        }
        return kernel + own[self.kind]

    def flops(self) -> float:
        """Operations of the core for one token, forward."""
        inside, state = float(self.chunk or _CHUNKS[self.kind]), self.key_size * self.value_size
        scores, results = 2.0 * inside * self.key_size, 2.0 * inside * self.value_size
        if self.kind is MixerKind.MAMBA:
            return _VECTOR * _SCAN * self.inner * self.key_size
        if self.kind is MixerKind.MAMBA2:
            return self.key_heads * scores + self.heads * (results + 4.0 * state)
        if self.kind is MixerKind.LIGHTNING:
            return self.heads * (scores + results + 4.0 * state)
        # Keys with keys, a triangular inverse times keys and values; queries with keys, and values.
        inverse = inside**2 / 3.0
        return self.heads * (3.0 * scores + 2.0 * results + 6.0 * state + inverse)

    def around(self) -> float:
        """Bytes that the kernels beside the core move for one token, forward: convolution, norm
        with gate, and normalisation of keys or activations.
        """
        if self.kind is MixerKind.MAMBA:
            return _CONVOLVED * self.convolved
        nbytes = _CONVOLVED * self.convolved + _GATED_NORM * self.inner
        if self.kind in _DELTA:
            return nbytes + 8.0 * self.heads * self.key_size
        if self.kind is MixerKind.LIGHTNING:
            return nbytes + 4.0 * (2.0 * self.keys + self.inner)
        return nbytes

    def moved(self) -> float:
        """Bytes that the kernels of the core move for one token, forward."""
        chunk = float(self.chunk or _CHUNKS[self.kind])
        states = self.heads * self.key_size * self.value_size / chunk
        keys, values = 2.0 * self.keys, 2.0 * self.inner
        if self.kind is MixerKind.MAMBA:
            return 4.0 * values + 2.0 * keys
        if self.kind is MixerKind.MAMBA2:
            # States in 32 bits are written, passed on (read and written) and read; scores once.
            return 16.0 * states + 5.0 * keys + 3.0 * values + 8.0 * chunk * self.key_heads
        if self.kind is MixerKind.LIGHTNING:
            return 4.0 * states + 2.0 * keys + 2.0 * values
        # Heads of keys are repeated for those of values; inverses in 32 and 16 bits.
        wide, inverses = 2.0 * self.heads * self.key_size, 12.0 * chunk * self.heads
        decays = 8.0 * wide if self.kind is MixerKind.KIMI_DELTA else 0.0
        return 7.0 * wide + 6.0 * values + 4.0 * states + inverses + decays

    def kept(self) -> float:
        """Bytes of one token that the backward pass needs, beside the layer's input.

        What the first product made, what the convolution made where it is not made again, the
        result and what the last product reads.
        """
        made = 2.0 * (2.0 * self.inner + self.decays) + 4.0 * self.inner
        keys = 0.0 if self.kind is MixerKind.MAMBA else 4.0 * self.keys
        if self.kind is MixerKind.MAMBA2:
            return made + keys
        if self.kind is MixerKind.MAMBA:
            return made + 4.0 * self.inner + 2.0 * (self.rank + 2.0 * self.key_size)
        again = 2.0 * self.heads * (2.0 * self.key_size + self.value_size)
        inverse = 2.0 * (self.chunk or _CHUNKS[self.kind]) * self.heads
        return made + keys + again + (inverse if self.kind in _DELTA else 0.0)
