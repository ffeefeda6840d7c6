"""What free text says of links: `8x HDR InfiniBand per node; NVLink 600 GB/s`.

Text is clauses. A clause has a rate with its unit or the name of a generation, and may have a
count, a noun (per device, per server, per port), a direction and the place of the links: inside a
server or between servers. What it lacks comes from the clauses around it, then from what the maker
of the machine states; the reader of a row is told which. A rate that cannot be placed is named.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from costmodel.training.link_words import (
    BETWEEN,
    BOTH_WAYS,
    COUNTS,
    DEVICES,
    EXPLICIT,
    GENERATIONS,
    INSIDE,
    JOINED,
    NOUNS,
    ONE_WAY,
    OTHER,
    PCIE,
    PER_SERVER,
    RANGE,
    RATE,
    SEPARATORS,
    STRANGE,
    THOUSANDS,
    UNLINKED,
    WORDS,
    bytes_per_s,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from costmodel.training.machines import Machine

__all__ = ["StatedLinks", "read_links"]

_LIMIT = 4000
_SHOWN = 60
_FARTHEST = 8.0
"""Times that a rate without a place or a noun may differ from what the maker states."""

_MOST_INSIDE = 1.3
"""Times of what the maker states that links inside a server may have: more is of all devices."""

_DOMAIN, _TRAY = 72, 4
"""Devices that NVLink joins in a rack, and those of one of its trays, which have the ports."""

_POD = 128
"""A server of so many devices is a pod of TPUs, whose hosts are others."""

_ALIKE = 1.05
"""Factor up to which two statements of one rate agree."""


@dataclass(frozen=True, slots=True)
class StatedLinks:
    """Links of one device as a text states them, in bytes per second and one direction."""

    port_bytes_per_s: float = 0.0
    """Its share of the ports between servers; 0 if nothing is stated."""

    link_bytes_per_s: float = 0.0
    """Its links inside the server, of a mesh one of them; 0 if nothing is stated."""

    server: int = 0
    """Devices of a server; 0 if nothing is stated."""

    assumed: tuple[str, ...] = ()
    """What stands in for something that the text leaves out."""

    unread: tuple[str, ...] = ()
    """Numbers with a unit that are not understood, in sentences."""

    read: tuple[str, ...] = ()
    """What was understood, in sentences."""


@dataclass(frozen=True, slots=True)
class _Clause:
    text: str
    place: str = ""
    rates: tuple[_Rate, ...] = ()
    nouns: frozenset[str] = frozenset()
    count: float = 0.0
    """Of ports or links; 0 if none is stated."""


@dataclass(frozen=True, slots=True)
class _Rate:
    text: str
    bytes_per_s: float
    place: str
    named: bool = False
    """Whether the name of a generation stands for it."""

    in_bits: bool = False
    """Whether it is stated in bits, as networks between servers are."""


@dataclass(slots=True)
class _Reading:
    """What is understood so far."""

    machine: Machine
    server: int
    lowered: bool
    """Whether the text has no capitals, so that bits and bytes look alike."""

    found: dict[str, tuple[float, bool, str]] = field(default_factory=dict)
    """By place: the rate of one device, whether a name stands for it, and the text."""

    assumed: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)


def read_links(text: str, machine: Machine, server: int = 0) -> StatedLinks:
    """What a text says of the links of a machine.

    Args:
        text: free text, such as a cell of column `interconnect`; its first 4,000 characters count.
        machine: on which it is said.
        server: devices of a server where the row states them; else 0.
    """
    text = text[:_LIMIT]
    strange = [each[0] for pattern in (RANGE, STRANGE) for each in re.finditer(pattern, text)]
    clauses = _placed(list(_clauses(re.sub(RANGE, "", text))))
    stated = server or _server(text, machine)
    reading = _Reading(machine, stated or machine.server, lowered=text == text.lower())
    for named in (False, True):
        for clause in clauses:
            for rate in clause.rates:
                if rate.named == named:
                    _take(rate, clause, reading)
    _take_pcie(text, reading)
    reading.unread += [f"{each} in {_short(text)!r}" for each in strange]
    port, link = (reading.found.get(place, (0.0, False, ""))[0] for place in ("between", "inside"))
    says = {"between": "between servers", "inside": "inside a server"}
    return StatedLinks(
        port,
        link,
        stated,
        tuple(dict.fromkeys(reading.assumed)),
        tuple(f"{what} is not understood" for what in dict.fromkeys(reading.unread)),
        tuple(
            f"{_short(said)}: {rate / 1e9:.4g} GB/s of a device {says[place]}"
            for place, (rate, _, said) in sorted(reading.found.items())
        ),
    )


def _clauses(text: str) -> Iterator[_Clause]:
    plain = re.sub(THOUSANDS, r"\1\2", text)
    for part in re.split(SEPARATORS, plain):
        if part.strip():
            yield _clause(part.strip())


def _clause(text: str) -> _Clause:
    low = text.lower()
    marks = [
        (match.start(), match.end(), place)
        for place, pattern in (("inside", INSIDE), ("between", BETWEEN), ("other", OTHER))
        for match in re.finditer(pattern, low)
    ]
    explicit = {place for place, pattern in EXPLICIT.items() if re.search(pattern, low)}
    only = next(iter(explicit)) if len(explicit) == 1 else ""
    rates = [
        _Rate(
            match[0].strip(),
            bytes_per_s(match),
            only or _nearest(match, marks),
            in_bits=(match["what"] or "b") != "B" and "yte" not in (match["what"] or "").lower(),
        )
        for match in re.finditer(RATE, text)
    ]
    if not rates:
        rates = [
            _Rate(match[0], rate, "between", named=True)
            for pattern, rate in GENERATIONS
            if (match := re.search(pattern, low))
        ][:1]
    nouns = frozenset(noun for noun, pattern in NOUNS.items() if re.search(pattern, low))
    place = only or (marks[0][2] if marks else "")
    return _Clause(text, place, tuple(rates), nouns, _count(low))


def _nearest(match: re.Match[str], marks: Sequence[tuple[int, int, str]]) -> str:
    """The place whose word is nearest to a rate; empty where there is none."""
    distances = [
        (match.start() - end if end <= match.start() else begin - match.end() + 0.5, place)
        for begin, end, place in marks
        if end <= match.start() or begin >= match.end()
    ]
    return min(distances)[1] if distances else ""


def _count(low: str) -> float:
    """How many ports or links a clause counts."""
    for pattern in COUNTS:
        found = re.search(pattern, low)
        if found:
            text = next(filter(None, found.groups()))
            return float(WORDS.get(text, 0) or text)
    return 0.0


def _placed(clauses: Sequence[_Clause]) -> list[_Clause]:
    """Clauses with the place, the noun and the count that neighbours without a rate state."""
    found = list(clauses)
    for index, clause in enumerate(found):
        before = next((each.place for each in reversed(found[:index]) if each.place), "")
        after = found[index + 1] if index + 1 < len(found) else _Clause("")
        place = clause.place or before or ("" if after.rates else after.place)
        # Networks are sold in bits: a rate in bits is theirs unless its own clause says otherwise.
        rates = tuple(
            replace(each, place=each.place or ("between" if each.in_bits and place else place))
            for each in clause.rates
        )
        clause = replace(clause, place=place, rates=rates)  # noqa: PLW2901
        counted = [each for each in (after, *found[max(index - 1, 0) : index]) if not each.rates]
        for each in counted:
            same = each.place in {"", place}
            if clause.rates and same and not clause.nouns:
                clause = replace(clause, nouns=each.nouns)  # noqa: PLW2901
            if clause.rates and same and not clause.count:
                clause = replace(clause, count=each.count)  # noqa: PLW2901
        found[index] = clause
    return found


def _server(text: str, machine: Machine) -> int:
    """Devices of a server as the text counts them, where they are fewer than is usual."""
    found = re.search(DEVICES, text.lower())
    if not found:
        return 0
    number = next(filter(None, found.groups()))
    count = int(WORDS.get(number, 0) or number)
    return count if 1 <= count < machine.server else 0


def _take(rate: _Rate, clause: _Clause, reading: _Reading) -> None:
    """Add one rate to what is understood."""
    sure = len(reading.assumed)
    place = rate.place or _guessed_place(rate, reading)
    if place == "other":
        return
    value = _of_device(rate, place, clause, reading) if place else 0.0
    usual = _usual(reading.machine)[place] if place else 0.0
    most = _MOST_INSIDE if place == "inside" else _FARTHEST
    if not usual or not 1e6 <= value <= most * usual:
        reading.unread.append(f"{rate.text} in {_short(clause.text)!r}")
        del reading.assumed[sure:]
        return
    known = reading.found.get(place)
    if known is None:
        reading.found[place] = (value, rate.named, clause.text)
    elif not rate.named and not 1 / _ALIKE <= value / known[0] <= _ALIKE:
        reading.unread.append(f"{rate.text} beside {_short(known[2])!r}")


def _usual(machine: Machine) -> dict[str, float]:
    return {"between": machine.port_bytes_per_s, "inside": machine.link_bytes_per_s}


def _links(machine: Machine) -> float:
    """Links of a device inside its server."""
    return float(max(machine.meshed - 1, 1)) if machine.mesh else 1.0


def _guessed_place(rate: _Rate, reading: _Reading) -> str:
    """The place where a rate is nearest to what the maker states; empty where it is far off."""
    machine = reading.machine
    if rate.in_bits and not reading.lowered:
        return "between"
    inside = machine.link_bytes_per_s * _links(machine)
    steps = {
        "inside": abs(math.log(rate.bytes_per_s / (2.0 * inside))),
        "between": min(
            abs(math.log(rate.bytes_per_s / (machine.port_bytes_per_s * each)))
            for each in (1.0, machine.server)
        ),
    }
    place = min(steps, key=lambda each: steps[each])
    if steps[place] > math.log(_FARTHEST):
        return ""
    reading.assumed.append("place of links")
    return place


def _of_device(rate: _Rate, place: str, clause: _Clause, reading: _Reading) -> float:
    """What one device has of a rate, in one direction."""
    value = rate.bytes_per_s
    if place == "inside":
        return _inside(value * (8.0 if reading.lowered else 1.0), clause, reading)
    low = clause.text.lower()
    if re.search(BOTH_WAYS, low) and not re.search(ONE_WAY, low) and not _known_rate(value, low):
        value /= 2.0
    if "device" in clause.nouns:
        return value * max(clause.count, 1.0)
    shared = _sharing(reading)
    if clause.count:
        return value * clause.count / shared
    if "server" in clause.nouns and "port" not in clause.nouns:
        # A name is that of a port, however many a server has.
        return _by_ports(value, reading) if rate.named else value / shared
    if "port" in clause.nouns or rate.named:
        return _by_ports(value, reading)
    return _without_noun(value, low, reading)


def _sharing(reading: _Reading) -> float:
    """Devices that share the ports of what a text calls a server; none where nobody knows."""
    if reading.server >= _POD:
        return math.inf
    return float(_TRAY if reading.server == _DOMAIN else reading.server)


def _by_ports(value: float, reading: _Reading) -> float:
    """The share of a device in ports of a rate, as many as its machine has."""
    machine = reading.machine
    found = value * machine.ports
    if not 1 / _ALIKE <= found / machine.port_bytes_per_s <= _ALIKE:
        reading.assumed.append("number of ports")
    return found


def _without_noun(value: float, low: str, reading: _Reading) -> float:
    """A rate of nobody: of a server where the name of the network says so, else as a port's or a
    server's, whichever is nearer to what the maker states.
    """
    usual, shared = reading.machine.port_bytes_per_s, value / _sharing(reading)
    if re.search(PER_SERVER, low):
        return shared
    one = value * reading.machine.ports
    if 1 / _ALIKE <= one / usual <= _ALIKE:
        return one
    reading.assumed.append("ports that a rate is of")
    known = [each for each in (one, shared) if each > 0]
    return min(known, key=lambda each: abs(math.log(each / usual)))


def _known_rate(value: float, low: str) -> bool:
    """Whether a generation that the clause names has this rate in each direction."""
    return any(
        re.search(pattern, low) and 1 / _ALIKE <= value / rate <= _ALIKE
        for pattern, rate in GENERATIONS
    )


def _inside(value: float, clause: _Clause, reading: _Reading) -> float:
    """What one device has inside its server; of a mesh, on one link."""
    machine, low = reading.machine, clause.text.lower()
    whole = machine.link_bytes_per_s * _links(machine)
    if machine.server >= _POD:
        return whole  # of a torus what software reaches is known, not what makers add up
    if "port" in clause.nouns and not clause.count:
        one = machine.link_bytes_per_s if machine.mesh else whole
        return _one_direction(value, one, low)
    total = value * (clause.count if "port" in clause.nouns or clause.count else 1.0)
    if "server" in clause.nouns:
        total /= reading.server
    return _one_direction(total, whole, low) / _links(machine)


def _one_direction(value: float, usual: float, low: str) -> float:
    """A rate inside a server in one direction: makers add up both, unless a text says otherwise or
    the rate is that of one.
    """
    if re.search(ONE_WAY, low) or 1 / _ALIKE <= value / usual <= _ALIKE:
        return value
    return value / 2.0


def _take_pcie(text: str, reading: _Reading) -> None:
    """Devices that reach one another through PCIe alone."""
    low = text.lower()
    found = re.search(PCIE, low)
    joined = re.search(JOINED, re.sub(UNLINKED, "", low))
    if found is None or "inside" in reading.found or joined:
        return
    if re.search(EXPLICIT["between"], low[: found.start()][-20:]):
        return
    generation = int(next(filter(None, found.groups()), "4")[0])
    rate = 1e9 * 2.0 ** (generation + 1)
    reading.found["inside"] = (rate / _links(reading.machine), True, found[0])


def _short(text: str) -> str:
    return " ".join(text.split())[:_SHOWN]
