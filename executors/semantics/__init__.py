"""What operators compute, in autograd's numpy: only these can be differentiated.

The forward pass runs on ONNX's own reference operators; the laws of the catalogue hold the
functions here to the same results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from autograd.tracer import getval

from executors.evaluation import Evaluator, NotRunError, working_dtype
from executors.placement import Array
from executors.semantics.attention import ATTENTION
from executors.semantics.call import Call, Semantics
from executors.semantics.convolution import CONVOLUTION
from executors.semantics.elementwise import ELEMENTWISE
from executors.semantics.ends import ENDS
from executors.semantics.experts import EXPERTS
from executors.semantics.images import IMAGES
from executors.semantics.indexing import INDEXING
from executors.semantics.losses import LOSSES
from executors.semantics.normalisations import NORMALISATIONS
from executors.semantics.products import PRODUCTS
from executors.semantics.quantised import QUANTISED
from executors.semantics.recurrent import RECURRENT
from executors.semantics.shape import SHAPE
from executors.semantics.statistics import STATISTICS
from ir.graph import Op, Tensor
from ir.ops import lookup

__all__ = ["SEMANTICS", "Differentiable"]

SEMANTICS: Mapping[str, Semantics] = MappingProxyType(
    {
        **ATTENTION,
        **ELEMENTWISE,
        **ENDS,
        **SHAPE,
        **EXPERTS,
        **INDEXING,
        **LOSSES,
        **NORMALISATIONS,
        **PRODUCTS,
        **CONVOLUTION,
        **IMAGES,
        **QUANTISED,
        **RECURRENT,
        **STATISTICS,
    }
)


class Differentiable:
    """Runs operators so that their gradients can be had."""

    def run(
        self,
        op: Op,
        operands: Sequence[Array | None],
        results: Sequence[Tensor],
        result_dims: Sequence[tuple[int, ...]],
    ) -> list[Array]:
        """Results of an operator on the parts that a device has.

        Raises:
            NotRunError: the kind has no differentiable form.
        """
        if op.kind not in SEMANTICS:
            if lookup(op.kind).differentiable != ():
                raise NotRunError(f"{op.kind} has no differentiable form")
            plain = [None if a is None else getval(a) for a in operands]
            return Evaluator().run(op, plain, results, result_dims)
        dtypes = tuple(working_dtype(t.dtype).name for t in results)
        return SEMANTICS[op.kind](Call(op, tuple(operands), tuple(result_dims), dtypes))
