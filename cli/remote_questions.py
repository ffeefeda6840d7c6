"""`layouts`, `recipe`, `explain` with `--server URL`: the service answers, the command prints."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cli.files import text_of
from cli.remote import connected, infeasible, plain_options, sent, sent_model, told
from report.explanation import OperatorExplanation, PlanExplanation, WhyNot, rebuilt
from report.layouts import LayoutsReport
from report.sensitivity import Sensitivity

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cli.command_options import LayoutsCommand
    from planner.explain.asked import Answer
    from planner.requests.options.explanations import ExplanationOptions
    from planner.requests.options.recipes import RecipeOptions
    from planner.requests.options.simulations import RankingOptions
    from service.client import Planner


def remote_layouts(
    url: str, model: str, asked: RankingOptions, here: LayoutsCommand, report: Callable[[str], None]
) -> tuple[LayoutsReport, Mapping[str, str]]:
    """The layouts that a service finds, and the files of the recipe that is asked for.

    Raises:
        UserError: the service refuses, or does not answer.
        InfeasibleError: no layout fits.
    """
    from planner.requests.training_models import model_name  # noqa: PLC0415  brings in the cost model

    with connected(url) as planner:
        result = planner.layouts(
            sent_model(planner, Path(model)), told(report), name=model_name(model),
            recipe=here.recipe, row=here.row, **plain_options(asdict(asked)),
        )  # fmt: skip
    if result["status"] != "ok":
        raise infeasible(result)
    found: LayoutsReport = rebuilt(LayoutsReport, result["facts"])
    return found, result["texts"]


def remote_recipe(
    url: str, files: Sequence[str], asked: RecipeOptions, to: str, report: Callable[[str], None]
) -> tuple[dict[str, Any], Mapping[str, str]]:
    """What a service says of a recipe, and its files by name.

    Raises:
        UserError: a file cannot be read, the service refuses, or does not answer.
    """
    texts = [_file(name) for name in files]
    with connected(url) as planner:
        model = _sent_sizes(planner, Path(asked.model)) if asked.model else ""
        options = plain_options(asdict(replace(asked, model=model)))
        result = planner.recipe(texts, told(report), to=to, **options)
    return result, result.pop("texts")


def _sent_sizes(planner: Planner, model: Path) -> str:
    """Upload a configuration under the name that the model has here; what the service calls it."""
    from planner.requests.training_models import model_name  # noqa: PLC0415

    if not model.exists():
        return str(model)
    return planner.upload("models", f"{model_name(str(model))}.json", model.read_bytes())


def _file(name: str) -> dict[str, str]:
    path, _, function = name.partition(".py:")
    path = f"{path}.py" if function else name
    text = text_of(Path(path), path, "name the files of a recipe", most=2**20)
    return {"name": Path(path).name, "text": text, "function": function}


def remote_explanation(
    url: str, plan: Path, asked: ExplanationOptions, report: Callable[[str], None]
) -> Answer | list[WhyNot]:
    """What a service answers to a question about a plan.

    Raises:
        UserError: the service refuses, or does not answer.
    """
    with connected(url) as planner:
        result = planner.explain(
            sent(planner, "plans", plan), told(report), **plain_options(asdict(asked))
        )
    del result["status"]
    if asked.why_not:
        return [rebuilt(WhyNot, each) for each in result["why_not"]]
    is_named = asked.op is not None or asked.tensor is not None
    named = OperatorExplanation if is_named else PlanExplanation
    answer: Answer = rebuilt(Sensitivity if asked.sensitivity else named, result)
    return answer
