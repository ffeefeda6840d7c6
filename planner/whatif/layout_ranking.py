"""The fastest conventional layouts of a model on so many devices, as `--layout` writes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial

from costmodel.memory import Optimizer
from costmodel.simulation.layout_simulation import load_of_run
from costmodel.training.calibration import Calibration
from costmodel.training.distinct import distinct_rows
from costmodel.training.machines import machine
from costmodel.training.predict import Prediction, predict
from costmodel.training.records import Attention, Recompute, TrainingLayout, TrainingRun
from costmodel.training.rows import expert_remarks
from costmodel.training.run_rows import row_of
from costmodel.training.sizes import expert_parts
from costmodel.training.stacks import software_flags, usual_attention
from costmodel.training.table import RunTable
from ir.throughput import Rates
from planner.request import InfeasibleError
from planner.requests.calibrations import layout_calibration, layout_note
from planner.requests.conventional_layouts import parsed, run_of_layout
from planner.requests.errors import UserError
from planner.requests.option_texts import MAX_DEVICES, ROBUST
from planner.requests.options.option import check_values
from planner.requests.options.simulations import LayoutOptions, RankingOptions
from planner.whatif.analysis import Prices
from planner.whatif.layouts import PricedLayouts, Report, priced_layouts
from planner.whatif.next_runs import next_runs
from planner.whatif.whole_run import WholeRun, parsed_run
from report.layouts import LayoutFacts, LayoutsReport, NextFacts, RunFacts
from topology.units import format_memory

MORE = 6
"""Doublings of the devices that are tried where nothing fits."""
LOOKED_AT = 8
"""Layouts priced one by one for each that is wanted: software has settings for single ones."""
_HELD = {
    "tp": "tp", "pp": "pp", "vpp": "vpp", "dp": "dp", "cp": "cp", "ep": "ep",
    "micro": "micro_batch", "zero": "zero_stage", "zero-group": "zero_group",
    "sp": "sequence_parallel", "recompute": "recompute",
}  # fmt: skip
_OF_JOB = "mtp"
"""What `--hold` says of the job, not of its layout."""


@dataclass(frozen=True, slots=True)
class RankedLayout:
    """A layout that fits."""

    text: str
    """As `planner simulate --layout` takes it."""
    layout: TrainingLayout
    prediction: Prediction
    memory_bytes: float
    """In use at the peak on the fullest device, beyond what is reserved for the runtime, which
    counters of a framework show too."""
    rates: Rates


@dataclass(frozen=True, slots=True)
class Ranking:
    """Layouts of one job, the fastest first."""

    job: TrainingRun
    devices: int
    priced: PricedLayouts
    """All of them, those that do not fit too."""
    best: tuple[RankedLayout, ...]
    sizes: str
    """What the texts of all layouts end in, such as `batch=64,seq=4096`."""
    notes: tuple[str, ...] = ()
    """On what their constants rest, where the user says it."""
    worth: tuple[tuple[RankedLayout, float], ...] = ()
    """Layouts to measure next, with the share of the step that each is expected to save."""
    run: WholeRun | None = None
    """What is to be trained, where tokens are said."""

    def report(self) -> LayoutsReport:
        """What is told of them."""
        job = self.job
        return LayoutsReport(
            model=job.model.name,
            machine=job.machine,
            software=job.profile,
            optimizer=job.optimizer.value,
            devices=self.devices,
            mtp_layers=job.model.further,
            count=len(self.priced.step_s),
            fitting=int(self.priced.fits.sum()),
            limit_bytes=self.priced.limit_bytes,
            taken_with=self._taken_with(),
            notes=self.notes,
            next_runs=tuple(
                NextFacts(self._facts(each), saves, row_of(run_of(self.job, each, number)))
                for number, (each, saves) in enumerate(self.worth, 1)
            ),
            best=tuple(map(self._facts, self.best)),
            run=self._run(),
        )

    def _run(self) -> RunFacts | None:
        """What the fastest layout says of the whole run."""
        fastest = max((each.rates.tokens_per_s or 0.0 for each in self.best), default=0.0)
        if self.run is None or not fastest:
            return None
        return self.run.facts(self._chip, self.devices, fastest)

    @property
    def _chip(self) -> str:
        return machine(self.job.machine).chip.name

    def _facts(self, each: RankedLayout) -> LayoutFacts:
        found, per_s = _facts(each), each.rates.tokens_per_s
        if self.run is None or not per_s:
            return found
        days = self.run.takes_days(per_s)
        return replace(found, days=days, price=self.run.price(self._chip, self.devices, days))

    def _taken_with(self) -> str:
        """What the layout and its command say of the job."""
        job = self.job
        options = [f"--optimizer {job.optimizer}"] * (job.optimizer is not Optimizer.ADAMW)
        if job.attention != usual_attention(job.profile):
            is_decomposed = job.attention is Attention.UNFUSED
            options.append(f"--attention {'decomposed' if is_decomposed else 'fused'}")
        return " and ".join((self.sizes, *options))


def _facts(each: RankedLayout) -> LayoutFacts:
    own = each.prediction
    return LayoutFacts(
        text=each.text,
        short=layout_text(each.layout, ""),
        degrees=asdict(each.layout.degrees),
        step_s=own.step_s,
        interval_s=None if own.unlike else (own.low_s, own.high_s),
        upper_s=own.upper_s,
        rates=each.rates,
        memory_bytes=each.memory_bytes,
        inherited=own.inherited,
        look_up=own.look_up,
        unlike=own.unlike,
        unmeasured=tuple(own.unmeasured),
    )


def ranked(
    asked: RankingOptions,
    config: Mapping[str, object],
    name: str,
    report: Report = lambda _: None,
    prices: Prices | None = None,
) -> Ranking:
    """The layouts that fit, the fastest first.

    Args:
        asked: the options.
        config: fields of the model's config.json.
        name: of the model.
        report: receives progress.
        prices: of devices, with `asked.tokens`; those of `data/prices.yaml` unless said.

    Raises:
        UserError: an option is wrong, or no layout has what is held.
        ModelError: the configuration lacks a size.
        InfeasibleError: none fits; what would is named.
    """
    check_values(asked)
    run = parsed_run(asked.tokens, asked.days, prices)
    robust = asked.rank == ROBUST
    job, held = _job(asked, config, name), held_of(asked.held)
    known = layout_calibration(asked.calibration, job.machine)
    priced = priced_layouts(job, asked.devices, held, partial(_flags, job), report, known)
    if not len(priced.step_s):
        raise UserError(
            f"no layout of {asked.devices} devices and a batch of {asked.batch} has {asked.held}"
            if asked.held
            else f"a batch of {asked.batch} does not split over {asked.devices} devices",
            "--hold" if asked.held else "--batch",
            "degrees multiply to the devices; tp divides the heads, dp the batch",
        )
    report("choosing the fastest layouts")
    chosen = _distinct(asked, priced)
    if not chosen:
        raise _infeasible(asked, job, priced, held, report)
    found = sorted(
        _one_by_one(asked, job, priced, chosen, known),
        key=lambda e: e.prediction.upper_s if robust else e.prediction.step_s,
    )
    return Ranking(
        job, asked.devices, priced, tuple(found[: asked.top]), _sizes(asked),
        layout_note(asked.calibration, known, job), _worth(job, found, asked.next_runs), run,
    )  # fmt: skip


def _worth(
    job: TrainingRun, found: Sequence[RankedLayout], count: int
) -> tuple[tuple[RankedLayout, float], ...]:
    runs = [run_of(job, each) for each in found] if count else []
    chosen = next_runs(runs, [each.prediction for each in found], count) if count else ()
    return tuple((found[each.number], each.saves) for each in chosen)


def run_of(job: TrainingRun, each: RankedLayout, number: int = 0) -> TrainingRun:
    """The job in a layout of the list, as one of the runs to measure next."""
    name = f"{job.name}-next-{number}"
    return replace(job, name=name, layout=each.layout, flags=_flags(job, each.layout))


def _sizes(asked: RankingOptions) -> str:
    """What a layout says of the job, as `--layout` reads it."""
    further = parsed(asked.held).get(_OF_JOB)
    more = "" if further is None else f",{_OF_JOB}={further}"
    return f"batch={asked.batch},seq={asked.sequence}{more}"


def _job(asked: RankingOptions, config: Mapping[str, object], name: str) -> TrainingRun:
    options = LayoutOptions(
        layout=f"{_sizes(asked)},micro=1",
        cluster=asked.cluster,
        precision=asked.precision,
        profile=asked.profile,
        attention=asked.attention,
        optimizer=asked.optimizer,
    )
    return run_of_layout(options, config, name)


def _distinct(asked: RankingOptions, priced: PricedLayouts) -> list[int]:
    """Numbers of the fastest layouts, one of each set of degrees unless variants are wanted."""
    found = priced.ranked(robust=asked.rank == ROBUST)
    if not asked.variants:
        degrees = priced.layouts[found][:, [0, 1, 2, 3, 5]]
        first, _ = distinct_rows(*degrees.T)
        found = [found[i] for i in sorted(first.tolist())]
    return found[: LOOKED_AT * asked.top]


def _one_by_one(
    asked: RankingOptions, job: TrainingRun, priced: PricedLayouts, chosen: list[int],
    known: Calibration,
) -> Iterator[RankedLayout]:  # fmt: skip
    """As `planner simulate --layout` prices them."""
    layouts = [priced.layout(index, job) for index in chosen]
    runs = [_run_of(job, layout) for layout in layouts]
    used = priced.memory_bytes[chosen].tolist()
    for run, found, memory in zip(runs, predict(runs, (), known), used, strict=True):
        if found.fits:
            rates = Rates(load_of_run(run), found.step_s)
            text = layout_text(run.layout, _sizes(asked))
            yield RankedLayout(text, run.layout, found, memory, rates)


def _infeasible(
    asked: RankingOptions, job: TrainingRun, priced: PricedLayouts, held: Mapping[str, object],
    report: Report,
) -> InfeasibleError:  # fmt: skip
    leanest = int(priced.memory_bytes.argmin())
    text = layout_text(_run_of(job, priced.layout(leanest, job)).layout, _sizes(asked))
    needed, limit = float(priced.memory_bytes[leanest]), priced.limit_bytes
    remedies = [f"the leanest is {text}"]
    for doubled in range(1, MORE + 1):
        devices = asked.devices << doubled
        if devices > MAX_DEVICES:
            break
        rest = {name: value for name, value in held.items() if name != "dp"}
        more = priced_layouts(job, devices, rest, partial(_flags, job), report)
        if len(more.step_s) and more.fits.any():
            remedies.append(f"--devices {devices} is enough")
            break
    what = f"the leanest layout needs {format_memory(needed)} per device of {format_memory(limit)}"
    return InfeasibleError(what, needed, limit, {}, tuple(remedies))


def _run_of(job: TrainingRun, layout: TrainingLayout) -> TrainingRun:
    """The job in a layout, which says how experts are split where its software would otherwise."""
    run = replace(job, layout=layout, flags=_flags(job, layout))
    if not any(expert_remarks(run)):
        return run
    parts = int(expert_parts(RunTable.of([run]))[0])
    return replace(run, layout=replace(layout, etp=parts))


def _flags(job: TrainingRun, layout: TrainingLayout) -> frozenset[str]:
    return software_flags(job.profile, job.machine, job.model.name, layout)


def held_of(text: str) -> dict[str, object]:
    """Fields of a layout that have one value; `mtp` is of the job.

    >>> held_of("tp=8,zero=1,sp,mtp=0")
    {'tp': '8', 'zero_stage': '1', 'sequence_parallel': 1}

    Raises:
        UserError: a part that is not chosen, or no number.
    """
    out: dict[str, object] = {}
    for key, value in parsed(text).items():
        if key == _OF_JOB:
            continue
        if key not in _HELD:
            known = ", ".join((*_HELD, _OF_JOB))
            raise UserError(
                f"{key} is not chosen by this command", f"--hold {text}",
                f"hold some of {known}; batch and length have options of their own",
            )  # fmt: skip
        out[_HELD[key]] = _held_value(key, value, text)
    return out


def _held_value(key: str, value: str, text: str) -> object:
    where = f"--hold {text}"
    if key == "recompute":
        if value not in list(Recompute):
            known = ", ".join(Recompute)
            raise UserError(f"{value!r} is no kind of recomputation", where, f"choose {known}")
        return value
    if key == "sp":
        if value not in {"", "0", "1"}:
            raise UserError(f"sp={value} is neither 0 nor 1", where, "write sp or sp=0")
        return int(value or "1")
    if not (value.isdecimal() and len(value) < 10):
        raise UserError(f"{key}={value[:40]} is no whole number", where, f"write it like {key}=8")
    return value


def layout_text(layout: TrainingLayout, sizes: str | None = None) -> str:
    """A layout as `--layout` reads it; degrees of one are left out.

    Args:
        layout: any whose stages are equal.
        sizes: what all layouts of a job share, to stand at the end; batch and length if not said.
    """
    if sizes is None:
        sizes = f"batch={layout.global_batch},seq={layout.seq_len}"
    parts = [f"{name}={value}" for name, value in layout.degrees.parts]
    parts += [f"etp={layout.etp}"] if layout.etp else []
    parts.append(f"micro={layout.micro_batch}")
    parts += [f"zero={layout.zero_stage}"] if layout.zero_stage else []
    parts += [f"zero-group={layout.zero_group}"] if layout.zero_group else []
    parts += ["sp"] if layout.sequence_parallel else []
    if layout.recompute is not Recompute.NONE:
        parts.append(f"recompute={layout.recompute}")
        if layout.recompute_share < 1:
            parts.append(f"recompute-share={layout.recompute_share!r}")
    return ",".join((*parts, *([sizes] if sizes else [])))
