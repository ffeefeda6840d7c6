"""Constants of software that are fitted: found again, within limits, and near priors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.software_fit import (
    CONSTANTS,
    KERNELS,
    PARTS,
    LaidOut,
    constants_of,
    error_lines,
    fitted,
    in_turn_s,
    priced_s,
    record,
    steps_s,
    without_models,
)
from costmodel.operators.constants import POOLED
from costmodel.overlap import Loads, StepForm
from costmodel.software import SoftwareProfile

pytestmark = pytest.mark.fast

TRUE = dict(zip(CONSTANTS, (1.2, 1.4, 1.0, 0.7, 0.4, 0.6, 0.0, 1e-4), strict=True))
ALONE = np.array([1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0])


def drawn(count: int, profile: str = "fsdp", generation: str = "hopper") -> list[LaidOut]:
    """Runs of layers whose parts are drawn, each of a model of its own; measured as `TRUE` says."""
    rng = np.random.default_rng(7)
    out = []
    for number in range(count):
        layer, micro_batches = rng.uniform(0.2e-3, 5e-3, len(PARTS)), int(rng.choice([1, 4]))
        layer *= rng.choice([0.05, 1.0, 3.0], len(PARTS))
        layer[PARTS.index("operators")] = 15
        run = LaidOut(
            name=f"r{number}", block="block", model=f"m{number}", kind="dense",
            generation=generation, profile=profile, measured_s=1.0, operator_s=1e-3,
            layer=micro_batches * layer, ends=layer / 2, micro_batches=micro_batches, stages=1,
            chunks=1, layers=int(rng.choice([8, 32])), send_s=0.0,
            recomputed=float(rng.choice([0.0, 1.0])),
        )  # fmt: skip
        out.append(run)
    return measured(out, TRUE)


def measured(runs: list[LaidOut], constants: dict[str, float]) -> list[LaidOut]:
    steps = steps_s(runs, np.array([constants[name] for name in CONSTANTS]))
    return [replace(run, measured_s=float(s)) for run, s in zip(runs, steps, strict=True)]


def test_constants_that_made_the_runs_are_found_again() -> None:
    runs = drawn(200)
    found = fitted(runs)
    priced = priced_s(found, runs)
    ratios = np.array([run.measured_s for run in runs]) / priced
    assert np.median(np.abs(ratios - 1)) < 0.01
    values = dict(zip(CONSTANTS, found["fsdp", "hopper"], strict=True))
    assert values["products"] == pytest.approx(TRUE["products"], rel=0.1)
    assert values["host_s"] == pytest.approx(TRUE["host_s"], rel=0.2)
    assert "| all" not in "".join(error_lines(runs, priced, without_models(runs, 3))).lower()


def test_products_are_never_faster_than_alone_and_only_some_software_hides_activations() -> None:
    fast = {**TRUE, "products": 0.5, "tensor_hidden": 0.6}
    found = fitted(measured(drawn(60), fast))
    values = dict(zip(CONSTANTS, found["fsdp", "hopper"], strict=True))
    assert values["products"] >= 1.0
    assert values["tensor_hidden"] == 0.0
    hides = fitted(measured(drawn(60, "megatron-core"), fast))
    assert hides["megatron-core", "hopper"][CONSTANTS.index("tensor_hidden")] > 0.2


def test_a_profile_without_runs_has_the_constants_of_its_chips_or_of_all() -> None:
    found = fitted(drawn(20))
    others = drawn(1, "maxtext"), drawn(1, "maxtext", "ampere")
    keys = ("", "hopper"), ("", POOLED)
    for (run,), key in zip(others, keys, strict=True):
        assert np.array_equal(constants_of(found, run), found[key])
    names = set(record(found)["profiles"]["fsdp"]["hopper"])
    assert names == set(CONSTANTS) < set(SoftwareProfile.__dataclass_fields__)


def test_in_turn_nothing_hides_and_no_constant_counts() -> None:
    runs = drawn(30)
    assert (in_turn_s(runs) >= steps_s(runs, ALONE) * (1 - 1e-9)).all()
    (run,) = drawn(1)
    expected = 0.0
    for times, values in ((run.layers, run.layer), (1, run.ends)):
        parts = dict(zip(PARTS, values, strict=True))
        del parts["operators"]
        again = (*(f"{kind}_forward" for kind in KERNELS), "activations_forward")
        expected += times * sum(parts.values())
        expected += times * run.recomputed * sum(parts[name] for name in again)
    assert in_turn_s([run])[0] == pytest.approx(expected)


def of_a_search(run: LaidOut, software: SoftwareProfile) -> float:
    """The step of a run of alike layers and no ends, as a search with overlap has it."""
    of, micro = dict(zip(PARTS, run.layer, strict=True)), run.micro_batches
    forward_s, backward_s = (
        sum(getattr(software, kind) * of[f"{kind}_{way}"] for kind in KERNELS) / micro
        for way in ("forward", "backward")
    )
    sent = [of[f"activations_{way}"] / micro for way in ("forward", "backward")]
    alone_s = (1.0 - software.tensor_hidden) * (sent[0] + sent[1])
    shown, once_shown = software.gathers_shown, software.sync_shown
    backward_s += run.recomputed * (forward_s + (1.0 - software.tensor_hidden) * sent[0])
    gather, again, each = (of[name] / micro for name in ("gather", "again", "each"))
    form = StepForm(1, micro, software=software)
    at, loads = form.loads, np.zeros(form.loads.count)
    once_s = of["once"] + of["updated"]
    loads[Loads.FIXED] = alone_s + shown * (gather + again + each) + once_shown * once_s / micro
    loads[Loads.FORWARD], loads[Loads.BACKWARD] = forward_s, backward_s
    loads[Loads.HOST] = software.host_s * of["operators"]
    loads[at.gather], loads[at.again] = (1.0 - shown) * gather, (1.0 - shown) * again
    loads[at.reduce] = (1.0 - shown) * each
    loads[at.sync] = (1.0 - once_shown) * of["once"]
    loads[at.updated] = (1.0 - once_shown) * of["updated"]
    return float(run.layers * (micro * form.time_s(loads) + of["update"]))


def test_what_is_fitted_is_the_step_that_a_search_minimises() -> None:
    runs = [replace(run, ends=0 * run.ends) for run in drawn(40)]
    for constants in (TRUE, dict(zip(CONSTANTS, ALONE, strict=True))):
        software = SoftwareProfile(**constants)
        fitted_s = steps_s(runs, np.array([constants[name] for name in CONSTANTS]))
        searched_s = [of_a_search(run, software) for run in runs]
        assert fitted_s == pytest.approx(searched_s, rel=1e-12)
