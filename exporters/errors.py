"""What exporters and readers of their files say of a plan or a file that is wrong."""

from typing import Self

from ir.violations import ViolationError


class ExportError(ViolationError):
    """A plan that a target cannot apply: for each reason what it is, where, and how to mend it."""


class StrategyFileError(ViolationError):
    """A strategy file that cannot be read or written: what is wrong, where, and how to mend it."""

    def inside(self, place: str) -> Self:
        """The same error with the file's name in front of every place."""
        return type(self)(*(each._replace(at=f"{place}, {each.at}") for each in self.violations))


class UnknownOperatorError(StrategyFileError):
    """A strategy of an operator whose distributed form is not known here: it may be right."""
