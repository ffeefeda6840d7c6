"""What `costmodel.training` says of a layout with kernels and messages alone, one after another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchmarks.two_estimators_words import (
    BYTES,
    CONTEXT,
    EXCHANGE,
    FLOPS,
    GRADIENTS,
    KERNELS,
    SECONDS,
    SENDS,
    TENSOR,
    Quantities,
    add,
)
from costmodel.training.communication import (
    context_parallel_s,
    expert_exchange_s,
    tensor_parallel_s,
    transfers_s,
)
from costmodel.training.ends import ends_s
from costmodel.training.generic import ALONE, KEPT
from costmodel.training.layers import (
    dense_products,
    expert_products,
    inward_products,
    layer_times,
    outward_products,
    product,
    products16_s,
    routed_copies,
    tokens,
)
from costmodel.training.links import links_of
from costmodel.training.memory import memory_use
from costmodel.training.sizes import (
    dense_share,
    expert_replicas,
    gathered_parameters,
    replicas_of,
    routed_share,
    stage_parameters,
)
from costmodel.training.step import times_in_turn
from costmodel.training.table import RunTable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from costmodel.training.layers import Product
    from costmodel.training.records import TrainingRun

_C = ALONE.in_turn()


def by_sizes(run: TrainingRun) -> Quantities:
    """The quantities of a run of the profile `generic`."""
    table = RunTable.of([run])
    found: Quantities = {}
    passes = float((table.layers * table.micro_batches)[0])
    again = float(table.recompute_full[0])
    for each, share in _products(table):
        _add_product(found, table, each, passes * share, again)
    ends = float(table.micro_batches[0])
    columns = table.vocab / table.tp
    head_s = float(products16_s(table, _C, columns, table.hidden)[0])
    add(found, "head", FLOPS, ends * float((2.0 * tokens(table) * table.hidden * columns)[0]))
    add(found, "head", KERNELS, ends)
    add(found, "head", SECONDS, ends * head_s)
    dense, moe, _ = layer_times(table, _C)
    shares = float(dense_share(table)[0]), float(routed_share(table)[0])
    core = float((dense.core * (1.0 + again) + dense.core_backward)[0])
    stream = [float((t.stream * (1.0 + again) + t.stream_backward)[0]) for t in (dense, moe)]
    add(found, "attention core", SECONDS, passes * core)
    add(found, "element-wise", SECONDS, passes * float(np.dot(shares, stream)))
    embedding_s, head_and_loss_s = (float(end[0]) for end in ends_s(table, _C))
    add(found, "embedding", SECONDS, ends * embedding_s)
    add(found, "loss", SECONDS, ends * (head_and_loss_s - head_s))
    _add_messages(found, table, passes, 2.0 + again)
    _add_whole(found, run, table)
    return {key: value for key, value in found.items() if value}


def _products(table: RunTable) -> Iterator[tuple[Product, float]]:
    """Products of a mean layer, each with the share of the layers that has it."""
    dense, routed = float(dense_share(table)[0]), float(routed_share(table)[0])
    yield from ((each, 1.0) for each in (*inward_products(table), *outward_products(table)))
    yield from ((each, dense) for each in dense_products(table))
    yield from ((each, routed) for each in expert_products(table))


def _add_product(
    found: Quantities, table: RunTable, each: Product, passes: float, again: float
) -> None:
    """One product: its forward operations and kernels, and the seconds of all passes."""
    number = float(each.number[0]) * passes
    if not number:
        return
    batch = float(each.number[0]) if np.any(np.asarray(each.grouped) > 0) else 1.0
    forward, backward = product(table, _C, each.rows, each.n, each.k, batch)
    add(found, each.name, FLOPS, number * float((2.0 * each.rows * each.n * each.k)[0]))
    add(found, each.name, KERNELS, number / batch)
    add(found, each.name, SECONDS, number / batch * float((forward * (1.0 + again) + backward)[0]))


def _add_messages(found: Quantities, table: RunTable, layers: float, passes: float) -> None:
    """Messages inside layers and between stages; `layers` are those of all micro-batches."""
    links, routed = links_of(table, _C), routed_share(table)
    blocks = table.mixing.blocks - routed * (table.sequence_parallel > 0)
    width = 2.0 * tokens(table) * table.hidden
    heads = 2.0 * np.maximum(table.kv_heads / table.tp, 1.0) * table.head_size
    context = (table.cp > 1) * 2.0 * table.micro_batch * table.seq_len * heads
    copies = (table.ep > 1) * 2.0 * routed * 2.0 * routed_copies(table) * table.hidden
    ring_s = context_parallel_s(table, _C, links)
    for name, nbytes, seconds, times in (
        (TENSOR, (table.tp > 1) * blocks * 2.0 * width, tensor_parallel_s(table, _C, links, routed),
         passes),
        (CONTEXT, context, ring_s, passes),
        (EXCHANGE, copies, routed * expert_exchange_s(table, _C, links), passes),
    ):  # fmt: skip
        add(found, name, BYTES, layers * times * float(nbytes[0]))
        add(found, name, SECONDS, layers * times * float(seconds[0]))
    split = np.where((table.sequence_parallel > 0) | (table.scatter_stages > 0), table.tp, 1.0)
    crossed = table.micro_batches * (table.pp * table.vpp - 1.0) * 2.0
    add(found, SENDS, BYTES, float((crossed * width / split)[0]))
    # A device has each of its chunks' sends in turn, and those that fill and drain the pipeline.
    own = 2.0 * table.vpp * table.micro_batches + 2.0 * (table.pp - 1.0)
    add(found, SENDS, SECONDS, float((transfers_s(table, _C, links) * crossed / own)[0]))


def _add_whole(found: Quantities, run: TrainingRun, table: RunTable) -> None:
    """What is sent of parameters, and what a device without stages holds and takes in all."""
    one = np.ones_like(table.tp)
    gathered = (table.zero_stage >= 3) * table.layers * table.micro_batches * 3.0 * 2.0
    norms = float((table.layers * table.mixing.blocks * table.hidden / table.tp)[0])
    dense, routed = (float(part[0]) for part in stage_parameters(table, table.layers, 0.0 * one))
    tables = 2.0 - table.tied * (table.pp <= 1)
    ends = float(stage_parameters(table, 0.0 * one, tables)[0][0])
    gathered = gathered * (sum(gathered_parameters(table)) - norms / table.layers)
    reduced = np.where(table.zero_stage == 2, table.micro_batches, 1.0)
    exchanged = (replicas_of(table) > 1) * (table.zero_stage < 3) * (reduced + 1) * _C.sent_bytes
    copied = expert_replicas(table, replicas_of(table)) > 1
    sent = gathered + exchanged * (dense - norms + copied * routed)
    add(found, GRADIENTS, BYTES, float(sent[0]))
    # The embedding is gathered for the forward pass alone, the head for both.
    tables = np.where(table.tied > 0, 3.0, 2.5) * (table.zero_stage >= 3) * table.micro_batches
    add(found, f"{GRADIENTS}, ends", BYTES, float(((exchanged + 2.0 * tables) * ends)[0]))
    if run.layout.pp > 1:
        return
    copies = expert_replicas(table, replicas_of(table))

    def matrices(stage: int) -> float:
        """Share of the matrices in what a stage of ZeRO shares out."""
        shared = table.zero_stage >= stage
        parts = float(np.where(shared, replicas_of(table), 1.0)[0])
        whole = (dense + ends) / parts + routed / float(np.where(shared, copies, 1.0)[0])
        return 1.0 - norms / parts / whole

    times, use = times_in_turn(table, _C), memory_use(table, KEPT)
    passes = float((table.layers * table.micro_batches)[0])
    sent_s = float(times.gradients[0]) + 3.0 * passes * float(times.layer_gather[0])
    add(found, GRADIENTS, SECONDS, sent_s)
    add(found, "update", SECONDS, matrices(1) * float(times.optimizer[0]))
    add(found, "step", SECONDS, float(times.total[0]))
    add(found, "weights", BYTES, matrices(3) * float(use.parameters[0]))
    add(found, "gradients held", BYTES, matrices(2) * float(use.gradients[0]))
    add(found, "optimizer state", BYTES, matrices(1) * float(use.optimizer[0]))
    add(found, "activations", BYTES, float((use.activations + use.logits + use.buffers)[0]))
    add(found, "peak", BYTES, float(use.total[0]))
