"""The numbers of machine files: a text with its unit, or a mapping that also says its origin.

`{value: 30 GB/s, source: HC31, confidence: high, note: "..."}`, or `30 GB/s` alone.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, TypeAlias, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from topology.errors import UnitError
from topology.units import (
    parse_bandwidth,
    parse_bytes,
    parse_count,
    parse_flops,
    parse_hertz,
    parse_ratio,
    parse_seconds,
    parse_watts,
)

__all__ = ["Bandwidth", "Capacity", "Confidence", "Count", "Duration", "Factor", "Frequency"]
__all__ += ["Power", "Quantity", "Rate", "Ratio", "Share", "Strict"]

Confidence: TypeAlias = Literal["high", "medium", "low", "assumed", "stated"]


class Strict(BaseModel):
    """A record of a file: unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Quantity(Strict):
    """One number of a file, with its origin. A bare string stands for its value alone."""

    value: str
    """Number and unit, such as `30 GB/s`."""

    source: tuple[str, ...] = ()
    """Keys of `data/sources.yaml`; several if they agree or the number combines them."""

    confidence: Confidence = "stated"
    """How far to trust it; `assumed` has no source, `stated` is the user's own word."""

    note: str | None = None
    """How the number came about, where that is not plain."""

    @model_validator(mode="before")
    @classmethod
    def _accept_a_bare_value(cls, given: object) -> object:
        return given if isinstance(given, (Mapping, Quantity)) else {"value": given}

    @field_validator("value", mode="before")
    @classmethod
    def _accept_a_number(cls, given: object) -> object:
        return str(given) if isinstance(given, (int, float)) else given

    @field_validator("source", mode="before")
    @classmethod
    def _accept_one_source(cls, given: object) -> object:
        return (given,) if isinstance(given, str) else given


def _reads_as(parse: Callable[[str], float], *, may_be_zero: bool = False) -> AfterValidator:
    """A check that the value of a quantity is a number above zero in the right unit."""

    def check(quantity: Quantity) -> Quantity:
        try:
            number = parse(quantity.value)
        except UnitError as fault:
            raise PydanticCustomError("unit", "{what}", {"what": fault.what}) from fault
        if not (number > 0 or (may_be_zero and number == 0)):
            raise PydanticCustomError(
                "unit", "{what}", {"what": f"{quantity.value!r} is not above zero"}
            )
        return quantity

    return AfterValidator(check)


def _like(example: str) -> WithJsonSchema:
    """How an editor sees a quantity: a text, or a record of text and origin."""
    record: dict[str, Any] = {
        "type": "object",
        "properties": {
            "value": {"type": ["string", "number"], "examples": [example]},
            "source": {
                "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]
            },
            "confidence": {"enum": list(get_args(Confidence))},
            "note": {"type": ["string", "null"]},
        },
        "required": ["value"],
        "additionalProperties": False,
    }
    bare: dict[str, Any] = {"type": ["string", "number"], "examples": [example]}
    return WithJsonSchema({"anyOf": [bare, record]})


Capacity = Annotated[Quantity, _reads_as(parse_bytes), _like("64 GiB")]
Bandwidth = Annotated[Quantity, _reads_as(parse_bandwidth), _like("30 GB/s")]
Rate = Annotated[Quantity, _reads_as(parse_flops), _like("256 TFLOP/s")]
Duration = Annotated[Quantity, _reads_as(parse_seconds), _like("5 us")]
Ratio = Annotated[Quantity, _reads_as(parse_ratio), _like("0.65")]
Share = Annotated[Quantity, _reads_as(parse_ratio, may_be_zero=True), _like("0.65")]
Count = Annotated[Quantity, _reads_as(parse_count), _like("32")]
Factor = Annotated[Quantity, _reads_as(parse_count), _like("1.2")]
Frequency = Annotated[Quantity, _reads_as(parse_hertz), _like("1.8 GHz")]
Power = Annotated[Quantity, _reads_as(parse_watts), _like("350 W")]
