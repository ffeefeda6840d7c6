"""The operator catalogue, one family per file."""

from ir.ops import (  # noqa: F401  each family enters its operators when it is read
    attention,
    contraction,
    convolution,
    elementwise,
    experts,
    fused,
    indexing,
    loss,
    normalisation,
    reduction,
    shape,
)
from ir.ops.registry import (
    Engine,
    Needs,
    OperatorEntry,
    OpView,
    catalogue,
    is_known,
    lookup,
    nearest_kind,
    operator,
)
from ir.ops.verification import check_operators

__all__ = [
    "Engine",
    "Needs",
    "OpView",
    "OperatorEntry",
    "catalogue",
    "check_operators",
    "is_known",
    "lookup",
    "nearest_kind",
    "operator",
]
