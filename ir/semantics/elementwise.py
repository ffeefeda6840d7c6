"""Element-wise functions."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from ir.ops.elementwise import BIASED_GELUS, SWISHES
from ir.semantics.arrays import Array, converted, error_function, gelu, sigmoid, stretched
from ir.semantics.arrays import np as anp
from ir.semantics.call import Call, Semantics


def number(call: Call, key: str, default: float) -> float:
    """An attribute as ONNX keeps it: in single precision."""
    return float(np.float32(call.float(key, default)))


def _softplus(array: Array) -> Array:
    out: Array = anp.logaddexp(array, 0.0)
    return out


def gaussian(call: Call) -> list[Array]:
    return [gelu(call[0], str(call.op.attributes.get("approximate", "none")))]


def biased_gaussian(call: Call) -> list[Array]:
    data = call[0] + call[1] if call.has(1) else call[0]
    return [gelu(data, BIASED_GELUS[call.op.kind])]


def _unary(function: Callable[[Array], Array]) -> Semantics:
    return lambda call: [function(call[0])]


def mean(call: Call) -> list[Array]:
    return [reduce(anp.add, call.present) / len(call.present)]


def swish(call: Call) -> list[Array]:
    slope = number(call, "alpha", SWISHES[call.op.kind])
    return [call[0] * sigmoid(slope * call[0])]


def _hard_sigmoid(array: Array, alpha: float, beta: float) -> Array:
    out: Array = anp.maximum(0.0, anp.minimum(1.0, alpha * array + beta))
    return out


def hard_sigmoid(call: Call) -> list[Array]:
    return [_hard_sigmoid(call[0], number(call, "alpha", 0.2), number(call, "beta", 0.5))]


def hard_swish(call: Call) -> list[Array]:
    return [call[0] * _hard_sigmoid(call[0], float(np.float32(1 / 6)), 0.5)]


def _bent(call: Call, below: Callable[[Array], Array]) -> list[Array]:
    """The operand where it is positive, a function of it elsewhere."""
    data = call[0]
    return [anp.where(data > 0, data, below(anp.minimum(data, 0.0)))]


def elu(call: Call) -> list[Array]:
    alpha = number(call, "alpha", 1.0)
    return _bent(call, lambda x: alpha * anp.expm1(x))


def celu(call: Call) -> list[Array]:
    alpha = number(call, "alpha", 1.0)
    return _bent(call, lambda x: alpha * anp.expm1(x / alpha))


def selu(call: Call) -> list[Array]:
    alpha = number(call, "alpha", 1.67326319217681884765625)
    gamma = number(call, "gamma", 1.05070102214813232421875)
    return [gamma * _bent(call, lambda x: alpha * anp.expm1(x))[0]]


def leaky_relu(call: Call) -> list[Array]:
    alpha = number(call, "alpha", 0.01)
    return _bent(call, lambda x: alpha * x)


def p_relu(call: Call) -> list[Array]:
    return [anp.where(call[0] > 0, call[0], call[0] * call[1])]


def thresholded_relu(call: Call) -> list[Array]:
    return [anp.where(call[0] > number(call, "alpha", 1.0), call[0], 0.0)]


def shrink(call: Call) -> list[Array]:
    data, lambd, bias = call[0], number(call, "lambd", 0.5), number(call, "bias", 0.0)
    return [anp.where(data < -lambd, data + bias, anp.where(data > lambd, data - bias, 0.0))]


def clip(call: Call) -> list[Array]:
    """Bounds are attributes, or operands where they are computed."""
    data = call[0]
    for index, key, bound in ((1, "min", anp.maximum), (2, "max", anp.minimum)):
        if call.has(index):
            data = bound(data, call[index])
        elif key in call.op.attributes:
            data = bound(data, call.float(key, 0.0))
    return [data]


def cast(call: Call) -> list[Array]:
    dtype: Any = call.result_dtypes[0] if call.result_dtypes else call[0].dtype
    return [converted(call[0], dtype)]


def dropout(call: Call) -> list[Array]:
    """Nothing is dropped: a mask would not be the same twice."""
    return [call[0], anp.ones(call[0].shape, dtype=bool)][: len(call.result_dims)]


def bias_add(call: Call) -> list[Array]:
    data, axis = call[0], call.int("axis", 1)
    return [data + anp.reshape(call[1], [-1 if d == axis else 1 for d in range(data.ndim)])]


def quotient(call: Call) -> list[Array]:
    """Quotients of whole numbers are rounded towards zero."""
    one, other = call[0], call[1]
    if one.dtype.kind in "iu":
        return [anp.sign(one) * anp.sign(other) * (anp.abs(one) // anp.abs(other))]
    return [one / other]


def remainder(call: Call) -> list[Array]:
    """The remainder has the sign of the divisor, with `fmod` that of the dividend."""
    one, other = call[0], call[1]
    if one.dtype.kind != "f":
        return [(anp.fmod if call.int("fmod") else anp.mod)(one, other)]
    rounded = anp.trunc if call.int("fmod") else anp.floor
    return [one - other * rounded(one / other)]


def is_infinite(call: Call) -> list[Array]:
    """Of both signs unless one is not asked for."""
    asked = [call.int(f"detect_{sign}", 1) for sign in ("negative", "positive")]
    negative, positive = (anp.isinf(call[0]) & (call[0] < 0), anp.isinf(call[0]) & (call[0] > 0))
    return [negative * bool(asked[0]) | positive * bool(asked[1])]


def where(call: Call) -> list[Array]:
    """Both are stretched first: the gradient of autograd's `where` does not undo broadcasting."""
    one, other = (stretched(call[i], call.result_dims[0]) for i in (1, 2))
    return [anp.where(call[0], one, other)]


relu = _unary(lambda x: anp.maximum(x, 0.0))
logistic, softplus, error = _unary(sigmoid), _unary(_softplus), _unary(error_function)
mish = _unary(lambda x: x * anp.tanh(_softplus(x)))
softsign = _unary(lambda x: x / (1.0 + anp.abs(x)))
same = _unary(lambda x: x)
