"""What `planner simulate` was asked, as the cost model wants it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cli.errors import UserError, unknown_name
from costmodel.simulation.buckets import Fusion, FusionMode
from costmodel.simulation.effects import FUSED_KINDS, Contention, Effects
from costmodel.simulation.plan_simulation import simulate_plan
from costmodel.simulation.result import Simulation
from costmodel.simulation.variation import SHAPES, Distribution, Variation
from costmodel.training.records import TrainingRun
from ir.plan import Plan
from topology.cluster import Cluster

DEFAULT_CLUSTER = "atlas-800t-a2"
MAX_SAMPLES = 1000
_MEBIBYTE = 2**20


@dataclass(frozen=True, slots=True)
class Given:
    """The options of one call, as text."""

    cluster: str | None
    bandwidth: list[str]
    overlap: bool
    contention: str
    fusion: list[str]
    prefetch: int
    interference: float
    jitter: str | None
    spread: str | None
    stragglers: str | None
    samples: int
    seed: int

    def effects(self) -> Effects:
        """Overlap, contention and fusion."""
        if self.prefetch < 0:
            raise UserError(f"--prefetch {self.prefetch}", "--prefetch", "give 0 or more")
        if not 0 <= self.interference < 1:
            raise UserError(
                f"--interference {self.interference:g}", "--interference", "give 0 to below 1"
            )
        modes = [mode.value for mode in Contention]
        if self.contention not in modes:
            raise unknown_name("contention", self.contention, modes, "--contention")
        fusion = dict(_fusion(text) for text in self.fusion)
        mode = Contention(self.contention)
        return Effects(self.overlap, mode, fusion, self.prefetch, self.interference)

    def variation(self) -> Variation:
        """How devices differ."""
        if not 1 <= self.samples <= MAX_SAMPLES:
            raise UserError(f"--samples {self.samples}", "--samples", f"give 1 to {MAX_SAMPLES}")
        count, factor = _stragglers(self.stragglers)
        return Variation(
            _distribution(self.jitter, "--jitter"),
            _distribution(self.spread, "--spread"),
            count,
            factor,
            self.samples,
            self.seed,
        )

    def simulated_plan(self, path: Path) -> Simulation:
        """The simulation of a plan, on its own machine or on another one."""
        from ir.plan_file import read_plan  # noqa: PLC0415  brings in pydantic

        effects, variation = self.effects(), self.variation()
        plan = self._placed(read_plan(path))
        with reported():
            return simulate_plan(plan, effects, variation)

    def simulated_layout(
        self, model: str, layout: str, precision: str, software: str | None
    ) -> Simulation:
        """The simulation of a conventional layout."""
        from cli.layout_arguments import job_options  # noqa: PLC0415
        from costmodel.simulation.layout_simulation import simulate_layout  # noqa: PLC0415

        for given, option in ((self.bandwidth, "--bandwidth"), (self.fusion, "--fusion")):
            if given:
                raise UserError(
                    f"{option} is for plans", "--layout", f"leave {option} out, or give a plan.json"
                )
        effects, variation = self.effects(), self.variation()
        run = self.training_run(model, layout, precision, software)
        with reported():
            return simulate_layout(run, effects, job_options(layout), variation)

    def training_run(
        self, model: str, layout: str | None, precision: str, software: str | None
    ) -> TrainingRun:
        """Model, layout and machine."""
        from cli.layout_arguments import training_run  # noqa: PLC0415

        if layout is None:
            raise UserError(
                "parameter servers serve a layout", "--servers", "add --layout 'dp=16,...' MODEL"
            )
        return training_run(model, layout, self.cluster or DEFAULT_CLUSTER, precision, software)

    def _placed(self, plan: Plan) -> Plan:
        """The plan on the machine that was asked for."""
        if self.cluster is None and not self.bandwidth:
            return plan
        from planner.moving import moved  # noqa: PLC0415  brings in the planner

        machine = Cluster.from_dict(plan.cluster)
        if self.cluster is not None:
            machine = cluster_of(self.cluster, plan.devices)
        for text in self.bandwidth:
            machine = machine.with_bandwidth(*_bandwidth(text))
        return moved(plan, machine)


@contextmanager
def reported() -> Iterator[None]:
    """What the cost model cannot simulate, as the user's fault."""
    from costmodel.simulation.result import SimulationError  # noqa: PLC0415

    try:
        yield
    except SimulationError as error:
        what, _, rest = str(error).partition("\n")
        where = re.search(r"at:  (.*)", rest)
        fix = re.search(r"fix: (.*)", rest)
        raise UserError(
            what, where.group(1) if where else "", fix.group(1) if fix else ""
        ) from error


def cluster_of(name: str, devices: int) -> Cluster:
    """So many devices of a bundled machine, or of one that a cluster file describes."""
    from cli.machine_files import named_machine  # noqa: PLC0415  brings in pydantic

    return named_machine(name, f"--cluster {name}").cluster(devices)


def _number(text: str, option: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UserError(f"{text!r} is no number", option, "write it like 1.5") from None


def _bandwidth(text: str) -> tuple[str, float]:
    tier, equals, factor = text.partition("=")
    if not equals:
        raise UserError(f"{text!r} names no factor", "--bandwidth", "write it like server=2")
    return tier, _number(factor, "--bandwidth")


def _fusion(text: str) -> tuple[str, Fusion]:
    """One `--fusion`."""
    kind, _, rest = text.partition("=")
    mode, _, value = rest.partition(":")
    if kind not in FUSED_KINDS:
        raise unknown_name("kind of collective", kind, FUSED_KINDS, f"--fusion {text}")
    modes = [m.value for m in FusionMode]
    if mode not in modes:
        raise unknown_name("mode", mode, modes, f"--fusion {text}")
    if mode == FusionMode.AUTO:
        return kind, Fusion()
    if mode == FusionMode.SIZE:
        size = _number(value, "--fusion")
        if not 0 <= size < 1 << 30:
            raise UserError(f"a bucket of {value} MiB", "--fusion", "give 0 (no fusion) or more")
        return kind, Fusion(FusionMode.SIZE, int(size * _MEBIBYTE))
    return kind, _index_fusion(kind, value, text)


def _index_fusion(kind: str, value: str, text: str) -> Fusion:
    if kind != "all_reduce":
        raise UserError(f"{kind} is not fused by index", f"--fusion {text}", "use auto or size:MIB")
    splits = tuple(int(n) for n in value.split(",") if n.isdecimal() and len(n) < 10)
    if len(splits) != len(value.split(",")) or sorted(set(splits)) != list(splits):
        raise UserError(
            f"{value!r} is no list of ascending indices",
            f"--fusion {text}",
            "write it like all_reduce=index:20,35",
        )
    return Fusion(FusionMode.INDEX, splits=splits)


def _distribution(text: str | None, option: str) -> Distribution | None:
    if text is None:
        return None
    shape, _, width = text.partition(":")
    if shape not in SHAPES:
        raise unknown_name("distribution", shape, SHAPES, f"{option} {text}")
    try:
        return Distribution(shape, _number(width, option))
    except ValueError as error:
        raise UserError(str(error), option, "write it like lognormal:0.03") from error


def _stragglers(text: str | None) -> tuple[int, float]:
    if text is None:
        return 0, 1.0
    found = re.fullmatch(r"(\d{1,9})x(\d{1,6}(?:\.\d{1,9})?)", text)
    if found is None or float(found.group(2)) < 1:
        raise UserError(
            f"{text!r} does not say how many devices are how much slower",
            "--stragglers",
            "write it like 2x1.3: two devices take 1.3 times as long",
        )
    return int(found.group(1)), float(found.group(2))
