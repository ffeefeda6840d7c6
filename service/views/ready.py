"""The views that a plan is opened with. Whoever makes or reads a plan makes them too, so that they
are there before anybody asks: to read a large plan again takes longer than to show it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Mapping
from types import MappingProxyType
from typing import Any

from ir.plan import Plan
from service.version import planner_code
from service.views.cache import body_of
from service.views.graph import Level, graph_view
from service.views.summary import summary_view

LOG = logging.getLogger("service.views")
Key = tuple[Hashable, ...]
FOLDED: Key = ("graph", Level.FOLDED, ())
FIRST: Mapping[Key, tuple[str, Callable[[Plan], dict[str, Any]]]] = MappingProxyType(
    {
        ("summary",): ("summary", summary_view),
        FOLDED: ("graph", lambda plan: graph_view(plan, Level.FOLDED)),
    }
)
"""Names under which they are kept, and how they are made, by what is asked of a plan."""


def first_views(plan: Plan) -> dict[str, bytes]:
    """Bodies by the names under which they are kept; one that cannot be made is left to its asker,
    who is told why.
    """
    found = {}
    for key, (_, view) in FIRST.items():
        try:
            found[kept_name(key)] = body_of(view(plan))
        except Exception:
            LOG.exception("a view cannot be made")
    return found


def kept_name(key: Key) -> str:
    """The name under which a view is kept: another planner may make another one."""
    return f"{FIRST[key][0]} {planner_code()}"
