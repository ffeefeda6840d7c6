"""The table of PyTorch's operators. Operators that write in place are those that do not."""

from __future__ import annotations

from importers.traced.operations import FrontEnd, table
from importers.traced.table import Entry


def entry_of(target: str) -> Entry | None:
    """The entry of an operator, in place or not; None if there is none."""
    known = table(FrontEnd.ATEN)
    if target in known:
        return known[target]
    space, _, rest = target.partition(".")
    name, _, overload = rest.partition(".")
    if not name.endswith("_") or name.endswith("__"):
        return None
    return known.get(f"{space}.{name[:-1]}.{overload or 'default'}")
