"""Quantities with units, to and from SI floats.

Links and rates are decimal (1 GB/s = 1e9 bytes per second), memory is written in binary units
(1 GiB = 2**30 bytes) or, where a maker says so, in decimal ones (141 GB).
"""

import math
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from topology.errors import UnitError

__all__ = [
    "format_bandwidth",
    "format_bytes",
    "format_count",
    "format_flops",
    "format_seconds",
    "parse_bandwidth",
    "parse_bytes",
    "parse_count",
    "parse_flops",
    "parse_hertz",
    "parse_ratio",
    "parse_seconds",
    "parse_watts",
]

_DECIMAL = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50}

_BYTES = {f"{prefix}B": factor for prefix, factor in (_DECIMAL | _BINARY).items()}
_BITS = {f"{prefix}b": factor / 8 for prefix, factor in _DECIMAL.items()}
_BANDWIDTH = {f"{unit}/s": factor for unit, factor in (_BYTES | _BITS).items()}
_FLOPS = {
    f"{prefix}{unit}": factor for prefix, factor in _DECIMAL.items() for unit in ("FLOP/s", "OP/s")
}
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9, "min": 60.0, "h": 3600.0}
_RATIO = {"": 1.0, "%": 0.01}
_COUNT = {"": 1.0}
_HERTZ = {f"{prefix}Hz": factor for prefix, factor in _DECIMAL.items()}
_WATTS = {f"{prefix}W": _DECIMAL[prefix] for prefix in ("", "k", "M")}

_QUANTITY = re.compile(
    r"\s*(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(?P<unit>\S*)\s*"
)
_MOST_CHARACTERS = 64
"""Longer texts are no quantity; they are not searched for one."""

_PRECISION = 4
"""Significant digits of a formatted quantity: enough to compare, few enough to read."""


def parse_bytes(text: str) -> float:
    """Bytes of a capacity such as `64 GiB` or `141 GB`.

    >>> parse_bytes("64 GiB")
    68719476736.0
    """
    return _parse(text, _BYTES, "a capacity", "64 GiB")


def parse_bandwidth(text: str) -> float:
    """Bytes per second of a rate such as `30 GB/s` or `200 Gb/s` (small b: bits).

    >>> parse_bandwidth("200 Gb/s")
    25000000000.0
    """
    return _parse(text, _BANDWIDTH, "a bandwidth", "30 GB/s")


def parse_flops(text: str) -> float:
    """Operations per second of a rate such as `256 TFLOP/s` or `512 TOP/s`."""
    return _parse(text, _FLOPS, "a rate of arithmetic", "256 TFLOP/s")


def parse_seconds(text: str) -> float:
    """Seconds of a duration such as `5 us`."""
    return _parse(text, _SECONDS, "a duration", "5 us")


def parse_ratio(text: str) -> float:
    """A plain number between 0 and 1, or a percentage.

    >>> parse_ratio("65 %")
    0.65
    """
    ratio = _parse(text, _RATIO, "a ratio", "0.65")
    if ratio > 1:
        raise UnitError(f"the ratio {text!r} is above 1", "a ratio", 'write "0.65" or "65 %"')
    return ratio


def parse_count(text: str) -> float:
    """A plain number, such as that of cores."""
    return _parse(text, _COUNT, "a plain number", "32")


def parse_hertz(text: str) -> float:
    """Cycles per second of a clock such as `1.8 GHz`."""
    return _parse(text, _HERTZ, "a frequency", "1.8 GHz")


def parse_watts(text: str) -> float:
    """Watts of a power such as `350 W`."""
    return _parse(text, _WATTS, "a power", "350 W")


_PICOSECOND = 1e-12


def without_rounding(part: float, whole: float) -> float:
    """A difference of sums, or zero where it is so small a part of them that it is rounding.

    >>> without_rounding(-1.4e-20, 0.003), without_rounding(2e-6, 0.003)
    (0.0, 2e-06)
    """
    return 0.0 if abs(part) <= _ROUNDING * abs(whole) else part


_ROUNDING = 1e-12
"""Relative error of sums over some thousand tasks, with room."""


def format_bytes(nbytes: float) -> str:
    """Bytes in binary units.

    >>> format_bytes(12.3 * 2**30)
    '12.3 GiB'
    """
    steps = [(factor, f"{prefix}B") for prefix, factor in _BINARY.items()]
    return _format(nbytes, [(1.0, "B"), *steps])


def format_memory(nbytes: float) -> str:
    """Bytes of a device: GiB with one digit, or a smaller unit where these would say little.

    >>> format_memory(199.66 * 2**30), format_memory(58 * 2**30), format_memory(40 * 2**10)
    ('199.7 GiB', '58.0 GiB', '40 KiB')
    """
    return f"{nbytes / 2**30:,.1f} GiB" if nbytes >= 2**30 else format_bytes(nbytes)


def format_count(count: int, noun: str, ending: str = "s") -> str:
    """A number of things.

    >>> format_count(1, "stage"), format_count(2, "micro-batch", "es")
    ('1 stage', '2 micro-batches')
    """
    return f"{count:,} {noun}{'' if count == 1 else ending}"


def format_seconds(time_s: float) -> str:
    """Seconds in the unit that keeps the number readable; less than a picosecond is rounding.

    >>> format_seconds(1.2341), format_seconds(0.0123), format_seconds(2e-6), format_seconds(1e-17)
    ('1.234 s', '12.3 ms', '2 us', '0 s')
    """
    time_s = 0.0 if abs(time_s) < _PICOSECOND else time_s
    return _format(time_s, [(1e-9, "ns"), (1e-6, "us"), (1e-3, "ms"), (1.0, "s")])


def format_bandwidth(bandwidth_bytes_per_s: float) -> str:
    """Bytes per second in decimal units.

    >>> format_bandwidth(28e9)
    '28 GB/s'
    """
    return _format(bandwidth_bytes_per_s, _decimal_steps("B/s"))


def format_flops(flops: float) -> str:
    """Operations per second in decimal units.

    >>> format_flops(256e12)
    '256 TFLOP/s'
    """
    return _format(flops, _decimal_steps("FLOP/s"))


def _decimal_steps(unit: str) -> list[tuple[float, str]]:
    return [(factor, f"{prefix}{unit}") for prefix, factor in _DECIMAL.items() if prefix != "K"]


def _format(value: float, steps: Sequence[tuple[float, str]]) -> str:
    """The value in the largest unit that leaves at least 1 before the point."""
    magnitude = abs(value)
    factor, unit = steps[0] if magnitude else next(s for s in steps if s[0] >= 1)
    for step in steps:
        if magnitude >= step[0]:
            factor, unit = step
    scaled = value / factor
    many_digits = abs(scaled) >= 10**_PRECISION
    return f"{scaled:.0f} {unit}" if many_digits else f"{scaled:.{_PRECISION}g} {unit}"


def _parse(text: str, units: Mapping[str, float], noun: str, example: str) -> float:
    if len(text) > _MOST_CHARACTERS:
        text = f"{text[:_MOST_CHARACTERS]}..."
        match = None
    else:
        match = _QUANTITY.fullmatch(text)
    if match is None:
        raise UnitError(f"{text!r} is not {noun}", noun, f'write a number and a unit: "{example}"')
    unit = match["unit"]
    if unit not in units:
        close = get_close_matches(unit, units, n=1)
        hint = f"; did you mean {close[0]!r}?" if close and unit else ""
        fault = f"unknown unit {unit!r} in {text!r}" if unit else f"{text!r} has no unit"
        raise UnitError(f"{fault}{hint}", noun, f'write {noun} as "{example}"')
    value = float(match["number"]) * units[unit]
    if not math.isfinite(value):
        raise UnitError(f"{text!r} is beyond all machines", noun, f'write {noun} as "{example}"')
    if value < 0:
        raise UnitError(f"{text!r} is negative", noun, f'write {noun} as "{example}"')
    return value
