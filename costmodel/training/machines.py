"""Machines of training runs: peaks, bandwidths and links, by name and side by side."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from costmodel.operators import AttentionRates, MatmulRates, chip_constants
from costmodel.training.records import LayoutError
from costmodel.training.wiring import Wiring, wiring_of
from topology.catalogue import named_chip, named_machine
from topology.machine_names import KnownMachine, known_machines, spelled
from topology.units import parse_count, parse_ratio

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from topology.chip_file import ChipFile
    from topology.cluster import Chip
    from topology.machine import Machine as ClusterMachine

__all__ = [
    "Machine", "MachineRates", "machine", "machine_of", "machine_rates",
    "machines",
]  # fmt: skip

FloatArray: TypeAlias = NDArray[np.float64]
Rates = TypeVar("Rates", MatmulRates, AttentionRates)

_TYPES = {
    "float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "float8": "fp8", "float4": "fp4",
}  # fmt: skip
"""Types of products as chips name them, and as rows and layouts do."""

USUAL_HOST = 25.6e9
"""Bytes per second to the host of a chip whose file names no such link: those of PCIe 4 x16."""

_FALLBACK = {"mxfp8": "fp8", "bf16": "fp16", "fp8": "bf16", "fp4": "fp8", "fp16": "bf16"}
"""The type whose rate is taken where a chip has none of its own."""

_WORDS = r"(?<![a-z0-9])(?:[0-9]+ ?x ?)?(?:nvidia|ascend|tpu)?(?:{})(?![a-z0-9])"
"""A pattern as whole words; a count such as `8x` or the maker's name may be joined to them."""


@dataclass(frozen=True, slots=True)
class Machine(Wiring):
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

    usable_bytes: float
    """Memory of a device that a job may fill: what is not reserved, as a search takes it."""

    reserved_bytes: float
    """Memory that the runtime may take beside that."""

    memory_bytes_per_s: float

    sustained: float
    """Rate under load over the peak, relative to the first chip of the generation: power limits
    differ between boards of one chip."""

    products: float
    """Share of the peak that large 16-bit products reach in a long run over that of an A100; 1
    where nobody measured them."""

    chip: Chip

    @property
    def alone(self) -> Machine:
        """The same where kernels take what was measured of them alone, as in plans."""
        shapes = chip_constants(self.chip).matmul.smooth()
        return replace(self, sustained=1.0, products=1.0, shapes=shapes)

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
    link_bytes_per_s: FloatArray
    port_bytes_per_s: FloatArray

    attention: AttentionRates
    """Of the fused kernel that the chip usually runs; each constant of shape (N,)."""

    vector_flops: FloatArray

    host_bytes_per_s: FloatArray
    """Over the link to the memory of the host, as copies usually reach."""

    memory_share: FloatArray
    """Of the bandwidth that element-wise kernels alone reach; 1 where what they reach in a step is
    a constant of the software."""

    number: FloatArray
    """Of the machine, in the order of `known_machines()`."""

    def stream_s(self, nbytes: FloatArray) -> FloatArray:
        """Seconds to move so many bytes between memory and cores at the full rate."""
        return nbytes / (self.memory_bytes_per_s * self.memory_share)


class _Machines(Mapping[str, Machine]):
    """Each machine is derived when it is first asked for: pods of thousands take a second."""

    def __getitem__(self, name: str) -> Machine:
        return _bundled(known_machines()[name])

    def __iter__(self) -> Iterator[str]:
        return iter(known_machines())

    def __len__(self) -> int:
        return len(known_machines())


@cache
def _bundled(known: KnownMachine) -> Machine:
    return _derived(known.name, named_machine(known.cluster))


def machines() -> Mapping[str, Machine]:
    """All machines by name."""
    return _Machines()


def machine(name: str) -> Machine:
    """The machine of this name."""
    if name not in machines():
        raise LayoutError(f"unknown machine {name!r}; known: {', '.join(machines())}")
    return machines()[name]


def machine_of(hardware: str) -> Machine:
    """The machine that whole words of a text such as `NVIDIA A100 40GB` name.

    Of several the one whose pattern has most of the text, then the one that comes first in it.
    """
    found = max(_named(hardware.lower()), default=None, key=lambda each: each[:2])
    if found is None:
        raise _unknown(hardware)
    return machine(found[2].name)


def _named(text: str) -> Iterator[tuple[int, int, KnownMachine]]:
    """Machines that a text names: length of the words, their distance before the end."""
    for known in known_machines().values():
        for pattern in known.hardware:
            match = re.search(_WORDS.format(pattern), text)
            if match:
                yield len(match[0]), -match.start(), known


def _unknown(name: str) -> LayoutError:
    known = {spelled(each): each for each in known_machines()}
    close = get_close_matches(spelled(name), known, n=3, cutoff=0.4)
    nearest = f"; nearest: {', '.join(known[each] for each in close)}" if close else ""
    return LayoutError(f"hardware {name[:80]!r} is not in data/chips or data/clusters{nearest}")


def machine_rates(wanted: Sequence[tuple[str, str]], alone: Sequence[bool] = ()) -> MachineRates:
    """Rates of the machines of some runs.

    Args:
        wanted: name of the machine and type of the products of each run.
        alone: for which runs kernels take what they take alone; none by default.
    """
    single = list(alone) or [False] * len(wanted)
    found = [
        machine(name).alone if one else machine(name)
        for (name, _), one in zip(wanted, single, strict=True)
    ]
    chips = [each.chip for each in found]
    numbers = {name: number for number, name in enumerate(known_machines())}

    def column(values: Iterable[float]) -> FloatArray:
        return np.array(list(values), dtype=np.float64)

    def rates_of(kind: type[Rates], of: Sequence[Rates]) -> Rates:
        names = [item.name for item in fields(kind)]
        return kind(**{name: column(getattr(each, name) for each in of) for name in names})

    others = {
        "flops", "flops16", "products16", "shapes", "attention", "vector_flops", "memory_share",
        "host_bytes_per_s", "number",
    }  # fmt: skip
    own = {item.name for item in fields(MachineRates)} - others
    return MachineRates(
        flops=column(each.flops(name) for each, (_, name) in zip(found, wanted, strict=True)),
        flops16=column(each.flops("bf16") for each in found),
        products16=column(each.products for each in found),
        shapes=rates_of(MatmulRates, [each.shapes for each in found]),
        attention=rates_of(AttentionRates, [chip_constants(chip).attention for chip in chips]),
        vector_flops=column(chip.vector_flops for chip in chips),
        host_bytes_per_s=column(chip.host_bandwidth_bytes_per_s or USUAL_HOST for chip in chips),
        memory_share=column(
            chip.memory_efficiency if one else 1.0 for chip, one in zip(chips, single, strict=True)
        ),
        number=column(numbers[name] for name, _ in wanted),
        **{name: column(getattr(each, name) for each in found) for name in own},
    )


def _shapes(profile: ChipFile) -> MatmulRates:
    """Constants of shapes of a chip; large products reach the rate that is passed."""
    other = profile.training.shapes
    chip = profile.to_chip() if other is None else named_chip(other)
    rates = chip_constants(chip).matmul.sustained()
    return replace(rates, share=1.0 + float(rates.throttle))


def _derived(name: str, found: ClusterMachine) -> Machine:
    """What the estimate of a training step takes of a cluster."""
    cluster, wiring = found.cluster(1), wiring_of(found)
    profile = found.profiles[found.entries[0].use]
    chip, rates = cluster.chip, profile.training
    sustained, products = rates.sustained, rates.products
    return Machine(
        name=name,
        family=chip.family,
        generation=profile.generation,
        peak_flops={_TYPES[key]: rate for key, rate in chip.peak_flops.items() if key in _TYPES},
        shapes=_shapes(profile),
        usable_bytes=float(cluster.usable_memory_bytes),
        reserved_bytes=float(cluster.reserved_memory_bytes),
        memory_bytes_per_s=chip.memory_bandwidth_bytes_per_s,
        sustained=parse_count(sustained.value) if sustained else 1.0,
        products=parse_ratio(products.value) if products else 1.0,
        chip=chip,
        **{item.name: getattr(wiring, item.name) for item in fields(Wiring)},
    )
