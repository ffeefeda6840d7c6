"""A plan as one table for spreadsheets: a row for each operator and each tensor with a layout."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from ir.plan import NamedLayout, Plan
from ir.texts import visible

__all__ = ["COLUMNS", "to_csv"]

COLUMNS = (
    "what", "name", "kind", "scope", "dims", "dtype", "split", "layout", "used", "compute_s",
)  # fmt: skip

_FORMULA = ("=", "+", "-", "@")


def to_csv(plan: Plan) -> str:
    """Text of the table, in the order of the plan."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    staged = not plan.pipeline.is_single
    writer.writerow((*COLUMNS, "stage") if staged else COLUMNS)
    stages = [*(str(o.stage) for o in plan.operators), *(str(t.stage) for t in plan.tensors)]
    rows = (*_operators(plan), *_tensors(plan))
    for row, stage in zip(rows, stages, strict=True):
        writer.writerow([_cell(value) for value in ((*row, stage) if staged else row)])
    return out.getvalue()


def _operators(plan: Plan) -> Iterator[Sequence[str]]:
    tensors = plan.graph.tensors
    for op, node in zip(plan.operators, plan.graph.ops, strict=True):
        made = [tensors[name] for name in node.outputs if name]
        yield (
            "operator",
            op.name,
            op.kind,
            op.scope,
            " ".join(_dims(t.dims) for t in made),
            " ".join(t.dtype for t in made),
            " ".join(f"{axis}={'-' if factor < 0 else factor}" for axis, factor in op.split),
            f"{_layouts(op.inputs)} -> {_layouts(op.outputs)}",
            "",
            repr(op.compute_s),
        )


def _tensors(plan: Plan) -> Iterator[Sequence[str]]:
    for tensor in plan.tensors:
        used = "" if tensor.used is None else str(tensor.used)
        dims, layout = _dims(tensor.dims), str(tensor.layout)
        yield (tensor.role, tensor.name, "", "", dims, tensor.dtype, "", layout, used, "")


def _layouts(layouts: Sequence[NamedLayout | None]) -> str:
    return " ".join("none" if x is None else str(x) for x in layouts)


def _dims(dims: Sequence[int]) -> str:
    return "x".join(str(d) for d in dims) or "1"


def _cell(text: str) -> str:
    """A cell on one line that no spreadsheet takes for a formula.

    >>> _cell("=1+1"), _cell("MatMul")
    ("'=1+1", 'MatMul')
    """
    shown = visible(text)
    return f"'{shown}" if shown.startswith(_FORMULA) else shown
