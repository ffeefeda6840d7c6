"""The server layer of machine files: the devices of one server and what joins them."""

from typing import Annotated, Literal, Self, TypeAlias

from pydantic import BeforeValidator, Field, NonNegativeInt, PositiveInt, model_validator
from pydantic_core import PydanticCustomError

from topology.chip_file import ChipFile
from topology.quantities import Bandwidth, Capacity, Duration, Quantity, Ratio, Strict

__all__ = ["GroupRule", "LinkEntry", "NicEntry", "Placement", "ServerFile", "Torus"]

MOST_DEVICES = 9216
"""Devices of one server: the largest torus that is sold has 9216 chips."""

Group: TypeAlias = tuple[NonNegativeInt, ...]


def _as_groups(given: object) -> object:
    """`[0, 1]` is one group; `[[0, 1], [2, 3]]` are two."""
    flat = isinstance(given, (list, tuple)) and bool(given) and isinstance(given[0], int)
    return [given] if flat else given


Groups: TypeAlias = Annotated[tuple[Group, ...], BeforeValidator(_as_groups)]
Members: TypeAlias = Annotated[Literal["all"] | tuple[Group, ...], BeforeValidator(_as_groups)]


class Torus(Strict):
    """A grid of devices whose rows are rings; the last dimension varies fastest."""

    dims: tuple[PositiveInt, ...] = Field(min_length=1, max_length=6)
    wrap: bool | tuple[bool, ...] = True
    """Whether the ends of a row are joined, for all dimensions or for each."""

    devices: Members = "all"

    def wraps(self) -> tuple[bool, ...]:
        """`wrap` of every dimension."""
        return self.wrap if isinstance(self.wrap, tuple) else (self.wrap,) * len(self.dims)


class Shared(Strict):
    """What several links have in common, such as a PCIe switch or a socket."""

    bandwidth: Bandwidth
    per: Literal["direction", "total"] = "direction"
    """`direction`: each direction has so much; `total`: both together."""


GENERATORS = ("full_mesh", "ring", "pairs", "directed", "switch", "torus")


class LinkEntry(Strict):
    """Links of one kind: exactly one generator says between which devices."""

    kind: str
    """`HCCS`, `PCIE`, `NVLINK`, `UB`, `XGMI`, `ICI`, ..."""

    full_mesh: Members | None = None
    """Every two devices of a group."""

    ring: Members | None = None
    """Every device and the next one of its group, and the last and the first."""

    pairs: tuple[Group, ...] | None = None
    """The two devices of every pair."""

    directed: tuple[Group, ...] | None = None
    """One direction only, from the first to the second of every pair."""

    switch: Members | None = None
    """The devices of a group have a port each into a switch of their own."""

    torus: Torus | None = None

    bandwidth: Bandwidth
    """Per direction, of one link or of the port of one device."""

    efficiency: Ratio = Quantity(value="1")
    """Share of the bandwidth that software reaches."""

    latency: Duration
    """From one device to the other; through a switch it counts once."""

    lanes: PositiveInt = 1
    """Parallel links between two devices, or planes of a switch; they work together."""

    via: str | None = None
    """Name of the shared resource that these links draw on."""

    in_network_reduction: bool = False
    """The switch adds up what passes through it."""

    algorithm: str = "auto"
    """Algorithm of collectives over these links, `auto` for the library's choice."""

    @model_validator(mode="after")
    def _one_generator(self) -> Self:
        given = [name for name in GENERATORS if getattr(self, name) is not None]
        if len(given) != 1:
            raise PydanticCustomError(
                "generator",
                "{what}",
                {"what": f"links need exactly one of {', '.join(GENERATORS)}, not {given}"},
            )
        if self.in_network_reduction and self.switch is None:
            raise PydanticCustomError("generator", "only a switch has in_network_reduction")
        return self


class NicEntry(Strict):
    """Network ports of one kind."""

    kind: str
    """`ROCE`, `IB`, `UB`, ..."""

    devices: Literal["each"] | Groups = "each"
    """`each` device has a port of its own, or the devices of a group share one."""

    bandwidth: Bandwidth
    """Per direction, of one port."""

    efficiency: Ratio = Quantity(value="1")
    latency: Duration
    """From one device to one of another server, without the switches between."""

    rails: PositiveInt | None = None
    """Port i is on rail i modulo `rails`; every port has its own rail if this is absent."""

    via: str | None = None
    """Name of the shared resource between device and port."""


class GroupRule(Strict):
    """One allowed set of devices of a server."""

    count: PositiveInt
    inside: str | None = None
    """All inside one group of this name."""

    distance: PositiveInt | None = None
    """In pairs whose numbers differ by this much."""


class Placement(Strict):
    """Which devices belong together: for a job, and for a communication group inside one."""

    on_one_server: tuple[PositiveInt, ...]
    """Numbers of devices that a job on one server may take. Larger jobs take whole servers."""

    job: tuple[GroupRule, ...] = ()
    """For those numbers, which devices they may be; a number without a rule is free."""

    group: tuple[GroupRule, ...] = ()
    """Local devices of a communication group, the same on every server; empty: any."""

    source: tuple[str, ...] = ()
    note: str | None = None


class ServerFile(Strict):
    """One file of `data/servers`: a template of equal servers."""

    schema_version: Literal[2] = 2
    name: str
    title: str = ""
    host: str = ""
    chip: str | ChipFile
    """Name of a chip of this file or of `data/chips`, or a chip in full."""

    devices: int = Field(ge=1, le=MOST_DEVICES)
    """Ranks of the server."""

    package: PositiveInt = 1
    """Devices in one package: two for dies that are ranks of their own."""

    groups: dict[str, tuple[Group, ...]] = Field(default_factory=dict)
    """Sets of devices with the same wiring, such as `ring: [[0, 1, 2, 3], [4, 5, 6, 7]]`. Each
    divides all devices into equal parts; a name becomes a tier of the planner."""

    shared: dict[str, Shared] = Field(default_factory=dict)
    links: dict[str, LinkEntry] = Field(default_factory=dict)
    nics: dict[str, NicEntry] = Field(default_factory=dict)
    host_memory: Capacity | None = None
    """Memory of the host, which the devices share."""

    placement: Placement | None = None
    ring_orders: tuple[Group, ...] = ()
    """Orders of the rings that the communication library uses at the same time."""

    source: tuple[str, ...] = ()
    note: str | None = None
