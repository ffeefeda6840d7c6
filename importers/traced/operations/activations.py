"""Activations and dropout."""

from __future__ import annotations

from importers.errors import UnsupportedError
from importers.traced.call import Call, with_arguments
from importers.traced.formulas import formula
from importers.traced.operations.pointwise import one
from importers.traced.operations.slices import halves
from importers.traced.table import spelled
from ir.graph import Tensor

spelled(aten="hardsigmoid(self)", mindir="HSigmoid(input as self)")(
    one("HardSigmoid", alpha=1 / 6, beta=0.5)
)
spelled(aten="log_sigmoid(self)", mindir="LogSigmoid(input as self)")(
    formula("Log(Sigmoid(self))", same=True)
)


spelled(aten="silu(self)", mindir="SiLU(input as self)")(formula("self * Sigmoid(self)"))


_APPROXIMATIONS: dict[object, str] = {0: "none", 1: "tanh"}
"""MindSpore's numbers."""


@spelled(aten="gelu(self, approximate)", mindir="GeluExt(input as self, approximate)")
def _gelu(call: Call) -> None:
    form = call.get("approximate", "none")
    call.answer.gelu(call.tensor("self"), _APPROXIMATIONS.get(form, str(form)))


spelled(mindir="GeLU(input as self)")(with_arguments(_gelu, approximate="tanh"))


spelled(mindir="FastGeLU(x as self)")(formula("self * Sigmoid(self * 1.702)"))


@spelled(aten="elu(self, alpha, scale, input_scale)")
def _elu(call: Call) -> None:
    """`scale` times the function; one more factor inside of it has no equal."""
    value, scale = call.tensor("self"), call.float("scale", 1.0)
    alpha = call.float("alpha", 1.0)
    if call.float("input_scale", 1.0) != 1.0:
        raise UnsupportedError(call.target)
    if scale == 1.0:
        call.emit("Elu", [value], alpha=alpha)
    else:
        made = call.op("Elu", [value], alpha=alpha)
        call.answer.mul(made, call.scalar(scale, value.dtype))


@spelled(
    aten="softplus(self, beta, threshold)", mindir="SoftplusExt(input as self, beta, threshold)"
)
def _softplus(call: Call) -> None:
    value, beta = call.tensor("self"), call.float("beta", 1.0)
    if beta == 1.0:
        call.emit("Softplus", [value])
        return
    factor = call.scalar(beta, value.dtype)
    call.answer.div(call.op("Softplus", [call.mul(value, factor)]), factor)


@spelled(aten="prelu(self, weight)", mindir="PReLU(input as self, weight)")
def _slopes(call: Call) -> None:
    """A slope for each channel, the second dimension."""
    value, weight = call.tensor("self"), call.tensor("weight")
    if len(value.dims) > 2:
        weight = call.reshape(weight, weight.dims[0], *[1] * (len(value.dims) - 2))
    call.emit("PRelu", [value, weight])


@spelled(aten="dropout native_dropout(input, p, train)")
def _dropout(call: Call) -> None:
    """Nothing is dropped while no one trains."""
    value = call.tensor("input")
    if not call.flag("train", default=True) or call.float("p", 0.5) == 0.0:
        call.alias(value)
        return
    _drop(call, value, call.float("p", 0.5))


@spelled(mindir="Dropout(x as self, keep_prob, Seed0, Seed1)")
def _dropout_less(call: Call) -> None:
    """In training only: a network that is exported to predict has none."""
    _drop(call, call.tensor("self"), 1.0 - call.float("keep_prob", 0.5))


def _drop(call: Call, value: Tensor, share: float) -> None:
    ratio, training = call.scalar(share, "float32"), call.scalar(True, "bool")
    call.emit("Dropout", [value, ratio, training], count=2 if call.is_read(1) else 1)


@spelled(aten="glu(self, dim)", mindir="GLU(x as self, axis as dim)")
def _glu(call: Call) -> None:
    first, second = halves(call)
    call.answer.mul(first, call.sigmoid(second))


@spelled(mindir="Swiglu(input as self, dim)")
def _gated(call: Call) -> None:
    """The first half through SiLU, times the second."""
    first, second = halves(call)
    call.answer.mul(call.mul(first, call.sigmoid(first)), second)
