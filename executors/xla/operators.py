"""One operator as JAX functions, on whole arrays: XLA splits them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from executors.evaluation import Evaluator
from executors.placement import Array
from executors.semantics import SEMANTICS
from executors.xla import kinds
from executors.xla.views import VIEWS, View, view_of, viewed
from ir.graph import Op, OpGraph, Tensor
from ir.ops import LOSS
from ir.semantics import named
from ir.semantics.arrays import Library, computing_with, summed_places
from ir.semantics.call import Call, NotRunError


def _constant(array: Any) -> Any:
    """Numbers that are known stay known: shapes may depend on them."""
    return array if isinstance(array, np.ndarray) else jax.lax.stop_gradient(array)


def _placed(values: Any, slots: Any, count: int) -> Any:
    out = jnp.zeros((count, *values.shape[1:]), dtype=values.dtype)
    return out.at[slots].add(values)


JAX = Library(
    jnp, _constant, jax.scipy.special.erf, _placed, summed_places, stretched=jnp.broadcast_to
)


_KINDS = named(kinds)
_NARROW: Mapping[str, str] = MappingProxyType(
    {"int64": "int32", "uint64": "uint32", "float64": "float32"}
)


def run_operator(
    op: Op,
    graph: OpGraph,
    operands: Sequence[Any],
    constants: Mapping[str, Array],
    *,
    double: bool,
) -> list[Any]:
    """Results of an operator in the element types of the graph.

    Args:
        op: the operator; a composite runs as its parts.
        graph: for the dims and types of its tensors.
        operands: numbers that are known as numpy arrays, all else as JAX arrays; None for an
            absent one.
        constants: numbers that the parts of a composite may read.
        double: whether to compute in double precision.

    Raises:
        NotRunError: the kind has no form in JAX.
    """
    results = [graph.tensors[n] for n in op.outputs if n]
    if op.parts:
        return _parts(op, graph, operands, constants, double=double)
    if all(isinstance(a, np.ndarray) or a is None for a in operands) and op.kind != LOSS:
        dims = [t.dims for t in results]
        known = Evaluator().run(op, list(operands), results, dims)
        types = (element_type(t, double=double) for t in results)
        return [a.astype(t) for a, t in zip(known, types, strict=True)]
    dtypes = tuple(element_type(t, double=double) for t in results)
    call = Call(op, tuple(operands), tuple(t.dims for t in results), dtypes)
    function = _KINDS.get(op.kind) or SEMANTICS.get(op.kind)
    if function is None:
        raise NotRunError(f"{op.kind} has no form in JAX")
    try:
        with computing_with(JAX):
            found: list[Any] = function(call)
    except jax.errors.TracerArrayConversionError as error:
        raise NotRunError(f"{op.kind} has no form in JAX") from error
    return [
        a if isinstance(a, np.ndarray) else jnp.asarray(a).astype(dtype)
        for a, dtype in zip(found, dtypes, strict=True)
    ]


def _parts(
    op: Op,
    graph: OpGraph,
    operands: Sequence[Any],
    constants: Mapping[str, Array],
    *,
    double: bool,
) -> list[Any]:
    held: dict[str, Any] = {n: a for n, a in zip(op.inputs, operands, strict=True) if n}
    views: dict[str, View] = {}
    for part in op.parts:
        if part.kind in VIEWS and not isinstance(held.get(part.inputs[0]), np.ndarray):
            source = part.inputs[0]
            start = views.get(source) or view_of(_held(source, held, constants))
            made = viewed(start, part, graph.tensors[part.outputs[0]].dims)
            if made is not None:
                views[part.outputs[0]] = made
                held[part.outputs[0]] = made.made()
                continue
        given = [_held(n, held, constants) if n else None for n in part.inputs]
        found = run_operator(part, graph, given, constants, double=double)
        held.update(zip((n for n in part.outputs if n), found, strict=True))
    return [held[n] for n in op.outputs if n]


def _held(name: str, held: Mapping[str, Any], constants: Mapping[str, Array]) -> Any:
    if name in held:
        return held[name]
    if name not in constants:
        raise NotRunError(f"the numbers of {name!r}, which a part reads, are not known")
    return constants[name]


def element_type(tensor: Tensor, *, double: bool) -> str:
    """The element type in which JAX keeps a tensor: its own, or double precision; whole numbers of
    64 bits have 32 unless JAX computes in double precision.
    """
    if double:
        return "float64" if tensor.is_float else tensor.dtype
    return _NARROW.get(tensor.dtype, tensor.dtype)
