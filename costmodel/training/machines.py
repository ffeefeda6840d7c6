"""Machines of training runs: peaks, bandwidths and links, by name and side by side."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np
import yaml
from numpy.typing import NDArray

import data
from costmodel.operators import MatmulRates, chip_constants
from costmodel.training.records import LayoutError
from topology.catalogue import named_chip, named_machine
from topology.errors import ClusterError
from topology.machine_names import known_machine, known_machines, spelled

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "Machine", "MachineRates", "machine", "machine_called", "machine_of", "machine_rates",
    "machines",
]  # fmt: skip

FloatArray: TypeAlias = NDArray[np.float64]

_FALLBACK = {"mxfp8": "fp8", "bf16": "fp16", "fp8": "bf16", "fp4": "fp8", "fp16": "bf16"}
"""The type whose rate is taken where a chip has none of its own."""

_WORDS = r"(?<![a-z0-9])(?:[0-9]+ ?x ?)?(?:nvidia|ascend|tpu)?(?:{})(?![a-z0-9])"
"""A pattern as whole words; a count such as `8x` or the maker's name may be joined to them."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A kind of server and the network between them."""

    name: str
    family: str
    """Name of the chip."""

    generation: str
    """Chips of one generation share fitted constants."""

    peak_flops: Mapping[str, float]
    """FLOP/s of matrix products by type, without sparsity."""

    shapes: MatmulRates
    """How the rate of matrix products hangs on their shape."""

    stated_bytes: tuple[float, float]
    """Memory of a device that a job may fill, and what is reserved beside it, of a machine that is
    no bundled cluster nor like one."""

    memory_bytes_per_s: float
    server: int
    """Devices that the inner network joins."""

    mesh: bool
    """Whether the inner network is a link for each pair; else every device has a port."""

    link_bytes_per_s: float
    """One link of the mesh, or one port, in one direction."""

    meshed: int
    """Devices of a server that one mesh joins."""

    ring_bytes_per_s: float
    """Rate of collectives over more devices of a server than a mesh joins; 0 where it joins all."""

    link_latency_s: float
    port_bytes_per_s: float
    """Share of one device of its server's ports, in one direction."""

    port_latency_s: float
    sustained: float
    """Rate under load over the peak, relative to the first chip of the generation: power limits
    differ between boards of one chip."""

    products: float
    """Share of the peak that large 16-bit products reach in a long run over that of an A100; 1
    where nobody measured them."""

    aliases: tuple[str, ...]
    """Other names of the machine, such as that of its chip in `data/chips`."""

    patterns: tuple[str, ...]
    """Patterns of the words that name the machine in a text."""

    @property
    def usable_bytes(self) -> float:
        """Memory of a device that a job may fill: what is not reserved, as a search takes it."""
        return self._memory_bytes[0]

    @property
    def reserved_bytes(self) -> float:
        """Memory that the runtime may take beside that."""
        return self._memory_bytes[1]

    @property
    def _memory_bytes(self) -> tuple[float, float]:
        return _cluster_bytes(self.name) or self.stated_bytes

    def flops(self, precision: str) -> float:
        """Rate of products of this type that its power allows."""
        return self.peak(precision) * self.sustained

    def peak(self, precision: str) -> float:
        """Peak rate of products of this type, or of the type that stands in for it."""
        return self.peak_flops[self.product_type(precision)]

    def product_type(self, precision: str) -> str:
        """The type in which products of a type run: its own, or the one that stands in for it."""
        seen = precision
        while seen not in self.peak_flops and seen in _FALLBACK:
            seen = _FALLBACK[seen]
            if seen == precision:
                break
        if seen not in self.peak_flops:
            raise LayoutError(f"{self.family} has no matrix products of type {precision!r}")
        return seen


@dataclass(frozen=True, slots=True)
class MachineRates:
    """Rates of the machines of N runs, each of shape (N,)."""

    flops: FloatArray
    """Peak FLOP/s of products of the run's type."""

    flops16: FloatArray
    """Peak FLOP/s of products of 16-bit operands."""

    products16: FloatArray
    """Share of it that large products reach over that of an A100."""

    shapes: MatmulRates
    """How the rate of products hangs on their shape; each constant of shape (N,)."""

    usable_bytes: FloatArray
    reserved_bytes: FloatArray
    memory_bytes_per_s: FloatArray
    server: FloatArray
    mesh: FloatArray
    link_bytes_per_s: FloatArray
    meshed: FloatArray
    ring_bytes_per_s: FloatArray
    link_latency_s: FloatArray
    port_bytes_per_s: FloatArray
    port_latency_s: FloatArray

    def take(self, rows: NDArray[np.int64]) -> Self:
        """Some of the runs."""
        chosen = {
            item.name: getattr(self, item.name)[rows]
            for item in fields(self)
            if item.name != "shapes"
        }
        shapes = {
            item.name: np.asarray(getattr(self.shapes, item.name))[rows]
            for item in fields(MatmulRates)
        }
        return type(self)(**chosen, shapes=MatmulRates(**shapes))


@cache
def machines() -> Mapping[str, Machine]:
    """All machines by name, in the order in which their patterns are tried."""
    file: Any = yaml.safe_load(data.read_text("calibration", "training_machines.yaml"))
    products: Mapping[str, float] = file["products"]
    return {
        name: _machine(name, entry, products.get(entry["generation"], 1.0))
        for name, entry in file["machines"].items()
    }


def machine(name: str) -> Machine:
    """The machine of this name."""
    if name not in machines():
        raise LayoutError(f"unknown machine {name!r}; known: {', '.join(machines())}")
    return machines()[name]


def machine_called(name: str) -> Machine:
    """The machine of exactly this name, alias or bundled cluster, however it is spelled."""
    try:
        return machines()[known_machine(name).name]
    except ClusterError as error:
        raise _unknown(name) from error


def machine_of(hardware: str) -> Machine:
    """The machine that whole words of a text such as `NVIDIA A100 40GB` name."""
    text = hardware.lower()
    for known in machines().values():
        if any(re.search(_WORDS.format(pattern), text) for pattern in known.patterns):
            return known
    raise _unknown(hardware)


def _unknown(name: str) -> LayoutError:
    known = {spelled(each): each for each in machines()}
    close = get_close_matches(spelled(name), known, n=3, cutoff=0.4)
    nearest = f"; nearest: {', '.join(known[each] for each in close)}" if close else ""
    return LayoutError(
        f"hardware {name[:80]!r} is not in data/calibration/training_machines.yaml{nearest}"
    )


def machine_rates(wanted: Sequence[tuple[str, str]]) -> MachineRates:
    """Rates of the machines of some runs, given by name and type of the products."""
    known = {pair: _rates(*pair) for pair in set(wanted)}
    columns = {
        name: np.array([known[pair][name] for pair in wanted], dtype=np.float64)
        for name in _rates(*wanted[0])
    }
    shapes = [machine(name).shapes for name, _ in wanted]
    table = {
        item.name: np.array([getattr(shape, item.name) for shape in shapes], dtype=np.float64)
        for item in fields(MatmulRates)
    }
    return MachineRates(**columns, shapes=MatmulRates(**table))


def _rates(name: str, precision: str) -> dict[str, float]:
    found = machine(name)
    return {
        "flops": found.flops(precision),
        "flops16": found.flops("bf16"),
        "products16": found.products,
        "usable_bytes": found.usable_bytes,
        "reserved_bytes": found.reserved_bytes,
        "memory_bytes_per_s": found.memory_bytes_per_s,
        "server": found.server,
        "mesh": float(found.mesh),
        "link_bytes_per_s": found.link_bytes_per_s,
        "meshed": found.meshed,
        "ring_bytes_per_s": found.ring_bytes_per_s,
        "link_latency_s": found.link_latency_s,
        "port_bytes_per_s": found.port_bytes_per_s,
        "port_latency_s": found.port_latency_s,
    }


def _shapes(chip: str) -> MatmulRates:
    """Constants of shapes of a bundled chip; large products reach the rate that is passed."""
    rates = chip_constants(named_chip(chip)).matmul.sustained()
    return replace(rates, share=1.0 + float(rates.throttle))


@cache
def _cluster_bytes(name: str) -> tuple[float, float] | None:
    """What a job may fill of a device, and what is reserved beside it, of a bundled cluster."""
    if not known_machines()[name].is_wired:
        return None
    found = named_machine(name).cluster(1)
    return float(found.usable_memory_bytes), float(found.reserved_memory_bytes)


def _machine(name: str, entry: dict[str, Any], products: float) -> Machine:
    link, port = entry["link"], entry["port"]
    whole, reserved = (entry.get(key, 0) * 2.0**30 for key in ("memory_gib", "reserved_gib"))
    return Machine(
        name=name,
        family=entry["family"],
        generation=entry["generation"],
        peak_flops={key: value * 1e12 for key, value in entry["peak_tflops"].items()},
        shapes=_shapes(entry["chip"]),
        stated_bytes=(whole - reserved, reserved),
        memory_bytes_per_s=entry["memory_gb_per_s"] * 1e9,
        server=entry["server"],
        mesh=link["kind"] == "mesh",
        link_bytes_per_s=link["gb_per_s"] * 1e9,
        meshed=link.get("meshed", entry["server"]),
        ring_bytes_per_s=link.get("ring_gb_per_s", 0.0) * 1e9,
        link_latency_s=link["latency_us"] * 1e-6,
        port_bytes_per_s=port["gb_per_s"] * 1e9,
        port_latency_s=port["latency_us"] * 1e-6,
        sustained=float(entry.get("sustained", 1.0)),
        products=products,
        aliases=tuple(entry.get("aliases", ())),
        patterns=tuple(entry["hardware"]),
    )
