"""The bundled machines by name, and machines from the user's own files."""

from collections.abc import Sequence
from difflib import get_close_matches

import data
from topology.cluster import Chip, Cluster
from topology.errors import ClusterError
from topology.schema import ChipFile, ClusterFile, chip_file, cluster_file

__all__ = ["chip_names", "cluster_names", "named_chip", "named_cluster", "read_cluster"]


def chip_names() -> tuple[str, ...]:
    """Names of the bundled chip profiles."""
    return data.names("chips")


def cluster_names() -> tuple[str, ...]:
    """Names of the bundled machines."""
    return data.names("clusters")


def named_chip(name: str) -> Chip:
    """The bundled chip profile of this name, or of the maker's name such as `Ascend910B3`."""
    known = chip_names()
    if name in known:
        return _chip_file(name).to_chip()
    for file in map(_chip_file, known):
        if name.lower() in map(str.lower, file.aliases):
            return file.to_chip()
    raise _unknown(name, known, "chip")


def named_cluster(name: str, devices: int) -> Cluster:
    """So many devices of the bundled machine of this name.

    Args:
        name: one of `cluster_names()`.
        devices: part of one server, or whole servers; the machine says which numbers it allows.

    Raises:
        ClusterError: the name is unknown, or a job cannot have so many devices.
    """
    if name not in cluster_names():
        raise _unknown(name, cluster_names(), "cluster")
    file = cluster_file(data.read_text("clusters", f"{name}.yaml"), f"clusters/{name}.yaml")
    return file.to_cluster(_chip(file), devices)


def read_cluster(text: str, where: str, devices: int | None = None) -> Cluster:
    """The machine of a cluster file, or the part of it that a job of so many devices takes.

    Args:
        text: YAML in the format of `data/clusters`.
        where: name of the text for errors, such as its file name.
        devices: `None` takes the whole machine, which then must have a size.
    """
    file = cluster_file(text, where)
    count = file.max_devices if devices is None else devices
    if count is None:
        raise ClusterError(
            f"the size of tier {file.tiers[0].name!r} is open",
            where,
            "say how many devices the job takes, or give the tier a size",
        )
    return file.to_cluster(_chip(file), count)


def _chip(file: ClusterFile) -> Chip:
    return named_chip(file.chip) if isinstance(file.chip, str) else file.chip.to_chip()


def _chip_file(name: str) -> ChipFile:
    return chip_file(data.read_text("chips", f"{name}.yaml"), f"chips/{name}.yaml")


def _unknown(name: str, known: Sequence[str], noun: str) -> ClusterError:
    close = get_close_matches(name.lower(), known, n=1, cutoff=0.4)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return ClusterError(
        f"unknown {noun} {name!r}", f"the {noun} name", f"{hint}known: {', '.join(known)}"
    )
