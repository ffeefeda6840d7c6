"""The bundled machines by name, and machines from the user's own files."""

from functools import cache

import data
from topology.chips import chip_names, chip_profile
from topology.cluster import Chip, Cluster
from topology.errors import ClusterError
from topology.loading import load_machine, machine_of
from topology.machine import Machine
from topology.machine_names import known_machine
from topology.uses import bundled

__all__ = ["chip_names", "cluster_names", "named_chip", "named_cluster", "named_machine"]
__all__ += ["is_machine", "read_cluster", "server_names"]


def cluster_names() -> tuple[str, ...]:
    """Names of the bundled machines."""
    return data.names("clusters")


def server_names() -> tuple[str, ...]:
    """Names of the bundled server templates."""
    return data.names("servers")


def named_chip(name: str) -> Chip:
    """The bundled chip profile of this name, or of the maker's name such as `Ascend910B3`."""
    return chip_profile(name).to_chip()


@cache
def named_machine(name: str) -> Machine:
    """The machine of this name: its servers, links and networks.

    Args:
        name: one of `cluster_names()`, or another name of one, such as `h100` of `dgx-h100`.

    Raises:
        ClusterError: the name is unknown, or the links of the machine are.
    """
    if name in cluster_names():
        return machine_of(bundled("clusters", name), f"clusters/{name}.yaml")
    return named_machine(known_machine(name).cluster)


def is_machine(name: str) -> bool:
    """Whether `named_machine` knows a machine of this name and how its devices are joined."""
    try:
        known_machine(name)
    except ClusterError:
        return False
    return True


def named_cluster(name: str, devices: int) -> Cluster:
    """So many devices of the bundled machine of this name.

    Args:
        name: as `named_machine` takes it.
        devices: part of one server, or whole servers; the machine says which numbers it allows.

    Raises:
        ClusterError: the name is unknown, or a job cannot have so many devices.
    """
    return named_machine(name).cluster(devices)


def read_cluster(text: str, where: str, devices: int | None = None) -> Cluster:
    """The machine of a cluster file, or the part of it that a job of so many devices takes.

    Args:
        text: YAML or JSON in the format of `data/clusters`.
        where: name of the text for errors, such as its file name.
        devices: `None` takes the whole machine, which then must have a size.
    """
    return load_machine(text, where).cluster(devices)
