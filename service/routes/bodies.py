"""The bodies of requests. Options have the names and forms that they have on the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema

from exporters.formats import FORMATS
from planner.requests.option_texts import one_of
from planner.requests.options.explanations import ExplanationOptions
from planner.requests.options.recipes import RecipeOptions
from planner.requests.options.searches import SearchOptions
from planner.requests.options.simulations import LayoutOptions, RankingOptions, SimulationOptions
from planner.requests.options.sweeps import SweepOptions
from planner.requests.verification import VerificationOptions

MOST_PRIORITY = 9
Name = Annotated[str, Field(min_length=1, max_length=200)]
Priority = Annotated[int, Field(ge=0, le=MOST_PRIORITY)]
PlanId = Annotated[str, Field(pattern=r"^p_[0-9a-f]{32}$")]
Tag = Annotated[str, Field(min_length=1, max_length=40)]


SweepFile = Literal["csv", "svg", "png", "plans"]
MOST_WORKERS = 256
MOST_ROWS = 1000
"""Layouts of a list whose recipe is written."""


def _known_format(name: str) -> str:
    return one_of(name[:80], FORMATS, "format", "format")


ExportFormat = Annotated[
    str, AfterValidator(_known_format), WithJsonSchema({"type": "string", "enum": [*FORMATS]})
]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class SearchBody(_Body):
    """A search."""

    model: Name
    """Id of an uploaded model, or the name of a published one."""
    options: SearchOptions = SearchOptions()
    """`cluster` is the name of a bundled machine, or the id of an uploaded one."""
    why_not: Annotated[list[Annotated[str, Field(max_length=4096)]], Field(max_length=8)] = []
    """Other ways that are searched too, such as `tp=8,dp=2`; the result says what they cost more.
    """
    priority: Priority = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutBody(LayoutOptions):
    """A conventional layout of a model."""

    name: Name | None = None
    """What the model is called; the name of its file if nothing is said."""
    servers: str | None = None
    """Parameter servers that take the place of collectives, such as `count=4,mode=async`."""


class SimulationBody(_Body):
    """A simulation of a plan, or of a layout of a model."""

    plan: PlanId | None = None
    model: Name | None = None
    """With a layout: id of an uploaded config.json, or the name of a published model."""
    layout: LayoutBody | None = None
    options: SimulationOptions = SimulationOptions()
    plot: Literal["png", "svg"] | None = None
    """Draw it too; the result names the picture, which is fetched as an export."""
    priority: Priority = 0


class PriceText(_Body):
    """A table of prices."""

    name: Name = "prices"
    """By which errors call it."""
    text: Annotated[str, Field(max_length=2**19)]


class SweepBody(_Body):
    """A sweep."""

    model: Name
    """As in a search."""
    options: SearchOptions = SearchOptions()
    """What all points have in common; machines and their sizes are in `sweep`."""
    sweep: SweepOptions = SweepOptions()
    """`cluster` lists names of bundled machines and ids of uploaded ones."""
    prices: PriceText | None = None
    """What an hour of a device costs, in the format of `data/prices.yaml`."""
    files: Annotated[list[SweepFile], Field(max_length=4)] = []
    """A table, pictures, and every result with its plan; the result names an archive of them."""
    workers: Annotated[int, Field(ge=1, le=MOST_WORKERS)] = 1
    """Processes that search side by side, if the service has as many for one job."""
    priority: Priority = 0


class VerificationBody(_Body):
    """A verification of a plan."""

    plan: PlanId
    model: Name | None = None
    """As in the search; without it the model of the search."""
    options: VerificationOptions = VerificationOptions()
    priority: Priority = 0


class ExportBody(_Body):
    """A plan for a framework."""

    plan: PlanId
    format: ExportFormat
    suffix: str | None = None
    """Chooses a form where the format has several, such as `.json` or `.py`."""
    names: Name | None = None
    """A network whose names of the parameters are used, such as `llama`."""
    settings: dict[str, Annotated[str, Field(max_length=4096)]] = {}
    files: dict[str, Annotated[str, Field(max_length=2**20)]] = {}
    """Texts of the settings that are files on the command line, such as `hosts`."""
    priority: Priority = 0


class LayoutsBody(_Body):
    """The conventional layouts of a model."""

    model: Name
    """Id of an uploaded config.json, or the name of a published model."""
    name: Name | None = None
    """What the model is called; the name of its file if nothing is said."""
    options: RankingOptions
    recipe: Annotated[str, Field(max_length=40)] = ""
    """A framework for whose files `row` is written; the result has their `texts` by name."""
    row: Annotated[int, Field(ge=1, le=MOST_ROWS)] = 1
    priority: Priority = 0


class RecipeFile(_Body):
    """A file of a recipe."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,120}$")]
    text: Annotated[str, Field(max_length=2**20)]
    function: Annotated[str, Field(pattern=r"^[A-Za-z0-9_]{0,120}$")] = ""
    """Of a Python file that has several recipes."""


class RecipeBody(_Body):
    """A recipe of a framework."""

    files: Annotated[list[RecipeFile], Field(min_length=1, max_length=32)]
    options: RecipeOptions = RecipeOptions()
    """`model` is the name of a published model, or the id of an uploaded config.json."""
    to: Annotated[str, Field(max_length=40)] = ""
    """Write it as files of this framework; the result has their `texts` by name."""
    priority: Priority = 0


class ExplanationBody(_Body):
    """A question about a plan."""

    plan: PlanId
    options: ExplanationOptions = ExplanationOptions()
    """One question: an operator, a tensor, restrictions, or how far things may move."""
    priority: Priority = 0


class LabelBody(_Body):
    """What an owner calls something of his."""

    label: Annotated[str, Field(max_length=100)] | None = None
    """Shown in place of the name; empty for the name again."""
    tags: (
        Annotated[list[Annotated[str, Field(min_length=1, max_length=40)]], Field(max_length=10)]
        | None
    ) = None
    """Words to find it by; all of them."""


class Uploaded(BaseModel):
    """An upload that was accepted. A job reads it and says what it is."""

    id: str
    name: str
    bytes: int
    job: str


class Submitted(BaseModel):
    """A job that was accepted."""

    job: str
    state: str
    cached: bool


class JobRecord(BaseModel):
    """A job."""

    job: str
    kind: str
    state: Literal["queued", "running", "done", "failed", "cancelled"]
    priority: int
    cached: bool
    """The same was asked before, and this is that answer."""
    attempt: int
    submitted_at: float
    started_at: float | None
    finished_at: float | None
    request: dict[str, Any]
    result: dict[str, Any] | None
    message: str | None
    """Why it failed."""
    names: dict[str, str] = {}
    """What the items of the request are called, by their ids."""
