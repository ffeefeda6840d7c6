"""Writes the bundled plan anew: `make sample`."""

from __future__ import annotations

import gzip
from importlib import resources

from planner.requests.options.searches import SearchOptions
from planner.requests.searches import plan_bytes, question
from planner.requests.sources import published_model
from service.sample import FILE, MODEL, OPTIONS


def searched() -> bytes:
    """The plan that a search finds today."""
    options = SearchOptions(devices=OPTIONS["devices"], batch=OPTIONS["batch"])
    return plan_bytes(question(published_model(MODEL), options, None).plan())


def main() -> None:
    """Write it."""
    place = resources.files("data").joinpath(*FILE)
    with resources.as_file(place) as path:
        path.write_bytes(gzip.compress(searched(), mtime=0))


if __name__ == "__main__":
    main()
