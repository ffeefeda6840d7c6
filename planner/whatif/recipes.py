"""`planner recipe`: what a recipe amounts to on a machine, and what would be better."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction

from importers.recipes.reading import read_recipe
from ir.recipes.quantities import Value, plain
from ir.recipes.recipe import Recipe
from planner.requests.errors import UserError
from planner.requests.option_texts import named_parts
from planner.requests.options.recipes import RecipeOptions
from planner.whatif.layout_ranking import layout_text
from planner.whatif.layouts import Report
from planner.whatif.recipe_advice import (
    Change,
    PricedRun,
    best_changes,
    best_of_all,
    priced_runs,
    warnings,
)
from planner.whatif.recipe_runs import RecipeRun, quantities_of, run_of

__all__ = ["RecipeReport", "examined"]

_SAID = {
    "devices": "devices", "batch": "global_batch", "micro": "micro", "seq": "seq_len",
    "nodes": "nodes", "vocab": "vocab",
}  # fmt: skip
_LARGEST = 10**9
_LONGEST = 4_096


@dataclass(frozen=True, slots=True)
class RecipeReport:
    """A recipe with its price and what would be better."""

    recipe: Recipe
    own: RecipeRun
    priced: PricedRun
    remarks: tuple[str, ...]
    """What was noticed or taken while it was read, a sentence each."""
    warnings: tuple[str, ...]
    changes: tuple[Change, ...]
    best: Change | None

    def quantities(self) -> tuple[Mapping[str, Value], Mapping[str, Value]]:
        """What the recipe says, and what the best one would, which overlaps gradients with the
        backward pass as it is priced; the same where none is better.
        """
        overlap = self.recipe.values.get("overlap") != "no"
        old = quantities_of(self.priced.run, overlap)
        return old, old if self.best is None else quantities_of(self.best.priced.run)

    def record(self, diff: str, aside: Sequence[str]) -> dict[str, object]:
        """One JSON object with what was understood, the step and the advice.

        Args:
            diff: of the user's files, for the best recipe.
            aside: what of the best recipe is not in these files, a sentence each.
        """
        framework, run = self.recipe.framework, self.priced.run
        return {
            "status": "ok",
            "framework": framework.name,
            "title": framework.title,
            "release": framework.release,
            "model": run.model.name,
            "machine": run.machine,
            "software": run.profile,
            "precision": run.precision,
            "devices": run.layout.devices,
            "quantities": {name: plain(value) for name, value in self.recipe.values.items()},
            "own": _record(self.priced),
            "remarks": list(self.remarks),
            "unread": list(self.recipe.unread),
            "warnings": list(self.warnings),
            "changes": [{"change": c.text, **_record(c.priced)} for c in self.changes],
            "best": None if self.best is None else _record(self.best.priced),
            "diff": diff,
            "aside": list(aside),
        }


def _record(own: PricedRun) -> dict[str, object]:
    unlike = own.prediction.unlike
    return {
        "layout": layout_text(own.run.layout),
        "degrees": asdict(own.run.layout.degrees),
        "step_s": own.prediction.step_s,
        "low_s": None if unlike else own.prediction.low_s,
        "high_s": None if unlike else own.prediction.high_s,
        "upper_s": own.prediction.upper_s,
        "unmeasured": list(own.prediction.unmeasured),
        "look_up": own.prediction.look_up,
        **own.rates.record(),
        "memory_bytes": own.memory_bytes,
        "stage_bytes": list(own.stage_bytes),
        "limit_bytes": own.limit_bytes,
        "fits": own.fits,
        "chance": own.chance,
    }


def examined(
    asked: RecipeOptions, names: list[str], report: Report = lambda _: None
) -> RecipeReport:
    """Read the files of a recipe and price it.

    Args:
        asked: the options.
        names: paths; `FILE.py:function` chooses a recipe of a Python file.
        report: told what is going on.

    Raises:
        ModelError: a file cannot be read, or is of no framework.
        UserError: an option is wrong, or something is not said that a run needs.
    """
    recipe = read_recipe(names, asked.framework, _said(asked), _environment(asked.variables))
    own = run_of(recipe, asked.model, asked.cluster)
    (priced,) = priced_runs([own.run])
    found = recipe.framework
    report("pricing single changes")
    changes = best_changes(priced, own, found)
    best = best_of_all(priced, own, found, report)
    return RecipeReport(
        recipe,
        own,
        priced,
        tuple(_remarks(recipe, own)),
        tuple(warnings(priced, recipe.values, found)),
        tuple(changes),
        best,
    )


def _said(asked: RecipeOptions) -> Mapping[str, Value]:
    """Quantities that the user says.

    Raises:
        UserError: a name or a number that cannot be.
    """
    parts = named_parts(asked.say, tuple(_SAID), "number of a recipe", "--say")
    if asked.devices is not None:
        parts = {**parts, "devices": str(asked.devices)}
    found: dict[str, Value] = {}
    for name, text in parts.items():
        if not (text.isdecimal() and len(text) < 11 and 1 <= int(text) <= _LARGEST):
            raise UserError(
                f"{name}={text[:40]} is no whole number from 1 to {_LARGEST:,}",
                "--devices" if name == "devices" else "--say",
                f"write it like {name}=8",
            )
        found[_SAID[name]] = Fraction(text)
    return found


def _environment(variables: Sequence[str]) -> dict[str, str]:
    """Variables of scripts by name.

    Raises:
        UserError: one is no `NAME=VALUE`.
    """
    found = {}
    for text in variables:
        name, equals, value = text.partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z_]\w*|[0-9]{1,2}", name):
            raise UserError(f"{text[:60]} is no variable", "--set", "write it like TP=8, or 1=7B")
        found[name] = value[:_LONGEST]
    return found


def _remarks(recipe: Recipe, own: RecipeRun) -> list[str]:
    files = [f"{file.name}: {each}" for file in recipe.files for each in file.remarks]
    unread = [f"nothing is known of {name}" for name in recipe.unread]
    return [*recipe.quantities.contradictions, *files, *unread, *own.remarks, *recipe.notes]
