"""One error for every way in: what is wrong, where, and how to mend it."""

from __future__ import annotations


class ModelError(ValueError):
    """A model that cannot be read; the message has up to three lines: what, `at:` where, `fix:`
    how to mend it.
    """

    def __init__(self, what: str, where: str = "", fix: str = "") -> None:
        self.what, self.where, self.fix = what, where, fix
        lines = [what]
        if where:
            lines.append(f"  at:  {where}")
        if fix:
            lines.append(f"  fix: {fix}")
        super().__init__("\n".join(lines))
