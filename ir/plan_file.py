"""plan.json: the plan as a file, and its schema."""

from __future__ import annotations

import gzip
import itertools
import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import MISSING, field, fields, make_dataclass
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

from ir.graph import GraphError, graph_from_dict
from ir.json_text import indented
from ir.plan import (
    FORMAT,
    SINGLE,
    VERSION,
    NamedLayout,
    Pipeline,
    Plan,
)
from ir.plan_checks import graph_faults, plan_faults

MAX_PLAN_BYTES = 512 * 2**20
_MOST_FAULTS = 3
_OPTIONAL = frozenset(("objective", "whole_batch_bytes"))
"""Left out where there is none."""
_ALWAYS = frozenset(("baselines", "notes"))
"""Never left out, even if empty."""
_NOTHING: tuple[object, ...] = (0, [], {}, [0.0, 0.0])
"""Values that say nothing; `False` is among them."""
_PLAIN = frozenset((str, int, float, bool, type(None)))
_LONE_HALF = re.compile(r"\\u[dD][89a-fA-F]")


class PlanFileError(ValueError):
    """A file that is no plan; the message says where and how to mend it."""


def plan_to_json(plan: Plan, indent: int | None = 1) -> str:
    """Text of plan.json; equal plans give equal text.

    Args:
        plan: what is written.
        indent: spaces of a level, as people read it; `None` writes it without any, in half the
            time.
    """
    values: dict[str, Any] = {"format": FORMAT, "version": VERSION}
    layouts: dict[NamedLayout, Any] = {}
    for item in fields(plan):
        value = getattr(plan, item.name)
        if item.name == "graph":
            values["graph"] = value.record()
        elif item.name not in _OPTIONAL or value is not None:
            values[item.name] = _record(value, layouts)
    _leave_out(values, plan.pipeline)
    if indent is not None:
        return indented(values, indent) + "\n"
    return json.dumps(values, separators=(",", ":"), ensure_ascii=False) + "\n"


def _leave_out(values: dict[str, Any], pipeline: Pipeline) -> None:
    """Drop what says nothing in this plan."""
    if pipeline.is_single:
        for name in ("operators", "tensors", "collectives"):
            for record in values[name]:
                del record["stage"]
        for record in (each for each in values["tensors"] if not each["zero"]):
            del record["zero"], record["states"]
    found, tensors = values["pipeline"], values["tensors"]
    published = [each for each in [values["estimate"]["published"]] if each]
    usual = (
        ([values["estimate"]], "hidden_by_cause"), (values["collectives"], "hidden_s"),
        (found["sends"], "hidden_s"), (found["stages"], "mesh"), (tensors, "host_bytes", "host_s"),
        (values["operators"], "waits_s"), (published, "with_software"),
    )  # fmt: skip
    for records, *names in usual:
        for record in (each for each in records if each[names[0]] in _NOTHING):
            for name in names:
                del record[name]
    if pipeline.is_single:
        del values["pipeline"]


def _record(value: Any, layouts: dict[NamedLayout, Any]) -> Any:
    """Plain values, in the order of the fields; a plan has few layouts, each is made once."""
    kind: type = type(value)
    if kind in _PLAIN:
        return value
    if isinstance(value, str | int | float):
        return value
    if isinstance(value, tuple | list):
        return [item if type(item) in _PLAIN else _record(item, layouts) for item in value]
    if isinstance(value, Mapping):
        return {key: _record(item, layouts) for key, item in value.items()}
    if kind is NamedLayout and value in layouts:
        return layouts[value]
    record = {}
    for name in _field_names(kind):
        item = getattr(value, name)
        record[name] = item if type(item) in _PLAIN else _record(item, layouts)
    if kind is NamedLayout:
        layouts[value] = record
    return record


@cache
def _field_names(kind: type) -> tuple[str, ...]:
    return tuple(item.name for item in fields(kind))


def plan_from_json(text: str, where: str = "plan.json") -> Plan:
    """Plan from its file.

    Raises:
        PlanFileError: no JSON, another format or version, or fields that do not fit.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PlanFileError(
            f"{where} is not JSON\n  at:  {error}\n"
            "  fix: write it again with `planner search -o DIR`"
        ) from error
    if _LONE_HALF.search(text) and not _is_unicode(data):
        raise PlanFileError(f"{where} holds half a character\n  fix: write it again")
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise PlanFileError(
            f"{where} is not a plan\n  fix: pass the plan.json that `planner search -o DIR` wrote"
        )
    if data.get("version") != VERSION:
        raise PlanFileError(
            f"{where} has version {data.get('version')!r}, this program reads version {VERSION}\n"
            "  fix: use the planner that wrote it, or search again with this one"
        )
    if isinstance(data.get("estimate"), dict):
        data["estimate"].pop("calibrated", None)  # of earlier releases, never anything but false
    try:
        file = _adapter().validate_python(data)
        graph = graph_from_dict(file.graph)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(p) for p in first["loc"])
        raise PlanFileError(
            f"{where} does not fit the schema of a plan: {first['msg']}\n  at:  {place}"
        ) from error
    except GraphError as error:
        raise PlanFileError(f"{where}: {error}\n  at:  graph") from error
    if [(op.name, op.kind) for op in file.operators] != [(op.name, op.kind) for op in graph.ops]:
        raise PlanFileError(f"{where}: its operators are not those of its graph\n  at:  operators")
    shared = {f.name for f in fields(Plan)} - {"graph", "pipeline"}
    plan = Plan(
        graph=graph,
        pipeline=_pipeline_in(file.pipeline, where),
        **{name: getattr(file, name) for name in shared},
    )
    return _checked(plan, data["graph"], where)


def _pipeline_in(found: Pipeline | None, where: str) -> Pipeline:
    """The pipeline of a file; without one it is single."""
    if found is not None and found.is_single:
        raise PlanFileError(
            f"{where} has a pipeline without a schedule\n  at:  pipeline.schedule\n"
            "  fix: write it again with `planner search -o DIR`"
        )
    return SINGLE if found is None else found


def _is_unicode(data: object) -> bool:
    """Whether all text can be written again: JSON can spell halves of characters."""
    try:
        json.dumps(data, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _checked(plan: Plan, record: Mapping[str, object], where: str) -> Plan:
    """The plan, if its parts speak of each other."""
    found = itertools.chain(graph_faults(record, plan.digest), plan_faults(plan))
    faults = list(itertools.islice(found, _MOST_FAULTS))
    if faults:
        shown = "\n".join(f"{what}\n  at:  {place}" for what, place in faults)
        raise PlanFileError(
            f"{where} was changed by hand or is damaged: {shown}\n"
            "  fix: write it again with `planner search -o DIR`"
        )
    return plan


def read_plan(path: Path, *, staged: bool = False) -> Plan:
    """Plan from a file.

    Args:
        path: the file.
        staged: whether a plan with pipeline stages or micro-batches will do.

    Raises:
        PlanFileError: the file cannot be read, is no plan, or has stages that will not do.
    """
    try:
        if path.stat().st_size > MAX_PLAN_BYTES:
            raise PlanFileError(f"{path} is larger than {MAX_PLAN_BYTES} bytes")
        text = _unpacked(path).decode() if path.suffix == ".gz" else path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise PlanFileError(
            f"{path} is no text, so it is not a plan\n  at:  byte {error.start}\n"
            "  fix: pass the plan.json that `planner search -o DIR` wrote"
        ) from error
    except OSError as error:
        raise PlanFileError(
            f"cannot read the plan: {error.strerror or error}\n  at:  {path}\n"
            "  fix: pass the plan.json that `planner search -o DIR` wrote"
        ) from error
    plan = plan_from_json(text, str(path))
    if not (plan.pipeline.is_single or staged):
        raise PlanFileError(
            f"{path} cuts a step into {len(plan.pipeline.stages)} stages and "
            f"{plan.pipeline.micro_batches} micro-batches, which this command does not know\n"
            "  at:  pipeline\n  fix: plan a --batch that fits as one"
        )
    return plan


def _unpacked(path: Path) -> bytes:
    """What a compressed plan holds, as sweeps keep it."""
    try:
        with gzip.open(path) as file:
            content = file.read(MAX_PLAN_BYTES + 1)
    except (EOFError, zlib.error) as error:
        raise PlanFileError(f"{path} is damaged: {error}\n  fix: write it again") from error
    if len(content) > MAX_PLAN_BYTES:
        raise PlanFileError(f"{path} holds more than {MAX_PLAN_BYTES} bytes")
    return content


def plan_schema() -> dict[str, Any]:
    """JSON Schema of plan.json."""
    return _adapter().json_schema()


@cache
def _adapter() -> TypeAdapter[Any]:
    """Reads plan.json field by field: the fields of a plan, behind two of the file's own."""
    told = get_type_hints(Plan)
    record = dict[str, Any]
    told |= {"graph": record, "cluster": record, "request": record, "pipeline": Pipeline | None}
    own: list[Any] = [("format", str), ("version", int)]
    for item in fields(Plan):
        usual = field(default=None if item.name == "pipeline" else item.default)
        is_open = item.default is not MISSING and item.name not in _ALWAYS
        own.append((item.name, told[item.name], *([usual] if is_open else [])))
    about = {
        "__doc__": "What stands in plan.json, field by field.",
        "__pydantic_config__": ConfigDict(extra="forbid"),
    }
    return TypeAdapter(make_dataclass("PlanFile", own, namespace=about, frozen=True))
