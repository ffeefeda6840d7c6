"""What `planner simulate` was asked, as the cost model wants it."""

from __future__ import annotations

from pathlib import Path

from cli.errors import UserError
from cli.machine_files import machine_file, named_machine
from costmodel.simulation.result import Simulation
from costmodel.training.records import TrainingRun
from planner.asking.simulation import SimulationOptions, reported, simulated
from topology.cluster import Cluster

__all__ = ["DEFAULT_CLUSTER", "Given", "cluster_of", "reported"]

DEFAULT_CLUSTER = "atlas-800t-a2"


class Given(SimulationOptions):
    """The options of one call, as text."""

    __slots__ = ()

    def simulated_plan(self, path: Path) -> Simulation:
        """The simulation of a plan, on its own machine or on another one."""
        from ir.plan_file import read_plan  # noqa: PLC0415  brings in pydantic

        other = None
        if self.cluster is not None:
            other = machine_file(self.cluster, f"--cluster {self.cluster}")
        return simulated(read_plan(path, staged=True), self, other)

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


def cluster_of(name: str, devices: int) -> Cluster:
    """So many devices of a bundled machine, or of one that a cluster file describes."""
    return named_machine(name, f"--cluster {name}").cluster(devices)
