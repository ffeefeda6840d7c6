"""`planner topology`: what machines there are, what is in them, and whether a file is right."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.command_options import JSON, Output, Printed
from cli.declared import Grouped, command
from cli.errors import unknown_name
from cli.files import check_picture, write_files
from cli.machine_files import is_file_name, named_machine
from cli.options import Argument
from cli.rank_tables import HCCN_EPILOG, RANK_TABLE_EPILOG, hccn, rank_table
from planner.requests.option_texts import MAX_DEVICES
from planner.requests.options.option import Group, Option

if TYPE_CHECKING:
    from cli.topology_check import Verdict

USER_ERROR = 2
MOST_DRAWN = 16

EPILOG = """\b
Examples:
  planner topology show atlas-800-9000
  planner topology draw atlas-800-9000 -o ring.svg
  planner topology check cluster.yaml"""

app = typer.Typer(
    help="Machines and rank tables: list, show, draw and check them.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
)


# fmt: off
@dataclass(frozen=True, slots=True, kw_only=True)
class ShowMachine:
    """Of `planner topology show`."""

    devices: Annotated[int | None, Option(
        group=Group.MACHINE, value="N", unit="devices", least=1, most=MAX_DEVICES,
        usual="all, or two servers if their number is open",
        help="Show the planner's view for a job of so many devices.",
    )] = None
    as_json: Annotated[bool, JSON] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawMachine:
    """Of `planner topology draw`."""

    output: Annotated[Path, Output(
        value="FILE", help="Where to write: .svg or .png.",
    )]
    servers: Annotated[int | None, Option(
        group=Group.MACHINE, value="N", least=1, most=MOST_DRAWN, usual="two, or one of each kind",
        help="How many servers to draw.",
    )] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckMachine:
    """Of `planner topology check`."""

    product: Annotated[str | None, Option(
        group=Group.MACHINE, value="910A|910B|910C/A3",
        usual="inferred from version, super pods and device ids",
        help="Whose rules a rank table must keep.",
    )] = None
    hccn_conf: Annotated[tuple[str, ...], Option(
        group=Group.MACHINE, value="[SERVER=]FILE",
        help="The /etc/hccn.conf of a server of the rank table; repeat it for others.",
    )] = ()
    hccn_log: Annotated[tuple[str, ...], Option(
        group=Group.MACHINE, value="[SERVER=]FILE",
        help="What the commands of topology hccn printed, run with bash -v; repeat it for others.",
    )] = ()
    as_json: Annotated[bool, JSON] = False
# fmt: on


MachineName = Annotated[
    str,
    Argument(value="NAME|FILE", help="A bundled machine, or a cluster file."),
]


@app.command(
    "list",
    cls=Grouped,
    epilog="""\b
Examples:
  planner topology list
  planner topology list --json""",
)
@command
def list_machines(here: Printed) -> None:
    """List the bundled machines, server templates and chips."""
    from report.machine import listed  # noqa: PLC0415  brings in pydantic

    facts = listed()
    if here.as_json:
        print(json.dumps({"status": "ok", **facts}, indent=1))
        return
    from cli.text import tell  # noqa: PLC0415  brings in rich
    from report.machine_tables import list_parts  # noqa: PLC0415

    tell(list_parts(facts))


@app.command(
    cls=Grouped,
    epilog="""\b
Examples:
  planner topology show atlas-800-9000
  planner topology show cluster.yaml --devices 64
  planner topology show ascend_910b3 --json""",
)
@command
def show(
    name: Annotated[
        str,
        Argument(value="NAME|FILE", help="A bundled machine, server or chip, or a cluster file."),
    ],
    here: ShowMachine,
) -> None:
    """Print the servers, links, networks and constraints of a machine, and the planner's view."""
    facts = _facts(name, here.devices)
    if here.as_json:
        print(json.dumps({"status": "ok", **facts}, indent=1))
        return
    from cli.text import tell  # noqa: PLC0415  brings in rich
    from report.machine_tables import parts  # noqa: PLC0415

    tell(parts(facts))


def _facts(name: str, devices: int | None) -> dict[str, Any]:
    """What is known under a name, or in a cluster file."""
    from report.machine import bundled_facts, known_names, machine_facts  # noqa: PLC0415

    if is_file_name(name):
        return machine_facts(named_machine(name, f"the machine {name}"), devices)
    found = bundled_facts(name, devices)
    if found is None:
        raise unknown_name("machine, server or chip", name, known_names(), f"the name {name}")
    return found


@app.command(
    cls=Grouped,
    epilog="""\b
Examples:
  planner topology draw atlas-800-9000 -o rings.svg
  planner topology draw dgx-1v -o dgx.png
  planner topology draw cluster.yaml --servers 4 -o cluster.svg""",
)
@command
def draw(name: MachineName, here: DrawMachine) -> None:
    """Draw a machine: devices, links, switches, network ports, and the network between servers."""
    output, servers = here.output, here.servers
    check_picture(output, "-o")
    from cli.machine_files import named_machine  # noqa: PLC0415
    from topology.drawing import write_picture  # noqa: PLC0415  brings in pydantic

    machine = named_machine(name, f"the machine {name}")
    write_files(
        output.parent, {output.name: lambda path: write_picture(machine, path, servers=servers)}
    )
    print(output)


@app.command(
    cls=Grouped,
    epilog="""\b
Examples:
  planner topology check cluster.yaml
  planner topology check rank_table.json --product 910A
  planner topology check hccl_8p.json --json
  planner topology check table.json --hccn-conf 10.155.111.140=hccn.conf --hccn-log links.log

\b
Exit status: 0 no errors (there may be warnings), 2 errors, or a fault in the command.""",
)
@command
def check(
    file: Annotated[Path, Argument(value="FILE", help="A cluster file, or a rank table (JSON).")],
    here: CheckMachine,
) -> None:
    """Find everything that is wrong or odd in a cluster file or a rank table."""
    from cli.topology_check import CardFiles, checked  # noqa: PLC0415  brings in pydantic

    verdict = checked(file, here.product, CardFiles(here.hccn_conf, here.hccn_log))
    if here.as_json:
        print(json.dumps(verdict.to_dict(), indent=1))
    else:
        _print_verdict(verdict)
    if verdict.errors:
        raise typer.Exit(USER_ERROR)


def _print_verdict(verdict: Verdict) -> None:
    for kind, findings in (("error", verdict.errors), ("warning", verdict.warnings)):
        for finding in findings:
            print(f"{kind} {finding.code}  {finding.where}: {finding.message}")
    if verdict.product is not None:
        how = f"inferred from {verdict.inferred}" if verdict.inferred else "given"
        print(f"product {verdict.product} ({how})")
    counts = [
        f"{len(found)} {noun}{'' if len(found) == 1 else 's'}"
        for found, noun in ((verdict.errors, "error"), (verdict.warnings, "warning"))
    ]
    print(f"{verdict.name}: {verdict.kind}, {', '.join(counts)}")


@app.command(
    cls=Grouped,
    epilog="""\b
Examples:
  planner topology schema > cluster.schema.json""",
)
def schema() -> None:
    """Print the JSON schema of cluster files, for editors."""
    from topology.json_schema import cluster_schema  # noqa: PLC0415  brings in pydantic

    print(json.dumps(cluster_schema(), indent=1))


app.command("rank-table", cls=Grouped, epilog=RANK_TABLE_EPILOG)(rank_table)
app.command("hccn", cls=Grouped, epilog=HCCN_EPILOG)(hccn)
