"""Files of a framework for a layout, with what its choices buy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cli.files import write_paths, writer_of
from exporters.recipes.writing import recipe_files
from planner.whatif.recipe_purchases import said_of_layout
from planner.whatif.recipe_runs import recipe_run

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from costmodel.training.records import TrainingRun

__all__ = ["written_recipe", "written_texts"]


def written_recipe(name: str, run: TrainingRun, output: Path) -> list[Path]:
    """Write a run as files of a framework into a folder, each whole or not at all.

    Raises:
        UserError: there is no such framework, or it cannot run the layout.
    """
    own = recipe_run(run)
    return written_texts(recipe_files(*said_of_layout(name, own, run.layout, "--recipe")), output)


def written_texts(texts: Mapping[str, str], output: Path) -> list[Path]:
    """Write files of a recipe by their names."""
    return write_paths({output / file: writer_of(texts[file]) for file in sorted(texts)})
