"""Ranked layouts as they are told: facts counted once, for text, JSON and pages."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from ir.throughput import Rates
from report.tables import Lines, Part, Table, numbers

GIB = 2.0**30


@dataclass(frozen=True, slots=True)
class LayoutFacts:
    """A layout that fits."""

    text: str
    """As `planner simulate --layout` takes it."""
    short: str
    """The same without what all layouts of the job share."""
    degrees: Mapping[str, int]
    step_s: float
    interval_s: tuple[float, float] | None
    """90 % interval of the step; None where no measured run is like it."""
    upper_s: float
    """Three of four such steps take no longer."""
    rates: Rates
    memory_bytes: float
    """Per device."""
    inherited: str
    look_up: str
    unlike: str
    """Remarks on what stands behind the prediction; empty where there is nothing to say."""
    unmeasured: tuple[str, ...]
    """In what it is beyond the measured runs, which widens the interval."""
    days: float | None = None
    """Of the whole run, where its tokens are said."""
    price: float | None = None
    """Of the whole run, where that of a device is known."""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """A whole run, and what the fastest layout says of it."""

    tokens: float
    days: float | None
    """In which it is to be done; None where nobody says."""
    needed_devices: int | None
    """Where no layout does it: devices that would, if the fastest scaled perfectly."""
    currency: str | None
    """Of prices; None where that of a device is not known."""

    def lines(self) -> Iterator[str]:
        """What is asked, and what it takes if it cannot be done in time."""
        asked = f"run: {self.tokens:.4g} tokens"
        if self.days is None:
            yield f"{asked}; days by the step, without failures"
        elif self.needed_devices is None:
            yield f"{asked} in {self.days:g} days; days by the step, without failures"
        else:
            yield f"{asked} in {self.days:g} days: no layout of the list does it"
            yield f"  it would take {self.needed_devices:,} devices or more"
        if self.currency is None:
            yield "price: not known of these devices; give --prices FILE"


@dataclass(frozen=True, slots=True)
class NextFacts:
    """A layout that is worth measuring."""

    layout: LayoutFacts
    saves: float
    """Share of the step that the best layout is expected to gain once it is measured."""
    row: Mapping[str, str]
    """Its cells by column, as `planner validate` reads them."""


@dataclass(frozen=True, slots=True)
class LayoutsReport:
    """The layouts of a job that are listed, the fastest first."""

    model: str
    machine: str
    software: str
    optimizer: str
    devices: int
    mtp_layers: int
    count: int
    """Of all layouts."""
    fitting: int
    limit_bytes: float
    """Per device."""
    taken_with: str
    """What a layout and its command say of the job."""
    best: tuple[LayoutFacts, ...]
    notes: tuple[str, ...] = ()
    """On what the constants rest, where the user says it."""
    next_runs: tuple[NextFacts, ...] = ()
    """What to measure, the most telling first."""
    run: RunFacts | None = None
    """The whole run, where its tokens are said."""

    def parts(self) -> Iterator[Part]:
        """How many layouts there are, and the fastest that fit."""
        first = (
            f"{self.model}: {self.count:,} layouts on {self.devices:,} x {self.machine}, "
            f"{self.fitting:,} fit into {self.limit_bytes / GIB:.1f} GiB"
        )
        further = (
            f"with multi-token prediction (MTP) layers: {self.mtp_layers} "
            "(--hold mtp=0 for none); the last stage has fewer others for them"
        )
        yield Lines("", (first, *([further] if self.mtp_layers else []), *self.notes))
        yield self.table()
        for each in self.best[:1]:
            upper = "upper: 75th percentile of comparable published runs (--rank)"
            rates = f"/device: tokens/s per device; MFU: of {each.rates.load.peak_text}"
            yield Lines("", (upper, rates, *(self.run.lines() if self.run else ())))
            for remark in filter(None, (each.unlike, each.inherited)):
                yield Lines("", ("", remark), soft_wrap=True)
        moved = [f"{n}: {each.look_up}" for n, each in enumerate(self.best, 1) if each.look_up]
        if moved:
            yield Lines("", ("", *moved), soft_wrap=True)
        told = [f"  {what}" for each in self.best for what in each.unmeasured]
        if told:
            head = ("", "*: outside the range of measured runs, so the interval is wider")
            yield Lines("", (*head, *dict.fromkeys(told)), soft_wrap=True)
        if self.next_runs:
            yield from self._next_parts()

    def _next_parts(self) -> Iterator[Part]:
        """What to measure next, and rows of it."""
        rows = [
            (f"{100 * each.saves:.2g} %", f"{each.layout.step_s:.4g}", _between(each.layout),
             each.layout.short)
            for each in self.next_runs
        ]  # fmt: skip
        title = "Runs that would narrow the ranking most, the most telling first"
        names = numbers("saves", "step s", "90 % interval")
        yield Table.of(title, (*names, "layout"), rows)
        told = "saves: expected of the best layout once this run and those above are measured"
        head = "rows for planner validate and calibrate steps; fill in measured_step_time_s:"
        yield Lines("", (told, "", head))
        yield Lines("", tuple(self.next_table().splitlines()), soft_wrap=True)

    def next_table(self) -> str:
        """Rows of the runs to measure next, as CSV."""
        stream = io.StringIO()
        writer = csv.DictWriter(stream, self.next_runs[0].row, lineterminator="\n")
        writer.writeheader()
        writer.writerows(each.row for each in self.next_runs)
        return stream.getvalue()

    def table(self) -> Table:
        """A row for each layout."""
        rows = [
            (
                f"{each.step_s:.4g}",
                _between(each),
                f"{each.upper_s:.4g}{'*' * bool(each.unmeasured)}",
                f"{each.rates.tokens_per_s or 0:,.0f}",
                f"{each.rates.tokens_per_s_per_device or 0:,.0f}",
                f"{100 * each.rates.utilisation:.1f} %",
                f"{each.memory_bytes / GIB:.1f}",
                *self._of_run(each),
                each.short,
            )
            for each in self.best
        ]
        title = f"Fastest layouts; `planner simulate --layout` takes them with {self.taken_with}"
        names: tuple[str, ...] = (
            "step s",
            "90 % interval",
            "upper",
            "tokens/s",
            "/device",
            "MFU",
            "GiB",
        )
        names += ("days",) * (self.run is not None) + (f"price {self._currency}",) * self._priced
        return Table.of(title, (*numbers(*names), "layout"), rows)

    @property
    def _currency(self) -> str:
        return (self.run.currency if self.run else None) or ""

    @property
    def _priced(self) -> bool:
        return bool(self._currency)

    def _of_run(self, each: LayoutFacts) -> Iterator[str]:
        """Cells of the whole run."""
        if each.days is not None:
            yield f"{each.days:,.1f}"
        if self._priced and each.price is not None:
            yield f"{each.price:,.0f}"

    def record(self, files: Sequence[str]) -> dict[str, object]:
        """One JSON object with the layouts that are listed and the files that were written."""
        return {
            "status": "ok",
            "model": self.model,
            "machine": self.machine,
            "software": self.software,
            "optimizer": self.optimizer,
            "devices": self.devices,
            "mtp_layers": self.mtp_layers,
            "layouts": self.count,
            "fitting": self.fitting,
            "limit_bytes": self.limit_bytes,
            **({} if self.run is None else {"run": asdict(self.run)}),
            "best": [_record(each) for each in self.best],
            "notes": list(self.notes),
            "next_runs": [
                {"layout": each.layout.text, "saves": each.saves, "row": dict(each.row)}
                for each in self.next_runs
            ],
            "files": list(files),
        }


def _between(each: LayoutFacts) -> str:
    return "-" if each.interval_s is None else "{:.4g} to {:.4g}".format(*each.interval_s)


def _record(each: LayoutFacts) -> dict[str, object]:
    low_s, high_s = each.interval_s or (None, None)
    return {
        "layout": each.text,
        "degrees": dict(each.degrees),
        "step_s": each.step_s,
        "low_s": low_s,
        "high_s": high_s,
        "upper_s": each.upper_s,
        **each.rates.record(),
        "memory_bytes": each.memory_bytes,
        **({} if each.days is None else {"days": each.days, "price": each.price}),
        "inherited": each.inherited,
        "look_up": each.look_up,
        "unmeasured": list(each.unmeasured),
        "unlike": each.unlike,
    }
