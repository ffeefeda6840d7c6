"""The loss at the end of a plan: softmax cross-entropy of small operators."""

from __future__ import annotations

from typing import Any

import mindspore as ms
import numpy as np
from mindspore import nn, ops


class SoftmaxLoss(nn.Cell):
    """The sum of the cross-entropy of all rows.

    Maximum, sum of exponentials and logit of the target are reduced over cut classes, each as many
    times backward.
    """

    def __init__(self, dims: tuple[int, ...], cuts: tuple[int, ...], dtype: Any) -> None:
        super().__init__()
        narrow = (*cuts[:-1], 1)
        self.last, self.every = len(dims) - 1, tuple(range(len(dims)))
        # One reader of the logits: each reader would send its gradient back by itself.
        self.enter, self.two = ops.Mul().shard((cuts, ())), ms.Tensor(2, dtype)
        self.cast = ops.Cast().shard((cuts,))
        self.top = ops.ReduceMax(keep_dims=True).shard((cuts,))
        self.less = ops.Sub().shard((cuts, narrow))
        self.power = ops.Exp().shard((cuts,))
        self.total = ops.ReduceSum(keep_dims=True).shard((cuts,))
        self.hit = ops.Mul().shard((cuts, cuts))
        self.found = ops.ReduceSum(keep_dims=True).shard((cuts,))
        self.log = ops.Log().shard((narrow,))
        self.rest = ops.Sub().shard((narrow, narrow))
        self.sum = ops.ReduceSum().shard((narrow,))
        target = np.zeros(dims, np.float32)
        target[..., 0] = 1
        self.target = ms.Tensor(target)

    def construct(self, x: Any) -> Any:
        x = self.cast(self.enter(x, self.two), ms.float32)
        moved = self.less(x, self.top(x, self.last))
        total = self.total(self.power(moved), self.last)
        hit = self.found(self.hit(moved, self.target), self.last)
        return self.sum(self.rest(self.log(total), hit), self.every)
