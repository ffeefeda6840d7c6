"""Times of what stands before and behind the layers: embedding, head and loss, and layers that
predict further tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from costmodel.training.layers import product, products16_s, tokens

if TYPE_CHECKING:
    from costmodel.training.constants import StepConstants
    from costmodel.training.table import FloatArray, RunTable

__all__ = ["HEAD_FORWARD", "ends_s", "trained_ends_s"]

HEAD_FORWARD = 1 / 3
"""Share of the head's time that is its forward pass: one of three products, of every product."""


def ends_s(table: RunTable, c: StepConstants) -> tuple[FloatArray, FloatArray]:
    """Seconds per micro-batch at the first stage (embedding) and the last (head and loss)."""
    count = tokens(table)
    embedding = table.machine.stream_s(12.0 * count * table.hidden) / c.memory
    columns = table.vocab / table.tp
    head = products16_s(table, c, columns, table.hidden)
    loss = table.machine.stream_s(c.logit_bytes * count * columns) / c.memory
    return embedding, head + loss


def trained_ends_s(table: RunTable, c: StepConstants) -> tuple[FloatArray, FloatArray]:
    """Both ends, the last with all passes of the head, but without the layers between them.

    Each further token joins the hidden state with the next token's embedding (a product of
    2 h x h), and passes attention, a feed-forward block, head and loss (DeepSeek-V3,
    arXiv 2412.19437, section 2.2).
    """
    embedding, head = ends_s(table, c)
    if not np.any(table.further > 0):
        return embedding, head
    own, joined = table.hidden / table.tp, 2.0 * table.hidden
    joining = sum(product(table, c, tokens(table), own, joined))
    return embedding, head + table.further * (joining + head)
