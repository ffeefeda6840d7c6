"""The JSON object that `planner simulate --json` prints: that of the service too."""

from __future__ import annotations

from planner.asking.simulation_json import answer, variation

__all__ = ["answer", "variation"]
