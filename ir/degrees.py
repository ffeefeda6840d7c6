"""Degrees of parallelism by the names that engineers know."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Degrees"]


@dataclass(frozen=True, slots=True)
class Degrees:
    """How many ways a training step is split, by the names that `--layout` has."""

    tp: int = 1
    """Weights of products are split so many ways."""
    cp: int = 1
    """The tokens of a sequence are."""
    pp: int = 1
    """Stages of the pipeline."""
    vpp: int = 1
    """Chunks of layers that share a stage."""
    dp: int = 1
    """The batch is split so many ways."""
    ep: int = 1
    """Experts are spread over so many of the devices of a stage."""
    zero: int = 0
    """Stage of ZeRO: 1 shares out optimizer states, 2 gradients too, 3 parameters too."""
    positions: int = 1
    """Heights, widths and other dimensions that are neither batch nor tokens."""
    repeated: int = 1
    """Devices that compute the same."""

    @property
    def parts(self) -> tuple[tuple[str, int], ...]:
        """The degrees that split something, in the order of `--layout`."""
        named = ("tp", "cp", "pp", "vpp", "dp", "ep", "positions", "repeated")
        return tuple((name, getattr(self, name)) for name in named if getattr(self, name) > 1)

    def __str__(self) -> str:
        """As `--layout` writes them; degrees of one are left out.

        >>> str(Degrees(dp=8, cp=8, zero=3)), str(Degrees())
        ('cp=8,dp=8,zero=3', 'dp=1')
        """
        parts = self.parts or (("dp", 1),)
        zero = (("zero", self.zero),) if self.zero else ()
        return ",".join(f"{name}={number}" for name, number in (*parts, *zero))
