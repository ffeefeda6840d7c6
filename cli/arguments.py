"""Options as text become values; how is the planner's, for the service takes them too."""

from __future__ import annotations

from planner.asking.texts import (
    MAX_DEVICES,
    MAX_SHOWN,
    at_least_one,
    bindings,
    dataset_strategy,
    device_count,
    export_settings,
    memory_bytes,
    one_of,
    pins,
    time_limit_s,
    with_sequence,
)

__all__ = [
    "MAX_DEVICES",
    "MAX_SHOWN",
    "at_least_one",
    "bindings",
    "dataset_strategy",
    "device_count",
    "export_settings",
    "memory_bytes",
    "one_of",
    "pins",
    "time_limit_s",
    "with_sequence",
]
