"""What is told of a recipe, and the files that are written: the same here and in a service."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from exporters.recipes.editing import edited
from exporters.recipes.writing import recipe_files
from planner.requests.options.recipes import RecipeOptions
from planner.whatif.recipe_purchases import said_of_layout
from planner.whatif.recipes import RecipeReport, examined

__all__ = ["recipe_answer"]


def recipe_answer(
    asked: RecipeOptions, files: list[str], to: str, report: Callable[[str], None]
) -> tuple[dict[str, Any], Mapping[str, str]]:
    """One JSON object with what was understood and what would be better, and files by name: those
    of another framework, else the user's with the best recipe.

    Args:
        asked: the options.
        files: paths; `FILE.py:NAME` names a function.
        to: another framework; empty for the user's own files.
        report: receives progress.

    Raises:
        UserError: an option is wrong, or the framework cannot say the recipe.
        ModelError: a file cannot be read.
    """
    found = examined(asked, files, report)
    changed = edited(found.recipe, *found.quantities())
    record = found.record(changed.diff(found.recipe), [*changed.aside, *changed.environment])
    return record, _translated(found, to) if to else changed.texts


def _translated(found: RecipeReport, to: str) -> Mapping[str, str]:
    return recipe_files(*said_of_layout(to, found.own, found.priced.run.layout, "--to"))
