"""`--calibration FILE`: what a user's own measurements say of layouts and of plans.

The file is one of `planner calibrate steps`, constants of software by family, or one of `planner
calibrate links`, a cluster file whose links were measured. Layouts have the constants themselves.
Plans have other constants of the same things: theirs change by the same factors, and the links of
their machine do too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING

from costmodel.collectives import Collective, CollectiveModel
from costmodel.software import AUTO, usual_software
from costmodel.training.calibration import Calibration, parse_calibration, shipped_calibration
from costmodel.training.families import family_for, family_of
from costmodel.training.records import LayoutError
from costmodel.training.wiring import wiring_of
from planner.repricing.other_machine import repriced
from planner.requests.errors import UserError
from planner.requests.machines import named_machine
from planner.requests.sources import Document
from topology.catalogue import is_machine
from topology.chips import chip_profile, is_chip
from topology.cluster import Cluster
from topology.loading import load_machine
from topology.machine_names import known_machine
from topology.mesh import tier_mesh
from topology.reading import plain_values

if TYPE_CHECKING:
    from costmodel.training.constants import StepConstants
    from costmodel.training.records import TrainingRun
    from ir.plan import Plan
    from planner.request import SearchRequest
    from planner.requests.machines import JobMachine
    from topology.machine import Machine

__all__ = [
    "job_calibrated", "layout_calibration", "layout_note", "plan_calibrated", "read_calibration",
]  # fmt: skip

_LINK, _PORT = "link", "port"
_WHERE = "--calibration {}"
_FIX = "name a file that `planner calibrate steps -o` or `planner calibrate links -o` wrote"
_LEAST = 1e-6
"""Relative change of a constant below which it is as it was: files have six digits."""


def read_calibration(file: Document, machine: Machine | None) -> Calibration:
    """The constants of a file; of measured links the package's, on links as fast as those.

    Args:
        file: of either command.
        machine: that the job runs on, with the links of the package; None where they are not known.

    Raises:
        UserError: it is of neither, or of links of another machine.
        ClusterError: it is no YAML or JSON, or a cluster file with faults.
    """
    where = _WHERE.format(file.name)
    values = plain_values(file.text, where)
    if "families" in values:
        try:
            return parse_calibration(file.text)
        except LayoutError as error:
            raise UserError(str(error), where, _FIX) from error
    if not {"use", "servers", "cluster"} & set(values):
        raise UserError(f"{file.name} is neither of steps nor of links", where, _FIX)
    measured = load_machine(file.text, file.name)
    if machine is None:
        raise UserError(
            "the links of this machine are its file's own", where, "leave --calibration out"
        )
    return shipped_calibration().wired(*_rates(measured, machine, where))


def _rates(measured: Machine, machine: Machine, where: str) -> tuple[float, float]:
    """Rates of links and of ports over those of the package."""
    chips = [each.cluster(1).chip.name for each in (measured, machine)]
    if chips[0] != chips[1]:
        raise UserError(
            f"it is of links between {chips[0]}, the job runs on {chips[1]}", where,
            f"name a file that was written with --cluster {machine.name}",
        )  # fmt: skip
    (link, port), (own_link, own_port) = (tuple(_slopes(each)) for each in (machine, measured))
    return link / own_link, port / own_port


def _slopes(found: Machine) -> Iterator[float]:
    """Seconds per byte of large gathers inside a server, and between two servers."""
    server = wiring_of(found).server
    for cluster, axis in ((found.cluster(server), -1), (found.cluster(2 * server), 0)):
        mesh = tier_mesh(cluster)
        curve = CollectiveModel(cluster, mesh).curve(
            Collective.ALL_GATHER, (range(len(mesh.axes))[axis],)
        )
        yield curve.slopes[-1]


def layout_calibration(file: Document | None, machine: str) -> Calibration:
    """The constants of a file for layouts on a bundled machine; those of the package without one.

    Raises:
        UserError: the file is of neither command, or does not go with the machine.
    """
    if file is None:
        return shipped_calibration()
    return read_calibration(file, named_machine(known_machine(machine).cluster, "--cluster"))


def layout_note(file: Document | None, known: Calibration, run: TrainingRun) -> tuple[str, ...]:
    """What a file says of the constants of a run, as notes; none without a file."""
    if file is None:
        return ()
    family, _ = family_of(run)
    same = known.constants[family.name] == shipped_calibration().constants[family.name]
    of = f"constants of {family.name}"
    return (f"calibration {PurePath(file.name).name}: {of}{' are those of the package' * same}",)


def plan_factors(
    own: Calibration, profile: str, target: str, cluster: Cluster
) -> tuple[tuple[str, float], ...]:
    """What a calibration says of the software and the links of plans, as `SearchRequest` has it.

    Constants are of families of dense and of routed models. Those of routed ones count for experts;
    for all, where the file changed them alone.

    Args:
        own: the constants of the file.
        profile: of the software, or `auto`.
        target: of the plan.
        cluster: with the chips of the job.
    """
    chip = cluster.chip
    generation = chip_profile(chip.name).generation if is_chip(chip.name) else ""
    name = usual_software(target, chip) if profile == AUTO else profile
    shipped = shipped_calibration().constants
    dense, routed = (family_for(name, generation, kind)[0].name for kind in ("dense", "routed"))
    if own.constants[dense] == shipped[dense]:
        dense = routed
    found = dict(_factors(own.constants[dense], shipped[dense]))
    found["experts"] = _grouped(shipped[routed]) / _grouped(own.constants[routed])
    return tuple(
        (name, round(factor, 6)) for name, factor in found.items() if abs(factor - 1.0) > _LEAST
    )


def _factors(own: StepConstants, known: StepConstants) -> Iterator[tuple[str, float]]:
    """Times and shares that show over those of the package; rates of links and ports."""
    yield "products", known.matmul / own.matmul
    yield "attention", known.attention / own.attention
    yield "streams", known.memory / own.memory
    yield "host_s", _over(own.host_s, known.host_s)
    yield "gathers_shown", _over(own.fetch_shown, known.fetch_shown)
    yield "sync_shown", _over(1.0 - own.dp_hidden, 1.0 - known.dp_hidden)
    yield "tensor_shown", _over(1.0 - own.tp_hidden, 1.0 - known.tp_hidden)
    yield _LINK, own.link / known.link
    yield _PORT, own.port / known.port


def _grouped(constants: StepConstants) -> float:
    """Rate of the products of experts."""
    return constants.matmul * max(constants.grouped, _LEAST)


def _over(own: float, known: float) -> float:
    """A time or a share over that of the package; as it was where one of them is nothing."""
    return own / known if own > 0 and known > 0 else 1.0


def cluster_calibrated(
    cluster: Cluster, factors: Mapping[str, float], server: int | None = None
) -> Cluster:
    """The machine with links and ports of so many times the rate.

    Args:
        cluster: of a job.
        factors: of `plan_factors`.
        server: devices that are joined by links; all but those of the outermost tier if not said.
    """
    if server is None:
        server = cluster.devices // cluster.tiers[0].size if len(cluster.tiers) > 1 else 1 << 30
    joined = 1
    for tier in reversed(cluster.tiers):
        joined *= tier.size
        factor = factors.get(_LINK if joined <= server else _PORT, 1.0)
        if factor != 1.0:
            cluster = cluster.with_bandwidth(tier.name, factor)
    return cluster


def job_calibrated(
    request: SearchRequest, job: JobMachine, named: str | Document, file: Document
) -> tuple[SearchRequest, JobMachine]:
    """A request and its machine with what a file says of software, links and ports.

    Args:
        request: says for which software.
        job: the machine as it was named.
        named: a bundled machine, or a file.
        file: of either command.

    Raises:
        UserError: the file is of neither, or does not go with the machine.
    """
    known = None if job.table is not None else named_machine(named, "--cluster")
    own = read_calibration(file, known)
    factors = plan_factors(own, request.profile, request.target, job.cluster)
    server = None if known is None else wiring_of(known).server
    note = calibration_note(file, factors)
    faster = cluster_calibrated(job.cluster, dict(factors), server)
    return (
        replace(request, calibration=factors),
        replace(job, cluster=faster, notes=(*job.notes, note)),
    )


def plan_calibrated(plan: Plan, cluster: Cluster, file: Document) -> Plan:
    """The plan as it stands, priced anew with what a file says.

    Args:
        plan: searched with a calibration or without.
        cluster: that it runs on: its own, or another with the links of the package.
        file: of either command.

    Raises:
        UserError: the file is of neither, or does not go with the machine.
        RequestError: the plan cannot be priced anew.
    """
    known = named_machine(cluster.name, "") if is_machine(cluster.name) else None
    own, request = read_calibration(file, known), plan.request
    profile, target = str(request.get("profile", "generic")), str(request.get("target"))
    factors = plan_factors(own, profile, target, cluster)
    before: object = request.get("calibration")
    old = dict(before) if cluster.to_dict() == plan.cluster and isinstance(before, list) else {}
    server = None if known is None else wiring_of(known).server
    new = dict(factors)
    change = {name: new.get(name, 1.0) / old.get(name, 1.0) for name in (_LINK, _PORT)}
    asked = {**request, "calibration": [list(pair) for pair in factors]}
    found = repriced(plan, cluster_calibrated(cluster, change, server), asked)
    return replace(found, notes=(*found.notes, calibration_note(file, factors)))


def calibration_note(file: Document, factors: tuple[tuple[str, float], ...]) -> str:
    """What a file changes, as a note of a plan."""
    name = PurePath(file.name).name
    if not factors:
        return f"calibration {name}: nothing of this software and machine differs in it"
    told = ", ".join(f"{what.replace('_', ' ')} x {factor:.3g}" for what, factor in factors)
    return f"calibration {name}: {told}"
