"""What was measured of NCCL on a machine, and what is assumed where nothing was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from topology.errors import ClusterError

__all__ = ["Constants"]


@dataclass(frozen=True, slots=True)
class Constants:
    """Constants of one machine. Shares are of the bandwidth of a device's port as its maker states
    it; starts count once for a collective, steps once for every message that waits for another.

    The defaults are round figures between the machines of `data/calibration/collectives`.
    """

    ll_start_s: float = 6e-6
    """Launch of a collective in LL, the protocol of few bytes: every 8 hold 4 of data."""

    ll_step_s: float = 1e-6
    ll_share: float = 0.3

    ll128_start_s: float = 10e-6
    """Launch of a collective in LL128: 120 of 128 bytes are data."""

    ll128_step_s: float = 2e-6
    ll128_share: float = 0.6

    simple_start_s: float = 10e-6
    """Launch of a collective in Simple, the protocol of many bytes."""

    simple_step_s: float | None = None
    """`None`: the latency of the tier."""

    simple_fill_s: float = 12e-6
    """A chunk's way through one step while the pipeline fills: a collective of few bytes takes no
    less time than this for each of its steps."""

    simple_share: float | None = None
    """`None`: the efficiency of the tier."""

    gather_own: float = 0.6
    """Work on a rank's own piece in an all-gather, in units of sending it at the stated rate."""

    reduce_own: float = 0.6
    """The same in a reduce-scatter or an all-reduce."""

    nvls_start_s: float = 33e-6
    """Launch of an all-reduce that the switches add up."""

    nvls_share: float = 0.5

    exchange_start_s: float = 14e-6
    """Launch of an all-to-all."""

    exchange_peer_s: float = 0.3e-6
    """For every peer of it."""

    exchange_share: float = 0.7

    exchange_own: float = 0.6
    """Work on the piece that stays, as in `gather_own`."""

    exchange_small_start_s: float = 7e-6
    """Launch of an all-to-all of small pieces, sent in LL."""

    exchange_small_share: float = 0.01
    """Of each peer: few channels carry small pieces."""

    network_share: float | None = None
    """Of a port between servers; `None`: the efficiency of the tier."""

    network_step_s: float | None = None
    """In Simple, between servers; `None`: the latency of the tier."""

    network_start_s: float = 0.0
    """Added to the launch where servers take part."""

    @classmethod
    def of(cls, given: Mapping[str, float]) -> Constants:
        """The constants of a library record; those that it lacks have their defaults.

        Raises:
            ClusterError: an unknown name, or a value that is not above zero.
        """
        known = [each.name for each in fields(cls)]
        unknown = sorted(set(given) - set(known))
        low = sorted(name for name, value in given.items() if not 0 <= value < float("inf"))
        if unknown or low:
            raise ClusterError(
                f"constants of the library: {', '.join(unknown or low)}",
                "the library of a cluster",
                f"give numbers from 0 on for some of {', '.join(known)}",
            )
        return cls(**given)
