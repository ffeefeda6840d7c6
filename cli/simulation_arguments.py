"""What `planner simulate` was asked, as the planner takes it; imported late."""

from __future__ import annotations

from pathlib import Path

from cli.machine_files import machine_file, named_machine
from costmodel.simulation.result import Simulation
from costmodel.training.records import TrainingRun
from importers.sizes import configuration
from ir.plan_file import read_plan
from planner.requests.conventional_layouts import run_of_layout, simulated_layout
from planner.requests.options.simulations import LayoutOptions, SimulationOptions
from planner.requests.parameter_servers import served_json, served_layout, served_plan
from planner.requests.simulations import placed, simulated
from planner.requests.sources import Document
from planner.requests.training_models import model_name
from topology.cluster import Cluster

__all__ = [
    "cluster_of",
    "layout_simulation",
    "plan_simulation",
    "run_described",
    "served_by_plan",
    "served_run",
]  # fmt: skip


def plan_simulation(asked: SimulationOptions, path: Path) -> Simulation:
    """The simulation of a plan, on its own machine or on another one."""
    return simulated(read_plan(path, staged=True), asked, _other_machine(asked))


def served_by_plan(asked: SimulationOptions, path: Path) -> dict[str, object]:
    """The same with parameter servers, as a JSON object."""
    assert asked.servers is not None
    moved = placed(asked, read_plan(path, staged=True), _other_machine(asked))
    return served_json(served_plan(moved, asked.servers))


def _other_machine(asked: SimulationOptions) -> Document | None:
    """The file of another machine, if one is named."""
    cluster = asked.cluster
    return None if cluster is None else machine_file(cluster, f"--cluster {cluster}")


def layout_simulation(asked: SimulationOptions, model: str, layout: LayoutOptions) -> Simulation:
    """The simulation of a conventional layout."""
    return simulated_layout(layout, configuration(model), model_name(model), asked)


def run_described(model: str, layout: LayoutOptions) -> TrainingRun:
    """The run that a conventional layout describes."""
    return run_of_layout(layout, configuration(model), model_name(model))


def served_run(model: str, layout: LayoutOptions, servers: str) -> dict[str, object]:
    """What workers and parameter servers do, as a JSON object."""
    return served_json(served_layout(run_described(model, layout), servers))


def cluster_of(name: str, devices: int) -> Cluster:
    """So many devices of a bundled machine, or of one that a cluster file describes."""
    return named_machine(name, f"--cluster {name}").cluster(devices)
