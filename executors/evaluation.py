"""One operator on one device: by the reference operators of the `onnx` package, or so that its
gradients can be had.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import onnx
from autograd.tracer import getval
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun, RuntimeContextError
from onnx.reference.ops import load_op

from executors.forms import FORMS, model_of
from executors.onnx_form import OPSET, RUNS_AS, Dims, Form
from executors.placement import Array
from executors.semantics import SEMANTICS
from executors.semantics.call import Call, NotRunError
from ir.graph import Op, Tensor
from ir.ops import lookup

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


def _reference_has(kind: str) -> bool:
    """Whether ONNX's reference has an operator or nodes for a kind."""
    try:
        load_op("", kind, OPSET, evaluator_cls=ReferenceEvaluator)
    except NotImplementedError:
        return kind in FORMS
    except RuntimeContextError:  # it is a function, whose body depends on the types of operands
        return True
    return True


@cache
def runs_by_semantics(kind: str) -> bool:
    """Whether a kind runs by `executors.semantics` forward too."""
    lacking = kind in SEMANTICS and not _reference_has(kind)
    return lacking or kind in _REFERENCE_FALLS_SHORT


@dataclass(slots=True)
class Evaluator:
    """Runs operators; those of one kind and shape are prepared once."""

    tolerance: float = 1e-6
    """Relative error that rounding in double precision never makes, and a wrong split does."""

    _known: dict[tuple[object, ...], ReferenceEvaluator] = field(default_factory=dict)

    def run(
        self,
        op: Op,
        operands: Sequence[Array | None],
        results: Sequence[Tensor],
        result_dims: Sequence[Dims],
    ) -> list[Array]:
        """Results of an operator on the parts that a device has.

        Args:
            op: the operator.
            operands: one array per operand, None for an absent one.
            results: the result tensors, for their element types.
            result_dims: dims of each result on this device.

        Raises:
            NotRunError: the operator cannot be run.
        """
        dims = tuple(None if a is None else a.shape for a in operands)
        dtypes = tuple(t.dtype for t in results)
        shapes = tuple(tuple(d) for d in result_dims)
        key = (op.kind, tuple(sorted(op.attributes.items())), dims, shapes, dtypes)
        names = [f"in{i}" for i in range(len(operands))]
        feeds = {n: a for n, a in zip(names, operands, strict=True) if a is not None}
        try:
            if runs_by_semantics(op.kind):
                return computed(op, operands, results, shapes)
            if key not in self._known:
                form = Form(op, dims, shapes, dtypes)
                self._known[key] = ReferenceEvaluator(model_of(form), new_ops=list(KERNELS))
            found = self._known[key].run(None, feeds)
        except Exception as error:
            raise NotRunError(f"{type(error).__name__}: {str(error).splitlines()[0]}") from error
        return [np.asarray(a) for a in found]


class Differentiable:
    """Runs operators so that their gradients can be had."""

    def run(
        self,
        op: Op,
        operands: Sequence[Array | None],
        results: Sequence[Tensor],
        result_dims: Sequence[Dims],
    ) -> list[Array]:
        """Results of an operator on the parts that a device has.

        Raises:
            NotRunError: the kind has no differentiable form.
        """
        if op.kind in SEMANTICS:
            return computed(op, operands, results, result_dims)
        if lookup(op.kind).differentiable != ():
            raise NotRunError(f"{op.kind} has no differentiable form")
        plain = [None if a is None else getval(a) for a in operands]
        return Evaluator().run(op, plain, results, result_dims)


def computed(
    op: Op,
    operands: Sequence[Array | None],
    results: Sequence[Tensor],
    result_dims: Sequence[Dims],
) -> list[Array]:
    """Results of an operator by `executors.semantics`."""
    dtypes = tuple(working_dtype(t.dtype).name for t in results)
    return SEMANTICS[op.kind](Call(op, tuple(operands), tuple(result_dims), dtypes))


def working_dtype(dtype: str) -> np.dtype[np.generic]:
    """The element type in which a type is computed here."""
    return np.dtype(RUNS_AS.get(dtype, dtype))
