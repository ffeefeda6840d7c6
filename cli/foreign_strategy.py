"""Plans of other tools for `planner import-strategy`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from cli.errors import UserError
from cli.progress import Progress

if TYPE_CHECKING:
    from exporters.sharding import Sharding
    from importers.foreign_plans import ForeignPlan
    from ir.plan import Plan
    from planner.request import SearchRequest
    from topology.cluster import Cluster

    Foreign: TypeAlias = ForeignPlan | Sharding

MOST_BYTES = 64 * 2**20


def foreign_plan(file: Path) -> Foreign | None:
    """What a file, or the text in place of one, says if it is the plan of another tool.

    Raises:
        UserError: there is no such file.
        ModelError: it is a plan with faults.
        RequestError: it is text with an unknown degree.
    """
    from importers.foreign_plans import ForeignPlan, is_degrees, read_foreign  # noqa: PLC0415

    text = str(file)
    if is_degrees(text) and not file.exists():
        from planner.constraints.degrees import parse_degrees  # noqa: PLC0415  brings in the planner

        return ForeignPlan("Megatron", parse_degrees(text, "the degrees"))
    content = _text(file)
    if content is None:
        return None
    if '"parallel-plan-torch-stages"' in content:
        raise UserError(
            "the file holds pipeline stages, which are not taken over",
            text,
            "pass the plan.json that it was made from to simulate, verify and diff",
        )
    if '"parallel-plan-torch"' in content:
        from exporters.errors import StrategyFileError  # noqa: PLC0415
        from exporters.torch import from_json  # noqa: PLC0415

        try:
            return from_json(content)
        except StrategyFileError as error:
            raise error.inside(text) from error
    return read_foreign(content, file.name)


def _text(file: Path) -> str | None:
    """The text of a file; None where MindSpore's reader shall say what is wrong with it."""
    try:
        if not file.is_file() or file.stat().st_size > MOST_BYTES:
            return None
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {file}: {error}", str(file), "check the path") from error


def planned_as(
    found: Foreign, file: Path, model: Path, cluster: Cluster, request: SearchRequest
) -> tuple[Plan, tuple[str, ...]]:
    """The best plan that is held to another tool's, and what was not taken over."""
    from importers.foreign_plans import ForeignPlan  # noqa: PLC0415
    from importers.model_file import import_model_file  # noqa: PLC0415
    from planner.constraints.foreign_plans import held_to, pins_of_layouts  # noqa: PLC0415
    from planner.pipeline.preparation import prepare  # noqa: PLC0415
    from planner.search import search  # noqa: PLC0415

    with Progress() as progress:
        progress(f"reading {model.name}")
        graph = import_model_file(model, dict(request.bind))
        ready, _ = prepare(graph, cluster, request)
        notes: tuple[str, ...] = ()
        if isinstance(found, ForeignPlan):
            asked, notes = held_to(request, found, ready, cluster)
        else:
            operands = {op.name: op.operands for op in found.operators}
            asked = replace(request, pins=pins_of_layouts(ready, operands, found.sizes))
        plan = search(graph, cluster, asked, progress)
    own = tuple(note for note in plan.notes if not note.startswith("pinned by "))
    return replace(plan, notes=(f"laid out as {file.name} says", *notes, *own)), notes
