"""Calls, loops and choices of a jaxpr."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from importers.stablehlo.jaxpr.body import Call
from importers.stablehlo.jaxpr.text import Jaxpr, Value, Word
from importers.stablehlo.program import Operation, Region, Symbol, TensorType

MAX_ROUNDS = 1024
Define: TypeAlias = Callable[[Jaxpr, str], str]
"""Makes a function of a jaxpr, called like something; returns its name."""


def function_of(call: Call, value: Value | None, define: Define) -> str:
    """The function that a parameter holds, or names."""
    if isinstance(value, Jaxpr):
        name = call.param("name")
        return define(value, name.text if isinstance(name, Word) else call.equation.primitive)
    known = call.body.functions.named
    if isinstance(value, Word) and value.text in known:
        return define(known[value.text], value.text)
    raise call.body.fault(f"{call.equation.primitive} calls no jaxpr that the text has")


def _called(call: Call, define: Define) -> None:
    keys = ("jaxpr", "call_jaxpr", "fun_jaxpr")
    value = next((call.param(k) for k in keys if call.param(k) is not None), None)
    call.body.call(function_of(call, value, define), call.operands, call.results)


def _scan(call: Call, define: Define) -> None:
    """A loop over leading dimensions, written out."""
    body, length = call.body, call.int("length")
    consts, carried = call.int("num_consts"), call.int("num_carry")
    if not 0 <= length <= MAX_ROUNDS:
        raise body.fault(f"a scan has {length} rounds; {MAX_ROUNDS} at most are written out")
    name = function_of(call, call.param("jaxpr"), define)
    fixed, state = call.operands[:consts], list(call.operands[consts : consts + carried])
    slices = call.operands[consts + carried :]
    names, kinds = list(call.results), list(call.results.values())
    stacked: list[list[str]] = [[] for _ in names[carried:]]
    order = range(length)
    for index in reversed(order) if call.param("reverse") is True else order:
        rows = [_row(call, s, index) for s in slices]
        carry = {f"%{index}.carry.{i}.{names[0]}": kinds[i] for i in range(carried)}
        made = {
            f"%{index}.row.{i}.{names[0]}": TensorType(k.dims[1:], k.dtype)
            for i, k in enumerate(kinds[carried:])
        }
        body.call(name, [*fixed, *state, *rows], {**carry, **made})
        state = list(carry)
        for column, row in zip(stacked, made, strict=True):
            column.append(row)
    for result, value in zip(names[:carried], state, strict=True):
        body.add("stablehlo.optimization_barrier", [value], {result: call.results[result]})
    for result, rows in zip(names[carried:], stacked, strict=True):
        ordered = rows[::-1] if call.param("reverse") is True else rows
        _stacked(call, ordered, result)


def _row(call: Call, value: str, index: int) -> str:
    kind = call.body.types[value]
    if not kind.dims or index >= kind.dims[0]:
        raise call.body.fault("a scan is longer than what it reads")
    starts = (index, *(0 for _ in kind.dims[1:]))
    ends = (index + 1, *kind.dims[1:])
    one = call.body.step(
        "stablehlo.slice", [value], TensorType((1, *kind.dims[1:]), kind.dtype),
        start_indices=starts, limit_indices=ends, strides=(1,) * len(starts),
    )  # fmt: skip
    return call.body.step("stablehlo.reshape", [one], TensorType(kind.dims[1:], kind.dtype))


def _stacked(call: Call, rows: Sequence[str], result: str) -> None:
    kind = call.results[result]
    if not rows:
        call.body.add("jax.empty", [], {result: kind})
        return
    part = TensorType((1, *kind.dims[1:]), kind.dtype)
    wide = [call.body.step("stablehlo.reshape", [r], part) for r in rows]
    call.body.add("stablehlo.concatenate", wide, {result: kind}, dim=0)


def _while(call: Call, define: Define) -> None:
    """A loop with a condition; constants of both bodies are seen by them."""
    test, work = (function_of(call, call.param(k), define) for k in ("cond_jaxpr", "body_jaxpr"))
    first, second = call.int("cond_nconsts"), call.int("body_nconsts")
    fixed = (call.operands[:first], call.operands[first : first + second])
    state = call.operands[first + second :]
    inner = tuple(f"%state.{i}" for i in range(len(state)))
    types = tuple(call.results.values())
    regions = (
        _region(test, (*fixed[0], *inner), inner, (TensorType((), "bool"),)),
        _region(work, (*fixed[1], *inner), inner, types),
    )
    call.body.add("stablehlo.while", state, call.results, regions=regions)


def _cond(call: Call, define: Define) -> None:
    """One of several branches, by a number."""
    value = call.param("branches")
    branches = value if isinstance(value, tuple) else ()
    if not branches or not call.operands:
        raise call.body.fault("a choice has no branches")
    types = tuple(call.results.values())
    functions = [function_of(call, b, define) for b in branches]
    regions = tuple(_region(f, call.operands[1:], (), types) for f in functions)
    call.body.add("stablehlo.case", call.operands[:1], call.results, regions=regions)


def _region(
    name: str, operands: Sequence[str], arguments: tuple[str, ...], types: tuple[TensorType, ...]
) -> Region:
    results = tuple(f"%inner.{i}" for i in range(len(types)))
    called = Operation("func.call", tuple(operands), results, types, {"callee": Symbol(name)}, ())
    return Region(arguments, (called, Operation("stablehlo.return", results, (), (), {}, ())))


_CALLS = (
    "jit", "pjit", "closed_call", "core_call", "xla_call", "remat", "remat2", "checkpoint",
    "custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr", "custom_jvp_call_jaxpr",
    "named_call", "core_closed_call",
)  # fmt: skip
CONTROL: Mapping[str, Callable[[Call, Define], None]] = MappingProxyType(
    {**dict.fromkeys(_CALLS, _called), "scan": _scan, "while": _while, "cond": _cond}
)
