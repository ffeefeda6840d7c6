"""A sweep over machines and sizes."""

from __future__ import annotations

from pydantic import TypeAdapter

from planner.asking.options import SearchOptions
from planner.whatif.composed import Bench, SweepOptions, sweep_report
from planner.whatif.engines import LocalEngine
from planner.whatif.prices import bundled_prices
from planner.whatif.report_json import answer
from planner.whatif.store import Store
from planner.whatif.sweep import Count
from service.store.queue import Outcome
from service.work.given import Given

_COMMON = TypeAdapter(SearchOptions)
_SWEPT = TypeAdapter(SweepOptions)


def sweep(given: Given) -> Outcome:
    """What `planner whatif --json` prints.

    Raises:
        UserError: an option is wrong.
    """
    common = _COMMON.validate_python(given.request["options"])
    swept = _SWEPT.validate_python(given.request["sweep"])
    files = {name: given.machine_file(name) for name in swept.clusters()}
    named = {name: file for name, file in files.items() if file is not None}

    def watch(count: Count) -> None:
        given.report(f"{count.done} of {count.whole} searches")

    bench = Bench(LocalEngine(1), Store(None), bundled_prices(), watch)
    report = sweep_report(given.model(str(given.request["model"])), common, swept, named, bench)
    return Outcome(answer(report))
