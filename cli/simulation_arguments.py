"""What `planner simulate` was asked, as the planner wants it; imported late."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cli.machine_files import machine_file, named_machine
from costmodel.simulation.result import Simulation
from importers.sizes import configuration
from planner.requests.conventional_layouts import DEFAULT_CLUSTER, LayoutOptions
from planner.requests.parameter_servers import served_json, served_layout, served_plan
from planner.requests.simulations import SimulationOptions, reported, simulated
from planner.requests.sources import Document
from topology.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Mapping

    from costmodel.training.records import TrainingRun
    from ir.plan import Plan

__all__ = ["Given", "cluster_of", "layout_options", "model_name", "reported", "served_run"]


class Given(SimulationOptions):
    """The options of one call, as text."""

    __slots__ = ()

    def simulated_plan(self, path: Path) -> Simulation:
        """The simulation of a plan, on its own machine or on another one."""
        plan, other = self._read(path)
        return simulated(plan, self, other)

    def served_plan(self, path: Path) -> dict[str, object]:
        """The same with parameter servers, as a JSON object."""
        plan, other = self._read(path)
        assert self.servers is not None
        return served_json(served_plan(self.placed(plan, other), self.servers))

    def _read(self, path: Path) -> tuple[Plan, Document | None]:
        """The plan, and the other machine that is named."""
        from ir.plan_file import read_plan  # noqa: PLC0415  brings in pydantic

        other = None
        if self.cluster is not None:
            other = machine_file(self.cluster, f"--cluster {self.cluster}")
        return read_plan(path, staged=True), other

    def simulated_layout(self, model: str, layout: LayoutOptions) -> Simulation:
        """The simulation of a conventional layout."""
        return layout.simulated(configuration(model), model_name(model), self)

    def run_of(self, model: str, layout: LayoutOptions) -> TrainingRun:
        """The run that a conventional layout describes."""
        return layout.run(configuration(model), model_name(model))


def served_run(model: str, layout: LayoutOptions, servers: str) -> dict[str, object]:
    """What workers and parameter servers do, as a JSON object."""
    run = layout.run(configuration(model), model_name(model))
    return served_json(served_layout(run, servers))


def layout_options(layout: str, cluster: str | None, said: Mapping[str, str]) -> LayoutOptions:
    """A layout with what was said of it: `precision`, `software`, `optimizer`."""
    return LayoutOptions(layout=layout, cluster=cluster or DEFAULT_CLUSTER, **said)


def model_name(subject: str) -> str:
    """A published name, the name of a file, or of the folder of a config.json."""
    path = Path(subject)
    if path.suffix != ".json":
        return subject
    folder = path.resolve().parent.name
    return folder if path.stem == "config" and folder else path.stem


def cluster_of(name: str, devices: int) -> Cluster:
    """So many devices of a bundled machine, or of one that a cluster file describes."""
    return named_machine(name, f"--cluster {name}").cluster(devices)
