"""Backward primitives of networks that make their gradients themselves."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from importers.errors import UnsupportedError
from importers.torch_export.aten import aten
from importers.traced.call import Call, Converter, with_arguments


def _bias(call: Call) -> None:
    """The sum over all but the channels."""
    value = call.tensor("grad_output")
    if call.get("data_format", "NCHW") not in {"NCHW", "NCDHW", 0, 3}:
        raise UnsupportedError(call.target)
    axes = [axis for axis in range(len(value.dims)) if axis != 1]
    call.emit("ReduceSum", [value, call.shape(axes)], keepdims=0)


BACKWARD: Mapping[str, Converter] = MappingProxyType(
    {
        "BiasAddGrad(dout as grad_output, data_format)": _bias,
        "ReluGrad(y_backprop as grad_output, x as self)": aten("threshold_backward"),
        "GeLUGrad(dy as grad_output, x as self, y as output)":
            with_arguments(aten("gelu_backward"), approximate="tanh"),
        "SiLUGrad(dout as grad_output, x as self)": aten("silu_backward"),
        "SigmoidGrad(y as output, dy as grad_output)": aten("sigmoid_backward"),
        "TanhGrad(y as output, dy as grad_output)": aten("tanh_backward"),
        "SoftmaxGrad(y as output, dy as grad_output)":
            with_arguments(aten("_softmax_backward_data"), dim=-1),
        "SoftmaxBackward(dout as grad_output, out as output, dim)":
            aten("_softmax_backward_data"),
        "LogSoftmaxGrad(logits as output, grad as grad_output, axis as dim)":
            aten("_log_softmax_backward_data"),
    }
)  # fmt: skip
