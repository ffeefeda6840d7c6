"""What ONNX's own reference operators compute: what the product's semantics are held to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun, RuntimeContextError
from onnx.reference.ops import load_op

from executors.onnx_form import OPSET, Dims, Form
from executors.placement import Array
from executors.semantics.onnx_forms import model_of
from ir.graph import Op, Tensor
from tests.operators.onnx_forms import FORMS

_ERF = np.vectorize(math.erf, otypes=[np.float64])


class Erf(OpRun):  # type: ignore[misc, unused-ignore]
    """The error function, in double precision: the reference rounds it to single."""

    op_domain = ""

    def _run(self, x: Array) -> tuple[Array]:
        return (_ERF(x).astype(x.dtype) if x.size else x,)


class Multinomial(OpRun):  # type: ignore[misc, unused-ignore]
    """Draws classes by their unnormalised logarithms of probability."""

    op_domain = ""

    def _run(
        self, x: Array, dtype: Any = None, sample_size: int = 1, seed: float | None = None
    ) -> tuple[Array]:
        generator = np.random.default_rng(int(seed or 0))
        noise = generator.gumbel(size=(x.shape[0], sample_size, x.shape[1]))
        drawn = np.argmax(x[:, None, :] + noise, axis=-1)
        return (drawn.astype(np.int64 if dtype == onnx.TensorProto.INT64 else np.int32),)


KERNELS: tuple[type[OpRun], ...] = (Erf, Multinomial)


_REFERENCE_FALLS_SHORT = frozenset(
    {
        "CausalConvWithState",  # it is of a later opset
        "AveragePool", "LpPool",  # windows that reach beyond the padding
        "ConvTranspose",  # groups of one channel alone
        "Dropout",  # it draws: a mask would not be the same twice
        "LinearAttention", "MeanVarianceNormalization",  # in single precision
        "GatherElements",  # wraps indices beyond the end, takes those with the dims of the data
        "GlobalLpPool", "GlobalMaxPool", "GroupNormalization",  # other forms before opset 21
        "LRN",  # counts images where it means channels
        "LpNormalization",  # without absolute values
        "MaxPool",  # places only where some stride is not one
        "Mean", "Sum",  # no broadcast to a shape that no operand has
        "RMSNormalization",  # one result alone
        "Softsign",  # refuses a single number
    }
)  # fmt: skip


def _has(kind: str) -> bool:
    """Whether ONNX's reference has an operator or nodes for a kind."""
    try:
        load_op("", kind, OPSET, evaluator_cls=ReferenceEvaluator)
    except NotImplementedError:
        return kind in FORMS
    except RuntimeContextError:  # it is a function, whose body depends on the types of operands
        return True
    return True


@cache
def reference_has(kind: str) -> bool:
    """Whether ONNX's reference computes a kind as ONNX says."""
    return kind not in _REFERENCE_FALLS_SHORT and _has(kind)


class OnnxReference:
    """Runs operators by ONNX's reference."""

    def run(
        self,
        op: Op,
        operands: Sequence[Array | None],
        results: Sequence[Tensor],
        result_dims: Sequence[Dims],
    ) -> list[Array]:
        """Results of an operator on whole tensors."""
        dims = tuple(None if a is None else a.shape for a in operands)
        form = Form(op, dims, tuple(map(tuple, result_dims)), tuple(t.dtype for t in results))
        feeds = {f"in{i}": a for i, a in enumerate(operands) if a is not None}
        evaluator = ReferenceEvaluator(
            model_of(form, FORMS.get(op.kind, Form.same)), new_ops=list(KERNELS)
        )
        return [np.asarray(a) for a in evaluator.run(None, feeds)]
