"""How errors are said; which of them the user can mend is the planner's to know."""

from __future__ import annotations

import json
import sys

from planner.requests.errors import UserError, is_user_error, unknown_name

__all__ = ["UserError", "is_user_error", "print_error", "unknown_name"]


LONGEST_LINE = 2_000
"""Characters of a line that are said; names in a model may have any length."""


def print_error(message: str, *, as_json: bool) -> None:
    """Say it on stderr, and on stdout too where a program reads that."""
    message = "\n".join(map(_shortened, message.split("\n")))
    print(f"error: {message}", file=sys.stderr)
    if as_json:
        print(json.dumps({"status": "error", "message": message}))


def _shortened(line: str) -> str:
    """Beginning and end of a line that nobody would read whole."""
    if len(line) <= LONGEST_LINE:
        return line
    return f"{line[: LONGEST_LINE // 2]} ... {line[-LONGEST_LINE // 4 :]}"
