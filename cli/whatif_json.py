"""The one JSON object that `planner whatif --json` prints: that of the service too."""

from __future__ import annotations

from planner.whatif.report_json import answer

__all__ = ["answer"]
