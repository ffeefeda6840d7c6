"""The loss behind a plan's logits, as MindSpore has it.

`nn.SoftmaxCrossEntropyWithLogits` cuts rows alone: MindSpore refuses a strategy that cuts classes.
Where the plan cuts them the file of strategies has a cell of small operators that does.

Source: MindSpore 2.10.0, `ops_info/softmax_cross_entropy_with_logits_info.cc`, CheckStrategy; the
names of operators are those that it saves for each loss within `nn.WithLossCell`.
"""

from __future__ import annotations

from collections.abc import Iterator

from exporters.mindspore.records import StrategyItem
from ir.mindspore_forms.strategies import Cuts
from ir.ops import LOSS
from ir.plan import Plan

_BACKBONE, _LOSS = "_backbone-", "_loss_fn-"
_MODULE = '''

LOGITS = {cuts}
"""Cuts of the logits as the loss reads them: the classes too."""


def planned_loss():
    """Softmax cross-entropy of logits and labels, the mean of all rows, cut as the plan has it.

    `nn.SoftmaxCrossEntropyWithLogits` would gather the classes: MindSpore cuts them for none of its
    operators. Labels are whole numbers, a class for each row.
    """
    from mindspore import Tensor, float32, nn, ops

    class PlannedLoss(nn.Cell):
        def __init__(self):
            super().__init__()
            rows = (*LOGITS[:-1], 1)
            self.cast = ops.Cast().shard((LOGITS,))
            self.one_hot = ops.OneHot().shard((LOGITS, (), ()))
            self.on, self.off = Tensor(1.0, float32), Tensor(0.0, float32)
            self.top = ops.ReduceMax(keep_dims=True).shard((LOGITS,))
            self.less = ops.Sub().shard((LOGITS, rows))
            self.power = ops.Exp().shard((LOGITS,))
            self.total = ops.ReduceSum(keep_dims=True).shard((LOGITS,))
            self.hit = ops.Mul().shard((LOGITS, LOGITS))
            self.found = ops.ReduceSum(keep_dims=True).shard((LOGITS,))
            self.log = ops.Log().shard((rows,))
            self.rest = ops.Sub().shard((rows, rows))
            self.mean = ops.ReduceMean().shard((rows,))
            self.last, self.every = len(LOGITS) - 1, tuple(range(len(LOGITS)))

        def construct(self, logits, labels):
            logits = self.cast(logits, float32)
            labels = self.one_hot(labels, logits.shape[-1], self.on, self.off)
            moved = self.less(logits, ops.stop_gradient(self.top(logits, self.last)))
            total = self.total(self.power(moved), self.last)
            found = self.found(self.hit(moved, labels), self.last)
            return self.mean(self.rest(self.log(total), found), self.every)

    return PlannedLoss()
'''


def class_cuts(plan: Plan) -> Cuts:
    """Cuts of the logits of the first loss that cuts classes; empty where none does."""
    return next((cuts for cuts in _of_losses(plan) if cuts[-1] > 1), ())


def _of_losses(plan: Plan) -> Iterator[Cuts]:
    """How every loss reads its logits."""
    for op, planned in zip(plan.graph.ops, plan.operators, strict=True):
        layout = planned.inputs[0] if op.kind == LOSS else None
        if layout is not None and len(layout.dims) > 1:
            yield layout.shards(plan.axis_sizes)


def loss_module(plan: Plan) -> str:
    """Lines with the cell of the loss, where the plan cuts classes."""
    cuts = class_cuts(plan)
    return _MODULE.format(cuts=cuts) if cuts else ""


def loss_operators(plan: Plan, scope: str) -> Iterator[StrategyItem]:
    """Strategies of the losses that may stand beside a network in `nn.WithLossCell`; those that
    are not there are passed over.

    Args:
        plan: the plan.
        scope: path of the network, such as `network-WithLossCell/_backbone-Net`.
    """
    outer, _, inner = scope.rpartition("/")
    cuts = next(_of_losses(plan), ())
    if not inner.startswith(_BACKBONE) or not cuts:
        return
    around = f"Default/{outer}/" if outer else "Default/"
    for cell, name, strategy in _strategies(cuts):
        yield StrategyItem(f"{around}{_LOSS}{cell}/{name}", 0, strategy)


def _strategies(cuts: Cuts) -> Iterator[tuple[str, str, tuple[Cuts, ...]]]:
    """By cell and operator: rows as the plan cuts them, classes where it can be."""
    rows, one = cuts[:-1], (*cuts[:-1], 1)
    own = "SoftmaxCrossEntropyWithLogits"
    yield own, f"Sparse{own}-op0", (one, rows)
    yield own, "OneHot-op0", (one, (), ())
    yield own, f"{own}-op0", (one, one)
    yield own, "ReduceMean-op0", (rows,)
    yield own, "ReduceSum-op0", (rows,)
    planned: tuple[tuple[str, tuple[Cuts, ...]], ...] = (
        ("Cast-op0", (cuts,)),
        ("OneHot-op0", (cuts, (), ())),
        ("ReduceMax-op0", (cuts,)),
        ("Sub-op0", (cuts, one)),
        ("Exp-op0", (cuts,)),
        ("ReduceSum-op0", (cuts,)),
        ("Mul-op0", (cuts, cuts)),
        ("ReduceSum-op1", (cuts,)),
        ("Log-op0", (one,)),
        ("Sub-op1", (one, one)),
        ("ReduceMean-op0", (one,)),
    )
    for name, strategy in planned:
        yield "PlannedLoss", name, strategy
