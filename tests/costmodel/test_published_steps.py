"""What published runs say of steps: by generation, and where they say nothing."""

from __future__ import annotations

import pytest

from costmodel.published_steps import SHORT_OPERATOR_S, published_steps
from ir.published import CONTEXT_PARALLEL, KINDS, ROUTED
from topology.catalogue import named_chip

pytestmark = pytest.mark.fast

LONG_S = 1e-3


@pytest.mark.parametrize(
    ("chip", "generation"),
    [("a100_sxm_40g", "ampere"), ("h800_sxm_80g", "hopper"), ("ascend_910b3", "ascend")],
)
def test_a_measured_generation_has_ends_of_its_own(chip: str, generation: str) -> None:
    found, why = published_steps(named_chip(chip), LONG_S)
    assert found is not None
    assert not why
    assert found.of == generation
    assert found.runs >= 30
    # Otherwise the cost model, or the benchmark that wrote the file, is badly off.
    assert 0.5 < found.low < found.middle < found.high < 2.0
    assert 0.85 < found.middle < 1.2


@pytest.mark.parametrize("chip", ["mi300x", "b200", "v100_sxm2_32g"])
def test_others_have_the_ends_of_all(chip: str) -> None:
    found, own = (published_steps(named_chip(name), LONG_S)[0] for name in (chip, "a100_sxm_80g"))
    assert found is not None
    assert own is not None
    assert found.of == ""
    assert found.runs > own.runs


def test_short_operators_are_like_no_run() -> None:
    chip = named_chip("a100_sxm_80g")
    found, why = published_steps(chip, 0.99 * SHORT_OPERATOR_S)
    assert found is None
    assert why == "forward operators take 79.2 us on average, those of the runs 80 us or more"
    assert published_steps(chip, SHORT_OPERATOR_S)[0] is not None


@pytest.mark.parametrize("kind", [ROUTED, CONTEXT_PARALLEL])
@pytest.mark.parametrize("chip", ["h100_sxm_80g", "ascend_910b3"])
def test_other_kinds_have_ends_of_their_own_from_all_generations(kind: str, chip: str) -> None:
    found, dense = (published_steps(named_chip(chip), LONG_S, each)[0] for each in (kind, "dense"))
    assert found is not None
    assert dense is not None
    assert (found.kind, found.of, dense.kind) == (kind, "", "dense")
    assert 20 <= found.runs < dense.runs
    assert 0.5 < found.low < found.middle < found.high < 2.0


def test_a_kind_without_runs_is_like_none() -> None:
    chip = named_chip("a100_sxm_80g")
    found, why = published_steps(chip, LONG_S, "sparse")
    assert found is None
    assert why == "no runs of this kind of model were priced"
    assert all(published_steps(chip, LONG_S, kind)[0] for kind in KINDS)
