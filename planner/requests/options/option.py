"""The declaration of an option: command, help, service and page derive from it.

An option is a field of a record: `Annotated[int | None, Option(...)] = None`. The field has name,
type and default; `Option` has what people read of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

from planner.requests.option_texts import (
    FRAMEWORK_NAMES,
    check_range,
    count_or_one_of,
    one_of,
)

if TYPE_CHECKING:
    from pydantic import GetJsonSchemaHandler
    from pydantic_core import CoreSchema

REQUIRED = MISSING
"""The default of an option without one."""


class Group(StrEnum):
    """Headings of a help text, in their order."""

    ARGUMENTS = "Arguments"
    """Of what a command line names by its place, without a flag."""
    MODEL = "Model"
    MACHINE = "Machine"
    BATCH = "Batch and memory"
    SEARCH = "Search"
    SIMULATION = "Simulation"
    QUESTION = "Questions"
    SWEEP = "Sweep"
    TARGET = "Target"
    FRAMEWORK = FRAMEWORK_NAMES
    OUTPUT = "Output"


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """What people read of an option."""

    help: str
    group: Group
    value: str = ""
    """What stands for its value in a help text, such as `N`; by default the choices."""
    unit: str = ""
    """Of its number, such as `seconds`."""
    choices: tuple[str, ...] = ()
    """All values that there are, `counts` aside; none where it takes others too."""
    counts: bool = False
    """A number of 1 or more does as well as one of the choices."""
    noun: str = "choice"
    """What one of the choices is, for errors."""
    usual: str = ""
    """What holds where nothing is given, in words."""
    flags: tuple[str, ...] = ()
    """How a command line spells it; by default the name with hyphens."""
    commands: tuple[str, ...] = ()
    """Which commands take it; by default all that take the record."""
    least: int | None = None
    """Its number is not below."""
    most: int | None = None
    """Its number is not above; only of one with `least`."""
    first: bool = False
    """It matters to most users: `--help` explains it."""
    variable: str = ""
    """Of the environment, that stands for it."""
    file: str = ""
    """For a text that a command line names by its file: what file to name, for errors."""
    most_bytes: int = 2**26
    """Of that file."""

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """The schema of the field in a request, with help, choices, group and unit."""
        found: dict[str, Any] = {**handler(schema), "description": self.help}
        found |= {"x-group": self.group.value} | ({"x-unit": self.unit} if self.unit else {})
        choices = [*self.choices, *([None] if "anyOf" in found else [])]
        return found | ({"enum": choices} if self.choices and not self.counts else {})


CALIBRATION = Option(
    group=Group.MACHINE, value="FILE", most_bytes=2**20, usual="constants of the package",
    commands=("search", "whatif", "simulate", "layouts", "explain"),
    file="name a file that planner calibrate steps or links wrote",
    help="What your own runs or collectives say of software and links: a file that planner "
    "calibrate steps or planner calibrate links wrote.",
)  # fmt: skip
"""Of all commands that price a step."""


@dataclass(frozen=True, slots=True)
class Declared:
    """An option with its name, its type and its default."""

    name: str
    form: Any
    """The type of the field."""
    default: Any
    """`REQUIRED` where there is none."""
    option: Option

    @property
    def flags(self) -> tuple[str, ...]:
        """As a command line spells it."""
        return self.option.flags or ("--" + self.name.replace("_", "-"),)

    @property
    def value(self) -> str | None:
        """What stands for its value."""
        return self.option.value or "|".join(self.option.choices) or None


def declared(record: type, command: str = "") -> Iterator[Declared]:
    """The options of a record in their order: all, or those that a command takes.

    >>> from planner.requests.options.searches import SearchOptions
    >>> [each.flags for each in declared(SearchOptions, "sizes")]
    [('--sequence',), ('--dtype',)]
    """
    for each in _every(record):
        if not command or not each.option.commands or command in each.option.commands:
            yield each


@cache
def _every(record: type) -> tuple[Declared, ...]:
    hints = get_type_hints(record, include_extras=True)
    options = ((field, option_of(hints[field.name])) for field in fields(record))
    return tuple(
        Declared(field.name, get_args(hints[field.name])[0], field.default, option)
        for field, option in options
        if option is not None
    )


def option_of(hint: object) -> Option | None:
    """The declaration in an annotation."""
    if get_origin(hint) is not Annotated:
        return None
    return next((each for each in get_args(hint)[1:] if isinstance(each, Option)), None)


def check_values(record: object) -> None:
    """Raise `UserError` for a value that is none of the choices of its option, or out of range."""
    for each in declared(type(record)):
        value, option, flag = getattr(record, each.name), each.option, each.flags[0]
        if value is None:
            continue
        if option.counts:
            count_or_one_of(value, option.choices, flag)
        elif option.choices:
            one_of(value, option.choices, flag, option.noun)
        elif option.least is not None:
            check_range(value, option.least, option.most, flag)


def flag_of(record: type, name: str) -> str:
    """How a command line spells an option of a record."""
    return next(each.flags[0] for each in declared(record) if each.name == name)
