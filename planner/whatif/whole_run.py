"""What a whole training run takes: days and price of so many tokens, by the time of a step."""

from __future__ import annotations

import math
from dataclasses import dataclass

from planner.requests.errors import UserError
from planner.whatif.analysis import SECONDS_PER_DAY, Prices, bill, bundled_prices
from report.layouts import RunFacts

__all__ = ["WholeRun", "parsed_run"]


@dataclass(frozen=True, slots=True)
class WholeRun:
    """A run of so many tokens, which may have to be done in time."""

    tokens: float
    days: float | None
    """In which it is to be done."""
    prices: Prices

    def takes_days(self, tokens_per_s: float) -> float:
        """At so many tokens per second."""
        return self.tokens / tokens_per_s / SECONDS_PER_DAY

    def price(self, chip: str, devices: int, days: float) -> float | None:
        """Of so many devices for so many days; `None` where nobody says what one costs."""
        return bill(self.prices, chip, devices, days * SECONDS_PER_DAY).step_price

    def facts(self, chip: str, devices: int, tokens_per_s: float) -> RunFacts:
        """What the fastest layout says of it.

        Args:
            chip: as the table of prices names it.
            devices: of the layout.
            tokens_per_s: of the fastest layout.
        """
        days = self.takes_days(tokens_per_s)
        needed = None
        if self.days is not None and days > self.days:
            needed = math.ceil(devices * days / self.days)
        known = self.prices.of(chip).hour is not None
        currency = self.prices.currency if known else None
        return RunFacts(self.tokens, self.days, needed, currency)


def parsed_run(
    tokens: str | None, days: float | None, prices: Prices | None = None
) -> WholeRun | None:
    """What `--tokens`, `--days` and `--prices` ask for; `None` without tokens.

    Raises:
        UserError: days or prices without tokens, or a number that cannot be.
    """
    where = "--tokens, --days"
    if tokens is None:
        if days is not None or prices is not None:
            option = "--prices" if days is None else "--days"
            raise UserError(f"{option} is of a run of so many tokens", option, "give --tokens too")
        return None
    try:
        count = float(tokens)
    except ValueError:
        count = 0.0
    limit = 1.0 if days is None else days
    if not (0 < count < math.inf and 0 < limit < math.inf):
        told = f"{tokens[:40]} tokens" + ("" if days is None else f" in {days:g} days")
        fix = "give numbers above 0, such as --tokens 1e12 --days 30"
        raise UserError(told, where, fix)
    return WholeRun(count, days, bundled_prices() if prices is None else prices)
