"""The cluster layer of machine files: how many servers of which kind, and their network."""

from collections.abc import Mapping
from typing import Literal, Self

from pydantic import Field, PositiveInt, model_validator
from pydantic_core import PydanticCustomError

from topology.chip_file import ChipFile
from topology.quantities import Bandwidth, Capacity, Confidence, Duration, Strict
from topology.server_file import ServerFile

__all__ = ["ClusterFile", "ClusterLayer", "FabricEntry", "LibraryEntry", "ServersEntry"]
__all__ += ["ordered_fabrics"]

MOST_SERVERS = 2**20
MOST_KINDS = 64
"""Templates of one file."""


class ServersEntry(Strict):
    """Servers of one kind."""

    use: str
    """Name of a server of this file or of `data/servers`."""

    count: int | None = Field(default=None, ge=1, le=MOST_SERVERS)
    """`null`: as many as the job needs."""

    max_count: int | None = Field(default=None, ge=1, le=MOST_SERVERS)
    """Most servers if `count` is `null`."""

    names: str | tuple[str, ...] | None = None
    """`node-[0-15]`, or the names one by one."""


class FabricEntry(Strict):
    """A network between servers, or between the parts that the network before it joins."""

    type: Literal["switch", "leaf_spine", "rail_optimized", "rails"]
    """`switch` never blocks; `leaf_spine` has leaves with uplinks to one spine; `rail_optimized`
    has a leaf for every rail; `rails` has no spine, so that other rails are reached through the
    server."""

    nic: str | None = None
    """Ports that it joins; may be absent if servers have one kind."""

    servers: PositiveInt | None = None
    """Most servers that one such network joins, a multiple of what the networks inside it join;
    `null` for all."""

    servers_per_leaf: PositiveInt | None = None
    uplinks: PositiveInt | None = None
    """Links from one leaf to the spine."""

    uplink_bandwidth: Bandwidth | None = None
    """Per direction, of one uplink."""

    oversubscription: float | None = Field(default=None, ge=1, le=1000)
    """Bandwidth of a leaf's ports over that of its uplinks, instead of both."""

    hop_latency: Duration | None = None
    """Of each switch on the way, besides the latency of the ports."""

    in_network_reduction: bool = False
    algorithm: str = "auto"

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        leafy = self.type in ("leaf_spine", "rail_optimized", "rails")
        spine = self.type in ("leaf_spine", "rail_optimized")
        given = self.uplinks is not None, self.uplink_bandwidth is not None
        faults = []
        if self.type == "leaf_spine" and self.servers_per_leaf is None:
            faults.append("leaf_spine needs servers_per_leaf")
        if self.servers_per_leaf is not None and not leafy:
            faults.append("a switch has no leaves")
        if not spine and (any(given) or self.oversubscription is not None):
            faults.append(f"{self.type} has no uplinks")
        if given[0] != given[1]:
            faults.append("uplinks and uplink_bandwidth belong together")
        if any(given) and self.oversubscription is not None:
            faults.append("give oversubscription or uplinks, not both")
        if faults:
            raise PydanticCustomError("fabric", "{what}", {"what": "; ".join(faults)})
        return self


class Measured(Strict):
    """A constant of a library, with its origin; a bare number stands for its value alone."""

    value: float = Field(ge=0, allow_inf_nan=False)
    """In seconds, or a share."""

    interval: tuple[float, float] | None = None
    """In which the value lies with 95 %."""

    measurements: int | None = None
    """How many depend on it."""

    source: tuple[str, ...] = ()
    confidence: Confidence = "stated"
    note: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _accept_a_bare_value(cls, given: object) -> object:
        return given if isinstance(given, (Mapping, Measured)) else {"value": given}


class LibraryEntry(Strict):
    """The communication library of the cluster."""

    name: str
    """`hccl`, `nccl`, `rccl` or `xla`."""

    generation: str = ""
    profile: str | None = None
    """File of `data/calibration/collectives` with its measured constants."""

    constants: dict[str, Measured] = Field(default_factory=dict)
    """Constants of the user's own measurements, instead of a profile; `planner calibrate links`
    writes them."""


class ClusterLayer(Strict):
    """Servers and what joins them."""

    servers: tuple[ServersEntry, ...] = Field(min_length=1, max_length=MOST_KINDS)
    fabrics: dict[str, FabricEntry] = Field(default_factory=dict)
    """By the name of a tier: what the network joins, `server` or `pod`. The one that joins fewer
    servers is the inner one."""

    reserved_memory: Capacity | None = None
    communicator_buffers: Capacity | None = None
    """What a device holds for every communication group that it is in."""

    library: LibraryEntry | None = None


class ClusterFile(Strict):
    """One file of `data/clusters`, or a user's own, after every `use` is filled in."""

    schema_version: Literal[2]
    name: str
    title: str = ""
    known_as: str = ""
    """Name in tables of published runs and of fitted constants; `name` where it is empty."""

    aliases: tuple[str, ...] = ()
    """Other names that commands take."""

    hardware: tuple[str, ...] = ()
    """Lower-case patterns of whole words that name the cluster in a text, as those of a chip."""

    usual: bool = False
    """Whether names of its chip stand for it, where several bundled clusters have that chip."""

    chips: dict[str, ChipFile] = Field(default_factory=dict)
    servers: dict[str, ServerFile] = Field(max_length=MOST_KINDS)
    cluster: ClusterLayer
    source: tuple[str, ...] = ()
    note: str | None = None


def ordered_fabrics(layer: ClusterLayer) -> list[tuple[str, FabricEntry]]:
    """The networks of a cluster, the innermost first."""
    return sorted(
        layer.fabrics.items(), key=lambda item: (item[1].servers is None, item[1].servers or 0)
    )
