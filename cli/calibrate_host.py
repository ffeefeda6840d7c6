"""`planner calibrate host`: this machine as a cluster file, measured in a minute or two."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cli.command_options import JSON, Output
from cli.declared import command
from cli.errors import UserError
from cli.files import check_folder, write_files, writer_of
from cli.progress import Progress
from cli.run import check_backend, process_message
from planner.requests.options.option import Group, Option

if TYPE_CHECKING:
    from collections.abc import Iterator

    from costmodel.link_calibration.fitting import LinkFit
    from executors.host import HostFacts
    from report.tables import Part

EPILOG = """\b
Examples:
  planner calibrate host -o host.yaml
  planner search model.onnx --devices 2 --cluster host.yaml --target torch --profile generic -o plan
  planner run plan/plan.json

\b
Leave the machine alone while it is measured: other programs make it look slow.
Exit status: 0 measured, 2 a fault in the command, or a process that died."""

TIMEOUT_S = 600.0
DEFAULT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCommand:
    """Of `planner calibrate host`."""

    # fmt: off
    processes: Annotated[int, Option(
        group=Group.MACHINE, value="N", least=1, most=64, help="Processes to measure with.",
    )] = DEFAULT
    output: Annotated[Path | None, Output(
        value="FILE", help="Write the machine as a cluster file.",
    )] = None
    as_json: Annotated[bool, JSON] = False
    # fmt: on


@command
def host(here: HostCommand) -> None:
    """Measure this machine and write it as a cluster file.

    Products, streams, the start of an operator and collectives, on processes that all work at the
    same time; each has one GPU, or one thread of the CPU.
    """
    processes, output = here.processes, here.output
    check_backend("torch")
    if output is not None:
        check_folder(output.parent)
    from executors.dtensor.processes import ProcessError, measured_host  # noqa: PLC0415

    with Progress() as progress:
        progress(f"measuring with {processes} process{'es' if processes > 1 else ''}")
        try:
            facts = measured_host(processes, TIMEOUT_S)
        except ProcessError as error:
            raise UserError(process_message(str(error))) from error
    text, fit = machine_of(facts)
    written = []
    if output is not None:
        written = write_files(output.parent, {output.name: writer_of(text)})
    if here.as_json:
        import json  # noqa: PLC0415
        from dataclasses import asdict  # noqa: PLC0415

        record = {"status": "ok", **asdict(facts), "written": [str(p) for p in written]}
        print(json.dumps(record, indent=1))
        return
    from cli.text import tell  # noqa: PLC0415  brings in rich

    tell(_parts(facts, fit, written))


def machine_of(facts: HostFacts) -> tuple[str, LinkFit | None]:
    """The machine's file, and the fit of the link between its processes if it has several."""
    from costmodel.collectives import Collective  # noqa: PLC0415  brings in numpy
    from costmodel.link_calibration.fitting import fit_links  # noqa: PLC0415
    from costmodel.link_calibration.machines import bench_of  # noqa: PLC0415
    from costmodel.link_calibration.measurements import GroupShape, Measurement  # noqa: PLC0415
    from executors.host import machine_text  # noqa: PLC0415
    from topology.loading import load_machine  # noqa: PLC0415

    if facts.first_link is None:
        return machine_text(facts, None, ""), None
    first = load_machine(machine_text(facts, facts.first_link, "a guess"), "host")
    measurements = [
        Measurement(GroupShape(Collective(kind), facts.processes), nbytes, seconds, "host")
        for kind, nbytes, seconds in facts.messages
    ]
    fit = fit_links(bench_of(first), measurements)
    tier = fit.cluster.tiers[-1]
    link = tier.bandwidth_bytes_per_s, tier.latency_s
    note = f"fitted to {len(measurements)} collectives of {facts.processes} processes"
    return machine_text(facts, link, note), fit


def _parts(facts: HostFacts, fit: LinkFit | None, written: list[Path]) -> Iterator[Part]:
    from report.tables import Lines  # noqa: PLC0415
    from topology.units import format_seconds  # noqa: PLC0415

    rate, where = facts.rate("float32") or 0.0, facts.machine.get("device", "")
    several = facts.processes > 1
    best = f"{rate / 1e9:.4g} GFLOP/s, the best of {len(facts.products)}"
    told = [
        f"products in float32: {best}; larger ones {facts.matmul_efficiency:.0%} of it",
        f"streams: {facts.stream_rate / 1e9:.3g} GB/s",
        f"start of an operator: {format_seconds(facts.start_s)}",
    ]
    if fit is not None:
        told.append(f"messages: {_link_text(fit)}")
        told.append(f"overlap: {facts.overlap:.0%} of a message hides behind computation")
    count = (
        f"{facts.processes} processes of {where}, each:" if several else f"1 process of {where}:"
    )
    yield Lines("", (count,))
    yield Lines("", tuple(told), "- ")
    yield Lines("Written", tuple(map(str, written)), "- ")


def _link_text(fit: LinkFit) -> str:
    from topology.units import format_seconds  # noqa: PLC0415

    tier = fit.cluster.tiers[-1]
    errors = sorted(abs(float(error)) for error in fit.errors)
    return (
        f"{tier.bandwidth_bytes_per_s / 1e9:.3g} GB/s after {format_seconds(tier.latency_s)}; "
        f"error {errors[len(errors) // 2]:.0%} median over {len(errors)} collectives"
    )
