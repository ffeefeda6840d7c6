"""Links of a row: its columns of numbers, else what its free text says."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from costmodel.training.cells import as_number, cell
from costmodel.training.interconnect import StatedLinks, read_links
from costmodel.training.link_words import BETWEEN, INSIDE, RATE
from costmodel.training.records import LayoutError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from costmodel.training.machines import Machine

__all__ = ["row_links"]

_LEAST, _MOST = 1e6, 1e14
"""Bytes per second that a device can have."""


def row_links(row: Mapping[str, str], machine: Machine, devices: int) -> StatedLinks:
    """What a row states of links and servers.

    Args:
        row: its cells by column.
        machine: on which it ran.
        devices: on which it ran.

    Raises:
        LayoutError: column `servers`, `port_gbit_s` or `link_gbyte_s` is no number that can be.
    """
    server = _server(row, devices, machine.server)
    text = "; ".join((cell(row, "interconnect"), *_noted(row.get("notes", ""))))
    found = read_links(text, machine, server)
    port, link = _stated(row, "port_gbit_s", 1e9 / 8.0), _stated(row, "link_gbyte_s", 1e9)
    if found.server >= devices:
        found = replace(found, server=0)
    if port and link:
        found = replace(found, assumed=(), unread=())
    columns = [
        f"{name}: {rate / 1e9:.4g} GB/s of a device"
        for name, rate in (("port_gbit_s", port), ("link_gbyte_s", link))
        if rate
    ]
    return replace(
        found,
        port_bytes_per_s=port or found.port_bytes_per_s,
        link_bytes_per_s=link or found.link_bytes_per_s,
        read=(*columns, *found.read),
    )


def _stated(row: Mapping[str, str], column: str, unit: float) -> float:
    text = cell(row, column)
    value = as_number(text) * unit if text else 0.0
    if text and not _LEAST <= value <= _MOST:
        raise LayoutError(f"column {column!r} is {text[:40]!r}, no rate of a device")
    return value


def _noted(notes: str) -> Iterator[str]:
    """Parts of notes that state the rate of a link."""
    for part in notes[:20_000].split(";"):
        told = part.partition("[check]")[0]
        rates = [match for match in re.finditer(RATE, told) if not match["bare"]]
        if rates and re.search(f"{INSIDE}|{BETWEEN}", told.lower()):
            yield told


def _server(row: Mapping[str, str], devices: int, usual: int) -> int:
    """Devices of each of several servers where a row states fewer than is usual; else 0.

    A slice of TPUs is such a server too; part of a server is written as 0 or a fraction.
    """
    text = "" if (stated := cell(row, "servers")).lower() == "none" else stated
    servers = as_number(text) if text else 1.0
    if not 0 <= servers <= devices:
        raise LayoutError(f"column 'servers' is {text[:40]!r}, not a number from 0 to {devices}")
    each = math.ceil(devices / max(servers, 1.0))
    return each if each < min(devices, usual) else 0
