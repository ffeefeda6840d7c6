"""Compute of one pass of one micro-batch through one layer, and through both ends of the model.

Operator counts are our own, from the definition of the transformer; FLOPs agree with Korthikanti
et al., arXiv 2205.05198, and Narayanan et al., SC21.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from costmodel.operators import matmul_s
from costmodel.training.attention_core import core_s, rate16
from costmodel.training.sizes import expert_parts, mixer_inward

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from costmodel.training.constants import StepConstants
    from costmodel.training.table import FloatArray, RunTable

__all__ = [
    "LayerTimes", "Product", "dense_products", "expert_products", "experts_issued",
    "inward_products", "layer_times", "outward_products", "product", "products16_s",
    "routed_copies", "tokens",
]  # fmt: skip

_ACTIVATION, _SPLIT_ACTIVATION = (4.0, 2.0), (6.4, 8.0)
"""Bytes per element of the activation's width that its kernels move forward, and how many more with
a gate; backward 1.5 times. One kernel reads what the first product wrote and writes its result. One
by one, with a gate, `silu` and product move 10 bytes forward, their gradients and the joining of
both halves 26 backward; without, bias and activation move 8 and 8 (own count)."""

_CAST = 4.0
"""Bytes moved to cast one element from 16 bits to 8: it is read, and written as it is and
transposed (own count)."""

_BIAS = 27.0
"""Bytes moved forward per element of a copy's hidden state where experts add biases: in 32 bits,
a bias times a probability, expert by expert, and the sums are joined (Megatron-Core's
`TEGroupedMLP`; own count: 28 forward and 40 backward, which is counted as 1.5 times forward)."""


_CHUNKED = 0.4
"""Share of both limits, one after the other, that kernels of states in chunks reach: with 64
elements for each channel and 2,048 tokens, Mamba-2 is as fast as fused attention on an A100, whose
4,096 operations for each channel it replaces by 768 and 10 bytes (arXiv 2405.21060, figure 10)."""


class Product(NamedTuple):
    """A product of matrices that one device has in a layer, rows x k times k x n; shape (N,)."""

    name: str
    rows: FloatArray
    n: FloatArray
    k: FloatArray
    number: FloatArray
    """How many there are; the share of the layers that have one, in a mean layer."""

    grouped: FloatArray | float = 0.0
    """1 where products of several experts share a kernel or a queue."""

    last: bool = False
    """Whether a layer ends with it."""


@dataclass(frozen=True, slots=True)
class LayerTimes:
    """Seconds on one device of one pass through one layer, by direction and kind."""

    products: FloatArray
    """Forward matrix products; the backward pass has two for each."""

    products_backward: FloatArray
    weights: FloatArray
    """The gradients of the weights, which are a part of them: one of three products, of each."""

    last: FloatArray
    """The last forward product alone."""

    inward: FloatArray
    """The forward products that make queries, keys and values alone."""

    core: FloatArray
    """Attention core, forward."""

    core_backward: FloatArray
    stream: FloatArray
    """Normalisation, activation, residual, and the core of a mixer without softmax, forward."""

    stream_backward: FloatArray

    @property
    def forward(self) -> FloatArray:
        """The whole forward pass."""
        return self.products + self.core + self.stream

    @property
    def backward(self) -> FloatArray:
        """The whole backward pass, without recomputation."""
        return self.products_backward + self.core_backward + self.stream_backward


def tokens(table: RunTable) -> FloatArray:
    """Tokens of a micro-batch on one device."""
    return table.micro_batch * table.seq_len / table.cp


def routed_copies(table: RunTable) -> FloatArray:
    """Rows that one device sends to experts: its tokens, once for each expert that they visit.

    Tensor parallel ranks hold the same tokens, unless sequences are split over them.
    """
    split = np.where(table.sequence_parallel > 0, table.tp, 1.0)
    return tokens(table) * table.experts_per_token * table.expert_capacity / split


def experts_issued(table: RunTable) -> FloatArray:
    """Experts of one device whose products the host issues one by one."""
    return np.where(_in_one(table), 0.0, _local_experts(table))


def layer_times(table: RunTable, c: StepConstants) -> tuple[LayerTimes, LayerTimes, LayerTimes]:
    """Times of a dense layer, of a routed one, and of one without a feed-forward block.

    What comes before that block is of a mean layer: softmax attention, another mixer, or none.
    """
    core, core_back = (table.mixing.attention * time for time in core_s(table, c))
    inward, inward_back, _ = _priced(table, c, inward_products(table))
    outward, outward_back, _ = _priced(table, c, outward_products(table))
    scan, scan_back = _scan(table, c)
    older = np.where(table.old_release > 0, c.old_release, 1.0)
    routed_ffn = table.expert_ffn * table.experts_per_token + table.shared_ffn
    copies = _dispatch_bytes(table) + _copy_bytes(table, c)
    times = []
    for block, width, more in (
        (tuple(dense_products(table)), table.ffn, 0.0),
        (tuple(expert_products(table)), routed_ffn, copies),
        ((), np.zeros_like(table.hidden), 0.0),
    ):
        products, products_back, last = _priced(table, c, block)
        forward = inward + outward + products
        backward = inward_back + outward_back + products_back
        moved = older * _stream_bytes(table, width) + more
        stream = table.machine.stream_s(moved) / c.memory * (1.0 + 0.6 * table.uncompiled)
        times.append(
            LayerTimes(
                products=forward,
                products_backward=backward,
                weights=np.where(table.frozen > 0, 0.0, (forward + backward) / 3.0),
                last=last if block else outward,
                inward=inward,
                core=core,
                core_backward=core_back,
                stream=stream + scan,
                stream_backward=1.5 * stream + scan_back,
            )
        )
    return times[0], times[1], times[2]


def _priced(
    table: RunTable, c: StepConstants, products: Iterable[Product]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Seconds of some products, forward and backward, and forward of the last one alone."""
    forward = backward = last = np.zeros_like(table.hidden)
    for each in products:
        grouped = np.asarray(each.grouped) > 0
        # Alone, experts of a device are one kernel.
        batch = np.where(grouped & (table.alone > 0), np.maximum(each.number, 1.0), 1.0)
        there, back = product(table, c, each.rows, each.n, each.k, batch)
        number = each.number / batch / np.where(grouped, c.grouped, 1.0)
        forward, backward = forward + number * there, backward + number * back
        last = number * there if each.last else last
    return forward, backward, last


def products16_s(table: RunTable, c: StepConstants, n: FloatArray, k: FloatArray) -> FloatArray:
    """Seconds of tokens x k times k x n of 16-bit operands, forward and backward."""
    forward, inputs, weights = _three_s(table, rate16(table, c), (tokens(table), n, k))
    return forward + inputs + weights


def _three_s(
    table: RunTable,
    flops: FloatArray,
    sizes: tuple[FloatArray, FloatArray, FloatArray],
    batch: FloatArray | float = 1.0,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Seconds of rows x k times k x n, given as rows, n and k, in a long run, with 16-bit traffic:
    forward, and backward the gradients of inputs and of weights.
    """
    rates, (rows, n, k) = table.machine, sizes
    shapes = ((rows, n, k), (rows, k, n), (k, n, rows))
    forward, inputs, weights = (
        matmul_s((batch, *shape), flops, rates.memory_bytes_per_s, rates.shapes) for shape in shapes
    )
    return forward, inputs, weights


def product(
    table: RunTable,
    c: StepConstants,
    rows: FloatArray,
    n: FloatArray,
    k: FloatArray,
    batch: FloatArray | float = 1.0,
) -> tuple[FloatArray, FloatArray]:
    """Seconds forward and backward of `batch` products of rows x k times k x n in one kernel."""
    wide = c.matmul * table.machine.products16
    rate = np.where(table.fp4 > 0, c.matmul4, np.where(table.fp8 > 0, c.matmul8, wide))
    flops = table.machine.flops * rate * np.where(table.mx > 0, c.mx, 1.0)
    forward, inputs, weights = _three_s(table, flops, (rows, n, k), batch)
    cast = table.casts * np.where((table.fp8 > 0) | (table.fp4 > 0), _CAST, 0.0) / c.memory
    forward = forward + table.machine.stream_s(cast * rows * k)
    inputs = inputs + table.machine.stream_s(cast * rows * n)
    return forward, inputs + np.where(table.frozen > 0, 0.0, weights)


def inward_products(table: RunTable) -> Iterator[Product]:
    """Projections into attention and other mixers of a mean layer, those of latent attention where
    it has ranks.
    """
    rows, mixing = tokens(table), table.mixing
    latent = table.kv_rank > 0
    # Latent heads keep `rotary_size` of their width apart from the compressed keys.
    heads = table.heads * (1.0 + mixing.query_gate)
    kv = table.kv_heads
    plain = (heads + 2.0 * np.maximum(kv, table.tp)) * table.head_size
    compressed = table.kv_rank + table.rotary_size
    first = np.where(latent, table.query_rank + compressed, plain / table.tp)
    apart = table.apart_products
    joined = mixing.attention * (1.0 - apart)
    yield Product("queries, keys and values", rows, first, table.hidden, joined)
    if np.any(apart > 0):
        own, keys = (n * table.head_size / table.tp for n in (heads, np.maximum(kv, table.tp)))
        own, keys = np.where(latent, table.query_rank, own), np.where(latent, compressed, keys)
        queried = mixing.attention * apart * (own > 0)
        yield Product("queries", rows, np.maximum(own, 1.0), table.hidden, queried)
        number = np.where(latent, 1.0, 2.0) * mixing.attention * apart
        yield Product("keys and values", rows, keys, table.hidden, number)
    if np.any(latent):
        share = mixing.attention * latent
        queries = table.heads * table.head_size / table.tp
        keys = table.heads * (table.head_size - table.rotary_size + table.value_size) / table.tp
        rank = np.where(table.query_rank > 0, table.query_rank, table.hidden)
        yield Product("latent queries", rows, queries, rank, share)
        yield Product("latent keys", rows, keys, np.maximum(table.kv_rank, 1.0), share)
    if np.any(mixing.share > 0):
        yield Product("into the mixer", rows, mixer_inward(table), table.hidden, mixing.share)


def outward_products(table: RunTable) -> Iterator[Product]:
    """Projections out of them."""
    rows, mixing = tokens(table), table.mixing
    out = table.heads * table.value_size / table.tp
    yield Product("attention output", rows, table.hidden, out, mixing.attention)
    if np.any(mixing.share > 0):
        out = np.maximum(mixing.outward / table.tp, 1.0)
        yield Product("out of the mixer", rows, table.hidden, out, mixing.share)


def _scan(table: RunTable, c: StepConstants) -> tuple[FloatArray, FloatArray]:
    """What mixers without softmax do between their products, in a mean layer.

    The core takes the time of its products at the rate of fused attention and that of its bytes,
    over `_CHUNKED`; what is around it that of its bytes. Backward 2.5 times: states are computed
    again, and every product has two gradients.
    """
    mixing = table.mixing
    if not np.any(mixing.share > 0):
        return np.zeros_like(table.hidden), np.zeros_like(table.hidden)
    wide = np.minimum(mixing.key_size / 128.0, 1.0)
    rate = table.machine.flops16 * c.attention * wide**c.small_heads
    moving, around = (
        table.machine.stream_s(nbytes) / c.memory for nbytes in (mixing.moved, mixing.around)
    )
    chunked = (mixing.flops / rate + moving) / _CHUNKED
    forward = mixing.share * tokens(table) / table.tp * (chunked + around)
    return forward, 2.5 * forward


def dense_products(table: RunTable) -> Iterator[Product]:
    """The two or three products of a dense feed-forward layer; the first two are one."""
    return _feed_forward(table, table.ffn, np.ones_like(table.hidden))


def _feed_forward(table: RunTable, width: FloatArray, number: FloatArray) -> Iterator[Product]:
    rows, inner = tokens(table), width / table.tp
    yield Product("up", rows, _up(table) * inner, table.hidden, number * _ups(table))
    yield Product("down", rows, table.hidden, inner, number, last=True)


def _up(table: RunTable) -> FloatArray:
    """Inner widths that one product makes: that of a gate too, unless it has its own."""
    return np.where(table.apart_products > 0, 1.0, 1.0 + table.gated)


def _ups(table: RunTable) -> FloatArray:
    """Products that make inner widths."""
    return (1.0 + table.gated) / _up(table)


def expert_products(table: RunTable) -> Iterator[Product]:
    """Routed experts of one device, shared experts, and products into the width that experts work
    on and out of it, of each token once.

    Each of the E / ep local experts sees its share of the tokens of ep ranks. Tensor parallel
    ranks split the widths of the experts or the tokens.
    """
    if not np.any(table.experts > 0):
        return
    routed, local, parts = table.experts > 0, _local_experts(table), expert_parts(table)
    copies = tokens(table) * table.experts_per_token * table.expert_capacity
    rows = np.maximum(copies * parts / table.tp / local, 1.0)
    width, hidden = np.maximum(table.expert_ffn, 1.0) / parts, table.mixing.expert_hidden
    number = np.where(routed, local, 0.0)
    grouped = np.where(table.batched_experts > 0, 0.0, 1.0)
    yield Product("experts up", rows, (1.0 + table.gated) * width, hidden, number, grouped)
    yield Product("experts down", rows, hidden, width, number, grouped, last=True)
    has_shared = np.where(routed & (table.shared_ffn > 0), 1.0, 0.0)
    for each in _feed_forward(table, np.maximum(table.shared_ffn, 1.0), has_shared):
        yield each._replace(name=f"shared {each.name}", last=False)
    split = np.where(table.sequence_parallel > 0, table.tp, 1.0)
    if np.any(table.alone > 0):
        chooses = np.where(routed, table.alone, 0.0)
        yield Product("router", tokens(table) / split, table.experts, table.hidden, chooses)
    if np.any(table.mixing.latent > 0):
        own, latent = tokens(table) / split, np.where(routed & (table.mixing.latent > 0), 1.0, 0.0)
        yield Product("into experts", own, hidden, table.hidden, latent)
        yield Product("out of experts", own, table.hidden, hidden, latent)


def _stream_bytes(table: RunTable, width: FloatArray) -> FloatArray:
    """Bytes that the element-wise kernels of a layer move forward, at 16 bits.

    A normalisation and a residual addition for each block, two of a layer of a transformer, touch
    the hidden state 5.5 times; rotary or bias kernels read and write queries, keys and values.
    """
    split = np.where(table.sequence_parallel > 0, table.tp, 1.0)
    hidden = 11.0 * table.mixing.blocks * table.hidden / split
    plain, gate = (
        np.where(table.split_activation > 0, split_up, one)
        for one, split_up in zip(_ACTIVATION, _SPLIT_ACTIVATION, strict=True)
    )
    activation = (plain + gate * table.gated) * table.activation_kernels * width / table.tp
    heads = 4.0 * (table.heads + table.kv_heads) * table.head_size / table.tp
    heads = table.mixing.attention * heads
    return tokens(table) * (hidden + activation + heads)


def _dispatch_bytes(table: RunTable) -> FloatArray:
    """Bytes to gather tokens by expert and to scatter them back: read and write of each copy."""
    return 10.0 * routed_copies(table) * table.mixing.expert_hidden


def _copy_bytes(table: RunTable, c: StepConstants) -> FloatArray:
    """What the copies that a device's experts work on cost beside products, as bytes forward.

    Their elements are those that the two products take in, hidden state and result of the
    activation; of 8 bits they take half. Biases are added to the second product's result. Nothing
    is left where one kernel does it all, or where experts are one product and tokens reach their
    buffers through products too.
    """
    copies = tokens(table) * table.experts_per_token * table.expert_capacity / table.tp
    hidden = expert_parts(table) * table.mixing.expert_hidden
    short = np.where(table.short_copies > 0, 0.5, 1.0)
    each = c.expert_bytes * short * (hidden + table.expert_ffn)
    biases = _BIAS * table.expert_biases * hidden
    return np.where((table.experts > 0) & ~_in_one(table), copies * (each + biases), 0.0)


def _in_one(table: RunTable) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Whether one kernel has all experts of a device."""
    return (table.fused_experts > 0) | (table.batched_experts > 0)


def _local_experts(table: RunTable) -> FloatArray:
    return np.maximum(table.experts / table.ep, 1.0)
