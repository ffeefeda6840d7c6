"""Measured collectives from the output of hccl_test and nccl-tests, and from plain CSV.

Formats: docs/collectives.md, section "Logs".
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from costmodel.collectives.kinds import Collective
from costmodel.link_calibration.measurements import CalibrationError, GroupShape, Measurement

__all__ = ["Assumed", "Log", "read_log"]

MOST_CHARACTERS = 64 * 2**20
MOST_RANKS = 2**20
MOST_BYTES = 2.0**50
MOST_SECONDS = 3600.0

_KINDS: Mapping[str, Collective] = {
    "allreduce": Collective.ALL_REDUCE,
    "allgather": Collective.ALL_GATHER,
    "reducescatter": Collective.REDUCE_SCATTER,
    "alltoall": Collective.ALL_TO_ALL,
    "alltoallv": Collective.ALL_TO_ALL,
    "broadcast": Collective.BROADCAST,
    "scatter": Collective.SCATTER,
    "gather": Collective.GATHER,
    "reduce": Collective.REDUCE,
    "sendrecv": Collective.POINT_TO_POINT,
    "pointtopoint": Collective.POINT_TO_POINT,
    "p2p": Collective.POINT_TO_POINT,
}
"""Names of collectives without their underscores; longer names are looked for first."""

_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "kind": ("op", "kind", "collective", "operation"),
    "ranks": ("devices", "ranks", "world_size", "rank_size", "nranks"),
    "servers": ("servers", "nodes"),
    "nbytes": ("message_bytes", "nbytes", "bytes", "size", "data_size"),
    "time_us": ("time_us", "us", "aveg_time", "avg_time"),
    "time_s": ("time_s", "seconds"),
    "algorithm": ("algo", "algorithm"),
    "system": ("system",),
}
"""Columns of a CSV, and the names that they may have."""


@dataclass(frozen=True, slots=True)
class Assumed:
    """What the user says of logs that do not say it themselves."""

    kind: Collective | None = None
    ranks: int | None = None
    servers: int | None = None
    system: str = ""
    """Only rows of a CSV whose `system` contains this text."""


@dataclass(frozen=True, slots=True)
class Log:
    """One file of measurements."""

    format: str
    """`hccl_test`, `nccl-tests` or `CSV`."""

    measurements: tuple[Measurement, ...]
    skipped: tuple[str, ...]
    """Lines that were left out, and why."""


def read_log(text: str, name: str, assumed: Assumed) -> Log:
    """The measurements of one file.

    Args:
        text: what the file holds.
        name: of the file, for errors; it may name the collective, as `all_reduce.log` does.
        assumed: what the file need not say.

    Raises:
        CalibrationError: no known format, or nothing says which collective on how many ranks.
    """
    if len(text) > MOST_CHARACTERS:
        raise CalibrationError(
            f"the log is longer than {MOST_CHARACTERS} characters", name, "give the table alone"
        )
    lines = text.splitlines()
    for wanted, read in _READERS:
        if any(wanted(line) for line in lines):
            return read(lines, name, assumed)
    raise CalibrationError(
        "the file is neither output of hccl_test or nccl-tests nor a CSV with a header",
        name,
        "keep the line with the names of the columns; a CSV needs message_bytes and time_us",
    )


def _is_hccl_head(line: str) -> bool:
    return "|" in line and "data_size" in line


def _is_nccl_head(line: str) -> bool:
    words = line.lstrip("# ").split()
    return line.lstrip().startswith("#") and {"size", "count", "time"} <= set(words)


def _is_csv_head(line: str) -> bool:
    names = {each.strip().strip('"').lower() for each in line.split(",")}
    times = {*_COLUMNS["time_us"], *_COLUMNS["time_s"]}
    return bool(names & set(_COLUMNS["nbytes"])) and bool(names & times)


def _hccl(lines: Sequence[str], name: str, assumed: Assumed) -> Log:
    """Rows `bytes | microseconds | GB/s | result` below their names."""
    ranks = _option(lines, r"(?:-n|-np|--np)\s+(\d+)") or _option(lines, r"rank_?size\D{0,4}(\d+)")
    per_server = _option(lines, r"(?:-p|--npus)\s+(\d+)")
    servers = ranks // per_server if ranks and per_server and ranks % per_server == 0 else None
    group = _group(lines, name, assumed, ranks, servers)
    found: list[Measurement] = []
    skipped: list[str] = []
    for number, line in enumerate(lines, 1):
        cells = [each.strip() for each in line.split("|")]
        if len(cells) < 3 or not re.fullmatch(r"\d+", cells[0]):
            continue
        origin = f"{name}:{number}"
        if len(cells) > 3 and cells[3].lower().startswith("fail"):
            skipped.append(f"{origin}: the result was wrong")
            continue
        _add(found, skipped, group, cells[0], cells[1], origin)
    return Log("hccl_test", tuple(found), tuple(skipped))


def _nccl(lines: Sequence[str], name: str, assumed: Assumed) -> Log:
    """Rows below `size count type ... time algbw busbw`; the first time is out of place."""
    places = [re.search(r"Rank\s+\d+\b.*?\bon\s+(\S+)", line) for line in lines]
    hosts = [place.group(1) for place in places if place]
    servers = len(set(hosts)) or None
    group = _group(lines, name, assumed, len(hosts) or None, servers)
    columns: list[str] = []
    found: list[Measurement] = []
    skipped: list[str] = []
    for number, line in enumerate(lines, 1):
        if _is_nccl_head(line):
            columns = line.lstrip("# ").split()
        cells = line.split()
        if not columns or not cells or not re.fullmatch(r"\d+", cells[0]):
            continue
        place = columns.index("time")
        if len(cells) <= place:
            skipped.append(f"{name}:{number}: the line ends before its time")
            continue
        _add(found, skipped, group, cells[0], cells[place], f"{name}:{number}")
    return Log("nccl-tests", tuple(found), tuple(skipped))


def _csv(lines: Sequence[str], name: str, assumed: Assumed) -> Log:
    """One measurement in a row; the header names the columns."""
    start = next(i for i, line in enumerate(lines) if _is_csv_head(line))
    found: list[Measurement] = []
    skipped: list[str] = []
    csv.field_size_limit(2**20)
    rows = csv.DictReader(io.StringIO("\n".join(lines[start:])))
    names = {
        key: next((n for n in rows.fieldnames or () if n.strip().lower() in known), "")
        for key, known in _COLUMNS.items()
    }
    for number, row in enumerate(rows, start + 2):
        cell = {key: (row.get(column) or "").strip() for key, column in names.items()}
        if assumed.system.lower() not in cell["system"].lower():
            continue
        origin = f"{name}:{number}"
        kind = _KINDS.get(_plain(cell["kind"])) if cell["kind"] else assumed.kind
        if kind is None and cell["kind"]:
            skipped.append(f"{origin}: no plain collective {cell['kind'][:40]!r}")
            continue
        ranks = _count(cell["ranks"]) or assumed.ranks
        servers = _count(cell["servers"]) or assumed.servers or 1
        if kind is None or ranks is None:
            raise _unnamed(name, kind, ranks)
        algorithm = cell["algorithm"].lower()
        forced = algorithm if algorithm in {"ring", "tree", "nvls"} else "auto"
        group = GroupShape(kind, ranks, servers, forced)
        time = cell["time_us"] or _microseconds(cell["time_s"])
        _add(found, skipped, group, cell["nbytes"], time, origin)
    return Log("CSV", tuple(found), tuple(skipped))


_READERS: tuple[tuple[Callable[[str], bool], Callable[[Sequence[str], str, Assumed], Log]], ...] = (
    (_is_hccl_head, _hccl),
    (_is_nccl_head, _nccl),
    (_is_csv_head, _csv),
)


def _add(
    found: list[Measurement],
    skipped: list[str],
    group: GroupShape,
    size: str,
    microseconds: str,
    origin: str,
) -> None:
    """The measurement, or why it is none."""
    try:
        nbytes, time_s = float(size), float(microseconds) * 1e-6
    except ValueError:
        skipped.append(f"{origin}: {size[:20]!r} bytes in {microseconds[:20]!r} us are no numbers")
        return
    if not (0 < nbytes <= MOST_BYTES and 0 < time_s <= MOST_SECONDS):
        skipped.append(f"{origin}: {nbytes:g} bytes in {time_s * 1e6:g} us")
        return
    if not math.isfinite(nbytes * time_s) or group.ranks < 2:
        skipped.append(f"{origin}: nothing is sent among {group.ranks} ranks")
        return
    found.append(Measurement(group, nbytes, time_s, origin))


def _group(
    lines: Sequence[str],
    name: str,
    assumed: Assumed,
    ranks: int | None,
    servers: int | None,
) -> GroupShape:
    """Who took part: what the user says, else what the log says, else what its name says."""
    kind = assumed.kind or _kind_in(lines) or _kind_of(name.rsplit("/", 1)[-1])
    count = assumed.ranks or ranks
    if kind is None or count is None:
        raise _unnamed(name, kind, count)
    return GroupShape(kind, count, assumed.servers or servers or 1)


def _kind_in(lines: Sequence[str]) -> Collective | None:
    """The collective of the first program named `..._perf` or `..._test` in a log."""
    for line in lines:
        program = re.search(r"\b([a-z0-9_]{3,30})_(?:perf|test)\b", line)
        kind = _kind_of(program.group(1)) if program else None
        if kind is not None:
            return kind
    return None


def _kind_of(text: str) -> Collective | None:
    plain = _plain(text)
    return next((_KINDS[each] for each in sorted(_KINDS, key=len)[::-1] if each in plain), None)


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


def _option(lines: Sequence[str], pattern: str) -> int | None:
    """The first number that follows an option of the command line."""
    matches: Iterator[re.Match[str] | None] = (re.search(pattern, line) for line in lines)
    first = next((match for match in matches if match), None)
    return _count(first.group(1)) if first else None


def _count(text: str) -> int | None:
    """A positive whole number, `None` for anything else."""
    if not re.fullmatch(r"\d{1,7}", text):
        return None
    return int(text) if 0 < int(text) <= MOST_RANKS else None


def _microseconds(seconds: str) -> str:
    try:
        return str(float(seconds) * 1e6)
    except ValueError:
        return seconds


def _unnamed(name: str, kind: Collective | None, ranks: int | None) -> CalibrationError:
    what = [
        *([] if kind else ["which collective was measured"]),
        *([] if ranks else ["on how many ranks"]),
    ]
    options = [*([] if kind else ["--kind all_reduce"]), *([] if ranks else ["--ranks 8"])]
    return CalibrationError(
        f"nothing says {' and '.join(what)}", name, f"add {' '.join(options)} to the command"
    )
