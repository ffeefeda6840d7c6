"""Bytes that training keeps for each parameter, and moves when it is updated: the one table.

Plans and conventional layouts both read it. What a parameter takes follows from three things: its
type and shape, the optimizer, and how the software keeps its numbers (`Precision`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

from ir.dtypes import dtype_bytes
from ir.end_parameters import end_parameters

if TYPE_CHECKING:
    from costmodel.operators.sizes import Sizes
    from ir.graph import OpGraph, Tensor

__all__ = [
    "LARGE",
    "MASTER_BYTES",
    "MOMENT_BYTES",
    "NEWTON_SCHULZ_STEPS",
    "RULES",
    "SEARCHED",
    "Master",
    "Optimizer",
    "ParameterBytes",
    "Precision",
    "UpdateRule",
    "is_orthogonalised",
    "moment_elements",
    "parameter_bytes",
    "tensor_bytes",
]


class Optimizer(StrEnum):
    """How parameters are updated."""

    ADAMW = "adamw"
    ADAM = "adam"
    SGD = "sgd"
    MOMENTUM = "momentum"
    ADAGRAD = "adagrad"
    LAMB = "lamb"
    ADAFACTOR = "adafactor"
    MUON = "muon"
    NONE = "none"

    @property
    def keeps_moments(self) -> bool:
        """Whether a whole moment of a matrix is kept, which plain SGD would save."""
        return RULES[self].moments > 0


@dataclass(frozen=True, slots=True)
class UpdateRule:
    """What an optimizer keeps of each element of a parameter, and how often it passes over it."""

    moments: float = 0.0
    """Moments of each element of a matrix inside the network."""

    factored: bool = False
    """Whether a matrix has sums of its rows and columns in place of a second moment; what is no
    matrix has one moment."""

    elsewhere: Optimizer | None = None
    """Who updates what is no matrix, embeddings and the matrix before the loss; None for itself."""

    gradient_reads: float = 1.0
    weight_reads: float = 1.0
    """Passes that read the gradient, and the weight in full precision."""

    passes32: float = 0.0
    passes16: float = 0.0
    """Passes over what it makes on the way, in 32 and in 16 bits."""


RULES: Mapping[Optimizer, UpdateRule] = MappingProxyType(
    {
        Optimizer.ADAMW: UpdateRule(moments=2),
        Optimizer.ADAM: UpdateRule(moments=2),
        Optimizer.SGD: UpdateRule(),
        Optimizer.MOMENTUM: UpdateRule(moments=1),
        Optimizer.ADAGRAD: UpdateRule(moments=1),
        Optimizer.LAMB: UpdateRule(moments=2, weight_reads=3, passes32=3),
        Optimizer.ADAFACTOR: UpdateRule(factored=True, gradient_reads=3, weight_reads=2),
        Optimizer.MUON: UpdateRule(moments=1, elsewhere=Optimizer.ADAMW, passes16=5),
        Optimizer.NONE: UpdateRule(gradient_reads=0, weight_reads=0),
    }
)
"""What each optimizer keeps and moves; a moment is read and written once.

Sources:
    AdamW, Adam: Kingma and Ba, arXiv 1412.6980, algorithm 1: mean and square of gradients.
    SGD, momentum: Sutskever et al., ICML 2013, equation 3: one velocity; none without.
    Adagrad: Duchi, Hazan and Singer, JMLR 12 (2011): the sum of squares of gradients.
    LAMB: You et al., arXiv 1904.00962, algorithm 2: Adam's moments, and the norms of weight and
        update. As NVIDIA's Apex runs it (`csrc/multi_tensor_lamb.cu`): a pass over the weights for
        their norm; one that writes the update; one over that for its norm; one that applies it.
    Adafactor: Shazeer and Stern, arXiv 1804.04235, algorithms 4 and 5, without first moment: sums
        of squares by row and column; a pass over gradient and weight for these and the weight's
        root mean square, one over the gradient to clip the update, one that applies it.
    Muon: Jordan, kellerjordan.github.io/posts/muon (2024); Liu et al., arXiv 2502.16982: one
        momentum, orthogonalised; AdamW for vectors, embeddings and the head. As PyTorch runs it
        (`torch/optim/_muon.py`): the update is written in 16 bits, read for its norm, scaled, and
        read to be applied. The products between (`NEWTON_SCHULZ_STEPS`) are no bytes of this table.
"""

NEWTON_SCHULZ_STEPS = 5
"""Steps by which Muon orthogonalises a momentum n x m, n <= m: each is a product n x m by m x n,
one n x n by n x n, and one n x n by n x m. Source: as for Muon in `RULES`."""

MASTER_BYTES = 4.0
"""A float32 copy of each low-precision weight. Source: Micikevicius et al., arXiv 1710.03740."""
MOMENT_BYTES = 4.0
"""A float32 moment. Source: Rajbhandari et al., ZeRO, arXiv 1910.02054, section 3.1."""


class Master(StrEnum):
    """Where the weight in full precision is, of a parameter that is used in 16 bits."""

    APART = "apart"
    """A copy beside the 16-bit weight. Source: Micikevicius et al., arXiv 1710.03740, section 3.1;
    Megatron-LM, `Float16OptimizerWithFloat16Params`."""

    AT_REST = "at rest"
    """The weight rests in 32 bits, and is cast when it is gathered. Source: PyTorch, FSDP2's
    `MixedPrecisionPolicy`; MaxText, `weight_dtype: float32`."""

    UPPER_HALF = "upper half"
    """The 16-bit weight is the upper half of the copy. Source: MindSpeed, `reuse-fp32-param`."""

    NONE = "none"
    """There is none: the update is made in 16 bits."""


@dataclass(frozen=True, slots=True)
class Precision:
    """How software keeps the numbers of training: what two tables would differ in."""

    gradient_bytes: float | None = None
    """Of an accumulated gradient; None for the width of the weight. Megatron accumulates in 32 bits
    (`accumulate_allreduce_grads_in_fp32`, the default with bfloat16): 18 bytes a parameter with
    Adam, where ZeRO's count (arXiv 1910.02054, section 3.1) is 16."""

    master: Master = Master.APART

    moment_bytes: float = MOMENT_BYTES

    update_gradient_bytes: float | None = None
    """Of a gradient as the update reads it; None for the width that is kept."""

    norm: bool = False
    """Whether a pass reads all gradients for their norm before the update, to clip it."""


SEARCHED = Precision()
"""Of searched plans: ZeRO's count. A gradient is as wide as its weight and is read once."""


@dataclass(frozen=True, slots=True)
class ParameterBytes:
    """Bytes for each element of a parameter at rest."""

    weight: float
    gradient: float
    master: float
    moments: float
    moved_by_update: float
    """Bytes read and written by one optimizer step."""

    @property
    def states(self) -> float:
        """What ZeRO's first stage shares out: master copy and moments."""
        return self.master + self.moments

    @property
    def resident(self) -> float:
        return self.weight + self.gradient + self.master + self.moments


LARGE = (math.inf, math.inf)
"""Dimensions of a matrix whose rows and columns are nothing beside its elements."""


def parameter_bytes(
    dtype: str,
    optimizer: Optimizer,
    *,
    training: bool,
    dims: Sequence[float] = LARGE,
    inside: bool = True,
    precision: Precision = SEARCHED,
) -> ParameterBytes:
    """Bytes per element of a parameter.

    With AdamW and bfloat16: 2 of weight, 2 of gradient, 4 of master copy and 8 of moments.
    Source: Rajbhandari et al., ZeRO, arXiv 1910.02054, section 3.1.

    Args:
        dtype: in which the parameter is used.
        optimizer: that updates it.
        training: whether it is trained.
        dims: of the whole parameter. An element of a shard counts as one of the whole, so that the
            sums of rows and columns of a factored moment count by the shard's share.
        inside: whether it is inside the network: no embedding, and not the matrix before the loss.
        precision: how the software keeps its numbers.

    >>> parameter_bytes("bfloat16", Optimizer.ADAMW, training=True).resident
    16.0
    >>> megatron = Precision(gradient_bytes=4.0)
    >>> parameter_bytes("bfloat16", Optimizer.ADAMW, training=True, precision=megatron).resident
    18.0
    """
    width = float(dtype_bytes(dtype))
    if not training:
        return ParameterBytes(width, 0.0, 0.0, 0.0, 0.0)
    gradient = width if precision.gradient_bytes is None else precision.gradient_bytes
    if optimizer is Optimizer.NONE:
        return ParameterBytes(width, gradient, 0.0, 0.0, 0.0)
    weight, master = _weight_and_master(width, precision.master)
    moments = float(moment_elements(optimizer, dims, inside=inside)) * precision.moment_bytes
    kept = ParameterBytes(weight, gradient, master, moments, 0.0)
    rule = _rule(optimizer, dims, inside=inside)
    return replace(kept, moved_by_update=_moved(kept, width, rule, precision))


def tensor_bytes(
    graph: OpGraph, tensor: Tensor, optimizer: Optimizer, *, training: bool
) -> ParameterBytes:
    """Bytes per element of a parameter of a graph, in a searched plan.

    Args:
        graph: which tells embeddings and the matrix before the loss from what lies between.
        tensor: the parameter.
        optimizer: that updates it.
        training: whether it is trained.
    """
    inside = not _asks_where(optimizer) or tensor.name not in end_parameters(graph)
    return parameter_bytes(
        tensor.dtype, optimizer, training=training, dims=tensor.dims, inside=inside
    )


def is_orthogonalised(graph: OpGraph, tensor: Tensor, optimizer: Optimizer) -> bool:
    """Whether an update multiplies matrices (`NEWTON_SCHULZ_STEPS`)."""
    return (
        _asks_where(optimizer) and len(tensor.dims) > 1 and tensor.name not in end_parameters(graph)
    )


def _asks_where(optimizer: Optimizer) -> bool:
    """Whether it leaves parameters at the ends of a network to another optimizer."""
    return RULES[optimizer].elsewhere is not None


def moment_elements(optimizer: Optimizer, dims: Sequence[Sizes], *, inside: bool = True) -> Sizes:
    """Numbers that moments have for each element of a parameter.

    Args:
        optimizer: that updates it.
        dims: of the whole parameter, or of many with equally many dimensions.
        inside: whether it is inside the network, as for `parameter_bytes`.

    >>> moment_elements(Optimizer.ADAFACTOR, (1024, 4096)) * 1024 * 4096
    5120.0
    """
    rule = _rule(optimizer, dims, inside=inside)
    if not rule.factored:
        return rule.moments
    return 1.0 / dims[-2] + 1.0 / dims[-1] if len(dims) > 1 else 1.0


def _rule(optimizer: Optimizer, dims: Sequence[Sizes], *, inside: bool) -> UpdateRule:
    """The rule of who updates a parameter."""
    rule = RULES[optimizer]
    if rule.elsewhere is not None and not (inside and len(dims) > 1):
        return RULES[rule.elsewhere]
    return rule


def _moved(kept: ParameterBytes, width: float, rule: UpdateRule, precision: Precision) -> float:
    """Bytes that one update reads and writes for each element, of a weight used in that width."""
    full = kept.master or kept.weight
    cast = width if full > width and precision.master is not Master.UPPER_HALF else 0.0
    gradient = precision.update_gradient_bytes or kept.gradient
    return (
        (rule.gradient_reads + precision.norm) * gradient
        + (rule.weight_reads + 1) * full
        + 2 * kept.moments
        + rule.passes32 * 4
        + rule.passes16 * 2
        + cast
    )


def _weight_and_master(width: float, master: Master) -> tuple[float, float]:
    """Bytes of the weight and of its copy in full precision."""
    if width >= MASTER_BYTES or master is Master.NONE:
        return width, 0.0
    if master is Master.AT_REST:
        return MASTER_BYTES, 0.0
    return (0.0 if master is Master.UPPER_HALF else width), MASTER_BYTES
