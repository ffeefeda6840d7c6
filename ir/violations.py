"""What a format or a target refuses: each thing that is wrong, where, and how to mend it."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Violation", "ViolationError"]

_MOST_SHOWN = 10
_LONGEST_PLACE = 500


def _brief(text: str) -> str:
    return text if len(text) <= _LONGEST_PLACE else f"{text[:_LONGEST_PLACE]} ..."


class Violation(NamedTuple):
    """One thing that is wrong with a file, or with a plan for a target."""

    what: str
    at: str
    fix: str

    def __str__(self) -> str:
        return f"{_brief(self.what)}\n  at:  {_brief(self.at)}\n  fix: {self.fix}"


class ViolationError(ValueError):
    """What was refused, with every reason."""

    def __init__(self, *violations: Violation) -> None:
        shown = [str(violation) for violation in violations[:_MOST_SHOWN]]
        if len(violations) > len(shown):
            shown.append(f"and {len(violations) - len(shown)} more")
        super().__init__("\n".join(shown))
        self.violations = violations
