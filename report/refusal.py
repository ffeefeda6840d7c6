"""That no plan fits into memory, why, and what would: raised, and told as text and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field

from ir.plan_estimate import Baseline
from report.plan_tables import baseline_table
from report.tables import Lines, Part
from topology.units import format_bytes

MOST_LISTED = 12


@dataclass(eq=False)
class InfeasibleError(Exception):
    """No plan fits into the memory of the devices. Bytes are of one device."""

    what: str
    needed_bytes: float
    available_bytes: float
    contributors: Mapping[str, float]
    """Bytes by cause, largest first."""
    remedies: tuple[str, ...]
    baselines: tuple[Baseline, ...] = ()
    interrupted: bool = field(default=False, kw_only=True)
    """The user ended the look for remedies (Ctrl-C)."""
    out_of_time: bool = field(default=False, kw_only=True)
    """The time limit ended it."""

    def __str__(self) -> str:
        return self.what

    def reason(self) -> Lines:
        """Why nothing fits."""
        prefix = "" if self.what.startswith("no plan ") else "no plan fits: "
        needed, available = format_bytes(self.needed_bytes), format_bytes(self.available_bytes)
        largest = list(self.contributors.items())[:MOST_LISTED]
        lines = [
            prefix + self.what,
            f"  needed on each device {needed}, available {available}",
            *(["  largest contributors on each device:"] if largest else []),
            *(f"    {cause}: {format_bytes(nbytes)}" for cause, nbytes in largest),
        ]
        return Lines("", tuple(lines))

    def remedy(self) -> Iterator[Part]:
        """What would make it fit, and what known schemes would take."""
        ended = (
            (self.interrupted, "interrupted: not everything was tried that could make it fit"),
            (
                self.out_of_time,
                "the time limit ended the look for what would make it fit: raise --time-limit",
            ),
            (bool(self.remedies), "what would make it fit:"),
        )
        told = [f"  {text}" for is_so, text in ended if is_so]
        yield Lines("", (*told, *(f"    {each}" for each in self.remedies)))
        yield baseline_table(self.baselines, None)

    def record(self) -> dict[str, object]:
        """The same as values of JSON."""
        return {
            "memory_limit_bytes": self.available_bytes,
            "memory_by_cause": dict(self.contributors),
            "baselines": [asdict(each) for each in self.baselines],
            "needed_bytes": self.needed_bytes,
            "available_bytes": self.available_bytes,
            "remedies": list(self.remedies),
            "message": self.what,
        }
