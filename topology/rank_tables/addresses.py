"""Network addresses of cards: as written, as numbers, and the segments that they lie in."""

import re
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from topology.rank_tables.findings import Findings
from topology.rank_tables.records import shown

__all__ = ["Address", "address_list", "is_masked", "parsed", "segment"]

Address = IPv4Address | IPv6Address
_PART = r"(?:\d{1,3}|\d{0,2}[xX*]{1,3})"
_MASKED = re.compile(rf"(?=.*[xX*]){_PART}(?:\.{_PART}){{3}}")


def address_list(value: object, where: str, findings: Findings) -> tuple[str, ...]:
    """The addresses of a field: a string, with commas between several. None and "" are none."""
    if value is None or value == "":
        return ()
    if not isinstance(value, str):
        findings.add("E_IP_FORMAT", where, f"device_ip is no string but {shown(value)}")
        return ()
    return tuple(value.removesuffix(",").split(","))


@lru_cache(maxsize=2**17)
def parsed(text: str) -> Address | None:
    """The address; None if it is none, has a scope, or stands for no address.

    >>> parsed("192.168.100.10"), parsed("192.168.100.256"), parsed("0.0.0.0")
    (IPv4Address('192.168.100.10'), None, None)
    """
    try:
        address = ip_address(text)
    except ValueError:
        return None
    scoped = isinstance(address, IPv6Address) and address.scope_id is not None
    return None if scoped or address.is_unspecified else address


def is_masked(text: str) -> bool:
    """Whether it is an IPv4 address of which parts are hidden, as in logs that were published.

    >>> is_masked("10.155.xx.xx"), is_masked("192.168.1.*"), is_masked("10.155.1.300")
    (True, True, False)
    """
    return _MASKED.fullmatch(text) is not None


def sound(texts: Iterable[str]) -> list[Address]:
    """Those of the texts that are addresses."""
    return [address for address in map(parsed, texts) if address is not None]


@lru_cache(maxsize=2**17)
def segment(address: Address, servers: int) -> str:
    """The network segment of an address, among this many servers with two cards in each segment.

    A segment is a /24 (IPv4) or a /64 (IPv6); where a /24 has no room for all servers, as large a
    one as they need.

    >>> segment(IPv4Address("192.168.100.10"), 2), segment(IPv4Address("192.1.3.4"), 200)
    ('192.168.100.0/24', '192.1.2.0/23')
    """
    if isinstance(address, IPv6Address):
        return str(ip_network((address, 64), strict=False))
    bits = max(8, (2 * servers + 1).bit_length())
    return str(ip_network((address, 32 - min(bits, 24)), strict=False))
