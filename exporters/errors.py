"""What an exporter says when its format cannot hold a plan."""

from ir.violations import ViolationError


class ExportError(ViolationError):
    """A plan that a target cannot apply: for each reason what it is, where, and how to mend it."""
