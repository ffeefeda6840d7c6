"""Small cluster files for tests, and ways to change them."""

from __future__ import annotations

from typing import Any

import yaml

from topology.loading import load_machine
from topology.machine import Machine

SERVER: dict[str, Any] = {
    "chip": "ascend_910b3",
    "devices": 4,
    "links": {
        "mesh": {"kind": "HCCS", "full_mesh": "all", "bandwidth": "28 GB/s", "latency": "2 us"}
    },
    "nics": {"roce": {"kind": "ROCE", "bandwidth": "200 Gb/s", "latency": "8 us"}},
}


def link(kind: str = "HCCS", rate: str = "10 GB/s", **more: Any) -> dict[str, Any]:
    """An entry of links."""
    return {"kind": kind, "bandwidth": rate, "latency": "1 us", **more}


def file(
    server: dict[str, Any] | None = None, count: int | None = 3, **cluster: Any
) -> dict[str, Any]:
    """A cluster file of equal servers named `mine`."""
    entry = {"use": "mine"} | ({} if count is None else {"count": count})
    layer = {"servers": [entry], "fabrics": {"server": {"type": "switch"}}} | cluster
    return {
        "schema_version": 2,
        "name": "ours",
        "servers": {"mine": server or SERVER},
        "cluster": layer,
    }


def alone(links: dict[str, Any], devices: int, **more: Any) -> dict[str, Any]:
    """A cluster file of one server with these links."""
    server = {"chip": "ascend_910b3", "devices": devices, "links": links, **more}
    return file(server, 1, fabrics={})


def machine(given: dict[str, Any]) -> Machine:
    """The machine of a file."""
    return load_machine(yaml.safe_dump(given), "ours.yaml")
