"""Conventional layouts of a model, and recipes of frameworks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from exporters.recipes.writing import recipe_files
from ir.json_text import finite
from planner.request import InfeasibleError
from planner.requests.errors import UserError
from planner.requests.options.recipes import RecipeOptions
from planner.requests.options.simulations import RankingOptions
from planner.requests.plan_json import infeasible
from planner.whatif.layout_ranking import Ranking, ranked
from planner.whatif.recipe_purchases import said_of_layout
from planner.whatif.recipe_runs import recipe_run
from service.recipes import recipe_answer
from service.store.items import is_item_id
from service.store.queue import Outcome
from service.work.given import Given

_RANKING = TypeAdapter(RankingOptions)
_RECIPE = TypeAdapter(RecipeOptions)
_FILE_NAME = re.compile(r"[A-Za-z0-9_-][\w.-]{0,120}", re.ASCII)


def rank_layouts(given: Given) -> Outcome:
    """What `planner layouts --json` prints, with the facts behind it, and the recipe of a row.

    Raises:
        UserError: an option is wrong.
    """
    asked = _RANKING.validate_python(given.request["options"])
    config, name = given.configuration(str(given.request["model"]))
    name = str(given.request.get("name") or name)
    try:
        found = ranked(asked, config, name, given.report)
    except InfeasibleError as error:
        return Outcome(infeasible(error))
    report = found.report()
    texts = _recipe(found, given.request)
    return Outcome({**report.record([]), "facts": finite(asdict(report)), "texts": texts})


def _recipe(found: Ranking, request: Mapping[str, Any]) -> Mapping[str, str]:
    """The files of a framework for one layout of the list; none where none are asked for."""
    name = str(request.get("recipe", ""))
    if not name:
        return {}
    chosen = found.best[min(int(request.get("row", 1)), len(found.best)) - 1]
    run = replace(found.job, layout=chosen.layout)
    return recipe_files(*said_of_layout(name, recipe_run(run), run.layout, "recipe"))


def read_recipe(given: Given) -> Outcome:
    """What `planner recipe --json` prints, and the files of the best recipe.

    Raises:
        UserError: an option is wrong.
    """
    request = given.request
    asked = _RECIPE.validate_python(request["options"])
    if is_item_id(asked.model):
        asked = replace(asked, model=str(given.file(asked.model, "model")))
    names = list(_kept(request["files"]))
    record, texts = recipe_answer(asked, names, str(request.get("to", "")), given.report)
    return Outcome({**record, "texts": {Path(name).name: text for name, text in texts.items()}})


def _kept(files: list[Mapping[str, str]]) -> Iterator[str]:
    """Write the texts into the task's own folder; their names as the importer takes them."""
    for file in files:
        name, text = file["name"], file["text"]
        if not _FILE_NAME.fullmatch(name):
            raise UserError(f"{name[:80]!r} is no name of a file", "files", "such as train.sh")
        Path(name).write_text(text, encoding="utf-8")
        function = file.get("function", "")
        yield f"{name}:{function}" if function else name
