"""What `planner whatif` was asked, as the planner takes it; imported late."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from cli.command_options import WhatifCommand
from cli.errors import UserError
from cli.files import text_of
from cli.machine_files import machine_file
from cli.progress import Progress
from cli.whatif_progress import Remaining
from planner.requests.options.searches import SearchOptions
from planner.requests.options.sweeps import SweepOptions
from planner.requests.sources import Document, model_file
from planner.whatif.analysis import Prices, bundled_prices, read_prices
from planner.whatif.composed import Bench, clusters_of, sweep_report
from planner.whatif.ray_engine import RayEngine
from planner.whatif.report import Report
from planner.whatif.sweep import Store
from planner.whatif.workbench import Engine, LocalEngine

MOST_WORKERS = 8
"""Processes unless more are asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """The options of one call."""

    model: Path
    options: SearchOptions
    swept: SweepOptions
    here: WhatifCommand

    def report(self, progress: Progress) -> Report:
        """The sweep and what follows from it."""
        bench = Bench(self._engine(), Store(self.here.output), self._prices(), Remaining(progress))
        files = {name: machine_file(name, f"--cluster {name}") for name in clusters_of(self.swept)}
        named = {name: file for name, file in files.items() if file is not None}
        progress(f"reading {self.model.name}")
        return sweep_report(model_file(self.model), self.options, self.swept, named, bench)

    def _engine(self) -> Engine:
        workers = self.here.workers
        if self.here.engine == "ray":
            return RayEngine(workers, self.here.address)
        if self.here.address is not None:
            raise UserError(
                "only Ray has an address", f"--address {self.here.address}", "--engine ray"
            )
        return LocalEngine(workers or min(os.cpu_count() or 1, MOST_WORKERS))

    def _prices(self) -> Prices:
        path = self.here.prices
        return bundled_prices() if path is None else read_prices(price_text(path))


def price_text(path: Path) -> Document:
    """The text of a table of prices.

    Raises:
        UserError: it cannot be read.
    """
    fix = "name a table like data/prices.yaml"
    return Document(str(path), text_of(path, f"--prices {path}", fix))
