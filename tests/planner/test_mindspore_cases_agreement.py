"""What the dialect offers and what is taken from a user are the same strategies, with the same
placement: the operators that `make test-mindspore` holds against MindSpore itself.
"""

from __future__ import annotations

import pytest

from exporters.mindspore_checks import reader_violations
from exporters.mindspore_cuts import device_layout, reader_of_cuts
from exporters.mindspore_primitives import PRIMITIVES
from exporters.mindspore_records import StrategyFileError
from ir.ops import catalogue
from tests.mindspore_package.operator_examples import examples, one
from tests.mindspore_package.write_operators import Operator, mesh_of, probed
from tests.planner.mindspore_cases_list import DOCS

OPERATORS = [Operator(number, graph) for number, graph in enumerate(examples())]
EVERY = pytest.mark.parametrize("operator", OPERATORS, ids=lambda o: f"{o.number} {o.form.name}")

NAMELESS = frozenset({"BitShift", "Conv", "ConvTranspose", "LpNormalization", "ScatterND", "Trilu"})
"""Kinds whose primitive depends on their attributes."""


@EVERY
@pytest.mark.parametrize("devices", [4, 8])
def test_what_is_offered_is_taken_and_lies_as_planned(operator: Operator, devices: int) -> None:
    mesh = mesh_of(devices)
    splits = operator.splits(mesh)
    assert splits
    for split in splits:
        planned = operator.reader(split, mesh.sizes)
        assert reader_violations(planned) == ()
        taken = reader_of_cuts(operator.view, planned.cuts, devices)
        assert taken.cuts == planned.cuts
        assert device_layout(taken) == device_layout(planned)


@EVERY
def test_what_is_not_offered_is_refused(operator: Operator) -> None:
    """But for lookups, which MindSpore repeats over the outermost devices."""
    for case in probed(operator):
        assert case["ours"] or (case["primitive"] == "Gather" and case["first"]), case["cuts"]


def test_every_primitive_has_an_example() -> None:
    assert all(operator.form.name for operator in OPERATORS)
    kinds = {operator.view.op.kind for operator in OPERATORS}
    assert kinds == set(PRIMITIVES) | NAMELESS | {"OneHot"}
    _, _, rest = DOCS.read_text().partition("## Kinds without a primitive")
    listed = [
        kind for row in rest.splitlines()[4:] for kind in row.split("|")[1].strip().split(", ")
    ]
    assert len(set(listed)) == len(listed)
    assert set(listed) == set(catalogue()) - kinds


@pytest.mark.parametrize(
    ("cuts", "devices", "reason"),
    [
        (((2, 1),), 8, "the strategy has 1 inputs, the operator 2"),
        (((2, 1), (1, 2), (1,)), 8, "the strategy has 3 inputs, the operator 2"),
        (((2, 1, 1), (1, 2)), 8, "the strategy of input 0 has 3 dimensions, the input 2"),
        (((3, 1), (1, 1)), 8, "dimension of size 32 of input 0 is cut 3 ways"),
        (((0, 1), (1, 1)), 8, "input 0 is cut 0 ways"),
        (((2, 2), (1, 2)), 8, "dimension 0 of input 1 is cut 1 ways, and 2 ways in another input"),
        (((4, 2), (2, 4)), 8, "it takes 32 of 8 devices"),
        (((4, 2), (2, 1)), 12, "it takes 8 of 12 devices"),
    ],
)
def test_a_refusal_says_why(cuts: tuple[tuple[int, ...], ...], devices: int, reason: str) -> None:
    product = next(o for o in OPERATORS if o.form.name == "MatMul")
    with pytest.raises(StrategyFileError) as caught:
        reader_of_cuts(product.view, cuts, devices)
    assert reason in [violation.what for violation in caught.value.violations]


def test_a_cut_must_be_a_power_of_two_unless_the_devices_are_none() -> None:
    view = Operator(0, one("Relu", [(48, 96)], [(48, 96)])).view
    assert reader_of_cuts(view, ((3, 8),), 24).cuts == ((3, 8),)
    with pytest.raises(StrategyFileError, match="choose a power of two"):
        reader_of_cuts(view, ((3, 1),), 16)
