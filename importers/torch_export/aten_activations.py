"""Activations and dropout."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from importers.errors import UnsupportedError
from importers.parameters import parametrised
from importers.torch_export.aten_pointwise import chain, one
from importers.traced.call import Call, Converter
from ir.graph import Tensor


def _silu(call: Call) -> None:
    value = call.tensor("self")
    call.emit("Mul", [value, call.step("Sigmoid", [value])])


def _gelu(call: Call) -> None:
    call.emit("Gelu", [call.tensor("self")], approximate=call.text("approximate", "none"))


def _leaky(call: Call) -> None:
    call.emit("LeakyRelu", [call.tensor("self")], alpha=call.float("negative_slope", 0.01))


def _elu(call: Call) -> None:
    """`scale` times the function; one more factor inside of it has no equal."""
    value, scale = call.tensor("self"), call.float("scale", 1.0)
    alpha = call.float("alpha", 1.0)
    if call.float("input_scale", 1.0) != 1.0:
        raise UnsupportedError(call.target)
    if scale == 1.0:
        call.emit("Elu", [value], alpha=alpha)
    else:
        made = call.step("Elu", [value], alpha=alpha)
        call.emit("Mul", [made, call.scalar(scale, value.dtype)])


def _softplus(call: Call) -> None:
    value, beta = call.tensor("self"), call.float("beta", 1.0)
    if beta == 1.0:
        call.emit("Softplus", [value])
        return
    wide = call.step("Mul", [value, call.scalar(beta, value.dtype)])
    soft = call.step("Softplus", [wide])
    call.emit("Div", [soft, call.scalar(beta, value.dtype)])


@parametrised
def _between(call: Call, low: float, high: float) -> None:
    dtype = call.result.dtype
    bounds = [call.scalar(low, dtype), call.scalar(high, dtype)]
    call.emit("Clip", [call.tensor("self"), *bounds])


def _dropout(call: Call) -> None:
    """Nothing is dropped while no one trains."""
    value = call.tensor(next(iter(call.arguments)))
    if not call.flag("train", default=True) or call.float("p", 0.5) == 0.0:
        call.alias(value)
        return
    ratio, training = call.scalar(call.float("p", 0.5), "float32"), call.scalar(True, "bool")
    call.emit("Dropout", [value, ratio, training], count=2 if call.wants(1) else 1)


def halves(call: Call, value: Tensor, axis: int) -> list[Tensor]:
    """The halves of an operand, each with the dims of the result."""
    dims = call.result.dims
    parts = [call.writer.tensor(f"{call.name}/half{i}", dims, value.dtype) for i in (0, 1)]
    call.write("Split", [value], parts, "/halves", axis=axis, num_outputs=2)
    return parts


def _glu(call: Call) -> None:
    value = call.tensor("self")
    first, second = halves(call, value, call.axis("dim", len(value.dims), -1))
    call.emit("Mul", [first, call.step("Sigmoid", [second])])


def _hyperbolic(call: Call) -> None:
    """`hardtanh`."""
    dtype = call.result.dtype
    bounds = [
        call.scalar(call.float(n, d), dtype) for n, d in (("min_val", -1.0), ("max_val", 1.0))
    ]
    call.emit("Clip", [call.tensor("self"), *bounds])


ACTIVATIONS: Mapping[str, Converter] = MappingProxyType(
    {
        "silu(self)": _silu,
        "gelu(self, approximate)": _gelu,
        "relu6(self)": _between(0.0, 6.0),
        "hardtanh(self, min_val, max_val)": _hyperbolic,
        "hardsigmoid(self)": one("HardSigmoid", alpha=1 / 6, beta=0.5),
        "leaky_relu(self, negative_slope)": _leaky,
        "elu(self, alpha, scale, input_scale)": _elu,
        "softplus(self, beta, threshold)": _softplus,
        "log_sigmoid(self)": chain("Sigmoid", "Log"),
        "glu(self, dim)": _glu,
        "prelu(self, weight)": lambda c: c.emit("PRelu", [c.tensor("self"), c.tensor("weight")]),
        "dropout(input, p, train)": _dropout,
        "native_dropout(input, p, train)": _dropout,
    }
)  # fmt: skip
