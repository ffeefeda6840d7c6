"""`planner calibrate links`: latency and bandwidth of links from measured collectives."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cli.command_options import JSON, Output
from cli.declared import command
from cli.errors import unknown_name
from cli.files import check_folder, text_of, write_files, writer_of
from cli.machine_files import is_file_name, machine_text, named_machine
from cli.options import Argument
from planner.requests.options.option import Group, Option
from planner.requests.options.searches import SearchOptions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from costmodel.link_calibration.fitting import LinkFit
    from costmodel.link_calibration.logs import Assumed, Log
    from costmodel.link_calibration.measurements import Measurement
    from report.tables import Lines, Part

MOST_LISTED = 8

EPILOG = """\b
Examples:
  planner calibrate links all_reduce.log --cluster atlas-800t-a2 --ranks 8 -o mine.yaml
  planner calibrate links *.log --cluster dgx-h100 -o mine.yaml
  planner calibrate links measured.csv --cluster cluster.yaml --json
  planner search model.onnx --devices 16 --cluster mine.yaml

\b
Exit status: 0 fitted, 2 a fault in the command or a log, or too few measurements."""


Logs = Annotated[
    list[Path],
    Argument(
        value="LOG...",
        help="Output of hccl_test or nccl-tests, or a CSV with columns op, devices, servers, "
        "message_bytes and time_us.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinksCommand:
    """Of `planner calibrate links`."""

    # fmt: off
    output: Annotated[Path | None, Output(
        value="FILE", help="Write the machine with its constants.",
    )] = None
    kind: Annotated[str | None, Option(
        group=Group.MODEL, value="NAME",
        help="Collective, where a log does not say it: all_reduce, all_gather.",
    )] = None
    ranks: Annotated[int | None, Option(
        group=Group.MACHINE, value="N", least=2, help="Devices, where a log does not say it.",
    )] = None
    servers: Annotated[int | None, Option(
        group=Group.MACHINE, value="N", least=1, help="Servers, where a log does not say it.",
    )] = None
    system: Annotated[str, Option(
        group=Group.MACHINE, value="TEXT",
        help="Only the rows of a CSV whose column system has this.",
    )] = ""
    as_json: Annotated[bool, JSON] = False
    # fmt: on


@command
def links(logs: Logs, *, asked: SearchOptions, here: LinksCommand) -> None:
    """Fit the links of a machine to measured collectives, and write it as a cluster file.

    Latency and bandwidth of every tier that the measurements reach; for machines with NCCL the
    start, step and share of each of its protocols. Outliers pull little. Every constant comes with
    an interval of 95 % and the number of measurements that it rests on.
    """
    output = here.output
    if output is not None:
        check_folder(output.parent)
    machine = named_machine(asked.cluster, "--cluster")
    found = [_read(path, _assumed(here)) for path in logs]
    measurements = [each for log in found for each in log.measurements]
    from costmodel.link_calibration.fitting import fit_links  # noqa: PLC0415  brings in numpy
    from costmodel.link_calibration.machines import bench_of  # noqa: PLC0415

    fit = fit_links(bench_of(machine), measurements)
    written = None
    if output is not None:
        from costmodel.link_calibration.cluster_text import calibrated_text  # noqa: PLC0415

        text = calibrated_text(machine, fit, measurements, base_of(asked.cluster))
        (written,) = write_files(output.parent, {output.name: writer_of(text)})
    if here.as_json:
        print(json.dumps(_facts(fit, found, measurements, written), indent=1))
    else:
        from cli.text import tell  # noqa: PLC0415  brings in rich

        tell(_parts(fit, found, measurements, written))


def _assumed(here: LinksCommand) -> Assumed:
    from costmodel.collectives import Collective  # noqa: PLC0415  brings in numpy
    from costmodel.link_calibration.logs import Assumed  # noqa: PLC0415

    kind = here.kind
    if kind is not None and kind not in set(Collective):
        raise unknown_name("collective", kind, [each.value for each in Collective], "--kind")
    return Assumed(Collective(kind) if kind else None, here.ranks, here.servers, here.system)


def _read(path: Path, assumed: Assumed) -> Log:
    from costmodel.link_calibration.logs import read_log  # noqa: PLC0415  brings in numpy

    fix = "name a log of hccl_test or nccl-tests, or a CSV table"
    return read_log(text_of(path, f"LOG {path}", fix, regular=True), path.name, assumed)


def base_of(cluster: str) -> Mapping[str, Any]:
    """A machine's own file as plain values, or the use of a bundled one."""
    if not is_file_name(cluster):
        return {"use": cluster}
    from topology.reading import plain_values  # noqa: PLC0415  brings in yaml

    return plain_values(machine_text(Path(cluster), "--cluster"), cluster)


def _facts(
    fit: LinkFit, logs: Sequence[Log], measurements: Sequence[Measurement], written: Path | None
) -> dict[str, Any]:
    middle, most = _errors(fit)
    return {
        "status": "ok",
        "cluster": fit.cluster.name,
        "measurements": len(measurements),
        "logs": [{"format": log.format, "measurements": len(log.measurements)} for log in logs],
        "constants": [
            {
                "name": each.name,
                "value": each.value,
                "before": each.before,
                "interval": [each.low, each.high],
                "measurements": each.told,
            }
            for each in fit.constants
            if each.told
        ],
        "median_error": middle,
        "error_of_nine_tenths": most,
        "residuals": [
            {
                "group": str(each.group),
                "bytes": each.nbytes,
                "seconds": each.time_s,
                "error": float(error),
                "origin": each.origin,
            }
            for each, error in zip(measurements, fit.errors, strict=True)
        ],
        "outliers": [each.origin for each in fit.outliers],
        "skipped": [line for log in logs for line in log.skipped],
        "remarks": list(fit.remarks),
        "written": None if written is None else str(written),
    }


def _errors(fit: LinkFit) -> tuple[float, float]:
    """Error of the middle and of nine tenths of the measurements."""
    import numpy as np  # noqa: PLC0415  slow to import

    errors = np.abs(fit.errors)
    return float(np.median(errors)), float(np.quantile(errors, 0.9))


def _parts(
    fit: LinkFit, logs: Sequence[Log], measurements: Sequence[Measurement], written: Path | None
) -> Iterator[Part]:
    from report.tables import Lines, Table, numbers  # noqa: PLC0415

    middle, most = _errors(fit)
    formats = ", ".join(sorted({log.format for log in logs}))
    told = f"{len(measurements)} measurements ({formats}) on {fit.cluster.name}"
    yield Lines("", (told, f"error: median {middle:.1%}, 90th percentile {most:.1%}"))
    rows = [
        (
            each.name,
            _shown(each.name, each.value),
            f"{_shown(each.name, each.low)} to {_shown(each.name, each.high)}",
            _shown(each.name, each.before),
            each.told,
        )
        for each in fit.constants
        if each.told
    ]
    columns = ("constant", *numbers("value", "95 % interval", "before", "measurements"))
    yield Table.of("", columns, rows)
    yield _listed("Outliers", [f"{m.origin}: {m.group}" for m in fit.outliers])
    yield _listed("Skipped", [line for log in logs for line in log.skipped])
    yield _listed("Remarks", list(fit.remarks))
    yield _listed("Written", [] if written is None else [str(written)])


def _listed(head: str, lines: Sequence[str]) -> Lines:
    from report.tables import Lines  # noqa: PLC0415

    more = len(lines) - MOST_LISTED
    rest = (f"and {more} more",) if more > 0 else ()
    return Lines(head, (*lines[:MOST_LISTED], *rest), "- ")


def _shown(name: str, value: float) -> str:
    """A time in microseconds, a share as it is."""
    return f"{1e6 * value:.3g} us" if name.endswith("_s") else f"{value:.3g}"
