"""One operator on one device by onnxruntime: in single precision, which has most kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx

from executors.evaluation import Evaluator
from executors.forms import model_of
from executors.onnx_form import Dims, Form
from executors.placement import Array
from ir.graph import Op, Tensor


@dataclass(slots=True)
class FastEvaluator:
    """Runs operators by onnxruntime, and those that it refuses by the reference."""

    tolerance: float = 1e-3
    """Relative error that rounding in single precision never makes."""
    reference: Evaluator = field(default_factory=Evaluator)
    _sessions: dict[tuple[object, ...], Any] = field(default_factory=dict)

    def run(
        self,
        op: Op,
        operands: Sequence[Array | None],
        results: Sequence[Tensor],
        result_dims: Sequence[Dims],
    ) -> list[Array]:
        """Results of an operator on the parts that a device has.

        Raises:
            NotRunError: neither can run it.
        """
        dtypes = tuple(t.dtype for t in results)
        shapes = tuple(tuple(d) for d in result_dims)
        signature = tuple(None if a is None else (a.shape, a.dtype.str) for a in operands)
        key = (op.kind, tuple(sorted(op.attributes.items())), signature, shapes, dtypes)
        if key not in self._sessions:
            form = Form(op, tuple(None if a is None else a.shape for a in operands), shapes, dtypes)
            self._sessions[key] = _session(form, operands)
        session = self._sessions[key]
        if session is None or any(a is not None and not a.size for a in operands):
            return self.reference.run(op, operands, results, result_dims)
        feeds = {f"in{i}": _single(a) for i, a in enumerate(operands) if a is not None}
        try:
            return [_double(np.asarray(a)) for a in session.run(None, feeds)]
        except Exception:  # noqa: BLE001  whatever its kernel does not take
            self._sessions[key] = None
            return self.reference.run(op, operands, results, result_dims)


def _single(array: Array) -> Array:
    return array.astype(np.float32) if array.dtype == np.float64 else array


def _double(array: Array) -> Array:
    return array.astype(np.float64) if array.dtype == np.float32 else array


def _session(form: Form, operands: Sequence[Array | None]) -> Any:
    """A session of one operator; None if onnxruntime refuses it."""
    import onnxruntime  # noqa: PLC0415  an extra: not everybody has it

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        model = model_of(form)
        for value in model.graph.input:
            array = operands[int(value.name.removeprefix("in"))]
            if array is None:
                return None
            value.type.tensor_type.elem_type = onnx.helper.np_dtype_to_tensor_dtype(
                _single(array).dtype
            )
            for size in array.shape:
                value.type.tensor_type.shape.dim.add().dim_value = size
        inferred = onnx.shape_inference.infer_shapes(model)
        return onnxruntime.InferenceSession(
            inferred.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except Exception:  # noqa: BLE001  whatever it refuses
        return None
