"""`planner calibrate steps`: the estimate of training steps, fitted to one's own cluster."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cli.command_options import JSON, Output
from cli.declared import command
from cli.files import check_outputs, write_files, writer_of
from cli.progress import Progress
from cli.row_names import printable, row_names, short
from cli.validate import Rows, read_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from costmodel.training.own_cluster import FamilyRefit
    from report.tables import Part

EPILOG = """\b
Examples:
  planner calibrate steps mine.csv
  planner calibrate steps mine.csv -o mine.yaml
  planner validate mine.csv --calibration mine.yaml

\b
ROWS is a table as `planner validate` reads it, with measured_step_time_s filled in; 5 to 10
rows of different layouts are enough.

\b
Exit status: 0 fitted, 2 a fault in the command or the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepsCommand:
    """Of `planner calibrate steps`."""

    # fmt: off
    output: Annotated[Path | None, Output(
        value="FILE", help="Write the constants as YAML for `planner validate --calibration`.",
    )] = None
    as_json: Annotated[bool, JSON] = False
    # fmt: on


@command
def steps(rows: Rows, here: StepsCommand) -> None:
    """Fit the constants that matter most for these runs, beginning at those of the package.

    Tried first is one factor of all times (all_times), then constants beside it. Few rows move few
    constants, and not far: one for every two rows, four at most, and none unless rows that are left
    out are predicted better for it. The interval of a constant comes from rows drawn with
    replacement, the error afterwards from leaving rows out: each, or of many a twentieth at a time.
    """
    output = here.output
    check_outputs({"-o": output}, [rows])
    from costmodel.training.dataset import read_entries  # noqa: PLC0415  brings in numpy
    from costmodel.training.own_cluster import calibration_yaml, refit  # noqa: PLC0415

    entries = read_entries(read_rows(rows))
    with Progress() as progress:
        calibration, found = refit(entries, str(rows), progress)
    if output is not None:
        write_files(output.parent, {output.name: writer_of(calibration_yaml(calibration))})
    named = list(zip(row_names(entries), entries, strict=True))
    skipped = {name: entry.skipped for name, entry in named if entry.skipped}
    if here.as_json:
        files = [] if output is None else [str(output)]
        families = [asdict(family) for family in found]
        unread = [{"id": name, "what": list(each.unread)} for name, each in named if each.unread]
        answer = {
            "status": "ok", "families": families, "skipped": skipped, "unread": unread,
            "files": files,
        }  # fmt: skip
        print(json.dumps(answer, indent=1))
        return
    from cli.text import tell  # noqa: PLC0415  brings in rich
    from report.tables import Lines  # noqa: PLC0415

    partly = [f"read {short(n)} without: {printable(text)}" for n, e in named for text in e.unread]
    written = [] if output is None else [f"\nwrote {output}"]
    tell((*_parts(found, skipped), Lines("", (*partly, *written))))


def _parts(found: Sequence[FamilyRefit], skipped: dict[str, str]) -> Iterator[Part]:
    from report.tables import Lines, Table, numbers  # noqa: PLC0415

    for family in found:
        told = (
            f"\n{family.family}: {family.rows} rows, median error {100 * family.before:.1f} % "
            f"before, {100 * family.after:.1f} % after, on rows left out"
        )
        none = "no constant moved: rows left out are predicted best with the shipped ones"
        yield Lines("", (told, *([] if family.constants else [none])))
        rows = [
            (c.name, f"{c.shipped:.3g}", f"{c.fitted:.3g}", f"{c.low:.3g} .. {c.high:.3g}")
            for c in family.constants
        ]
        columns = ("constant", *numbers("shipped", "fitted", "90 % interval"))
        yield Table.of("Constants", columns, rows)
    for name, reason in skipped.items():
        yield Lines("", (f"skipped {short(name)}: {printable(reason)}",))
