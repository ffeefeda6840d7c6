"""The fitted constants that the package ships, and those of a user's own cluster."""

from __future__ import annotations

import csv
import io
import math
from collections import defaultdict
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import yaml

import data
from costmodel.memory import MASTER_BYTES
from costmodel.training.constants import RATES, StepConstants
from costmodel.training.families import families as known_families
from costmodel.training.fitting import PRIORS
from costmodel.training.generic import ALONE, GENERIC, KEPT
from costmodel.training.memory import MemoryConstants
from costmodel.training.neighbours import COLUMNS, KNOWN, NEIGHBOURS_OF_NOBODY, Neighbours
from costmodel.training.records import LayoutError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from costmodel.training.measured_spans import Spans

__all__ = [
    "Calibration", "Ends", "general_constants", "neighbours_of", "parse_calibration",
    "shipped_calibration",
]  # fmt: skip

_RETIRED = {"strided", "logit_whole"}
_NAMES = {item.name for item in fields(StepConstants)}


@dataclass(frozen=True, slots=True)
class Ends:
    """Lower and upper end of a block's intervals around the logarithm of a prediction.

    In units of the run's own standard deviation (`Neighbours.deviation`).
    """

    known: tuple[float, float]
    """Of runs that measured ones are much alike; see `neighbours.KNOWN`."""

    new: tuple[float, float]
    """Of the others."""

    def of(self, deviation: float) -> tuple[float, float]:
        """Those of a run with this standard deviation."""
        return self.known if deviation <= KNOWN else self.new


@dataclass(frozen=True, slots=True)
class Calibration:
    """Constants by family, and how wide the interval around a prediction is by block."""

    constants: Mapping[str, StepConstants]

    interval: Mapping[str, Ends]
    """By block."""

    memory: Mapping[str, MemoryConstants]
    """By profile: what it keeps in memory."""

    machines: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By family: machines that its runs are on; none where a file does not say."""

    spans: Mapping[str, Spans] = field(default_factory=dict)
    """By family: what its runs span; see `measured_spans`."""

    is_own: bool = False
    """Whether its constants were fitted to a user's own cluster."""

    def memory_of(self, profile: str) -> MemoryConstants:
        """What a profile keeps in memory; the general counts where it has no rows."""
        return self.memory.get(profile, MemoryConstants())

    def wired(self, link: float, port: float) -> Self:
        """The same with links and ports of so many times the rate."""
        faster = {
            name: replace(each, link=each.link * link, port=each.port * port)
            for name, each in self.constants.items()
        }
        return replace(self, constants=faster)


def general_constants() -> StepConstants:
    """The constants before any row is seen: the centres of the priors."""
    return StepConstants(**{name: prior.value for name, prior in PRIORS.items()})


@cache
def shipped_calibration() -> Calibration:
    """The calibration of `data/calibration/training.yaml`."""
    return _calibration(data.calibration("training"), is_own=False)


def neighbours_of(family: str) -> Neighbours:
    """Measured runs of a family: what the formulas miss of shapes of layers and of layouts.

    That holds for a user's own constants as well: they say how fast a cluster is.
    """
    return _all_neighbours().get(family, NEIGHBOURS_OF_NOBODY)


@cache
def _all_neighbours() -> dict[str, Neighbours]:
    """The measured runs of `data/calibration/training_neighbours.csv`, by family."""
    text = data.read_text("calibration", "training_neighbours.csv")
    rows: dict[str, list[dict[str, str]]] = defaultdict(list)
    for row in csv.DictReader(io.StringIO(text)):
        rows[row["family"]].append(row)
    return {family: _neighbours(members) for family, members in rows.items()}


def _neighbours(rows: Sequence[Mapping[str, str]]) -> Neighbours:
    return Neighbours.of(
        np.array([[float(row[name]) for name in COLUMNS] for row in rows]),
        np.array([row["machine"] for row in rows]),
        np.array([float(row["missed"]) for row in rows]),
        np.array([float(row["runs"]) for row in rows]),
    )


def parse_calibration(text: str) -> Calibration:
    """Read a user's calibration file.

    Raises:
        LayoutError: it is no such file, or a constant is unknown or no number.
    """
    try:
        file: Any = yaml.safe_load(text)
        if not isinstance(file, dict):
            raise TypeError("it is no YAML with families of constants")  # noqa: TRY301
        return _calibration(file, is_own=True)
    except KeyError as error:
        raise LayoutError(f"no calibration of training steps: {error} is missing") from error
    except (yaml.YAMLError, TypeError, ValueError, AttributeError) as error:
        raise LayoutError(f"no calibration of training steps: {error}") from error


def _calibration(file: Mapping[str, Any], *, is_own: bool) -> Calibration:
    entries = file["families"].items()
    families = _families(file["families"])
    ends = {name: _both_ends(name, entry) for name, entry in _intervals(file).items()}
    memory = {name: _memory(entry) for name, entry in file.get("memory", {}).items()}
    machines = {name: frozenset(map(str, entry.get("machines", ()))) for name, entry in entries}
    spans = {name: entry.get("spans", {}) for name, entry in entries}
    families[GENERIC], memory[GENERIC], machines[GENERIC], spans[GENERIC] = (
        ALONE, KEPT, frozenset(), {}
    )  # fmt: skip
    return Calibration(families, ends, memory, machines, spans, is_own)


def _memory(entry: Mapping[str, Any]) -> MemoryConstants:
    """What a profile keeps; earlier versions wrote the bytes of master copy and both moments."""
    values = {key: float(value) for key, value in entry.items()}
    if "state_bytes" in values:
        values["moment_bytes"] = (values.pop("state_bytes") - MASTER_BYTES) / 2
    return MemoryConstants(**values)


def _families(entries: Mapping[str, Any]) -> dict[str, StepConstants]:
    found = {name: _constants(name, entry["constants"]) for name, entry in entries.items()}
    lacking = sorted(set(known_families()) - set(found))
    if lacking:
        raise ValueError(f"it has no constants of {', '.join(lacking)}")
    return found


def _intervals(file: Mapping[str, Any]) -> Mapping[str, Any]:
    if "interval" not in file and "spread" in file:
        raise ValueError(
            "an earlier version of the planner wrote it, with `spread` in place of `interval`"
        )
    found: Mapping[str, Any] = file["interval"]
    return found


def _both_ends(block: str, entry: Any) -> Ends:
    """Ends of known and of new runs; one pair stands for both."""
    if isinstance(entry, list):
        entry = {"known": entry, "new": entry}
    return Ends(_ends(block, *entry["known"]), _ends(block, *entry["new"]))


def _ends(block: str, low: Any, high: Any) -> tuple[float, float]:
    ends = float(low), float(high)
    if not -math.inf < ends[0] <= ends[1] < math.inf:
        raise ValueError(f"{low} and {high} are no ends of an interval of {block!r}")
    return ends


def _constants(name: str, entry: Mapping[str, Any]) -> StepConstants:
    if _RETIRED & set(entry):
        raise ValueError(
            "an earlier version of the planner wrote it, whose links and ports were fitted; fit it "
            "again with `planner calibrate steps`"
        )
    unknown = set(entry) - _NAMES
    if unknown:
        raise ValueError(f"family {name!r} has unknown constants {sorted(unknown)}")
    values = {key: float(value) for key, value in entry.items()}
    if not all(0 <= value < math.inf for value in values.values()):
        raise ValueError(f"a constant of family {name!r} is negative or not finite")
    if not all(values.get(rate, 1.0) for rate in RATES):
        raise ValueError(f"a rate of family {name!r} is 0")
    return StepConstants(**values)
