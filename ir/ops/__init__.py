"""The operator catalogue, one family per file."""

from ir.ops import (  # noqa: F401  each family enters its operators when it is read
    attention,
    contraction,
    convolution,
    elementwise,
    experts,
    fused,
    images,
    indexing,
    linear_attention,
    loss,
    losses,
    normalisation,
    quantised,
    random,
    recurrent,
    reduction,
    rotary,
    shape,
)
from ir.ops.registry import (
    RULE_ATTRIBUTE,
    Engine,
    Needs,
    OperatorEntry,
    OpView,
    annotation,
    catalogue,
    is_described,
    is_known,
    lookup,
    operator,
)
from ir.ops.spelling import Form, Function, Spelling
from ir.ops.verification import check_operators

__all__ = [
    "RULE_ATTRIBUTE",
    "Engine",
    "Form",
    "Function",
    "Needs",
    "OpView",
    "OperatorEntry",
    "Spelling",
    "annotation",
    "catalogue",
    "check_operators",
    "is_described",
    "is_known",
    "lookup",
    "operator",
]
