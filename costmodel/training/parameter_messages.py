"""Messages in which parameters and gradients are sent, tensor by tensor, alone.

Constants fitted to training steps go with one message of all parameters. Where messages take what
they take alone (`RunTable.alone`), each tensor is sent as in a plan: in buckets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from costmodel.collectives.buckets import shares
from costmodel.collectives.kinds import Collective
from costmodel.training.links import Group
from costmodel.training.sizes import (
    dense_matrices,
    expert_matrices,
    expert_parts,
    expert_replicas,
    mtp_layers,
    routed_share,
    sharing_group,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from costmodel.training.links import Links
    from costmodel.training.table import FloatArray, RunTable

__all__ = ["gathered_alone_s", "sent_alone_s"]

_BYTES = 2.0
"""Of a parameter and of its gradient."""


class _Tensor(NamedTuple):
    """Equal tensors of a mean layer, each of shape (N,)."""

    nbytes: FloatArray
    """Of one, before it is split."""
    local: FloatArray
    """On a device."""
    number: FloatArray
    routed: bool = False


def sent_alone_s(table: RunTable, links: Links) -> FloatArray:
    """Seconds in which the fullest device reduces its gradients and gathers new parameters in a
    step; where parameters are sharded (ZeRO-3), those of vocabulary tables in all passes.
    """
    layers = np.where(table.pp > 1, table.most_layers, table.layers) * (1.0 + table.bidirectional)
    layers = layers + mtp_layers(table)
    single = (table.pp > 1) | (table.tied > 0)
    sharded = table.zero_stage >= 3
    spent = np.zeros_like(table.tp)
    for each in _tensors(table):
        spent = spent + layers * each.number * _exchanged_s(table, links, each)
    nbytes = _BYTES * table.vocab * table.hidden
    end = _Tensor(nbytes, nbytes / table.tp, np.ones_like(table.tp))
    # The embedding is gathered for the forward pass alone, the head for both.
    gather, scatter = (_one_s(table, links, end, kind) for kind in _GATHER_SCATTER)
    tied, own = 2.0 * gather + scatter, 3.0 * gather + 2.0 * scatter
    passes = table.micro_batches * np.where(single, tied, own)
    ends = np.where(single, 1.0, 2.0) * _exchanged_s(table, links, end)
    return np.where(sharded, passes, spent + ends)


def gathered_alone_s(table: RunTable, links: Links) -> FloatArray:
    """Seconds to gather the parameters of a mean layer for a pass, or to scatter their gradients:
    the mean of the three times that this is done.
    """
    spent = np.zeros_like(table.tp)
    for each in _tensors(table):
        gather, scatter = (_one_s(table, links, each, kind) for kind in _GATHER_SCATTER)
        spent = spent + each.number * (2.0 * gather + scatter) / 3.0
    return spent


_GATHER_SCATTER = Collective.ALL_GATHER, Collective.REDUCE_SCATTER


def _exchanged_s(table: RunTable, links: Links, each: _Tensor) -> FloatArray:
    """Seconds of a tensor in a step: an all-reduce, or scatters and a gather."""
    gather, scatter, whole = (
        _one_s(table, links, each, kind) for kind in (*_GATHER_SCATTER, Collective.ALL_REDUCE)
    )
    # Where gradients are shared out, each micro-batch reduces its own.
    times = np.where(table.zero_stage == 2, table.micro_batches, 1.0)
    return np.where(table.zero_stage >= 1, times * scatter + gather, whole)


def _one_s(table: RunTable, links: Links, each: _Tensor, kind: Collective) -> FloatArray:
    """Seconds of one message; none of a tensor without elements."""
    own = _group_of(table, routed=each.routed)
    share = shares(each.nbytes, gathered=table.zero_stage >= 3)
    found = links.bucketed_s(kind, each.local, own, share)
    return np.where((np.asarray(own.size) > 1) & (each.nbytes > 0), found, 0.0)


def _group_of(table: RunTable, *, routed: bool) -> Group:
    """Devices that hold the same part of a tensor."""
    size = sharing_group(table)
    if not routed:
        return Group(size, table.tp)
    copies = np.maximum(expert_replicas(table, size), 1.0)
    return Group(copies, expert_parts(table) * table.ep)


def _tensors(table: RunTable) -> Iterator[_Tensor]:
    """Matrices of a mean layer; queries, keys and values are one where they are one product. All
    experts of a layer are two.
    """
    joined = np.where(table.apart_products > 0, 0.0, 1.0)
    inward = [*dense_matrices(table)][:2]
    columns = inward[0].columns + 2.0 * inward[1].columns
    whole = _BYTES * inward[0].rows * columns
    yield _Tensor(whole, whole / table.tp, joined * inward[0].copies)
    for number, each in enumerate(dense_matrices(table)):
        nbytes = _BYTES * each.rows * each.columns
        kept = each.copies * (1.0 - joined) if number < len(inward) else each.copies
        yield _Tensor(nbytes, nbytes / (each.row_parts * each.column_parts), kept)
    routed = routed_share(table)
    for each in expert_matrices(table) if np.any(routed > 0) else ():
        # Up and gate are one tensor.
        nbytes = _BYTES * each.elements / np.where(routed > 0, routed, 1.0)
        parts = each.row_parts * each.column_parts * each.spread
        yield _Tensor(nbytes, nbytes / parts, routed, routed=True)
