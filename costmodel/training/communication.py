"""Exposed communication of a pass through a layer, and between stages of a pipeline; times of
collectives are those of `costmodel.collectives`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from costmodel.collectives.visits import Routing
from costmodel.training.layers import routed_copies, tokens
from costmodel.training.links import Group
from costmodel.training.sizes import expert_parts, mixer_inward

if TYPE_CHECKING:
    from costmodel.training.constants import StepConstants
    from costmodel.training.links import Links
    from costmodel.training.table import FloatArray, RunTable

__all__ = [
    "context_parallel_s", "expert_exchange_s", "routing_of", "tensor_parallel_s", "transfers_s",
]  # fmt: skip


def tensor_parallel_s(
    table: RunTable, c: StepConstants, links: Links, routed: FloatArray
) -> FloatArray:
    """Exposed tensor parallel collectives of one pass: an all-reduce for each block, two of a layer
    of a transformer, or gathers and scatters.

    Each waits for the last of its ranks: its start grows with the depth of a tree over them.
    Where sequences are split, experts need no second pair, unless they are split too: then the
    ranks that split an expert gather the copies that it works on.
    """
    members = Group(table.tp, np.ones_like(table.tp))
    nbytes = 2.0 * tokens(table) * table.hidden
    once = links.summed_s(nbytes, members, table.sequence_parallel)
    once = once + c.start_s * np.log2(table.tp)
    apart = routed * ((table.sequence_parallel > 0) & (table.shared_ffn <= 0))
    parts = expert_parts(table)
    members = Group(parts, np.ones_like(table.tp))
    copies = 2.0 * routed_copies(table) * parts * table.mixing.expert_hidden
    gathered = 2.0 * links.all_gather_s(copies, members) + c.start_s * np.log2(parts)
    split = routed * ((table.sequence_parallel > 0) & (parts > 1))
    hidden = np.maximum(c.tp_hidden, c.fused_hidden * table.fused_tp)
    exposed = (table.mixing.blocks - apart) * once * (1.0 - hidden) + split * gathered * (
        1.0 - c.tp_hidden
    )
    return np.where(table.tp > 1, exposed, 0.0)


def expert_exchange_s(table: RunTable, c: StepConstants, links: Links) -> FloatArray:
    """Exposed dispatch and combination of one pass through a routed layer."""
    members = Group(table.ep, expert_parts(table))
    nbytes = 2.0 * routed_copies(table) * table.mixing.expert_hidden
    each = links.all_to_all_s(nbytes, members)
    if np.any((table.sends_once > 0) & (table.ep > 1)):
        copies = np.maximum(table.experts_per_token, 1.0)
        once = links.dispatch_s(nbytes / copies, members, routing_of(table))
        each = np.where(table.sends_once > 0, once, each)
    return np.where(table.ep > 1, 2.0 * each * (1.0 - c.ep_hidden * table.ep_overlap), 0.0)


def routing_of(table: RunTable) -> Routing:
    """How tokens choose their experts."""
    return Routing(
        table.experts, table.experts_per_token, table.expert_groups, table.groups_per_token
    )


def context_parallel_s(table: RunTable, c: StepConstants, links: Links) -> FloatArray:
    """Exposed exchange of one pass over the context parallel ranks.

    Keys and values go around them, backward once more for their gradients; alone they are gathered
    one by one and kept, and their gradients scattered. A mixer without softmax has whole sequences
    and a part of the heads on each rank: what goes into it and its result are exchanged (as
    Megatron-Core does).
    """
    members = Group(table.cp, table.tp)
    width = 2.0 * np.maximum(table.kv_heads / table.tp, 1.0) * table.head_size
    nbytes = 2.0 * table.micro_batch * table.seq_len * width
    each = links.all_gather_s(nbytes, members)
    if np.any(table.alone > 0):
        # The mean of both passes; each has keys and values as messages of their own.
        kept = links.summed_s(nbytes / 2.0, members, np.ones_like(nbytes))
        each = np.where(table.alone > 0, kept, each)
    each = table.mixing.attention * each
    if np.any((table.mixing.share > 0) & (table.cp > 1)):
        exchanged = 2.0 * tokens(table) * (mixer_inward(table) + table.mixing.outward / table.tp)
        each = each + table.mixing.share * links.all_to_all_s(exchanged, members)
    return np.where(table.cp > 1, each * (1.0 - c.cp_hidden), 0.0)


def transfers_s(table: RunTable, c: StepConstants, links: Links) -> FloatArray:
    """Exposed transfers between stages: each micro-batch crosses each chunk, there and back.

    Tensor parallel ranks that hold the same activations may send a part each (Narayanan et al.,
    section 4.1).
    """
    parts = (table.sequence_parallel > 0) | (table.scatter_stages > 0)
    split = np.where(parts, table.tp, 1.0)
    nbytes = 2.0 * tokens(table) * table.hidden / split
    each = _transfer_s(table, links, nbytes, table.tp * table.cp * table.dp)
    crossings = 2.0 * table.vpp * table.micro_batches + 2.0 * (table.pp - 1.0)
    return np.where(table.pp > 1, crossings * each * c.pp_shown, 0.0)


def _transfer_s(
    table: RunTable, links: Links, nbytes: FloatArray, stride: FloatArray
) -> FloatArray:
    """Seconds to send `nbytes` to the stage `stride` ranks further on, in the mean of all ranks.

    Of a pipeline that is longer than a server, this share of the ranks sends to another server.
    """
    server = table.machine.server
    across = np.where(stride * table.pp > server, np.minimum(stride / server, 1.0), 0.0)
    inside, outside = (links.send_s(nbytes, np.asarray(near)) for near in (True, False))
    return (1.0 - across) * inside + across * outside
