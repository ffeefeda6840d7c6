"""What a person reads of profiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from report.tables import Lines, Part, Table, Unit, numbers
from topology.units import format_bandwidth, format_seconds

if TYPE_CHECKING:
    from costmodel.traces.fitting import Priced, ProfiledConstant
    from costmodel.traces.records import Kernel, Trace

_NAME = 40
_TIME = Unit.SECONDS


def profile_parts(
    traces: Sequence[Trace],
    classes: Sequence[tuple[str, float, float | None]],
    constants: Sequence[ProfiledConstant],
    rows: Sequence[Priced],
    written: Sequence[Path],
) -> Iterator[Part]:
    """Traces, a step by class, constants with intervals, and the heaviest kernels."""
    yield Lines("", tuple(map(_trace_text, traces)))
    yield _class_table(classes)
    yield _constant_table(constants)
    yield _kernel_table(rows)
    for path in written:
        yield Lines("Written", (str(path),), "- ")


def _trace_text(trace: Trace) -> str:
    steps = f"{trace.steps} step{'s' if trace.steps > 1 else ''}"
    text = f"{trace.name}: {trace.format}, {steps}"
    if trace.device:
        text += f", {trace.device}"
    if trace.span_s:
        busy = f"{trace.busy_s / trace.span_s:.0%}"
        text += f", {format_seconds(trace.span_s / trace.steps)} each, kernels run {busy} of it"
    return text


def _class_table(classes: Sequence[tuple[str, float, float | None]]) -> Table:
    planned = any(each is not None for _, _, each in classes)
    more = (("planned", _TIME), *numbers("error")) if planned else ()
    rows = [
        (group, seconds, *((own or 0.0, _error(own, seconds)) if planned else ()))
        for group, seconds, own in classes
    ]
    return Table.of("", ("a step", ("measured", _TIME), *more), rows)


def _error(own: float | None, seconds: float) -> str | None:
    return f"{own / seconds - 1:+.0%}" if own is not None and seconds else None


def _constant_table(constants: Sequence[ProfiledConstant]) -> Table:
    rows = []
    for each in constants:
        value, low, high = (_shown(each.name, x) for x in (each.value, each.low, each.high))
        rows.append((_called(each.name), value, f"{low} to {high}", each.told))
    return Table.of("", ("constant", *numbers("value", "95 % interval", "calls")), rows)


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
    columns = (
        "heaviest kernels", "operands", *numbers("calls"), ("measured", _TIME), ("alone", _TIME),
        *numbers("error"),
    )  # fmt: skip
    shown = [
        (_name(row.kernel), _operands(row.kernel), f"{row.calls:g}", row.measured_s,
         row.predicted_s, _error(row.predicted_s, row.measured_s))
        for row in rows
    ]  # fmt: skip
    return Table.of("", columns, shown)


def _name(kernel: Kernel) -> str:
    name = kernel.operator if "::" in kernel.operator else kernel.name
    return name if len(name) <= _NAME else f"{name[: _NAME - 3]}..."


def _operands(kernel: Kernel) -> Any:
    return " ".join("x".join(map(str, shape)) for shape in kernel.shapes[:3])[:30]
