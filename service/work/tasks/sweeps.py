"""A sweep over machines and sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from planner.requests.option_texts import check_drawing
from planner.requests.options.searches import SearchOptions
from planner.requests.options.sweeps import SweepOptions
from planner.requests.sources import Document
from planner.whatif.analysis import Prices, bundled_prices, read_prices
from planner.whatif.composed import Bench, clusters_of, sweep_report
from planner.whatif.report import Report, answer, csv_text
from planner.whatif.sweep import Count, Store
from planner.whatif.workbench import LocalEngine
from service.store.items import NewItem
from service.store.queue import Outcome
from service.work.archive import zipped
from service.work.confinement import share_memory
from service.work.given import Given

PROCESSES = 2
"""That one job may have, as many as a search may use cores."""
KEPT = Path("sweep")
_COMMON = TypeAdapter(SearchOptions)
_SWEPT = TypeAdapter(SweepOptions)


def sweep(given: Given) -> Outcome:
    """What `planner whatif --json` prints, and an archive of the files that it writes.

    Raises:
        UserError: an option is wrong.
    """
    request = given.request
    common = _COMMON.validate_python(request["options"])
    swept, named = _machines(given, _SWEPT.validate_python(request["sweep"]))
    wanted = list(request.get("files", ()))
    if {"svg", "png"}.intersection(wanted):
        check_drawing("files")
    store = Store(KEPT if "plans" in wanted else None)
    bench = Bench(_engine(request), store, _prices(request), _watch(given))
    report = sweep_report(given.model(str(request["model"])), common, swept, named, bench)
    if not wanted:
        return Outcome(answer(report))
    files = dict(_files(report, wanted))
    archive = NewItem("export", "sweep.zip", zipped(files), {"model": str(request["model"])})
    return Outcome({**answer(report), "archive": "$export"}, (archive,))


def _machines(given: Given, swept: SweepOptions) -> tuple[SweepOptions, dict[str, Document]]:
    """The machines that were uploaded, by their own names where these tell them apart."""
    names = clusters_of(swept)
    files = {name: file for name in names if (file := given.machine_file(name)) is not None}
    own = [files[name].name if name in files else name for name in names]
    if len(set(own)) < len(own) or any("," in name for name in own):
        return swept, files
    named = {files[name].name: files[name] for name in files}
    return replace(swept, cluster=",".join(own)), named


def _engine(request: Mapping[str, Any]) -> LocalEngine:
    workers = min(int(request.get("workers", 1)), PROCESSES)
    if workers > 1:
        share_memory(workers)
    return LocalEngine(workers)


def _prices(request: Mapping[str, Any]) -> Prices:
    given = request.get("prices")
    return bundled_prices() if given is None else read_prices(Document(**given))


def _watch(given: Given) -> Callable[[Count], None]:
    def watch(count: Count) -> None:
        given.report(f"{count.done} of {count.whole} {count.of}")

    return watch


def _files(report: Report, wanted: list[str]) -> Iterator[tuple[str, bytes]]:
    """What was asked for, by name in the archive."""
    for kind in wanted:
        if kind == "csv":
            yield "sweep.csv", csv_text(report.points, report.prices).encode()
        elif kind != "plans":
            from planner.whatif.plot import save_plot  # noqa: PLC0415  brings in matplotlib

            path = Path(f"sweep.{kind}")
            save_plot(report.points, report.prices, path, kind, report.changes, report.ranking)
            yield path.name, path.read_bytes()
        else:
            for path in sorted(KEPT.rglob("*.*")):
                yield path.relative_to(KEPT).as_posix(), path.read_bytes()
