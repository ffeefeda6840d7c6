"""What devices cost and draw: `data/prices.yaml`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import yaml

import data
from planner.asking.errors import UserError
from planner.asking.sources import Document
from topology.chips import chip_profile
from topology.errors import ClusterError
from topology.units import parse_watts

_FIX = "write it like data/prices.yaml: devices: {CHIP: {hour: {value: 2.5}, power: {value: 700}}}"
SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Rates:
    """What one device costs and draws."""

    hour: float | None = None
    """Price of an hour, in the currency of the table; `None` if nobody says."""
    power_w: float | None = None
    """Watts under load."""


@dataclass(frozen=True, slots=True)
class Prices:
    """A table of prices."""

    currency: str
    devices: Mapping[str, Rates]
    """By name of the chip."""

    def of(self, chip: str) -> Rates:
        """What is known of a chip; watts that the table lacks are those of `data/chips`."""
        found = self.devices.get(chip, Rates())
        return found if found.power_w is not None else replace(found, power_w=_power_w(chip))


def bundled_prices() -> Prices:
    """The table of `data/prices.yaml`."""
    return _bundled()


@cache
def _bundled() -> Prices:
    return read_prices(Document("data/prices.yaml", data.read_text("prices.yaml")))


def read_prices(file: Document) -> Prices:
    """A table in the format of `data/prices.yaml`.

    Raises:
        UserError: the text is no such table.
    """
    try:
        record = yaml.safe_load(file.text)
        devices = {str(name): _rates(item) for name, item in record["devices"].items()}
        return Prices(str(record["currency"]), devices)
    except (yaml.YAMLError, AttributeError, KeyError, TypeError, ValueError) as error:
        what = f"{file.name} is no table of prices ({type(error).__name__}: {error})"
        raise UserError(what.splitlines()[0], f"--prices {file.name}", _FIX) from error


def _rates(record: Mapping[str, Any]) -> Rates:
    return Rates(*(_value(record.get(name)) for name in ("hour", "power")))


def _value(record: Mapping[str, Any] | None) -> float | None:
    if record is None:
        return None
    value = float(record["value"])
    if not value >= 0:
        raise ValueError(f"{value} is below 0")
    return value


@cache
def _power_w(chip: str) -> float | None:
    try:
        power = chip_profile(chip).power
    except ClusterError:
        return None
    return None if power is None else parse_watts(power.value)


@dataclass(frozen=True, slots=True)
class Bill:
    """What a step costs, where prices are known."""

    step_price: float | None
    """Device-hours of a step times the price of one."""
    step_joules: float | None
    """Devices times watts under load times seconds: an upper bound, as devices also wait."""


def bill(prices: Prices, chip: str, devices: int, step_s: float) -> Bill:
    """Price and energy of a step."""
    rates = prices.of(chip)
    price = None if rates.hour is None else rates.hour * devices * step_s / SECONDS_PER_HOUR
    joules = None if rates.power_w is None else rates.power_w * devices * step_s
    return Bill(price, joules)
