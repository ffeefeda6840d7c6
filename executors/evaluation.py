"""One operator on one device, so that its gradients can be had."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from autograd.tracer import getval
from onnx.reference import ReferenceEvaluator

from executors.differentiable import AUTOGRAD
from executors.onnx_form import RUNS_AS, Dims, Form
from executors.placement import Array
from executors.semantics import SEMANTICS
from executors.semantics.onnx_forms import model_of
from ir.graph import Op, Tensor
from ir.ops import lookup
from ir.semantics.arrays import computing_with
from ir.semantics.call import Call, NotRunError


@dataclass(slots=True)
class Evaluator:
    """Runs operators."""

    tolerance: float = 1e-6
    """Relative error that rounding in double precision never makes, and a wrong split does."""

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
        try:
            if op.kind not in SEMANTICS:
                dims = tuple(None if a is None else a.shape for a in operands)
                form = Form(op, dims, tuple(result_dims), tuple(t.dtype for t in results))
                return _of_onnx(form, operands)
            found = computed(op, operands, results, result_dims)
            wanted = (working_dtype(t.dtype) for t in results)
            return [np.asarray(a, dtype=t) for a, t in zip(found, wanted, strict=True)]
        except Exception as error:
            raise NotRunError(f"{type(error).__name__}: {str(error).splitlines()[0]}") from error


def _of_onnx(form: Form, operands: Sequence[Array | None]) -> list[Array]:
    """Results of an operator without semantics, by ONNX's reference."""
    feeds = {f"in{i}": a for i, a in enumerate(operands) if a is not None}
    return [np.asarray(a) for a in ReferenceEvaluator(model_of(form, Form.same)).run(None, feeds)]


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
        if lookup(op.kind).differentiable != ():
            if op.kind not in SEMANTICS:
                raise NotRunError(f"{op.kind} has no differentiable form")
            return computed(op, operands, results, result_dims)
        plain = [None if a is None else getval(a) for a in operands]
        return Evaluator().run(op, plain, results, result_dims)


def computed(
    op: Op,
    operands: Sequence[Array | None],
    results: Sequence[Tensor],
    result_dims: Sequence[Dims],
) -> list[Array]:
    """Results of an operator by its semantics."""
    dtypes = tuple(working_dtype(t.dtype).name for t in results)
    with computing_with(AUTOGRAD):
        return SEMANTICS[op.kind](Call(op, tuple(operands), tuple(result_dims), dtypes))


def working_dtype(dtype: str) -> np.dtype[np.generic]:
    """The element type in which a type is computed here."""
    return np.dtype(RUNS_AS.get(dtype, dtype))
