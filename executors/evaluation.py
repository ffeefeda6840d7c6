"""One operator on one device, by the reference operators of the `onnx` package."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from onnx.reference import ReferenceEvaluator

from executors.forms import model_of
from executors.onnx_form import RUNS_AS, Dims, Form
from executors.placement import Array
from executors.reference_kernels import KERNELS
from ir.graph import Op, Tensor


class NotRunError(Exception):
    """An operator that could not be run; the message says why."""


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
            NotRunError: the operator has no form, or the reference refuses it.
        """
        dims = tuple(None if a is None else a.shape for a in operands)
        dtypes = tuple(t.dtype for t in results)
        shapes = tuple(tuple(d) for d in result_dims)
        key = (op.kind, tuple(sorted(op.attributes.items())), dims, shapes, dtypes)
        names = [f"in{i}" for i in range(len(operands))]
        feeds = {n: a for n, a in zip(names, operands, strict=True) if a is not None}
        try:
            if key not in self._known:
                form = Form(op, dims, shapes, dtypes)
                self._known[key] = ReferenceEvaluator(model_of(form), new_ops=list(KERNELS))
            found = self._known[key].run(None, feeds)
        except Exception as error:
            raise NotRunError(f"{type(error).__name__}: {str(error).splitlines()[0]}") from error
        return [np.asarray(a) for a in found]


def working_dtype(dtype: str) -> np.dtype[np.generic]:
    """The element type in which a type is computed here."""
    return np.dtype(RUNS_AS.get(dtype, dtype))
