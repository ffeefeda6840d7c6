"""Backward primitives of networks that make their gradients themselves."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from importers.mindir.as_torch import aten
from importers.torch_export.call import Call, Converter, UnsupportedError


def _bias(call: Call) -> None:
    """The sum over all but the channels."""
    value = call.tensor("grad_output")
    if call.get("data_format", "NCHW") not in {"NCHW", "NCDHW", 0, 3}:
        raise UnsupportedError(call.node.target)
    axes = [axis for axis in range(len(value.dims)) if axis != 1]
    call.emit("ReduceSum", [value, call.shape(axes)], keepdims=0)


def _relu(call: Call) -> None:
    call.arguments = {**call.arguments, "threshold": 0.0}
    aten("threshold_backward")(call)


def _gelu(call: Call) -> None:
    call.arguments = {**call.arguments, "approximate": "tanh"}
    aten("gelu_backward")(call)


def _softmax(call: Call) -> None:
    """Over the last dimension."""
    call.arguments = {"dim": -1, **call.arguments}
    aten("_softmax_backward_data")(call)


BACKWARD: Mapping[str, Converter] = MappingProxyType(
    {
        "BiasAddGrad(dout as grad_output, data_format)": _bias,
        "ReluGrad(y_backprop as grad_output, x as self)": _relu,
        "GeLUGrad(dy as grad_output, x as self, y as output)": _gelu,
        "SiLUGrad(dout as grad_output, x as self)": aten("silu_backward"),
        "SigmoidGrad(y as output, dy as grad_output)": aten("sigmoid_backward"),
        "TanhGrad(y as output, dy as grad_output)": aten("tanh_backward"),
        "SoftmaxGrad(y as output, dy as grad_output)": _softmax,
        "SoftmaxBackward(dout as grad_output, out as output, dim)":
            aten("_softmax_backward_data"),
        "LogSoftmaxGrad(logits as output, grad as grad_output, axis as dim)":
            aten("_log_softmax_backward_data"),
    }
)  # fmt: skip
