"""Recipes at full size: files out and in again, and advice on published ones, simulated.

    python -m benchmarks.recipes round-trip --each 200
    python -m benchmarks.recipes advice

The first writes random legal layouts of twelve models for every framework and reads the files
again. The second takes every published recipe of the tests: each change that `planner recipe`
proposes must fit, and the step, simulated alone, must be shorter by what was said.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import median

from costmodel.simulation.effects import Effects
from costmodel.simulation.layout_simulation import simulate_layout
from costmodel.simulation.layout_step import Options
from costmodel.simulation.variation import Variation
from costmodel.training.records import TrainingRun
from importers.errors import ModelError
from importers.recipes.reading import recipe_of_texts
from ir.recipes.quantities import Value
from ir.recipes.table import framework_names
from planner.requests.errors import UserError
from planner.whatif.recipe_advice import best_changes, best_of_all, priced_runs
from planner.whatif.recipe_runs import run_of
from tests.recipes.drawn import MACHINES, MODELS, drawn
from tests.recipes.published import Published, published
from tests.recipes.test_round_trip import comes_back

_USUAL: dict[str, Fraction] = {
    "devices": Fraction(64), "seq_len": Fraction(4096), "micro": Fraction(1),
}  # fmt: skip
"""What recipes leave to launchers and training scripts."""
_MOST_PASSES = 4_096
"""Forward passes of a step that is simulated."""


@dataclass(frozen=True, slots=True)
class Advised:
    """One change of one recipe."""

    recipe: str
    change: str
    fits: bool
    own_s: float
    said_s: float
    simulated_s: float | None
    """Seconds saved in the simulation; None of a step too long for it."""

    @property
    def error(self) -> float:
        """What the simulation saves more or less than was said, over the step."""
        return 0.0 if self.simulated_s is None else (self.simulated_s - self.said_s) / self.own_s


def round_trip(each: int, names: Sequence[str]) -> None:
    """Print for every framework how many layouts were said, and that all of them came back."""
    for name in names or framework_names():
        begin, said, drawn_count = time.perf_counter(), 0, 0
        for model in MODELS:
            for own in drawn(name, model, each, seed=9):
                drawn_count += 1
                said += comes_back(name, model, own)
        seconds = time.perf_counter() - begin
        print(
            f"{name}: {drawn_count} layouts, {said} can be said, {said} came back, {seconds:.0f} s",
            flush=True,
        )


def advice() -> None:
    """Print what is wrong with a change, then how far all are off."""
    found: list[Advised] = []
    left: list[str] = []
    for one in published():
        try:
            own = list(_advised(one))
        except (ModelError, UserError) as error:
            left.append(f"{one.name}: {str(error).splitlines()[0]}")
            continue
        for each in own:
            print(
                f"{each.recipe}: {each.change}: {each.fits}, {100 * each.error:+.2f} %", flush=True
            )
        found += own
    compared = [each for each in found if each.simulated_s is not None]
    errors = sorted(abs(each.error) for each in compared)
    for text in left:
        print(f"not priced: {text}")
    names = {each.recipe for each in found}
    print(
        f"{len(published())} recipes, {len(left)} cannot be priced alone; {len(found)} changes of "
        f"{len(names)}; {sum(each.fits for each in found)} fit; {len(compared)} simulated: median "
        f"{100 * median(errors):.2f} %, largest {100 * errors[-1]:.2f} % of the step off"
    )


def _advised(one: Published) -> Iterator[Advised]:
    recipe = recipe_of_texts(one.files(), asked=one.framework)
    known = recipe.values
    said: dict[str, Value] = {n: v for n, v in _USUAL.items() if n not in known}
    if said:
        recipe = recipe_of_texts(one.files(), asked=one.framework, said=said)
    own = run_of(recipe, "", MACHINES.get(one.framework, "h100"))
    (priced,) = priced_runs([own.run])
    changes = best_changes(priced, own, recipe.framework)
    best = best_of_all(priced, own, recipe.framework)
    before = _simulated_s(own.run)
    for change in (*changes, *([best] if best else [])):
        after = _simulated_s(change.priced.run)
        said_s = priced.prediction.step_s - change.priced.prediction.step_s
        both = None if before is None or after is None else before - after
        text = "best of all" if change is best else change.text
        yield Advised(one.name, text, change.priced.fits, priced.prediction.step_s, said_s, both)


def _simulated_s(run: TrainingRun) -> float | None:
    layout = run.layout
    if layout.micro_batches * layout.pp * layout.vpp > _MOST_PASSES:
        return None
    return simulate_layout(run, Effects(), Options(1.0), Variation()).step_s


def main(arguments: list[str] | None = None) -> int:
    """Run what the command line asks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("round-trip", "advice"))
    parser.add_argument("--each", type=int, default=200, help="layouts of each model")
    parser.add_argument("--framework", action="append", default=[], help="of these alone")
    asked = parser.parse_args(arguments)
    if asked.what == "advice":
        advice()
    else:
        round_trip(asked.each, asked.framework)
    return 0


if __name__ == "__main__":
    sys.exit(main())
