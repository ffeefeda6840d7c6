"""Names of the arguments of JAX functions: what writes a file and what reads it agree on them."""

from __future__ import annotations

import re

HEAD = "// planner:"
"""Begins the first line of a file, which tells the roles of arguments."""
PARAMETERS = frozenset({"params", "parameters", "weights", "variables", "trainable"})
MODULES = frozenset({"model", "module", "net", "network", "self", "state", "layer"})
PART = re.compile(r"\w+")


def short_name(label: str) -> str:
    """A name for people.

    >>> short_name("params['params']['up']['kernel']")
    'up.kernel'
    >>> short_name("x")
    'x'
    """
    parts = PART.findall(label)
    while len(parts) > 1 and parts[0].lower() in PARAMETERS | MODULES:
        parts = parts[1:]
    return ".".join(parts)
