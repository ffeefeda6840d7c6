"""Files of a framework for a layout, with what its choices buy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cli.errors import UserError, unknown_name
from cli.files import write_paths, writer_of
from exporters.recipes.writing import recipe_files
from ir.recipes.table import framework, framework_names
from planner.whatif.recipe_purchases import purchases
from planner.whatif.recipe_runs import quantities_of, recipe_run
from planner.whatif.recipe_targets import expressed

if TYPE_CHECKING:
    from pathlib import Path

    from costmodel.training.records import TrainingLayout, TrainingRun
    from planner.whatif.recipe_runs import RecipeRun

__all__ = ["files_of_layout", "written_recipe"]


def written_recipe(name: str, run: TrainingRun, output: Path) -> list[Path]:
    """Write a run as files of a framework into a folder, each whole or not at all.

    Raises:
        UserError: there is no such framework, or it cannot run the layout.
    """
    texts = files_of_layout(name, recipe_run(run), run.layout, "--recipe")
    return write_paths({output / file: writer_of(text) for file, text in texts.items()})


def files_of_layout(
    name: str, own: RecipeRun, layout: TrainingLayout, option: str
) -> dict[str, str]:
    """The files of a framework by name.

    Args:
        name: of the framework.
        own: model, machine and software.
        layout: of that model.
        option: what named the framework, for errors.

    Raises:
        UserError: there is no such framework, or it cannot run the layout.
    """
    if name not in framework_names():
        raise unknown_name("framework", name, framework_names(), option)
    found = framework(name)
    said = expressed(found, own, layout)
    if said.refused:
        raise UserError(
            "; ".join(said.refused), f"{option} {name}",
            "choose another layout or another framework",
        )  # fmt: skip
    values = quantities_of(said.run)
    return recipe_files(found, values, tuple(purchases(own, layout, said)))
