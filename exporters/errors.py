"""What an exporter says when its format cannot hold a plan."""

from exporters.mindspore_records import Violation

__all__ = ["ExportError", "Violation"]

_MOST_SHOWN = 10


class ExportError(ValueError):
    """A plan that a target cannot apply: for each reason what it is, where, and how to mend it."""

    def __init__(self, *violations: Violation) -> None:
        shown = [str(violation) for violation in violations[:_MOST_SHOWN]]
        if len(violations) > len(shown):
            shown.append(f"and {len(violations) - len(shown)} more")
        super().__init__("\n".join(shown))
        self.violations = violations
