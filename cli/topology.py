"""`planner topology`: what machines there are, what is in them, and whether a file is right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli import options
from cli.errors import UserError
from cli.files import check_picture, write_files
from cli.rank_tables import HCCN_EPILOG, RANK_TABLE_EPILOG, hccn, rank_table
from planner.requests.option_texts import device_count

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

MachineName = Annotated[
    str,
    typer.Argument(metavar="NAME|FILE", help="A bundled machine, or a cluster file."),
]


@app.command(
    "list",
    epilog="""\b
Examples:
  planner topology list
  planner topology list --json""",
)
def list_machines(*, as_json: options.Json = False) -> None:
    """List the bundled machines, server templates and chips."""
    from cli.topology_facts import listed  # noqa: PLC0415  brings in pydantic

    facts = listed()
    if as_json:
        print(json.dumps({"status": "ok", **facts}, indent=1))
        return
    from cli.text import page  # noqa: PLC0415  brings in rich
    from cli.topology_text import print_list  # noqa: PLC0415

    with page() as out:
        print_list(facts, out)


@app.command(
    epilog="""\b
Examples:
  planner topology show atlas-800-9000
  planner topology show cluster.yaml --devices 64
  planner topology show ascend_910b3 --json"""
)
def show(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME|FILE", help="A bundled machine, server or chip, or a cluster file."
        ),
    ],
    *,
    devices: Annotated[
        int | None,
        typer.Option(
            "--devices",
            metavar="N",
            help="Show the planner's view for a job of so many devices.",
            show_default="all, or two servers if their number is open",
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Print the servers, links, networks and constraints of a machine, and the planner's view."""
    if devices is not None:
        device_count(devices)
    from cli.topology_facts import shown  # noqa: PLC0415  brings in pydantic

    facts = shown(name, devices)
    if as_json:
        print(json.dumps({"status": "ok", **facts}, indent=1))
        return
    from cli.text import page  # noqa: PLC0415  brings in rich
    from cli.topology_text import print_facts  # noqa: PLC0415

    with page() as out:
        print_facts(facts, out)


@app.command(
    epilog="""\b
Examples:
  planner topology draw atlas-800-9000 -o rings.svg
  planner topology draw dgx-1v -o dgx.png
  planner topology draw cluster.yaml --servers 4 -o cluster.svg"""
)
def draw(
    name: MachineName,
    *,
    output: Annotated[
        Path,
        typer.Option("-o", "--output", metavar="FILE", help="Where to write: .svg or .png."),
    ],
    servers: Annotated[
        int | None,
        typer.Option(
            "--servers",
            metavar="N",
            help="How many servers to draw.",
            show_default="two, or one of each kind",
        ),
    ] = None,
) -> None:
    """Draw a machine: devices, links, switches, network ports, and the network between servers."""
    check_picture(output, "-o")
    if servers is not None and not 1 <= servers <= MOST_DRAWN:
        raise UserError(
            f"{servers} servers in one picture",
            f"--servers {servers}",
            f"give a number from 1 to {MOST_DRAWN}",
        )
    from cli.machine_files import named_machine  # noqa: PLC0415
    from topology.drawing import write_picture  # noqa: PLC0415  brings in pydantic

    machine = named_machine(name, f"the machine {name}")
    write_files(
        output.parent, {output.name: lambda path: write_picture(machine, path, servers=servers)}
    )
    print(output)


@app.command(
    epilog="""\b
Examples:
  planner topology check cluster.yaml
  planner topology check rank_table.json --product 910A
  planner topology check hccl_8p.json --json

\b
Exit status: 0 no errors (there may be warnings), 2 errors, or a fault in the command."""
)
def check(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A cluster file, or a rank table (JSON).")
    ],
    *,
    product: Annotated[
        str | None,
        typer.Option(
            "--product",
            metavar="910A|910B|910C/A3",
            help="Whose rules a rank table must keep.",
            show_default="inferred from version, super pods and device ids",
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Find everything that is wrong or odd in a cluster file or a rank table."""
    from cli.topology_check import checked  # noqa: PLC0415  brings in pydantic

    verdict = checked(file, product)
    if as_json:
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
    epilog="""\b
Examples:
  planner topology schema > cluster.schema.json"""
)
def schema() -> None:
    """Print the JSON schema of cluster files, for editors."""
    from topology.json_schema import cluster_schema  # noqa: PLC0415  brings in pydantic

    print(json.dumps(cluster_schema(), indent=1))


app.command("rank-table", epilog=RANK_TABLE_EPILOG)(rank_table)
app.command("hccn", epilog=HCCN_EPILOG)(hccn)
