"""The one JSON object that `planner search --json` prints: that of the service too."""

from __future__ import annotations

from planner.asking.plan_json import communicators, dumps, found, nothing_fits

__all__ = ["communicators", "dumps", "found", "nothing_fits"]
