"""Errors of the machine description: what is wrong, where, and how to mend it."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

__all__ = ["ClusterError", "MachineFileError", "TopologyError", "UnitError", "Violation"]
__all__ += ["unknown_part"]

_MOST_TOLD = 40
"""Violations that an error tells; of more, it tells the number."""


class TopologyError(ValueError):
    """A fault in what the user said about the machine, told in three lines."""

    what: str
    """One line: the fault, with the offending value."""

    where: str
    """The file, field or argument that carries it."""

    fix: str
    """What to write instead."""

    def __init__(self, what: str, where: str, fix: str) -> None:
        super().__init__(what, where, fix)
        self.what = what
        self.where = where
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.what}\n  at:  {self.where}\n  fix: {self.fix}"


class ClusterError(TopologyError):
    """A cluster, mesh or machine file that cannot be."""


def unknown_part(noun: str, name: str, known: Sequence[str]) -> ClusterError:
    """That nothing bundled has this name, with the closest one and all that are known."""
    close = get_close_matches(name.lower(), known, n=1, cutoff=0.4)
    hint = f"did you mean {close[0]!r}? " if close else ""
    what = f"unknown {noun} {name[:80]!r}"
    return ClusterError(what, f"the {noun} name", f"{hint}known: {', '.join(known)}")


@dataclass(frozen=True, slots=True)
class Violation:
    """One fault of a machine file."""

    code: str
    """`E_...` for what makes the file unusable, `W_...` for what is odd; docs/topology.md lists
    them."""

    where: str
    """Path of the field, such as `servers.mine.links.hccs.bandwidth`."""

    message: str
    """What is wrong, with the offending value."""

    def __str__(self) -> str:
        return f"{self.where}: {self.message}"


class MachineFileError(ClusterError):
    """A cluster file with faults: all of them."""

    violations: tuple[Violation, ...]

    def __init__(self, violations: Sequence[Violation], where: str, fix: str) -> None:
        told = [str(each) for each in violations[:_MOST_TOLD]]
        more = len(violations) - len(told)
        told += [f"and {more} more"] if more else []
        super().__init__("; ".join(told), where, fix)
        self.violations = tuple(violations)


class UnitError(TopologyError):
    """A quantity whose number or unit cannot be read."""
