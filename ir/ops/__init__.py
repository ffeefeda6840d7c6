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
from ir.ops.contraction import SCALE
from ir.ops.elementwise import BIAS_ADD
from ir.ops.experts import COMBINE, DISPATCH, EXPERT_MATMUL
from ir.ops.fused import FUSED
from ir.ops.loss import LOSS, OUTPUT
from ir.ops.registry import (
    RULE_ATTRIBUTE,
    Engine,
    Needs,
    OperatorEntry,
    OpView,
    Resizing,
    annotation,
    catalogue,
    is_described,
    is_known,
    kinds_of,
    lookup,
    operator,
)
from ir.ops.spelling import Form, Function, Spelling
from ir.ops.verification import check_operators

__all__ = [
    "BIAS_ADD",
    "COMBINE",
    "DISPATCH",
    "EXPERT_MATMUL",
    "FUSED",
    "LOSS",
    "OUTPUT",
    "RULE_ATTRIBUTE",
    "SCALE",
    "Engine",
    "Form",
    "Function",
    "Needs",
    "OpView",
    "OperatorEntry",
    "Resizing",
    "Spelling",
    "annotation",
    "catalogue",
    "check_operators",
    "is_described",
    "is_known",
    "kinds_of",
    "lookup",
    "operator",
]
