"""The published cases, copied with their sources."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PATH = Path(__file__).parents[1] / "data" / "planner_cases.json"


def all_cases() -> dict[str, Mapping[str, Any]]:
    return {case["id"]: case for case in json.loads(PATH.read_text())["cases"]}


def case(name: str) -> Mapping[str, Any]:
    return all_cases()[name]


def expected(name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = case(name)["expected"]
    return found
