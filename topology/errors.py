"""Errors of the machine description: what is wrong, where, and how to mend it."""

__all__ = ["ClusterError", "TopologyError", "UnitError"]


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


class UnitError(TopologyError):
    """A quantity whose number or unit cannot be read."""
