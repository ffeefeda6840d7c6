"""Lookups and updates of JAX in operations of StableHLO."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from importers.stablehlo.jaxpr.body import Call, Converter, whole_numbers
from importers.stablehlo.jaxpr.text import Record
from importers.stablehlo.program import Operation, Region, TensorType

_SCALAR: tuple[int, ...] = ()


def _axes(record: Record, name: str) -> tuple[int, ...]:
    return whole_numbers(record.fields.get(name, ()))


def _gather(call: Call) -> None:
    record = call.record("dimension_numbers")
    names = (
        "offset_dims", "collapsed_slice_dims", "start_index_map", "operand_batching_dims",
        "start_indices_batching_dims",
    )  # fmt: skip
    call.finish(
        "stablehlo.gather", call.operands, slice_sizes=call.ints("slice_sizes"),
        dimension_numbers={
            **{name: _axes(record, name) for name in names},
            "index_vector_dim": len(call.type_of(1).dims) - 1,
        },
    )  # fmt: skip


_UPDATES = MappingProxyType(
    {
        "scatter": "", "scatter-add": "add", "scatter_add": "add", "scatter-mul": "multiply",
        "scatter_mul": "multiply", "scatter-min": "minimum", "scatter_min": "minimum",
        "scatter-max": "maximum", "scatter_max": "maximum",
    }
)  # fmt: skip


def _scatter(applied: str) -> Converter:
    def convert(call: Call) -> None:
        record = call.record("dimension_numbers")
        names = {
            "update_window_dims": "update_window_dims",
            "inserted_window_dims": "inserted_window_dims",
            "scatter_dims_to_operand_dims": "scatter_dims_to_operand_dims",
            "input_batching_dims": "operand_batching_dims",
            "scatter_indices_batching_dims": "scatter_indices_batching_dims",
        }
        call.body.add(
            "stablehlo.scatter", call.operands, call.results, regions=(_update(call, applied),),
            scatter_dimension_numbers={
                **{ours: _axes(record, theirs) for ours, theirs in names.items()},
                "index_vector_dim": len(call.type_of(1).dims) - 1,
            },
        )  # fmt: skip

    return convert


def _update(call: Call, applied: str) -> Region:
    """What is written: the new number, or the two of them combined."""
    both, kind = ("%old", "%new"), TensorType(_SCALAR, call.kind.dtype)
    if not applied:
        return Region(both, (Operation("stablehlo.return", ("%new",), (), (), {}, ()),))
    combined = Operation(f"stablehlo.{applied}", both, ("%both",), (kind,), {}, ())
    return Region(both, (combined, Operation("stablehlo.return", ("%both",), (), (), {}, ())))


def _dynamic_slice(call: Call) -> None:
    call.finish("stablehlo.dynamic_slice", call.operands, sizes=call.ints("slice_sizes"))


def _dynamic_update(call: Call) -> None:
    call.finish("stablehlo.dynamic_update_slice", call.operands)


INDEXING: Mapping[str, Converter] = MappingProxyType(
    {
        "gather": _gather,
        "dynamic_slice": _dynamic_slice,
        "dynamic_update_slice": _dynamic_update,
        **{name: _scatter(applied) for name, applied in _UPDATES.items()},
    }
)
