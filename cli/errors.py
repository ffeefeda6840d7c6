"""How errors are said; which of them the user can mend is the planner's to know."""

from __future__ import annotations

import json
import sys

from planner.asking.errors import UserError, unknown_name
from planner.asking.faults import is_user_error

__all__ = ["UserError", "is_user_error", "print_error", "unknown_name"]


def print_error(message: str, *, as_json: bool) -> None:
    """Say it on stderr, and on stdout too where a program reads that."""
    print(f"error: {message}", file=sys.stderr)
    if as_json:
        print(json.dumps({"status": "error", "message": message}))
