"""Strict JSON with bounds, for files that anybody may have written."""

import json
from collections import Counter
from collections.abc import Mapping
from typing import NoReturn

from topology.rank_tables.findings import Findings
from topology.rank_tables.records import shown

__all__ = ["LARGEST_TEXT", "json_object"]

LARGEST_TEXT = 2**26
"""Characters. A table of 65,536 ranks has some 13 million."""

MOST_VALUES = 1_000_000
"""Values in all lists and objects: what they need in memory is a hundred times their text."""


class _FaultError(ValueError):
    """Something that JSON of a rank table must not have."""


def json_object(text: str, findings: Findings) -> Mapping[str, object] | None:
    """The object in the text; None, and `E_JSON` with the reason, if it is not one."""
    try:
        return _object(text)
    except RecursionError:
        reason = "brackets are nested too deep"
    except json.JSONDecodeError as fault:
        reason = f"line {fault.lineno}, column {fault.colno}: {fault.msg}"
    except ValueError as fault:
        reason = str(fault)
    findings.add("E_JSON", "the text", reason)
    return None


def _object(text: str) -> Mapping[str, object]:
    if len(text) > LARGEST_TEXT:
        raise _FaultError(f"{len(text)} characters, of which a table has at most {LARGEST_TEXT}")
    values = text.count(",") + text.count("[") + text.count("{")
    if values > MOST_VALUES:
        raise _FaultError(f"{values} values, of which a table has at most {MOST_VALUES}")
    value = json.loads(text, object_pairs_hook=_without_twins, parse_constant=_no_constant)
    if not isinstance(value, dict):
        raise _FaultError(f"the outermost value is no object but {shown(value)}")
    return value


def _without_twins(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) < len(pairs):
        twin = max(Counter(name for name, _ in pairs).items(), key=lambda each: each[1])[0]
        raise _FaultError(f"the field {shown(twin)} stands twice in one object")
    return made


def _no_constant(name: str) -> NoReturn:
    raise _FaultError(f"{name} is no number of JSON")
