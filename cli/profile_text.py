"""What a person reads of profiles."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from cli.text import page
from topology.units import format_bandwidth, format_seconds

if TYPE_CHECKING:
    from costmodel.traces.fitting import Priced, ProfiledConstant
    from costmodel.traces.records import Kernel, Trace

_NAME = 40


def print_profile(
    traces: Sequence[Trace],
    classes: Sequence[tuple[str, float, float | None]],
    constants: Sequence[ProfiledConstant],
    rows: Sequence[Priced],
    written: Sequence[Path],
) -> None:
    """Traces, a step by class, constants with intervals, and the heaviest kernels."""
    with page() as out:
        for trace in traces:
            out.print(_trace_text(trace))
        out.print()
        out.print(_class_table(classes))
        if constants:
            out.print()
            out.print(_constant_table(constants))
        if rows:
            out.print()
            out.print(_kernel_table(rows))
        for path in written:
            out.print(f"\nWritten\n- {path}")


def _trace_text(trace: Trace) -> str:
    steps = f"{trace.steps} step{'s' if trace.steps > 1 else ''}"
    text = f"{trace.name}: {trace.format}, {steps}"
    if trace.device:
        text += f", {trace.device}"
    if trace.span_s:
        busy = f"{trace.busy_s / trace.span_s:.0%}"
        text += f", {format_seconds(trace.span_s / trace.steps)} each, kernels run {busy} of it"
    return text


def _table(*names: str, left: int = 1) -> Table:
    table = Table(box=None, pad_edge=False)
    for place, name in enumerate(names):
        table.add_column(name, justify="left" if place < left else "right")
    return table


def _class_table(classes: Sequence[tuple[str, float, float | None]]) -> Table:
    planned = any(each is not None for _, _, each in classes)
    table = _table("a step", "measured", *(["planned", "error"] if planned else []))
    for group, seconds, own in classes:
        more: list[str] = []
        if planned:
            error = f"{own / seconds - 1:+.0%}" if own is not None and seconds else "-"
            more = [format_seconds(own or 0.0), error]
        table.add_row(group, format_seconds(seconds), *more)
    return table


def _constant_table(constants: Sequence[ProfiledConstant]) -> Table:
    table = _table("constant", "value", "95 % interval", "calls")
    for each in constants:
        value, low, high = (_shown(each.name, x) for x in (each.value, each.low, each.high))
        table.add_row(_called(each.name), value, f"{low} to {high}", str(each.told))
    return table


def _called(name: str) -> str:
    group, _, what = name.partition(".")
    texts = {
        "products": f"products in {what}, of the peak", "streams": "streams, of the bandwidth",
        "launch_s": "from launch to launch", "messages": "messages that hide",
    }  # fmt: skip
    return texts.get(group, group)


def _shown(name: str, value: float) -> str:
    if name.endswith("bytes_per_s"):
        return format_bandwidth(value)
    return format_seconds(value) if name.endswith("_s") else f"{value:.1%}"


def _kernel_table(rows: Sequence[Priced]) -> Table:
    table = _table("heaviest kernels", "operands", "calls", "measured", "alone", "error", left=2)
    for row in rows:
        own, seconds = row.predicted_s, row.measured_s
        error = f"{own / seconds - 1:+.0%}" if own is not None and seconds else "-"
        table.add_row(
            _name(row.kernel), _operands(row.kernel), f"{row.calls:g}", format_seconds(seconds),
            "-" if own is None else format_seconds(own), error,
        )  # fmt: skip
    return table


def _name(kernel: Kernel) -> str:
    name = kernel.operator if "::" in kernel.operator else kernel.name
    return name if len(name) <= _NAME else f"{name[: _NAME - 3]}..."


def _operands(kernel: Kernel) -> Any:
    return " ".join("x".join(map(str, shape)) for shape in kernel.shapes[:3])[:30]
