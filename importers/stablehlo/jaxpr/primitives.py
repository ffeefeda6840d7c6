"""The table of JAX's primitives: what each of them is in operations of StableHLO."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from importers.stablehlo.jaxpr.body import Call, Converter, whole_numbers
from importers.stablehlo.jaxpr.indexing import INDEXING
from importers.stablehlo.jaxpr.reductions import REDUCTIONS
from importers.stablehlo.program import Attribute, TensorType


def _same(name: str) -> Converter:
    return lambda call: call.finish(name, _of_one_shape(call))


def _of_one_shape(call: Call) -> list[str]:
    """Operands with dims of size one repeated, which a jaxpr leaves to the operation."""
    dims = call.kind.dims
    return [_repeated(call, index, dims) for index in range(len(call.operands))]


def _repeated(call: Call, index: int, dims: tuple[int, ...]) -> str:
    kind = call.type_of(index)
    if kind.dims == dims or len(kind.dims) != len(dims):
        return call.operands[index]
    return call.body.step(
        "stablehlo.broadcast_in_dim", [call.operands[index]], TensorType(dims, kind.dtype),
        dims=tuple(range(len(dims))),
    )  # fmt: skip


def _compare(direction: str) -> Converter:
    def convert(call: Call) -> None:
        operands, kinds = _of_one_shape(call), call.results
        call.body.add("stablehlo.compare", operands, kinds, words=(direction,))

    return convert


def _power(call: Call) -> None:
    """A whole power as products, as JAX lowers it."""
    exponent, kind = call.int("y"), call.kind
    if abs(exponent) > 64:
        call.finish("stablehlo.power", [call.operands[0], call.body.number(str(exponent), kind)])
        return
    rest, base, made = abs(exponent), call.operands[0], ""
    while rest:
        if rest & 1:
            made = call.body.step("stablehlo.multiply", [made, base], kind) if made else base
        rest >>= 1
        base = call.body.step("stablehlo.multiply", [base, base], kind) if rest else base
    made = made or call.body.number("1", kind)
    if exponent < 0:
        call.finish("stablehlo.divide", [call.body.number("1", kind), made])
    else:
        call.finish("stablehlo.optimization_barrier", [made])


def _exp2(call: Call) -> None:
    call.finish("stablehlo.power", [call.body.number("2", call.kind), call.operands[0]])


def _select(call: Call) -> None:
    """Cases by number; StableHLO has the one for true first."""
    if len(call.operands) != 3:
        call.finish("jax.select_n", call.operands)
        return
    which, no, yes = _of_one_shape(call)
    if call.type_of(0).dtype != "bool":
        given = call.body.types[which]
        zero, kind = call.body.number("0", given), TensorType(given.dims, "bool")
        which = call.body.step("stablehlo.compare", [which, zero], kind, words=("NE",))
    call.finish("stablehlo.select", [which, yes, no])


def _broadcast(call: Call) -> None:
    axes = call.ints("broadcast_dimensions", ())
    call.finish("stablehlo.broadcast_in_dim", call.operands[:1], dims=axes)


def _transpose(call: Call) -> None:
    call.finish("stablehlo.transpose", call.operands, dims=call.ints("permutation"))


def _reshape(call: Call) -> None:
    dimensions = call.param("dimensions")
    if isinstance(dimensions, tuple):
        call.finish("jax.reshape", call.operands)
        return
    call.finish("stablehlo.reshape", call.operands[:1])


def _squeeze(call: Call) -> None:
    call.finish("stablehlo.reshape", call.operands[:1])


def _stack(call: Call) -> None:
    """Values side by side along a new dimension."""
    axis, kind = call.int("axis"), call.kind
    if not 0 <= axis < len(kind.dims):
        raise call.body.fault("stack is along no dimension")
    part = TensorType((*kind.dims[:axis], 1, *kind.dims[axis + 1 :]), kind.dtype)
    wide = [call.body.step("stablehlo.reshape", [o], part) for o in call.operands]
    call.finish("stablehlo.concatenate", wide, dim=axis)


def _slice(call: Call) -> None:
    starts, ends = call.ints("start_indices"), call.ints("limit_indices")
    steps = call.param("strides")
    strides = call.ints("strides") if isinstance(steps, tuple) else (1,) * len(starts)
    call.finish(
        "stablehlo.slice", call.operands,
        start_indices=starts, limit_indices=ends, strides=strides,
    )  # fmt: skip


def _split(call: Call) -> None:
    axis, sizes, dims = call.int("axis"), call.ints("sizes"), call.type_of(0).dims
    if not 0 <= axis < len(dims) or len(sizes) != len(call.results) or sum(sizes) != dims[axis]:
        raise call.body.fault("split has other sizes than its operand")
    start = 0
    for size, (name, kind) in zip(sizes, call.results.items(), strict=True):
        starts = tuple(start if i == axis else 0 for i in range(len(dims)))
        ends = tuple(start + size if i == axis else d for i, d in enumerate(dims))
        call.body.add(
            "stablehlo.slice", call.operands, {name: kind},
            start_indices=starts, limit_indices=ends, strides=(1,) * len(dims),
        )  # fmt: skip
        start += size


def _concatenate(call: Call) -> None:
    call.finish("stablehlo.concatenate", call.operands, dim=call.int("dimension"))


def _pad(call: Call) -> None:
    rows = call.pairs("padding_config")
    if any(len(r) != 3 for r in rows):
        raise call.body.fault("padding_config of pad has other than three numbers a dimension")
    low, high, inner = (tuple(r[i] for r in rows) for i in range(3))
    call.finish("stablehlo.pad", call.operands, low=low, high=high, interior=inner)


def _reverse(call: Call) -> None:
    call.finish("stablehlo.reverse", call.operands, dims=call.ints("dimensions"))


def _iota(call: Call) -> None:
    call.finish("stablehlo.iota", [], dim=call.int("dimension"))


def _dot(call: Call) -> None:
    value = call.param("dimension_numbers")
    sides = value if isinstance(value, tuple) else ()
    found: list[dict[str, Attribute]] = []
    for side in sides:
        if isinstance(side, tuple) and len(side) == 2:
            left, right = side
            found.append({"left": whole_numbers(left), "right": whole_numbers(right)})
    if len(sides) != 2 or len(found) != 2:
        raise call.body.fault("dot_general names no dimensions of two operands")
    call.finish(
        "stablehlo.dot_general", call.operands, contracting_dims=found[0], batching_dims=found[1]
    )


def _convolution(call: Call) -> None:
    record = call.record("dimension_numbers").fields
    letters = {"lhs_spec": "bf", "rhs_spec": "oi", "out_spec": "bf"}
    found: dict[str, tuple[str, ...]] = {}
    for key, pair in letters.items():
        places = record.get(key)
        if not isinstance(places, tuple) or sorted(str(p) for p in places) != sorted(
            str(i) for i in range(len(places))
        ):
            raise call.body.fault("dimension_numbers of conv_general_dilated name no dimensions")
        names = [*pair, *(str(i) for i in range(len(places) - 2))]
        order = {p: n for p, n in zip(places, names, strict=True) if isinstance(p, int)}
        found[key] = tuple(order[i] for i in range(len(places)))
    numbers: dict[str, Attribute] = {
        "input": found["lhs_spec"], "kernel": found["rhs_spec"], "output": found["out_spec"],
    }  # fmt: skip
    window: dict[str, Attribute] = {
        "stride": call.ints("window_strides"), "pad": call.pairs("padding"),
        "lhs_dilate": call.ints("lhs_dilation"), "rhs_dilate": call.ints("rhs_dilation"),
    }  # fmt: skip
    call.finish(
        "stablehlo.convolution", call.operands, dim_numbers=numbers, window=window,
        feature_group_count=call.int("feature_group_count", 1),
        batch_group_count=call.int("batch_group_count", 1),
    )  # fmt: skip


_HANDED_ON = (
    "copy", "copy_p", "stop_gradient", "optimization_barrier", "sharding_constraint", "mesh_cast",
    "reduce_precision", "device_put", "name", "pvary", "custom_lin", "ad_checkpoint",
)  # fmt: skip
_POINTWISE = {
    "add": "add", "add_any": "add", "sub": "subtract", "mul": "multiply", "div": "divide",
    "max": "maximum", "min": "minimum", "pow": "power", "rem": "remainder", "neg": "negate",
    "abs": "abs", "sign": "sign", "floor": "floor", "ceil": "ceil", "exp": "exponential",
    "expm1": "exponential_minus_one", "log": "log", "log1p": "log_plus_one",
    "logistic": "logistic", "tanh": "tanh", "sin": "sine", "cos": "cosine", "tan": "tan",
    "sqrt": "sqrt", "rsqrt": "rsqrt", "cbrt": "cbrt", "is_finite": "is_finite", "and": "and",
    "or": "or", "xor": "xor", "not": "not", "shift_left": "shift_left",
    "shift_right_logical": "shift_right_logical", "clamp": "clamp",
    "convert_element_type": "convert",
}  # fmt: skip
_CHLO = (
    "square", "erf", "erfc", "erf_inv", "acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh",
    "sinh", "lgamma", "digamma",
)  # fmt: skip
_ROUNDED = {0: "stablehlo.round_nearest_afz", 1: "stablehlo.round_nearest_even"}


def _round(call: Call) -> None:
    """To the nearest, halves away from zero unless the text says to even."""
    method = call.param("rounding_method")
    even = method == 1 or "EVEN" in str(getattr(method, "text", ""))
    call.finish(_ROUNDED[int(even)], call.operands)


TABLE: Mapping[str, Converter] = MappingProxyType(
    {
        **{name: _same("stablehlo.optimization_barrier") for name in _HANDED_ON},
        **{name: _same(f"stablehlo.{other}") for name, other in _POINTWISE.items()},
        **{name: _same(f"chlo.{name}") for name in _CHLO},
        **{n: _compare(n.upper()) for n in ("eq", "ne", "lt", "le", "gt", "ge")},
        "integer_pow": _power, "exp2": _exp2, "round": _round, "select_n": _select,
        "broadcast_in_dim": _broadcast, "transpose": _transpose, "reshape": _reshape,
        "squeeze": _squeeze, "expand_dims": _squeeze, "stack": _stack, "slice": _slice,
        "split": _split, "concatenate": _concatenate, "pad": _pad, "rev": _reverse, "iota": _iota,
        "dot_general": _dot, "conv_general_dilated": _convolution, **REDUCTIONS, **INDEXING,
    }
)  # fmt: skip
"""By the name of the primitive."""
