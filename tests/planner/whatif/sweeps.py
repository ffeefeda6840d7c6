"""Small sweeps."""

from __future__ import annotations

from planner.requests.options.searches import SearchOptions
from planner.requests.sources import ModelSource
from planner.whatif.axes import parse_axes
from planner.whatif.tasks import Asked
from tests.builders import mlp


def asked(axes: str = "devices=2,4,bandwidth=0.5,1", **options: object) -> Asked:
    """Points of two products on parts of an Atlas server."""
    source = ModelSource("mlp", lambda _: mlp(2, batch=32), lambda *_: {})
    return Asked(source, SearchOptions(**options), parse_axes(axes), {})  # type: ignore[arg-type]
