"""What the software of a training step adds to kernels and messages that were measured alone.

A kernel in a step takes longer than alone, or less where it is fused with its neighbours; of a
message that travels beside computation a share shows; the host issues operator by operator. One
profile has these constants for one generation of chips. They were fitted to published training
steps (`benchmarks/plan_steps.py`) within physical limits: products are never faster than measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Self

import data
from costmodel.operators.constants import POOLED, chip_constants, generation_of
from ir.ops import Engine, OperatorEntry
from topology.cluster import Chip

__all__ = [
    "AUTO", "GENERIC", "SoftwareProfile", "basis_notes", "is_basis_note", "is_one_graph",
    "kernel_class", "software_names", "software_profile", "usual_software",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class SoftwareProfile:
    """Constants of a software stack on a generation of chips."""

    name: str = "generic"
    """As `--profile` names it."""
    generation: str = ""
    """Of the chips whose runs the constants were fitted to; empty for none."""
    products: float = 1.0
    """Time of matrix products and convolutions in a step over that alone."""
    attention: float = 1.0
    """The same of fused attention."""
    experts: float = 1.0
    """The same of what routed experts compute, with dispatch and combination of their tokens."""
    streams: float = 1.0
    """The same of all other operators: below 1 where software fuses more than the graph says."""
    gathers_shown: float = 0.0
    """Share of gathers of parameters, and of gradients that are reduced in every micro-batch, that
    shows though computation would hide it: both use the same cores and memory."""
    sync_shown: float = 0.0
    """The same of what is sent once in a step."""
    tensor_hidden: float = 0.0
    """Share of redistributions of activations and of collectives inside operators that hides."""
    host_s: float = 0.0
    """Seconds in which the host issues an operator, in each pass."""
    is_own: bool = False
    """Whether a user's own runs changed it."""

    @property
    def is_neutral(self) -> bool:
        """Whether kernels are as alone, and whatever can hide does."""
        return self == SoftwareProfile(self.name, self.generation)

    def scaled(self, factors: Mapping[str, float]) -> Self:
        """The same with times and shares that show so many times as large, as own runs say.

        Args:
            factors: by constant; `tensor_shown` of what does not hide of activation messages.

        Raises:
            ValueError: one is not above 0, or not finite.
        """
        if not all(0 < factor < math.inf for factor in factors.values()):
            raise ValueError("a factor of a calibration is not a number above 0")
        own = {name: getattr(self, name) * factors.get(name, 1.0) for name in (*KERNELS, "host_s")}
        shown = {name: min(1.0, getattr(self, name) * factors.get(name, 1.0)) for name in _SHOWN}
        left = min(1.0, (1.0 - self.tensor_hidden) * factors.get("tensor_shown", 1.0))
        return replace(self, **own, **shown, tensor_hidden=1.0 - left, is_own=True)

    def on(self, chip: Chip) -> Self:
        """The same where the chip's own cores carry messages: at least so much of them shows."""
        least = 1.0 - chip.overlap
        return replace(self, **{name: max(getattr(self, name), least) for name in _SHOWN})

    def kernels(self, entry: OperatorEntry) -> float:
        """Time of an operator in a step over that alone."""
        return float(getattr(self, kernel_class(entry)))


KERNELS = ("products", "attention", "experts", "streams")
"""Constants of kernels: their time in a step over that alone."""
_SHOWN = ("gathers_shown", "sync_shown")


def kernel_class(entry: OperatorEntry) -> str:
    """The constant that an operator's kernels have."""
    if entry.family == "experts":
        return "experts"
    if entry.engine is Engine.ATTENTION:
        return "attention"
    return "products" if entry.engine in {Engine.MATRIX, Engine.CONVOLUTION} else "streams"


GENERIC = SoftwareProfile()
"""Kernels as measured alone, everything hides that can, and a host that is always ahead."""

_TARGETS: Mapping[str, Mapping[str, str]] = {
    "torch": {"volta": "fsdp", "ampere": "fsdp", POOLED: "torchtitan"},
    "jax": {POOLED: "maxtext"},
}
"""By target and generation the software that runs its plans: torchtitan's runs are of Hopper. A
target that is not there runs what has its name."""
_IDEAL = "ideal"


NOTHING: Mapping[str, float] = MappingProxyType({})
AUTO = "auto"
"""The profile that a target usually has on a machine."""


def software_names() -> tuple[str, ...]:
    """Names of profiles, the neutral one first."""
    return (GENERIC.name, *data.calibration("software")["profiles"])


def usual_software(target: str, chip: Chip) -> str:
    """The profile of a target on a machine; the neutral one for an idealised chip."""
    generation = generation_of(chip.name, chip.family)
    if generation == _IDEAL:
        return GENERIC.name
    usual = _TARGETS.get(target, {})
    own = target if target in software_names() else GENERIC.name
    return usual.get(generation, usual.get(POOLED, own))


def is_one_graph(profile: str) -> bool:
    """Whether software runs a step as one graph, so that the host issues no single operators."""
    stacks = data.calibration("training_profiles")["profiles"]
    return any(each["name"] == profile and each.get("one_graph", False) for each in stacks)


def software_profile(
    name: str, target: str, chip: Chip, own: Mapping[str, float] = NOTHING
) -> SoftwareProfile:
    """The constants of a profile on a chip: those of runs of both, else of all runs on such chips,
    else of all runs.

    Args:
        name: one of `software_names()`, or `auto` for what the target usually has there.
        target: of the plan.
        chip: of the machine.
        own: what a user's own runs say of them; see `SoftwareProfile.scaled`.

    Raises:
        ValueError: there is no such profile.
    """
    found = _shipped(name, target, chip)
    return (found.scaled(own) if own else found).on(chip)


def _shipped(name: str, target: str, chip: Chip) -> SoftwareProfile:
    if name == AUTO:
        name = usual_software(target, chip)
    if name == GENERIC.name:
        return GENERIC
    known: dict[str, Any] = data.calibration("software")
    try:
        own = known["profiles"][name]
    except KeyError:
        names = ", ".join((AUTO, *software_names()))
        raise ValueError(
            f"there is no software profile {name!r}\n  at:  profile\n  fix: use one of {names}"
        ) from None
    generation = generation_of(chip.name, chip.family)
    for record, of in ((own, generation), (known["all"], generation), (known["all"], POOLED)):
        if of in record:
            found = SoftwareProfile(name, "" if of == POOLED else of, **record[of])
            return replace(found, host_s=0.0) if is_one_graph(name) else found
    raise ValueError(f"software profile {name!r} has no constants")


_BASIS = "matmul efficiency: "
_KERNELS = {
    "products": "matrix products", "attention": "attention", "experts": "experts",
    "streams": "memory-bound",
}  # fmt: skip
"""Kinds of kernels in words."""


def basis_notes(chip: Chip, software: SoftwareProfile) -> tuple[str, ...]:
    """What the seconds of a plan's kernels rest on, as notes of it."""
    rates = _BASIS + str(chip_constants(chip).basis)
    if software == GENERIC:
        return (rates,)
    where = f"fitted to runs on {software.generation or 'all generations'}"
    if software.name == GENERIC.name:
        where = "as measured of the machine"
    own = " and to your own" if software.is_own else ""
    times = ", ".join(f"{_KERNELS[name]} {getattr(software, name):.2f}" for name in KERNELS)
    gathers, syncs, hidden = (
        f"{100 * getattr(software, name):.0f} %"
        for name in ("gathers_shown", "sync_shown", "tensor_hidden")
    )
    note = (
        f"software profile {software.name}, {where}{own}: time of kernels in a step over alone: "
        f"{times}; exposed at least: {gathers} of parameter gathers, {syncs} of gradient "
        f"reductions; hidden: {hidden} of tensor-parallel messages; host overhead "
        f"{1e6 * software.host_s:.0f} us per operator"
    )
    return rates, note


def is_basis_note(note: str) -> bool:
    """Whether a note of a plan is one of `basis_notes`."""
    return note.startswith((_BASIS, "software "))
