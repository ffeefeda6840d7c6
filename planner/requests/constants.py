"""Numbers that a model fixes, for plans that run without its code: masks, scales, positions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ir.graph import Role

if TYPE_CHECKING:
    from executors.placement import Array
    from ir.plan import Plan

_FIXED = frozenset({Role.CONSTANT, Role.BUFFER})


def fixed_numbers(plan: Plan, model: Path | None) -> tuple[dict[str, Array], tuple[str, ...]]:
    """Numbers of constants and buffers by tensor, and a sentence for those that nobody knows.

    Args:
        plan: the plan.
        model: the file or published model that was planned; None looks for a published model of
            the name that the plan has.

    Raises:
        ModelError: the model cannot be read, or is not the plan's.
    """
    from executors.reference import given_tensors  # noqa: PLC0415

    wanted = [n for n in given_tensors(plan) if plan.graph.tensors[n].role in _FIXED]
    found = _known(plan, model, wanted) if wanted else {}
    missing = [n for n in wanted if n not in found]
    if not missing:
        return found, ()
    fix = "" if model is not None else "; --model names the model that has them"
    return found, (f"{len(missing)} constants, such as {missing[0]!r}, are drawn at random{fix}",)


def _known(plan: Plan, model: Path | None, wanted: list[str]) -> dict[str, Array]:
    from importers.sizes import published_names  # noqa: PLC0415  brings in yaml
    from planner.repricing.planned_choice import planned_graph  # noqa: PLC0415
    from planner.request import RequestError  # noqa: PLC0415
    from planner.requests.sources import model_file, published_model  # noqa: PLC0415

    if model is None and plan.graph.name not in published_names():
        return {}
    source = published_model(plan.graph.name) if model is None else model_file(model)
    try:
        graph = planned_graph(plan, source.graph)
    except RequestError:
        if model is None:  # a model of that name, but not the published one
            return {}
        raise
    return source.numbers(wanted, graph.symbols)
