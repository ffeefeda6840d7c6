"""The options of a sweep as text, and what follows from them: the one way, whoever asks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from planner.requests.errors import UserError
from planner.requests.machines import named_machine
from planner.requests.options.option import check_values
from planner.requests.options.searches import SearchOptions
from planner.requests.options.sweeps import SweepOptions
from planner.requests.sources import Document, ModelSource
from planner.whatif.analysis import Prices
from planner.whatif.axes import Axis, check_distinct, list_axis, parse_axes
from planner.whatif.changes import check_share, exact_changes
from planner.whatif.goodput import SECONDS_PER_HOUR, Failures, aftermath
from planner.whatif.report import Report, around, report_of
from planner.whatif.shapes import check_mix, shapes
from planner.whatif.sweep import Store, Watch, run
from planner.whatif.tasks import Asked, sweep_of
from planner.whatif.whole_run import parsed_run
from planner.whatif.workbench import Engine


def failures_of(asked: SweepOptions) -> Failures | None:
    """`None` if nothing is said of failures."""
    if asked.mtbf is None:
        _check_no_failures(asked)
        return None
    return Failures(
        asked.mtbf * SECONDS_PER_HOUR, asked.restart, asked.checkpoint_rate * 1e9,
        asked.repair * SECONDS_PER_HOUR, asked.spares,
    )  # fmt: skip


def _check_no_failures(asked: SweepOptions) -> None:
    usual = SweepOptions()
    for name in ("restart", "checkpoint_rate", "repair", "spares"):
        value = getattr(asked, name)
        if value != getattr(usual, name):
            raise UserError(
                "nothing is said of how often devices fail",
                f"--{name.replace('_', '-')} {value:g}", "add --mtbf HOURS, such as 50000",
            )  # fmt: skip


def clusters_of(asked: SweepOptions) -> tuple[str, ...]:
    """Names of the machines."""
    return tuple(str(value) for value in list_axis("cluster", asked.cluster).values)


def axes_of(
    asked: SweepOptions, common: SearchOptions, dimensions: Callable[[], Collection[str]] = tuple
) -> tuple[Axis, ...]:
    """All axes.

    Args:
        asked: what is swept.
        common: what all points have in common.
        dimensions: names of the open dimensions of the model.

    Raises:
        UserError: one is wrong, or stands twice.
    """
    check_values(asked)
    check_values(common)
    axes = [list_axis("cluster", asked.cluster)]
    if asked.devices is not None:
        axes.append(list_axis("devices", asked.devices))
    for text in asked.vary:
        axes += parse_axes(text, dimensions=dimensions)
    for name, value in (("batch", common.batch), ("sequence", common.sequence)):
        if value is not None:
            axes.append(Axis(name, (value,)))
    check_distinct(axes, "--vary")
    return tuple(axes)


def wanted_days(asked: SweepOptions) -> tuple[float, float] | None:
    """Tokens, and the days in which they are to be done."""
    if asked.tokens is None and asked.days is None:
        return None
    if asked.tokens is None or asked.days is None:
        raise UserError("tokens and days go together", "--tokens, --days", "give both, or neither")
    run = parsed_run(asked.tokens, asked.days)
    return None if run is None else (run.tokens, asked.days)


def check_around(asked: SweepOptions) -> None:
    """Raise `UserError` for a share of costs that cannot be."""
    if asked.around is not None and not 0 < asked.around < 1:
        raise UserError(
            f"costs cannot be wrong by {asked.around:g} of themselves",
            f"--around {asked.around:g}", "give a share such as 0.2",
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Bench:
    """What a sweep is done with."""

    engine: Engine
    store: Store
    prices: Prices
    watch: Watch = lambda _: None
    """Is told how far it is."""


def sweep_report(
    model: ModelSource, common: SearchOptions, options: SweepOptions,
    machine_files: Mapping[str, Document], bench: Bench,
) -> Report:  # fmt: skip
    """The sweep and what follows from it.

    Args:
        model: what is planned.
        common: what all points have in common.
        options: what is swept.
        machine_files: the machines that are no bundled ones, by the names in the options.
        bench: what it is done with.

    Raises:
        UserError: an option is wrong; other errors of `planner.requests.errors` likewise.
    """
    wanted, failures = wanted_days(options), failures_of(options)
    for name in clusters_of(options):
        if name not in machine_files:
            named_machine(name, f"--cluster {name}")
    check_around(options)
    if options.exact_changes is not None:
        check_share(options.exact_changes)
    axes = axes_of(options, common, model.open_dimensions)
    asked = Asked(model, common, axes, machine_files)
    sweep = sweep_of(asked)
    if options.mix is not None:
        check_mix([place for place, _ in sweep.points], options.mix)
        bench.store.wants_plans = True
    known = len(bench.store.known(task.key for task in sweep.tasks))
    points = run(sweep, bench.engine, bench.store, bench.watch)
    searches = (len(sweep.tasks), known)
    report = report_of(
        sweep.model, sweep.axes, points, bench.prices, searches, wanted, options.rank
    )
    if options.exact_changes is not None:
        turns = exact_changes(
            asked, points, options.exact_changes, bench.engine, bench.store, bench.watch
        )
        report = replace(report, changes=turns)
    best = report.best
    if best is None:
        return report
    return replace(
        report,
        around=None if options.around is None
        else around(
            sweep, best.key, options.around, bench.engine, bench.store, bench.watch
        ),
        shapes=None if options.mix is None
        else shapes(sweep, points, options.mix, bench.store, bench.watch),
        aftermath=None if failures is None
        else aftermath(asked, best, failures, bench.store, bench.watch),
    )  # fmt: skip
