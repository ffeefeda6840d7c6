"""The communication library of a machine: how it chooses algorithms, and its measured constants."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import data
from topology.errors import ClusterError, unknown_part

__all__ = ["LIBRARIES", "Library", "library_choices", "library_names", "named_library"]

LIBRARIES: Mapping[str, tuple[str, ...]] = {
    "hccl": ("910a", "910b", "910c"),
    "nccl": ("volta", "ampere", "hopper", "blackwell"),
    "rccl": ("",),
    "xla": ("",),
}
"""Generations of hardware that a library tells apart."""
_LATENCIES = ("_start_s", "_step_s", "_fill_s", "_peer_s")
"""How names of its constants end that are seconds."""


@dataclass(frozen=True, slots=True)
class Library:
    """Which library sends, on which generation of hardware, and what was measured of it."""

    name: str
    """`hccl` (Ascend), `nccl`, `rccl`, or `xla` (TPU)."""

    generation: str = ""
    """One of `LIBRARIES[name]`: decides which algorithms the library chooses."""

    profile: str = ""
    """File of `data/calibration/collectives` that the constants are of; empty without any."""

    constants: Mapping[str, float] = field(default_factory=dict, hash=False)
    """Fitted constants by name; `costmodel.collectives` says what each one means."""

    def __post_init__(self) -> None:
        known = LIBRARIES.get(self.name)
        if known is None or self.generation not in known:
            raise ClusterError(
                f"communication library {self.name!r} of generation {self.generation!r}",
                "the library of a cluster",
                f"use one of {', '.join(library_choices())}",
            )

    def slower(self, factor: float) -> Self:
        """The same whose steps take so many times as long."""
        constants = {
            name: value * factor if name.endswith(_LATENCIES) else value
            for name, value in self.constants.items()
        }
        return replace(self, constants=constants)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; `Library(**record)` restores it."""
        return {
            "name": self.name,
            "generation": self.generation,
            "profile": self.profile,
            "constants": dict(sorted(self.constants.items())),
        }


def library_choices() -> tuple[str, ...]:
    """Every library with each of its generations."""
    return tuple(f"{name} {each}".strip() for name, own in LIBRARIES.items() for each in own)


def library_names() -> tuple[str, ...]:
    """Names of the bundled libraries: files of `data/calibration/collectives`."""
    folder = data.files("calibration", "collectives")
    files = (entry.name for entry in folder.iterdir()) if folder.is_dir() else ()
    return tuple(sorted(f.removesuffix(".yaml") for f in files if f.endswith(".yaml")))


def named_library(name: str) -> Library:
    """The bundled library of this name, with its measured constants."""
    known = library_names()
    if name not in known:
        raise unknown_part("communication library", name, known)
    record = data.calibration(f"collectives/{name}")
    constants = {key: float(item["value"]) for key, item in record["constants"].items()}
    return Library(record["library"], record["generation"], name, constants)
