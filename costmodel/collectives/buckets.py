"""Buckets in which gradients and parameters are sent, and what a smaller tensor pays of one.

Latency of such messages is charged for each bucket, not for each tensor.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from costmodel.collectives.curves import FloatArray

__all__ = ["BUCKET_BYTES", "GATHERED_TOGETHER", "bucket_share", "gathered_share", "shares"]

BUCKET_BYTES = 64 * 2**20
"""Gradients and weights are sent in buckets of this size; a smaller tensor pays its share of the
latency.
Source: MindSpore's default fusion threshold, 64 MB."""
GATHERED_TOGETHER = 4
"""Tensors of one message in which parameters that rest in parts are gathered, or their gradients
scattered: each pays at least its share of the latency, however small it is. What a layer needs is
gathered for it and freed behind it, so buckets do not reach over layers as those of whole gradients
do. A block of GPT-2 or ViT has four matrices, a bottleneck of ResNet three or four kernels, a block
of Llama seven.
Source: PyTorch, `fully_shard`: the parameters of one module are a group, gathered in one
collective. DeepSpeed keeps smaller ones than `stage3_param_persistence_threshold`, 100,000
elements, whole, as latency is most of their gathers.
"""


def bucket_share(nbytes: float) -> float:
    """Share of the latency of a bucket that reaches over layers, as 64 MiB pay all of it."""
    return min(1.0, nbytes / BUCKET_BYTES)


def gathered_share(share: float) -> float:
    """The same of a parameter that rests in parts and is gathered for its layer.

    >>> gathered_share(bucket_share(256)), gathered_share(bucket_share(2**25))
    (0.25, 0.5)
    """
    return max(share, 1 / GATHERED_TOGETHER)


def shares(nbytes: FloatArray, *, gathered: NDArray[np.bool_]) -> FloatArray:
    """Of many tensors at once; those that are `gathered` rest in parts.

    >>> shares(np.array([2.0**20, 2.0**27]), gathered=np.array([True, False])).tolist()
    [0.25, 1.0]
    """
    own = np.minimum(1.0, nbytes / BUCKET_BYTES)
    return np.where(gathered, np.maximum(own, 1 / GATHERED_TOGETHER), own)
