"""A searched plan as the conventional layout that a framework's recipe can say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from costmodel.training.records import TrainingRun
from ir.dtypes import short_name
from ir.normalise import main_dtype
from ir.plan import Plan
from ir.plan_degrees import degrees_of, main_uses
from ir.plan_name import CONVENTIONAL, followed_share, is_sequence_parallel
from ir.throughput import tokens_of
from planner.requests.conventional_layouts import run_of_layout
from planner.requests.errors import UserError
from planner.requests.options.simulations import LayoutOptions

__all__ = ["layout_of_plan", "run_of_plan"]


def run_of_plan(plan: Plan, config: Mapping[str, object], name: str) -> TrainingRun:
    """The run of a model with the degrees of a plan.

    Args:
        plan: of that model, on a bundled machine.
        config: fields of the model's config.json.
        name: of the model.

    Raises:
        UserError: no conventional layout says the plan, or the model cannot have it.
        ModelError: the configuration lacks a size.
    """
    options = LayoutOptions(
        layout=layout_of_plan(plan),
        precision=short_name(main_dtype(plan.graph)),
        optimizer=str(plan.request.get("optimizer", "adamw")),
        cluster=str(plan.cluster["name"]),
    )
    return run_of_layout(options, config, name)


def layout_of_plan(plan: Plan) -> str:
    """The layout as `planner simulate --layout` takes it.

    Raises:
        UserError: operators have other degrees than most, or are split as no layout says.
    """
    degrees, uses = degrees_of(plan), main_uses(plan)
    text = ",".join(_parts(plan))
    share = followed_share(uses)
    if not plan.request.get("training") or not tokens_of(plan.graph):
        what = "a recipe trains a transformer"
        raise UserError(what, "PLAN.json", "plan the training of one")
    if degrees.positions > 1 or degrees.repeated > 1:
        what = "images are cut, or devices compute the same: no recipe says so"
        raise UserError(what, "PLAN.json", "hold degrees: planner search --tp N --dp N")
    if share < CONVENTIONAL:
        raise UserError(
            f"a recipe has one layout for all layers, and {100 - 100 * share:.0f} % of the time of "
            "products and attention have another in this plan",
            "PLAN.json",
            f"take the nearest: planner simulate MODEL --layout '{text}' --recipe, or hold degrees",
        )
    return text


def _parts(plan: Plan) -> Iterator[str]:
    degrees, pipeline = degrees_of(plan), plan.pipeline
    micro = plan.batch if pipeline.is_single else pipeline.micro_batch
    if str(degrees):
        yield str(degrees)
    yield f"batch={plan.batch}"
    yield f"micro={max(micro // degrees.dp, 1)}"
    yield f"seq={tokens_of(plan.graph) // max(plan.graph.batch, 1)}"
    if is_sequence_parallel(plan, main_uses(plan)):
        yield "sp"
    again = sum(end - start for stage in pipeline.stages for start, end in stage.blocks)
    share = again / max(1, len(plan.operators))
    if again:
        yield "recompute=full"
        yield f"recompute-share={min(share, 1.0):.2f}"
    elif plan.recomputed:
        yield "recompute=selective"
